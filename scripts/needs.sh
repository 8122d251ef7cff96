# What the scripts need on the machine, installed where it is missing. Sourced, not run.

# as_root COMMAND…: as it is for root, by sudo for others.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "this needs root: $*" >&2
        return 1
    fi
}

# Rust's toolchain is the one thing that has to be there.
need_rust() {
    command -v cargo >/dev/null || {
        echo "cargo is missing: install Rust with rustup first (https://rustup.rs)" >&2
        exit 1
    }
}

# A Debian package of which only the binaries are wanted: it must not start its service here, and whatever policy the
# machine has is kept.
install_without_service() {
    local policy=/usr/sbin/policy-rc.d laid=
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        laid=yes
    fi
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
    [ -z "$laid" ] || as_root rm -f "$policy"
}

# Redis, as binaries.
need_redis() {
    command -v redis-server >/dev/null && command -v redis-cli >/dev/null && return
    echo "installing Debian's redis-server (its service isn't started)"
    install_without_service redis-server
}

# etcd, as a binary: what is measured beside Rollcall.
need_etcd() {
    command -v etcd >/dev/null && return
    echo "installing Debian's etcd-server (its service isn't started)"
    install_without_service etcd-server
}

# Kills an agent at a system call, for the walk of the recovery table.
need_strace() {
    command -v strace >/dev/null && return
    echo "installing Debian's strace"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends strace >/dev/null
}

# What machines of namespaces are made of: ip, unshare, and the kernel's door for file systems of our own.
need_machines() {
    command -v ip >/dev/null && command -v unshare >/dev/null || {
        echo "installing Debian's iproute2 and util-linux"
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2 util-linux >/dev/null
    }
    [ -e /dev/fuse ] || as_root mknod -m 666 /dev/fuse c 10 229
    as_root sh -c ': <>/dev/fuse' || {
        echo "this kernel has no FUSE: load its module (modprobe fuse), or allow /dev/fuse to this container" >&2
        return 1
    }
}

# build_programs OPTION…: all programs. One test is built with them: cargo gives libraries the features that tests need only
# where it builds a test, and with other features everything would be built once more for the tests.
build_programs() {
    cargo build --workspace --bins --test tidy --locked --quiet "$@"
}

# Of the builds in which faults can be planted, and that know one feature level more.
TEST_FEATURES=rollcall-rollout/next-level,rollcall-rollout/planted-faults,rollcall-coordinator/planted-faults,rollcall-sim/planted-faults

# What some nemeses are made with: partitions and loss, and clocks that jump.
need_nemeses() {
    local package missing=
    command -v iptables >/dev/null || missing=" iptables"
    [ -n "$(find /usr/lib -name libfaketime.so.1 -print -quit)" ] || missing="$missing libfaketime"
    [ -n "$missing" ] || return 0
    echo "installing Debian's$missing"
    as_root apt-get update -qq
    for package in $missing; do
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    done
}

# The test runner; it's compiled, which takes some minutes once.
need_nextest() {
    cargo nextest --version >/dev/null 2>&1 && return
    echo "installing cargo-nextest"
    cargo install --locked --quiet cargo-nextest
}

# Components of the toolchain that a minimal one lacks.
need_components() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    rustup component add rustfmt clippy
}
