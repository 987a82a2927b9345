#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks rules of the source tree that compilers do not check.

- A crate depends only on crates to its left in LAYERS. No crate of the product depends on the
  laboratory.
- `unsafe` occurs only in the crates of QUARANTINE, the directories of BORDERS, and PEERS. Every
  crate inherits the workspace's lints.
- Every source file starts with its SPDX line, names no home directory, has at most LINES_MAX
  lines, and is executable if it starts with #!.
- Files of a crate do not use each other in loops of more than three (file_circles.py).
- Gating tests, which a merge needs, do not depend on time (time_in_tests.py). Exceptions give their
  reason, or are older than this rule.

Usage: check_source.py [--lower] [ROOT]
       Prints one line for each violation; exit status 1 if there is any.
       --lower first lowers the numbers in tools/time_in_tests.txt to those of the tree.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import file_circles
import time_in_tests
from test_steps import measured_files
from usage import answer_help

# From left to right. A crate may use crates of layers to its left, and crates before it in its own
# layer.
LAYERS = [
    [
        "driveline-derive",
        "driveline-types",
        "driveline-build",
        "driveline-msgs",
        "driveline-rosidl",
    ],
    ["driveline-shm"],
    ["driveline"],
    ["driveline-graph"],
    ["driveline-runtime"],
    ["driveline-capi"],
    [
        "driveline-namespaces",
        "driveline-terminal",
        "driveline-gateway",
        "driveline-deploy",
        "driveline-analyze",
        "driveline-zenoh",
        "driveline-gateway-zenoh",
        "driveline-gateway-ros2",
        "driveline-cli",
    ],
    ["driveline-bench", "driveline-chaos", "driveline-workloads", "driveline-lab"],
    ["driveline-fuzz"],
]
# The laboratory, which measures the product. Nothing in crates/ depends on it, not even a test.
LAB = {"driveline-bench", "driveline-chaos", "driveline-workloads", "driveline-lab"}
QUARANTINE = {"driveline-shm", "driveline-capi"}
# Directories of other crates that are a border to C or to the kernel.
BORDERS = [
    Path("crates/driveline-gateway-ros2/src/dds"),
    Path("crates/driveline-zenoh/src/sockets"),
]
# Programs that use the interfaces of other middleware, for which they need unsafe code. They have
# their own workspace and are no part of Driveline.
PEERS = Path("lab/peers/rust")

# Maximum number of files of a crate that use each other in a loop (file_circles.py).
CIRCLE_MAX = 3
LINES_WARN = 600
LINES_MAX = 1000
SOURCE = {".rs", ".py", ".sh", ".h", ".hpp", ".cpp", ".proto", ".cmake", ".toml", ".yaml", ".yml"}
SOURCE_NAMES = {"Makefile", "CMakeLists.txt", "run"}
SPDX = "SPDX-License-Identifier: Apache-2.0"
HOME_PATH = re.compile(r"""(?<![\w.$}~-])/(?:home|root|Users)/[\w.-]+""")


def positions():
    """Returns {crate: (layer, place in the layer)}."""
    return {name: (i, k) for i, layer in enumerate(LAYERS) for k, name in enumerate(layer)}


def check_layers(packages):
    """Yields a message for each dependency that LAYERS does not permit.

    `packages`: list of {name, dependencies: [{name, kind}]} as in `cargo metadata`.
    """
    at = positions()
    ours = {p["name"] for p in packages}
    for package in packages:
        name = package["name"]
        if name not in at:
            yield (
                f"crate {name} is in no layer: "
                "add it to LAYERS of tools/check_source.py and to ARCHITECTURE.md"
            )
            continue
        for dependency in package["dependencies"]:
            other = dependency["name"]
            if other not in ours or other not in at or other == name:
                continue
            # Tests may use any crate of their own layer: the derive macro is tested with the types
            # that it derives.
            test_of_own_layer = dependency["kind"] == "dev" and at[other][0] <= at[name][0]
            if other in LAB and name not in LAB:
                yield (
                    f"crate {name} must not depend on {other}, not even in tests: "
                    f"{other} belongs to the laboratory (lab/)"
                )
                continue
            if at[other] > at[name] and not test_of_own_layer:
                yield (
                    f"crate {name} must not depend on {other}, "
                    "which is to its right in the layers (ARCHITECTURE.md)"
                )


def without_comments_and_strings(rust):
    """Returns the code of a Rust source with comments and literals removed."""
    token = re.compile(
        r"""//[^\n]*|/\*.*?\*/|b?r(?P<h>\#*)".*?"(?P=h)"""
        r"""|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n]{1,10}?|[^'\\\n])'""",
        re.DOTALL,
    )
    return token.sub(lambda m: "\n" * m.group(0).count("\n"), rust)


def check_unsafe(crate, path, text):
    """Yields unsafe code, and lints that permit it, outside the quarantine."""
    if crate in QUARANTINE or any(border in Path(path).parents for border in BORDERS):
        return
    for number, line in enumerate(without_comments_and_strings(text).split("\n"), 1):
        if re.search(r"\bunsafe\b", line):
            places = ", ".join([*sorted(QUARANTINE), *map(str, BORDERS)])
            yield (
                f"{path}:{number}: unsafe code outside {places}: "
                "move it there behind a safe function"
            )
        if re.search(r"\b(allow|expect|warn)\s*\([^)]*\bunsafe_code\b", line):
            yield (
                f"{path}:{number}: the lint unsafe_code is switched off outside the quarantine; "
                "remove the attribute"
            )


def check_manifest(path, text):
    """Every crate inherits the lints of the workspace."""
    if not re.search(r"^\[lints\]\s*\nworkspace\s*=\s*true\s*$", text, re.MULTILINE):
        yield (
            f"{path}: write `[lints]` / `workspace = true`, "
            "so that the workspace's lints apply here"
        )


def check_text(path, text):
    """Checks SPDX line, length and home directories. Yields (is_error, message)."""
    head = "\n".join(text.split("\n", 3)[:3])
    if SPDX not in head:
        yield True, f"{path}:1: the first line (after #!) must be the comment `{SPDX}`"
    # Readers of a generated file read its source, so its length does not matter.
    lines = 0 if re.search(r"\bGenerated from \S+; do not edit\b", head) else text.count("\n")
    if lines > LINES_MAX:
        yield (
            True,
            f"{path}: {lines} lines; at most {LINES_MAX} are allowed: split it by topic",
        )
    elif lines > LINES_WARN:
        yield False, f"{path}: {lines} lines; consider splitting it (the target is {LINES_WARN})"
    for number, line in enumerate(text.split("\n"), 1):
        found = HOME_PATH.search(line)
        if found:
            yield True, f"{path}:{number}: {found.group(0)} exists on one machine only"


def check_program(path, text, mode):
    """A file that begins as a program is one: pages name it as a command."""
    if text.startswith("#!") and not mode & 0o111:
        yield f"{path}: begins with #! and is not executable: `chmod +x {path}`"


def source_files(root):
    """Yields the source files under version control, and new ones that git does not ignore."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    )
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        path = Path(name)
        generated = path.name == "Cargo.lock"
        if (
            (path.suffix in SOURCE or path.name in SOURCE_NAMES)
            and not generated
            and (Path(root) / path).is_file()
        ):
            yield path


def crate_of(path, manifests):
    """Returns the name of the crate whose directory has `path`, or None."""
    for directory in path.parents:
        if directory in manifests:
            return manifests[directory]
    return None


def check_time(root, sources, lower=False):
    """Returns a message for each place where a gating test depends on time.

    `sources`: {path: text}.
    """
    found = time_in_tests.all_places(sources, without_comments_and_strings, measured_files())
    path = root / time_in_tests.ALLOWED
    text = path.read_text() if path.exists() else ""
    if lower and text:
        text = time_in_tests.lowered(text, found)
        path.write_text(text)
    return list(time_in_tests.check(found, time_in_tests.read_allowed(text)))


def check_tree(root, lower=False):
    """Checks all rules for the tree at `root`. Returns (errors, warnings)."""
    root = Path(root).resolve()
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline"],
            cwd=root,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
    )
    packages = metadata["packages"]
    manifests = {Path(p["manifest_path"]).parent.relative_to(root): p["name"] for p in packages}
    errors, warnings = list(check_layers(packages)), []
    for directory in manifests:
        manifest = root / directory / "Cargo.toml"
        errors += check_manifest(directory / "Cargo.toml", manifest.read_text())
    sources = {path: (root / path).read_text(errors="replace") for path in source_files(root)}
    for path, text in sources.items():
        for is_error, message in check_text(path, text):
            (errors if is_error else warnings).append(message)
        errors += check_program(path, text, (root / path).stat().st_mode)
        if path.suffix == ".rs":
            if PEERS not in path.parents:
                errors += check_unsafe(crate_of(path, manifests), path, text)
    errors += check_time(root, sources, lower)
    return errors, warnings


def main():
    arguments = [a for a in sys.argv[1:] if a != "--lower"]
    root = arguments[0] if arguments else Path(__file__).resolve().parent.parent
    errors, warnings = check_tree(root, lower="--lower" in sys.argv)
    circle = file_circles.largest(Path(root))
    names = ", ".join(str(f.relative_to(root)) for f in circle)
    if len(circle) > CIRCLE_MAX:
        errors.append(
            f"{len(circle)} files use each other in a loop, at most {CIRCLE_MAX} may: {names} "
            "(tools/file_circles.py --arrows)"
        )
    for message in warnings:
        print(f"warning: {message}")
    for message in errors:
        print(f"error: {message}")
    print(f"largest circle of files: {len(circle)} ({names})")
    print(f"source rules: {len(errors)} violations, {len(warnings)} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main())
