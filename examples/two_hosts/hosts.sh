#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Simulates two computers on one machine: two network namespaces with a virtual cable, and a domain
# directory for each. Needs root; without root, the script calls itself with sudo.
# Usage: hosts.sh up                      create both hosts
#        hosts.sh on roof|trunk COMMAND   run a command on one host
#        hosts.sh cut | mend              disconnect the cable, connect it again
#        hosts.sh down                    end all processes on both hosts, and remove the hosts
set -euo pipefail

# Set TWO_HOSTS if several users of a machine run the example at the same time.
NAME=${TWO_HOSTS:-two_hosts}
DOMAINS=${TMPDIR:-/tmp}/driveline-$NAME

die() {
    echo "error: $*" >&2
    exit 1
}

usage() {
    sed -n 's/^# \{0,1\}//; 5,8p' "$0" >&2
    exit 2
}

up() {
    for host in roof trunk; do
        ip netns add "$NAME-$host" || die "namespaces with these names exist: remove them with '$0 down'"
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
    # SIGINT first, then SIGKILL after 10 s.
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
    command -v sudo >/dev/null || die "only root may create network namespaces, and sudo is not installed: run this as root"
    # sudo drops most environment variables. Pass the ones that are used.
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
        case $2 in roof | trunk) ;; *) die "unknown host '$2': use roof or trunk" ;; esac
        [ -e "/run/netns/$NAME-$2" ] || die "the hosts do not exist: run $0 up"
        # Separate computers share no memory, so each host has its own domain directory.
        export DRIVELINE_DOMAIN_DIR=$DOMAINS-$2
        exec ip netns exec "$NAME-$2" "${@:3}"
        ;;
    *) usage ;;
esac
