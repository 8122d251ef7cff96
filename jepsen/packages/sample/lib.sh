# What the hooks of the sample service share. Its hooks take their time, so that there is a moment to kill them in.
set -u
. "$ROLLCALL_PKG_PATH/witness.sh"
state=${ROLLCALL_CONFIG_STATE:?}

# acts HOOK: tells the witness, and then does what a bad script does, where somebody wants it to.
acts() {
    witnessed "$1"
    [ -f "$state/mood" ] || return 0
    read -r mood <"$state/mood" || return 0
    echo "$1" >>"$state/mood.seen"
    case $mood in
        hang) sleep 600 ;;
        fork) for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 600 & done ;;
        fill) dd if=/dev/zero of="$state/filler" bs=64k count=16 2>/dev/null ;;
    esac
}
