# The witness, and a journal of the machine's own. Sourced, not run. Lies over the witness's file of the same name.
#
# What a hook is about to do, or has done, stands on this machine's disk, synced, before the recorder hears of it. So the
# journal of a machine that lost its power tells what it did, whatever its agent remembers.

# This package's ident, from its own manifest: a hook also runs outside of any rollout.
ident=
while read -r key equals value; do
    [ "$key" = ident ] && [ "$equals" = "=" ] && ident=${value#\"} && ident=${ident%\"} && break
done <"$ROLLCALL_PKG_PATH/rollcall.toml"

journal=$data/hooks.journal
tab=$(printf '\t')

# tell_witness EVENT HOOK PID [EXIT]
tell_witness() {
    read -r boot </proc/sys/kernel/random/boot_id
    line="event=$1${tab}hook=$2${tab}pid=$3${tab}exit=${4:-}${tab}ident=$ident"
    line="$line${tab}rollout=${ROLLCALL_ROLLOUT:-}${tab}node=$ROLLCALL_NODE${tab}phase=${ROLLCALL_PHASE:-}"
    echo "$line${tab}attempt=${ROLLCALL_ATTEMPT:-0}${tab}boot=$boot" >>"$journal" && sync "$journal" "$data" || return 1
    IDENT=$ident "$ROLLCALL_PKG_PATH/witness" "$ROLLCALL_CONFIG_WITNESS" "$@"
}

# witnessed HOOK: records the begin of this hook now and its end when it exits.
witnessed() {
    hook=$1
    tell_witness begin "$hook" $$ || {
        echo "neither journal nor witness has it: not acting"
        exit 1
    }
    trap 'tell_witness end "$hook" $$ $?' EXIT
}
