#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two computers on one machine: two network namespaces with a cable between them, and a domain directory for each. Only root may make
# those: for everybody else it calls itself by sudo.
#
# Usage: hosts.sh up                      make them
#        hosts.sh on roof|trunk COMMAND   run something on one of them
#        hosts.sh cut | mend              pull the cable, plug it in again
#        hosts.sh down                    end what runs on them, and remove them
set -euo pipefail

# Several users of one machine need several names.
NAME=${TWO_HOSTS:-two_hosts}
DOMAINS=${TMPDIR:-/tmp}/driveline-$NAME

die() {
    echo "error: $*" >&2
    exit 1
}

usage() {
    sed -n 's/^# \{0,1\}//; 5,9p' "$0" >&2
    exit 2
}

up() {
    for host in roof trunk; do
        ip netns add "$NAME-$host" || die "namespaces of these names exist: end them with '$0 down'"
        ip -n "$NAME-$host" link set lo up
    done
    ip -n "$NAME-roof" link add car0 type veth peer name car0 netns "$NAME-trunk"
    ip -n "$NAME-roof" address add 10.77.0.1/24 dev car0
    ip -n "$NAME-trunk" address add 10.77.0.2/24 dev car0
    cable up
}

cable() {
    ip -n "$NAME-roof" link set car0 "$1"
    ip -n "$NAME-trunk" link set car0 "$1"
}

processes() {
    for host in roof trunk; do ip netns pids "$NAME-$host" 2>/dev/null || true; done
}

down() {
    # Ctrl-C for each, and a moment to end in good order.
    processes | xargs -r kill -INT 2>/dev/null || true
    for _ in $(seq 100); do
        [ -n "$(processes)" ] || break
        sleep 0.1
    done
    processes | xargs -r kill -KILL 2>/dev/null || true
    for host in roof trunk; do ip netns delete "$NAME-$host" 2>/dev/null || true; done
    rm -rf "$DOMAINS-roof" "$DOMAINS-trunk"
}

[ $# -ge 1 ] || usage
command -v ip >/dev/null || die "this needs the program ip: apt install iproute2"
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "only root may make network namespaces, and there is no sudo: run this as root"
    # Of the environment sudo keeps little.
    kept=()
    for name in TWO_HOSTS TMPDIR DRIVELINE_COMPONENT_PATH DRIVELINE_GATEWAY DRIVELINE_HOST; do
        [ -z "${!name+set}" ] || kept+=("$name=${!name}")
    done
    exec sudo env "${kept[@]}" "$0" "$@"
fi
case $1 in
    up) up ;;
    cut) cable down ;;
    mend) cable up ;;
    down) down ;;
    on)
        [ $# -ge 3 ] || usage
        case $2 in roof | trunk) ;; *) die "there is no host '$2': roof, or trunk" ;; esac
        [ -e "/run/netns/$NAME-$2" ] || die "the hosts are not there: $0 up"
        # Two computers share no memory: each has a directory of its own in which its processes meet.
        export DRIVELINE_DOMAIN_DIR=$DOMAINS-$2
        exec ip netns exec "$NAME-$2" "${@:3}"
        ;;
    *) usage ;;
esac
