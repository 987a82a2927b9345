#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs everything that `make test` promises, step by step, and ends with one line: "N passed, M failed".

A failed step does not stop the ones after it. A step that should run tests and runs none has failed.
Usage: run_tests.py [STEP...]    without names, all steps; `--list` names them.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import leftovers

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 2)


@dataclass
class Step:
    """Commands run one after the other, and how to count tests in what they print."""

    name: str
    title: str
    commands: list
    counts: str = "check"  # "check": the step itself is the one test; "tests": counted from its output
    environment: dict = field(default_factory=dict)
    as_root: bool = False  # can only be run by root; for others it counts as ignored


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    ignored: int = 0

    def __add__(self, other):
        return Tally(self.passed + other.passed, self.failed + other.failed, self.ignored + other.ignored)


def cargo(*arguments):
    return ["cargo", *arguments, "--locked"]


def cmake(build, *options):
    return [
        ["cmake", "-S", ".", "-B", build, "-G", "Ninja", "-DDRIVELINE_BUILD_TESTS=ON", *options],
        ["cmake", "--build", build, "-j", JOBS],
    ]


def ctest(build):
    return ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-j", JOBS]


STEPS = [
    Step("tools", "Tests of the checks themselves", [["python3", "-m", "unittest", "discover", "-s", "tools/tests"]], "tests"),
    Step("source", "Layers, unsafe quarantine, source rules, links in documentation", [["python3", "tools/check_source.py"], ["python3", "tools/check_docs.py"]]),
    Step("licences", "Licences of all packages", [["python3", "tools/check_licences.py"]]),
    Step("format", "Formatting", [["cargo", "fmt", "--all", "--check"]]),
    Step("clippy", "Lints", [cargo("clippy", "--workspace", "--all-targets", "--keep-going") + ["--", "-D", "warnings"]]),
    Step("docs", "API documentation", [cargo("doc", "--workspace", "--no-deps")], environment={"RUSTDOCFLAGS": "-D warnings"}),
    Step("product", "Build of the core, the SDK and the examples", cmake("build", "-DCMAKE_BUILD_TYPE=Release")),
    Step("cargo", "Rust tests, documentation examples included", [cargo("test", "--workspace", "--no-fail-fast")], "tests"),
    Step(
        "privileged",
        "Rust tests with several users, and with namespaces",
        [cargo("test", "-p", "driveline-shm", "--test", "processes") + ["--", "--ignored"]],
        "tests",
        as_root=True,
    ),
    Step(
        "loom",
        "Models of the lock-free code under every interleaving",
        [
            cargo("test", "-p", "driveline-shm", "--release", "--test", "loom"),
            cargo("test", "-p", "driveline", "--release", "--test", "loom_gate"),
        ],
        "tests",
        {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": "target/loom"},
    ),
    Step(
        "experiments",
        "Every experiment of the evaluation lab, quickly, for function",
        [["python3", "tools/check_experiments.py", "build/bin/driveline"]],
        "tests",
    ),
    Step("ctest", "C++ tests of the SDK and the examples", [ctest("build")], "tests"),
    Step(
        "sanitize",
        "C++ SDK tests under the address and undefined-behaviour sanitizers",
        [
            *cmake("build/sanitize", "-DCMAKE_BUILD_TYPE=Debug", "-DDRIVELINE_SANITIZE=ON", "-DDRIVELINE_BUILD_EXAMPLES=OFF"),
            ctest("build/sanitize"),
        ],
        "tests",
    ),
    Step("install", "Use from an install prefix, and the example in the README", [["python3", "tools/check_install.py"]]),
]

PATTERNS = [
    # cargo test, once for each test program
    (re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored"), lambda m: Tally(int(m[1]), int(m[2]), int(m[3]))),
    # ctest
    (re.compile(r"^\d+% tests passed, (\d+) tests failed out of (\d+)"), lambda m: Tally(int(m[2]) - int(m[1]), int(m[1]))),
    # check_experiments.py
    (re.compile(r"^(\d+) passed, (\d+) failed$"), lambda m: Tally(int(m[1]), int(m[2]))),
    # python's unittest
    (re.compile(r"^Ran (\d+) tests? in "), lambda m: Tally(int(m[1]))),
    (re.compile(r"^FAILED \((.*)\)"), lambda m: (lambda n: Tally(-n, n))(sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", m[1]))))),
]


def count(line):
    """What one line of output says about numbers of tests."""
    for pattern, tally in PATTERNS:
        found = pattern.match(line)
        if found:
            return tally(found)
    return Tally()


def run_command(command, environment):
    """Runs one command with its output passed through. Returns (exit status, tally)."""
    tally = Tally()
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    ) as process:
        for raw in process.stdout:
            sys.stdout.buffer.write(raw)
            sys.stdout.flush()
            tally += count(raw.decode(errors="replace"))
    return process.returncode, tally


def run_step(step):
    """Runs one step. Returns its tally."""
    print(f"\n=== {step.name}: {step.title}", flush=True)
    if step.as_root and os.geteuid() != 0:
        print(f"--- {step.name}: not run, 1 ignored: only root can be several users", flush=True)
        return Tally(0, 0, 1)
    started, tally, status = time.monotonic(), Tally(), 0
    for command in step.commands:
        try:
            status, counted = run_command(command, step.environment)
        except FileNotFoundError as e:
            print(f"error: cannot start {command[0]}: {e.strerror}; run `make setup`")
            status, counted = 127, Tally()
        tally += counted
        if status != 0:
            break
    return finish(step, status, tally, time.monotonic() - started)


def finish(step, status, tally, seconds):
    """Judges a step by exit status and counts, and prints its closing line."""
    if step.counts == "check":
        tally = Tally(1, 0) if status == 0 else Tally(0, 1)
    elif status != 0 and tally.failed == 0:
        tally += Tally(0, 1)
    elif status == 0 and tally.passed == 0:
        print(f"error: {step.name} ran no test")
        tally += Tally(0, 1)
    ignored = f", {tally.ignored} ignored" if tally.ignored else ""
    print(f"--- {step.name}: {tally.passed} passed, {tally.failed} failed{ignored} ({seconds:.0f} s)", flush=True)
    return tally


def main(arguments):
    if arguments == ["--list"]:
        for step in STEPS:
            print(f"{step.name:10} {step.title}")
        return 0
    unknown = set(arguments) - {s.name for s in STEPS}
    if unknown:
        print(f"error: there is no step {', '.join(sorted(unknown))}; `tools/run_tests.py --list` names them", file=sys.stderr)
        return 2
    started, total, failed = time.monotonic(), Tally(), []
    before = leftovers.snapshot()
    for step in STEPS:
        if arguments and step.name not in arguments:
            continue
        tally = run_step(step)
        total += tally
        if tally.failed:
            failed.append(step.name)
    print("\n=== leftovers: Nothing of the tests is still running or lies in shared memory", flush=True)
    found = leftovers.since(before)
    for line in found:
        print(f"error: {line}")
    total += Tally(0, 1) if found else Tally(1, 0)
    if found:
        failed.append("leftovers")
    seconds = time.monotonic() - started
    left_out = [s.name for s in STEPS if s.as_root and os.geteuid() != 0 and (not arguments or s.name in arguments)]
    print(
        f"\nin {seconds // 60:.0f} min {seconds % 60:.0f} s"
        + (f"; not run: {', '.join(left_out)}" if left_out else "")
        + (f"; failed: {', '.join(failed)}" if failed else "")
    )
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
