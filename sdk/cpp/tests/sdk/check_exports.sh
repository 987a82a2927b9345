#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if LIBRARY exports no symbol, or a symbol that does not start with PREFIX.
# Usage: check_exports.sh LIBRARY PREFIX
set -eu
symbols=$(nm -D --defined-only --no-demangle "$1" | sed 's/.* //; s/@.*//')
[ -n "$symbols" ] || { echo "$1 exports nothing"; exit 1; }
if others=$(printf '%s\n' "$symbols" | grep -v "^$2"); then
    printf '%s exports more than %s*:\n%s\n' "$1" "$2" "$others"
    exit 1
fi
