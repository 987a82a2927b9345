#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the C++ headers with each supported compiler and treats warnings as errors.

Users who do not mark the headers as system headers see these warnings. Each compiler gets one file
that includes all headers and `sdk/cpp/tests/compilers/uses.cpp`, which uses their templates. The
headers are also compiled without exceptions and without RTTI: the first error must then name the
missing feature, and the headers that do not need it must compile. Nothing is linked.

Usage: check_headers.py [COMPILER...]    without names, all supported compilers
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from usage import answer_help

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "sdk/cpp/include"
USES = ROOT / "sdk/cpp/tests/compilers/uses.cpp"
# Each compiler with its alternative names.
# Debian's packages: tools/packages/demo.txt and compilers.txt.
COMPILERS = {"g++-12": ("g++",), "clang++-14": (), "clang++-16": ()}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
# Maximum length of a compiler's output that is shown, in characters.
MAX_TEXT = 4000
# Flags that remove a feature the headers need, with the text that the first error must have.
REFUSED = {
    "-fno-exceptions": "Driveline's C++ headers need exceptions",
    "-fno-rtti": "Driveline's C++ headers need RTTI",
}
# Headers that compile where others do not, as the table in docs/cpp.md says: (header, flags).
COMPILED = (
    ("driveline/image.hpp", ["-fno-rtti"]),
    ("driveline/compressed_image.hpp", ["-fno-rtti"]),
    ("driveline/points.hpp", ["-fno-rtti"]),
    ("driveline/driveline.h", ["-fno-exceptions", "-fno-rtti"]),
)


def everything():
    """Returns a source text that includes all headers and the code that uses them."""
    headers = sorted(path.relative_to(INCLUDE) for path in INCLUDE.glob("driveline/*.hpp"))
    return "".join(f'#include "{header}"\n' for header in headers) + f'#include "{USES}"\n'


def compiled(compiler, source, flags):
    """Compiles a text as a source file. Returns (success, output of the compiler)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "headers.cpp"
        path.write_text(source)
        command = [
            compiler,
            "-std=c++20",
            "-fsyntax-only",
            f"-I{INCLUDE}",
            "-isystem/usr/include/opencv4",
            *flags,
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode == 0, (done.stdout + done.stderr)[:MAX_TEXT]


def problems(compiler):
    """Yields a text for each problem that this compiler finds."""
    succeeded, text = compiled(compiler, everything(), WARNINGS)
    if not succeeded:
        yield f"{compiler} {' '.join(WARNINGS)} refuses the headers:\n{text}"
    for flag, words in REFUSED.items():
        succeeded, text = compiled(compiler, '#include "driveline/driveline.hpp"\n', [flag])
        errors = [line for line in text.splitlines() if "error" in line]
        if succeeded or words not in (errors or [""])[0]:
            yield f"{compiler} {flag}: the first error must say '{words}':\n{text}"
    for header, flags in COMPILED:
        succeeded, text = compiled(compiler, f'#include "{header}"\n', [*WARNINGS, *flags])
        if not succeeded:
            yield f"{compiler} {' '.join(flags)} refuses {header}:\n{text}"


def main(arguments):
    failed, found_all = 0, []
    for name in arguments or COMPILERS:
        found = next(filter(shutil.which, (name, *COMPILERS.get(name, ()))), None)
        if found is None:
            print(
                f"SKIPPED: headers with {name}: it is not installed; "
                "`tools/setup.sh test` installs it where the distribution has it"
            )
            continue
        found_all.append(found)
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for texts in pool.map(lambda compiler: list(problems(compiler)), found_all):
            failed += len(texts)
            for text in texts:
                print(f"error: {text}")
    if not found_all:
        print("error: none of the supported compilers is installed; run `tools/setup.sh test`")
    return 1 if failed or not found_all else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
