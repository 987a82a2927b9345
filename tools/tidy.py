#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the C++ of the SDK and of the examples, with the checks of `.clang-tidy`.

usage: tools/tidy.py [--build DIR] [--jobs N] [PART ...]

PART limits it to files whose path contains one of them. Takes minutes. Exit code 1 if there is a
warning, 2 if it cannot run.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("sdk/cpp/", "examples/")
WARNING = re.compile(r"^(?P<path>/[^:]+):(?P<line>\d+):\d+: (warning|error): (?P<text>.*)$")


def sources(build: Path, parts: list[str]) -> list[str]:
    """Returns the project's sources that the build compiles, as paths from the root."""
    with open(build / "compile_commands.json", encoding="utf-8") as file:
        files = {entry["file"] for entry in json.load(file)}
    own = {os.path.relpath(f, ROOT) for f in files}
    own = sorted(f for f in own if f.startswith(ROOMS) and (ROOT / f).exists())
    return [f for f in own if not parts or any(part in f for part in parts)]


def check(tidy: str, build: Path, source: str) -> list[str]:
    """Returns the warnings of one source and of the SDK's headers that it includes."""
    command = [tidy, "-p", str(build), "--quiet", str(ROOT / source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = []
    for line in done.stdout.splitlines():
        match = WARNING.match(line)
        if match:
            path = os.path.relpath(match["path"], ROOT)
            found.append(f"{path}:{match['line']}: {match['text']}")
    if done.returncode != 0 and not found:
        reason = done.stderr.strip()[-500:]
        found.append(f"{source}: clang-tidy ended with {done.returncode}: {reason}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", metavar="PART", nargs="*")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    tidy = shutil.which("clang-tidy")
    if tidy is None:
        print("error: clang-tidy is not installed; `make tidy` installs it", file=sys.stderr)
        return 2
    if not (args.build / "compile_commands.json").exists():
        missing = f"{args.build} has no compile_commands.json; run `make tidy`, which makes it"
        print(f"error: {missing}", file=sys.stderr)
        return 2
    todo = sources(args.build, args.parts)
    if not todo:
        print(
            "error: no source matches; name a part of a path below sdk/cpp or examples",
            file=sys.stderr,
        )
        return 2
    warnings: set[str] = set()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = {pool.submit(check, tidy, args.build, source): source for source in todo}
        for n, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            new = sorted(set(job.result()) - warnings)
            warnings.update(new)
            if sys.stderr.isatty():
                print(f"\r{n} of {len(todo)}  {jobs[job]:<70}", end="", file=sys.stderr)
            for line in new:
                print(line, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"tidy: {len(todo)} sources, {len(warnings)} warnings")
    return 1 if warnings else 0


if __name__ == "__main__":
    sys.exit(main())
