# The witness, for hooks. Sourced, not run.
#
# It is a recorder outside of Rollcall, there when the service's config names one (`witness = "host:port"`). A hook that
# disturbs something tells it first, and goes on only once the recorder has it on its disk.

# This package's ident, from its own manifest: a hook also runs outside of any rollout.
ident=
while read -r key equals value; do
    [ "$key" = ident ] && [ "$equals" = "=" ] && ident=${value#\"} && ident=${ident%\"} && break
done <"$ROLLCALL_PKG_PATH/rollcall.toml"

# tell_witness EVENT HOOK PID [EXIT]
tell_witness() {
    [ -n "${ROLLCALL_CONFIG_WITNESS:-}" ] || return 0
    IDENT=$ident "$ROLLCALL_PKG_PATH/witness" "$ROLLCALL_CONFIG_WITNESS" "$@"
}

# witnessed HOOK: records the begin of this hook now and its end when it exits.
witnessed() {
    hook=$1
    tell_witness begin "$hook" $$ || {
        echo "the witness can't be reached at $ROLLCALL_CONFIG_WITNESS: not acting without it"
        exit 1
    }
    trap 'tell_witness end "$hook" $$ $?' EXIT
}
