#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the licence of every Rust package is listed in deny.toml.

That covers Driveline, the peers of its benchmark and the ROS 2 client of its tests. deny.toml is
the file of cargo-deny, so `cargo deny check licenses` gives the same answer where it is installed.
This check needs only `cargo metadata`, which saves minutes of building cargo-deny.

Usage: check_licences.py [ROOT]. Prints one line for each violation; exit status 1 if there is any.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from usage import answer_help


# Each workspace has its own lock file.
WORKSPACES = (".", "lab/peers/rust", "crates/driveline-gateway-ros2/tests/peer/ros2_client")


class ExpressionError(ValueError):
    """Invalid SPDX licence expression."""


def is_allowed(expression, allowed):
    """Returns true if the licences in `allowed` alone satisfy an SPDX expression.

    Old manifests write `A/B` for `A OR B`. An exception (`WITH`) only adds rights, but `allowed`
    lists it literally, as cargo-deny does.
    """
    tokens = re.findall(r"[()]|[\w.+-]+", expression.replace("/", " OR "))
    position = 0

    def take():
        nonlocal position
        if position == len(tokens):
            raise ExpressionError(f"{expression!r} ends too early")
        position += 1
        return tokens[position - 1]

    def peek():
        return tokens[position] if position < len(tokens) else None

    def atom():
        token = take()
        if token == "(":
            value = any_of()
            if take() != ")":
                raise ExpressionError(f"{expression!r} misses a ')'")
            return value
        if token in (")", "AND", "OR", "WITH"):
            raise ExpressionError(f"{expression!r} has a {token!r} in place of a licence")
        if peek() == "WITH":
            take()
            token = f"{token} WITH {take()}"
        return token in allowed

    def all_of():
        value = atom()
        while peek() == "AND":
            take()
            value = atom() and value
        return value

    def any_of():
        value = all_of()
        while peek() == "OR":
            take()
            value = all_of() or value
        return value

    value = any_of()
    if position != len(tokens):
        raise ExpressionError(f"{expression!r} goes on with {tokens[position]!r} after its end")
    return value


def violations(packages, allowed, exceptions=None):
    """Yields one line for each package whose licence is missing, unreadable or not allowed.

    `exceptions` maps a package to additional licences that are allowed for this package only.
    """
    for package in packages:
        name, expression = f"{package['name']} {package['version']}", package.get("license")
        if not expression:
            yield (
                f"{name} declares no licence: read its licence file, "
                "then replace the package or ask for an exception"
            )
            continue
        try:
            if not is_allowed(
                expression, allowed | set((exceptions or {}).get(package["name"], ()))
            ):
                yield f"{name} is under {expression!r}, which deny.toml does not allow"
        except ExpressionError as e:
            yield f"{name}: {e}"


def packages_of(workspace):
    """Returns the packages from which a workspace is built on Linux.

    The lock file also names packages of other systems, on which Driveline does not run.
    """
    command = [
        "cargo",
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]
    return json.loads(
        subprocess.run(command, cwd=workspace, check=True, stdout=subprocess.PIPE).stdout
    )["packages"]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    with open(root / "deny.toml", "rb") as f:
        rules = tomllib.load(f)["licenses"]
    exceptions = {e["crate"]: e["allow"] for e in rules.get("exceptions", [])}
    packages = {
        package["id"]: package
        for workspace in WORKSPACES
        for package in packages_of(root / workspace)
    }
    bad = list(violations(packages.values(), set(rules["allow"]), exceptions))
    for line in bad:
        print(f"error: {line}")
    print(f"licences: {len(packages)} packages, {len(bad)} violations")
    return 1 if bad else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main())
