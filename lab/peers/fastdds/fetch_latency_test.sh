#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the source of LatencyTest, the latency tool of Fast DDS, in the installed version. No
# package of Debian has the program, but the source package of libfastrtps-dev has it under
# test/performance. Needs no root, and does not change the state of apt. If the source is not
# available, the script prints the reason and succeeds.
# Usage: fetch_latency_test.sh DIRECTORY
set -euo pipefail
into=${1:?usage: fetch_latency_test.sh DIRECTORY}

left_out() {
    printf 'peers: LatencyTest, the latency tool of Fast DDS, is left out: %s\n' "$*"
    exit 0
}

# An incomplete source would fail later, in the build.
incomplete() {
    rm -rf "$into"
    left_out "the source package $source $version has its parts elsewhere"
}

read -r source version < <(
    dpkg-query -W -f '${source:Package} ${source:Version}\n' libfastrtps-dev 2>/dev/null
) || left_out "libfastrtps-dev is not installed"
[ "$(cat "$into/version" 2>/dev/null)" = "$version" ] && exit 0
rm -rf "$into"
for program in apt-get apt-cache dpkg-source; do
    command -v "$program" >/dev/null ||
        left_out "$program is not installed (its package: apt, dpkg-dev)"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"

# The source comes from the same archive as the binary package.
apt-cache policy libfastrtps-dev |
    awk '$2 ~ /^(https?|ftp|file):/ { sub("/", " ", $3); print "deb-src", $2, $3 }' |
    sort -u >"$work/sources.list"
[ -s "$work/sources.list" ] ||
    left_out "apt knows no archive with libfastrtps-dev: apt-get update, then \`make peers\` again"

apt_source() {
    apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User= "$@"
}
cd "$work"
reason() { grep -m 1 '^E:' log || tail -n 1 log; }
apt_source -o APT::Update::Error-Mode=any update >log 2>&1 ||
    left_out "apt-get update failed: $(reason)"
apt_source source "$source=$version" >log 2>&1 ||
    left_out "apt-get source $source=$version failed: $(reason)"
cd - >/dev/null
tree=$(find "$work" -maxdepth 1 -type d -name "$source-*" | head -n 1)
[ -f "$tree/test/performance/latency/main_LatencyTest.cpp" ] ||
    left_out "the source package $source $version has none"
mkdir -p "$into"
cp -r "$tree/test/performance/latency" "$tree/test/performance/optionarg.hpp" "$into/" ||
    incomplete
# The option parser in the source tree, with which Debian's library is built.
cp -r "$tree/thirdparty/optionparser" "$into/" || incomplete
printf '%s\n' "$version" >"$into/version"
