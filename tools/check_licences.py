#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every Rust package Driveline, or a peer of its benchmark, is built from has a licence listed in deny.toml.

deny.toml is cargo-deny's own file, so `cargo deny check licenses` says the same where it is installed; this check needs
nothing but `cargo metadata` and takes no minutes to build.

Usage: check_licences.py [ROOT]. Prints one line for each violation; exit status 1 if there is any.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path


# Each has a lock file of its own.
WORKSPACES = (".", "lab/peers/rust", "crates/driveline-gateway-ros2/tests/peer/ros2_client")


class ExpressionError(ValueError):
    """A licence expression that is not SPDX."""


def is_allowed(expression, allowed):
    """Whether an SPDX expression can be met with the licences in `allowed` alone.

    `A/B` is what old manifests write for `A OR B`. An exception (`WITH`) only adds rights, but it is listed literally in
    `allowed`, as cargo-deny has it.
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
            raise ExpressionError(f"{expression!r} has a {token!r} where a licence belongs")
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
        raise ExpressionError(f"{expression!r} has {tokens[position]!r} too much")
    return value


def violations(packages, allowed, exceptions=None):
    """One line for each package whose licence is missing, unreadable or not allowed.

    `exceptions`: name of a package to further licences that are fine for it alone.
    """
    for package in packages:
        name, expression = f"{package['name']} {package['version']}", package.get("license")
        if not expression:
            yield f"{name} declares no licence: read its licence file, then replace the package or ask for an exception"
            continue
        try:
            if not is_allowed(
                expression, allowed | set((exceptions or {}).get(package["name"], ()))
            ):
                yield f"{name} is under {expression!r}, which deny.toml does not allow"
        except ExpressionError as e:
            yield f"{name}: {e}"


def packages_of(workspace):
    """What a workspace is built from.

    Only what Linux builds is looked at: the lock file also names packages for systems Driveline does not run on.
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
    sys.exit(main())
