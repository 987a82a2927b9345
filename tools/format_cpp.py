#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Formats the C and C++ sources with clang-format 14.

Usage: format_cpp.py [--check]
  --check   changes no file, and names the places that have another format

Other releases of clang-format break lines elsewhere, so the release is fixed. driveline.h is
generated and left alone.
"""

import subprocess
import sys

from usage import answer_help

PROGRAM = "clang-format-14"
GENERATED = {"sdk/cpp/include/driveline/driveline.h"}


def main() -> int:
    listed = ["git", "ls-files", "-z", "*.hpp", "*.cpp", "*.h", "*.c"]
    files = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    files = [f for f in files if f and f not in GENERATED]
    how = ["--dry-run", "-Werror"] if "--check" in sys.argv[1:] else ["-i"]
    try:
        code = subprocess.run([PROGRAM, *how, *files]).returncode
    except FileNotFoundError:
        print(f"{PROGRAM} is not installed: apt-get install {PROGRAM}", file=sys.stderr)
        return 1
    if code:
        print("format them: python3 tools/format_cpp.py", file=sys.stderr)
    return code


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main())
