#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the perception pipeline in five processes and leaves its figures in out/demo. `make demo` calls it.
# Usage: tools/demo.sh check|run [VIDEO [MODEL [SPEED_KMH]]]    empty: rendered drive of 30 s, classical detector, 100 km/h
# `check` only looks at the arguments: before a build of minutes.
set -euo pipefail
invoked_from=$PWD
cd "$(dirname "$0")/.."
what=${1:?check or run} video=${2:-} model=${3:-} speed_kmh=${4:-100}
out=out/demo
options=(--report "$out" "--speed-kmh=$speed_kmh")
if ! [[ $speed_kmh =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
    printf 'demo: error: SPEED_KMH=%s is no speed; give kilometres per hour, e.g. SPEED_KMH=64\n' "$speed_kmh" >&2
    exit 1
fi

# An absolute path for a file that was named relative to where the caller is; modules run elsewhere.
readable() {
    local path
    path=$(cd "$invoked_from" && realpath -e -- "$2" 2>/dev/null) || path=
    if [ -z "$path" ] || [ ! -r "$path" ]; then
        printf 'demo: error: %s=%s cannot be read\n' "$1" "$2" >&2
        exit 1
    fi
    printf '%s' "$path"
}
if [ -n "$video" ]; then
    path=$(readable VIDEO "$video")
    options+=(--set "camera.source=$path")
else
    options+=(--set camera.source=synthetic:750)
fi
if [ -n "$model" ]; then
    path=$(readable MODEL "$model")
    options+=(--set "detector.model=$path")
fi

[ "$what" = run ] || exit 0
rm -f "$out/report.html" "$out/summary.json"
DRIVELINE_COMPONENT_PATH=$PWD/build/lib build/bin/driveline run examples/comp/graphs/five_processes.yaml "${options[@]}"
