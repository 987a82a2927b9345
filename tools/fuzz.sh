#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the readers of untrusted bytes: each target for SECONDS, from its seeds and the inputs that
# earlier runs found.
# Usage: tools/fuzz.sh SECONDS [TARGET...]. Needs a C++ compiler, and no nightly Rust.
# A finding ends the run. Its input stays in build/fuzz/TARGET/: `tools/fuzz.sh 0 TARGET` runs it
# again.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
[ $# -gt 0 ] || set -- header control_frame plain print protobuf_definition graph network \
    rosidl_text rosidl_sample ros2_sample ros2_zenoh

# Stable Rust has LLVM's coverage instrumentation. --target keeps it out of build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Ccodegen-units=1 -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
export RUSTFLAGS
out=${CARGO_TARGET_DIR:-build/fuzz/cargo}
CARGO_TARGET_DIR=$out cargo build -p driveline-fuzz --features programs --profile fuzz --locked \
    --target "$host"

for target; do
    found=build/fuzz/$target
    mkdir -p "$found/corpus"
    program=$out/$host/fuzz/$target
    if [ "$seconds" -eq 0 ]; then
        for input in "$found"/crash-* "$found"/oom-* "$found"/timeout-*; do
            [ -e "$input" ] && "$program" "$input"
        done
        continue
    fi
    echo "=== fuzz $target for $seconds s"
    # An input that takes five seconds, or a gigabyte, is a finding as well.
    "$program" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=5 -max_len=8192 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="$found/" \
        "$found/corpus" "fuzz/seeds/$target"
done
