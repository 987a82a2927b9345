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
refuse() {
    printf 'demo: error: %s\n' "$1" >&2
    exit 1
}

if ! [[ $speed_kmh =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
    refuse "SPEED_KMH=$speed_kmh is no speed; give kilometres per hour, e.g. SPEED_KMH=64"
fi

# An absolute path for what was named relative to where the caller is; modules run elsewhere. $3: what else could be named.
readable() {
    local path
    path=$(cd "$invoked_from" && realpath -e -- "$2" 2>/dev/null) || path=
    if [ -z "$path" ] || [ ! -r "$path" ]; then
        refuse "$1=$2 cannot be read (looked from $invoked_from): name $3, or leave $1 out"
    fi
    printf '%s' "$path"
}

# Whether the camera would find a frame in this directory: endings as in examples/comp/vision/frame_source.cpp.
holds_images() {
    [ -n "$(find "$1/" -maxdepth 1 -regextype posix-extended -iregex '.*\.(png|jpe?g|bmp|ppm|pgm|tiff?|webp)' -print -quit)" ]
}

if [ -n "$video" ]; then
    what_to_name='a video, or a folder of images (png, jpg, …)'
    path=$(readable VIDEO "$video" "$what_to_name")
    if [ -d "$path" ] && ! holds_images "$path"; then
        refuse "VIDEO=$video is a directory without images: name $what_to_name"
    fi
    options+=(--set "camera.source=$path")
else
    options+=(--set camera.source=synthetic:750)
fi
if [ -n "$model" ]; then
    what_to_name="the network's .cfg or .onnx file"
    path=$(readable MODEL "$model" "$what_to_name")
    if [ -d "$path" ]; then
        refuse "MODEL=$model is a directory: name $what_to_name"
    fi
    if ! [[ $path =~ \.(cfg|onnx)$ ]]; then
        refuse "MODEL=$model is no network that the detector knows: name $what_to_name"
    fi
    options+=(--set "detector.model=$path")
fi

case "${DEPLOY:-}" in
    '') ;;
    container | containers)
        command -v podman >/dev/null || command -v docker >/dev/null ||
            refuse "DEPLOY=$DEPLOY needs a container engine: \`apt-get install podman\`, or docker"
        options+=(--deploy "$DEPLOY")
        ;;
    *) refuse "DEPLOY=$DEPLOY is no way to deploy: write DEPLOY=containers (one for each module) or DEPLOY=container" ;;
esac

[ "$what" = run ] || exit 0
rm -f "$out/report.html" "$out/summary.json"
DRIVELINE_COMPONENT_PATH=$PWD/build/lib build/bin/driveline run examples/comp/graphs/five_processes.yaml "${options[@]}"
