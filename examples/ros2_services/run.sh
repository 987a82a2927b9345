#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the ROS 2 node with Debian's CycloneDDS, and runs it together with the graph. Ends with
# Ctrl-C, or after the last call of the asker.
# Usage: run.sh [OPTIONS]    OPTIONS: options of `driveline run`, e.g. --set asker.calls=100
set -euo pipefail
example=$(realpath "$(dirname "$0")")
root=$(realpath "$example/../..")
# DRIVELINE_BUILD: another build directory, e.g. that of the tests.
build=${DRIVELINE_BUILD:-$root/build}
built=$build/examples/ros2_services

die() {
    echo "error: $*" >&2
    exit 1
}

for program in idlc cc; do
    command -v $program >/dev/null || die "this needs $program: apt install cyclonedds-dev cyclonedds-tools gcc"
done
[ -x "$build/bin/driveline" ] || die "Driveline is not built: make -C $root build gateways"

mkdir -p "$built"
idlc -o "$built" "$example/node/types.idl"
cc -O2 -Wall -Wextra -I "$built" "$example/node/adder.c" "$built/types.c" -lddsc -o "$built/adder"

# Limits discovery to this host, like ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST in ROS 2.
export ROS_DOMAIN_ID=8
export CYCLONEDDS_URI='<General><Interfaces><NetworkInterface address="127.0.0.1" multicast="false"/></Interfaces>
    <AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
    <MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers></Discovery>'

echo "server in Driveline: driveline/add as /driveline/add (example_interfaces/srv/AddTwoInts)"
echo "server in ROS 2: /ros/add as ros/add"
exec 3> >(exec sed -u 's/^/ROS 2 node   | /')
printer=$!
"$built/adder" >&3 2>&1 3>&- &
node=$!
exec 3>&-
# Also waits until the node's last lines are printed.
trap 'kill $node 2>/dev/null || true; wait $node || true; wait $printer 2>/dev/null || true' EXIT

export DRIVELINE_COMPONENT_PATH=${DRIVELINE_COMPONENT_PATH:-$build/lib}
"$build/bin/driveline" run "$example/graph.yaml" "$@"
