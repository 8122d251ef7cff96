# What the hooks of this package share. Sourced, not run.
#
# A hook runs with the environment that the agent gives it (docs/interfaces.md): the service's settings as
# ROLLCALL_CONFIG_<KEY>, a data folder that stays over releases, and this package's own folder.

set -u

port=${ROLLCALL_CONFIG_PORT:?"the service's config has no port"}
host=${ROLLCALL_CONFIG_HOST:-127.0.0.1}
own=$host:$port
data=${ROLLCALL_DATA_DIR:?}
package=${ROLLCALL_PKG_PATH:?}

. "$package/witness.sh"
release=${ident##*/}

# Where the install hook put this release's configuration. Redis shows the path in INFO, so anybody can see from
# outside which release a server was started from.
config=$data/etc/$release/redis.conf

# redis HOST:PORT [COMMAND…]: one command, or those on standard input.
redis() {
    to=$1
    shift
    redis-cli -h "${to%:*}" -p "${to##*:}" "$@" 2>&1
}

# Renders this release's configuration, and has it on the disk before anybody may rely on it: a machine may lose its
# power right after the install hook has ended.
render_config() {
    mkdir -p "${config%/*}" "$data/db" || return 1
    sed -e "s|@HOST@|$host|g" -e "s|@PORT@|$port|g" -e "s|@DATA@|$data/db|g" \
        -e "s|^protected-mode .*|protected-mode ${ROLLCALL_CONFIG_PROTECTED_MODE:-yes}|" \
        -e "s|^appendfsync .*|appendfsync ${ROLLCALL_CONFIG_APPENDFSYNC:-everysec}|" "$package/redis.conf" >"$config.new" &&
        sync "$config.new" && mv "$config.new" "$config" && sync "${config%/*}" "$data/etc" "$data"
}

# Reads how this Redis stands into the variables below. False: it doesn't answer.
read_state() {
    answered=no loading=0 role= link=none syncing=0 offset=0 primary= cluster=unknown known_nodes=0 replicas=
    state=$(printf 'PING\nINFO persistence\nINFO replication\nCLUSTER INFO\n' | redis "$own" | tr -d '\r')
    while IFS=: read -r name value; do
        case $name in
            PONG) answered=yes ;;
            LOADING*) answered=yes loading=1 ;;
            loading) loading=$value ;;
            rdb_bgsave_in_progress) saving=$value ;;
            role) role=$value ;;
            master_host) primary=$value ;;
            master_port) primary=$primary:$value ;;
            master_link_status) link=$value ;;
            master_sync_in_progress) syncing=$value ;;
            slave_repl_offset) offset=$value ;;
            master_repl_offset) [ "$role" = master ] && offset=$value ;;
            slave[0-9]*) replicas="$replicas $value" ;;
            cluster_state) cluster=$value ;;
            cluster_known_nodes) known_nodes=$value ;;
        esac
    done <<STATE
$state
STATE
    [ "$answered" = yes ]
}

# replica_if_in_sync LINE: prints the address of a replica as its primary lists it, where it is online and within 1 MiB of
# the primary's offset.
replica_if_in_sync() {
    replica_host= replica_port= replica_state= replica_offset=0
    IFS_before=$IFS
    IFS=,
    for pair in $1; do
        case $pair in
            ip=*) replica_host=${pair#ip=} ;;
            port=*) replica_port=${pair#port=} ;;
            state=*) replica_state=${pair#state=} ;;
            offset=*) replica_offset=${pair#offset=} ;;
        esac
    done
    IFS=$IFS_before
    [ "$replica_state" = online ] && [ $((offset - replica_offset)) -le 1048576 ] && echo "$replica_host:$replica_port"
}
