#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the perception pipeline in five processes and writes its figures to out/demo. `make demo`
# calls it.
# Usage: tools/demo.sh check|run [VIDEO [MODEL [SPEED_KMH]]]
# Defaults: a rendered drive of 30 s, the classical detector, 100 km/h.
# Modules run in containers with the environment variable DEPLOY=containers or DEPLOY=container.
# `check` only checks the arguments, before a build that takes minutes.
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

if ! [[ $speed_kmh =~ ^[0-9]+(\.[0-9]+)?$ && $speed_kmh =~ [1-9] ]]; then
    refuse "SPEED_KMH=$speed_kmh is not a speed; give kilometres per hour, e.g. SPEED_KMH=64"
fi

# Prints the absolute path of $2. A relative $2 starts at the caller's directory, but modules run in
# another directory. $1: name of the variable. $3: valid values, for the error.
readable() {
    local path
    path=$(cd "$invoked_from" && realpath -e -- "$2" 2>/dev/null) || path=
    if [ -z "$path" ] || [ ! -r "$path" ]; then
        refuse "$1=$2 cannot be read (looked from $invoked_from): name $3, or leave $1 out"
    fi
    printf '%s' "$path"
}

# Succeeds if the camera would find a frame in this directory. The endings are those of
# examples/comp/vision/frame_source.cpp.
holds_images() {
    local endings='.*\.(png|jpe?g|bmp|ppm|pgm|tiff?|webp)'
    [ -n "$(find "$1/" -maxdepth 1 -regextype posix-extended -iregex "$endings" -print -quit)" ]
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
        refuse "MODEL=$model is not a network format of the detector: name $what_to_name"
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
    *)
        refuse "DEPLOY=$DEPLOY is not known: write DEPLOY=containers (one for each module)\
 or DEPLOY=container"
        ;;
esac

[ "$what" = run ] || exit 0
rm -f "$out/report.html" "$out/summary.json"
export DRIVELINE_COMPONENT_PATH=$PWD/build/lib
build/bin/driveline run examples/comp/graphs/five_processes.yaml "${options[@]}"
