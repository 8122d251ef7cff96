# What the hooks of the sample service share. Its hooks take their time, so that there is a moment to kill them in.
set -u
. "$ROLLCALL_PKG_PATH/witness.sh"
state=${ROLLCALL_CONFIG_STATE:?}
