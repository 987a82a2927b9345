#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the perception pipeline in five processes and leaves its figures in out/demo. `make demo` calls it.
# Usage: tools/demo.sh [VIDEO [MODEL [SPEED_KMH]]]    empty: rendered drive of 30 s, classical detector, 100 km/h
set -euo pipefail
invoked_from=$PWD
cd "$(dirname "$0")/.."
video=${1:-} model=${2:-} speed_kmh=${3:-}
out=out/demo
options=(--report "$out" --speed-kmh "${speed_kmh:-100}")

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

rm -f "$out/report.html" "$out/summary.json"
DRIVELINE_COMPONENT_PATH=$PWD/build/lib build/bin/driveline run examples/comp/graphs/five_processes.yaml "${options[@]}"
