#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes everything that reads bytes of others: each target for some seconds, from its seeds and what earlier runs found.
# Usage: tools/fuzz.sh SECONDS [TARGET...]. Needs a C++ compiler besides Rust; no nightly.
# A finding ends the run; its input lies in build/fuzz/TARGET/ and is run again by: tools/fuzz.sh 0 TARGET
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
[ $# -gt 0 ] || set -- header control_frame plain print protobuf_definition graph network rosidl_text rosidl_sample ros2_sample ros2_zenoh

# Stable Rust has LLVM's coverage instrumentation; it is not applied to build scripts, hence the target.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Ccodegen-units=1 -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
export RUSTFLAGS
out=${CARGO_TARGET_DIR:-build/fuzz/cargo}
CARGO_TARGET_DIR=$out cargo build --manifest-path fuzz/Cargo.toml --release --locked --target "$host"

for target; do
    found=build/fuzz/$target
    mkdir -p "$found/corpus"
    program=$out/$host/release/$target
    if [ "$seconds" -eq 0 ]; then
        for input in "$found"/crash-* "$found"/oom-* "$found"/timeout-*; do
            [ -e "$input" ] && "$program" "$input"
        done
        continue
    fi
    echo "=== fuzz $target for $seconds s"
    # A graph that takes a second, or a gigabyte, is a finding too.
    "$program" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=5 -max_len=8192 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$found/" "$found/corpus" "fuzz/seeds/$target"
done
