# SPDX-License-Identifier: Apache-2.0
"""The test programs of a command `cargo test`, to run them without cargo.

cargo runs one program after the other. Most programs wait for other processes, so several at a time
end much sooner.
"""

import functools
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from test_steps import ROOT

# Options of cargo test that have a value in the next word.
WITH_VALUE = {"-p", "--package", "--test", "--features", "--manifest-path", "--target-dir", "--bin"}
# Options of cargo test that choose targets. Without them, documentation examples run as well.
TARGETS = {"--lib", "--bins", "--bin", "--test", "--tests", "--doc"}


@dataclass
class Program:
    """A test program or another command, and how a step runs it."""

    name: str
    command: list
    directory: str = str(ROOT)
    environment: dict = field(default_factory=dict)
    # Line that cargo prints before it runs a test program.
    title: str = ""


def runs_tests(command):
    """Returns true for a command of cargo test that does not only build."""
    return command[:2] == ["cargo", "test"] and "--no-run" not in command


def has_documentation(command):
    """Returns true if a command of cargo test also runs documentation examples: without targets."""
    return not TARGETS & set(command)


def split(command):
    """Splits a command of cargo test into (arguments of cargo, arguments of each test program)."""
    cargo, after = list(command), []
    if "--" in cargo:
        at = cargo.index("--")
        cargo, after = cargo[:at], cargo[at + 1 :]
    filters = [
        w
        for i, w in enumerate(cargo)
        if i > 1 and not w.startswith("-") and cargo[i - 1] not in WITH_VALUE
    ]
    return [w for w in cargo if w not in filters], filters + after


@functools.cache
def standard_library():
    """Returns the directory of Rust's shared libraries, which tests of procedural macros load."""
    return subprocess.run(
        ["rustc", "--print", "target-libdir"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def programs_of_cargo(step, command, output):
    """Yields the test programs that `cargo test --no-run --message-format=json` reports."""
    words = split(command)[1]
    for line in output.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if (
            message.get("reason") != "compiler-artifact"
            or not message.get("executable")
            or not message["profile"]["test"]
        ):
            continue
        program, target = Path(message["executable"]), message["target"]
        crate = Path(message["manifest_path"]).parent
        libraries = f"{program.parent}:{program.parent.parent}:{standard_library()}"
        kind = target["name"] if set(target["kind"]) & {"test", "bin"} else "lib"
        name = f"{step.name}: {crate.name} {kind}"
        environment = {
            **step.environment,
            "CARGO_MANIFEST_DIR": str(crate),
            "LD_LIBRARY_PATH": libraries,
        }
        source = Path(target["src_path"])
        source = source.relative_to(crate) if source.is_relative_to(crate) else source
        unit = "" if "test" in target["kind"] else "unittests "
        yield Program(
            " ".join([name, *words]),
            [str(program), *words],
            str(crate),
            environment,
            f"     Running {unit}{source} ({program})",
        )
