#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs everything that `make test` promises, step by step, and ends with what has failed, a line for each, and one line:
"N passed, M failed".

A failed step does not stop the ones after it, nor a failed command those after it in its step, unless they are built by it. A
step that should run tests and runs none has failed.
Usage: run_tests.py [STEP...]               without names, all steps of `make test`; `--list` names them
       run_tests.py --gateways [STEP...]    without names, all steps of `make test-gateways`
"""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import leftovers
from failures import Failures

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 2)
# Failures whose reasons are told again at the end.
MOST_REASONS = 30
# What each suite builds, from nothing, in GiB: told before the first step, not by the linker in the middle of the last one.
ROOM = {"test": 8, "gateways": 12}
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
# Tests of gateways take the one that cargo has built for them; an optimised Zenoh would take as long again.
DEBUG = TARGET / "debug"
# Peers as quickly as they compile; those that are measured are `make peers`'s.
PEERS = ROOT / "build/test-peers"
# Of them Driveline's own stages of chains, and the works, which take no other middleware.
STAGES = ROOT / "build/test-stages"


@dataclass
class Step:
    """Commands run one after the other, and how to count tests in what they print."""

    name: str
    title: str
    commands: list
    counts: str = "check"  # "check": the step itself is the one test; "tests": counted from its output
    environment: dict = field(default_factory=dict)
    as_root: bool = False  # can only be run by root; for others it counts as ignored
    suite: str = "test"  # which of make's targets runs it: "test", "gateways" for test-gateways, or "by name" for none
    builds: bool = False  # each command makes what the next one needs: a failed one is the last


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


# Nodes of ROS 2, a workspace of their own.
ROS2_CLIENT = "crates/driveline-gateway-ros2/tests/peer/ros2_client"


def ros2_client(release):
    """Builds the node on ros2-client: of Jazzy, or of Humble, which is what it is without features."""
    features = ["--no-default-features"] if release == "humble" else []
    return [
        cargo("build", "--manifest-path", f"{ROS2_CLIENT}/Cargo.toml", "--target-dir", str(TARGET), *features),
        ["install", "-D", str(DEBUG / "ros2-client-peer"), f"build/ros2-client/{release}"],
    ]


STEPS = [
    Step("tools", "Tests of the checks themselves", [["python3", "-m", "unittest", "discover", "-s", "tools/tests"]], "tests"),
    Step("source", "Layers, unsafe quarantine, source rules, links in documentation", [["python3", "tools/check_source.py"], ["python3", "tools/check_docs.py"]]),
    Step("licences", "Licences of all packages", [["python3", "tools/check_licences.py"]]),
    Step("format", "Formatting", [["cargo", "fmt", "--all", "--check"], ["cargo", "fmt", "--manifest-path", "peers/rust/Cargo.toml", "--all", "--check"]]),
    Step("clippy", "Lints", [cargo("clippy", "--workspace", "--all-targets", "--keep-going") + ["--", "-D", "warnings"]]),
    Step("docs", "API documentation", [cargo("doc", "--workspace", "--no-deps")], environment={"RUSTDOCFLAGS": "-D warnings"}),
    Step("product", "Build of the core, the SDK and the examples", cmake("build", "-DCMAKE_BUILD_TYPE=Release"), builds=True),
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
            cargo("test", "-p", "driveline-capi", "--release", "--test", "loom_turn"),
        ],
        "tests",
        {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": "target/loom"},
    ),
    Step(
        "fuzzers",
        "Fuzzers compile without a lint: a workspace of their own, which no other step looks at",
        [
            ["cargo", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"],
            cargo("clippy", "--manifest-path", "fuzz/Cargo.toml") + ["--", "-D", "warnings"],
        ],
        environment={"RUSTFLAGS": "--cfg fuzzing", "CARGO_TARGET_DIR": "target/fuzzing"},
    ),
    Step(
        "experiments",
        "Every experiment of the evaluation lab, quickly, for function",
        [
            [
                *["cmake", "-S", "peers", "-B", str(STAGES), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DPEERS_MIDDLEWARE=OFF", f"-DPEERS_DIR={STAGES / 'peers'}"],
                # The build of the product has made it.
                f"-DPEERS_DRIVELINE_LIBRARY={TARGET / 'release/libdriveline.so'}",
            ],
            ["cmake", "--build", str(STAGES), "-j", JOBS],
            ["python3", "tools/check_experiments.py", "build/bin/driveline"],
        ],
        "tests",
        {"DRIVELINE_PEERS": str(STAGES / "peers")},
        builds=True,
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
        builds=True,
    ),
    Step("install", "Use from an install prefix, the example in the README, and the program in docs/cpp.md", [["python3", "tools/check_install.py"]]),
    Step(
        "hosts",
        "Topics between hosts, with network namespaces where this user may make them",
        [
            cargo("clippy", "-p", "driveline-gateway-zenoh", "--features", "engine", "--all-targets") + ["--", "-D", "warnings"],
            cargo("test", "-p", "driveline-gateway-zenoh", "--features", "engine"),
        ],
        "tests",
        suite="gateways",
    ),
    Step(
        "hosts-lab",
        "The experiment of the evaluation lab between two hosts, quickly, for function",
        [
            cargo("build", "-p", "driveline-gateway-zenoh", "--features", "engine"),
            cargo("build", "-p", "driveline-cli"),
            cargo("test", "-p", "driveline-bench", "--lib") + ["--", "--ignored"],
            # The gateway is found beside the program.
            ["python3", "tools/check_experiments.py", str(DEBUG / "driveline"), "W10"],
        ],
        "tests",
        suite="gateways",
        as_root=True,
        builds=True,
    ),
    Step(
        "ros2",
        "ROS 2 topics: nodes on Debian's CycloneDDS, nodes and a router of the tests' own as rmw_zenoh has them, and both together",
        [
            cargo("clippy", "-p", "driveline-gateway-ros2", "--features", "engine", "--all-targets") + ["--", "-D", "warnings"],
            cargo("test", "-p", "driveline-gateway-ros2", "--features", "engine"),
        ],
        "tests",
        suite="gateways",
    ),
    Step(
        "ros2-vendors",
        "ROS 2 topics and services with nodes on Fast DDS in C++, on CycloneDDS in Python, and on ros2-client in Rust, which is RustDDS and rmw_zenoh written anew",
        [
            ["python3", "tools/python_packages.py"],
            ["cargo", "fmt", "--manifest-path", f"{ROS2_CLIENT}/Cargo.toml", "--check"],
            # Beside the gateways: Zenoh is nearly the same.
            *(command for release in ("humble", "jazzy") for command in ros2_client(release)),
            cargo("test", "-p", "driveline-gateway-ros2", "--features", "engine,vendors-test", "--test", "vendors", "--test", "ros2_client", "--test", "ros2_client_services"),
        ],
        "tests",
        {"DRIVELINE_ROS2_PYTHON": str(ROOT / "build/python/bin/python"), "DRIVELINE_ROS2_CLIENT": str(ROOT / "build/ros2-client")},
        suite="gateways",
        builds=True,
    ),
    Step(
        "ros2-bridge",
        "The commands of examples/ros2_bridge and ros2_services, and what they say when something is wrong",
        [
            *cmake("build", "-DCMAKE_BUILD_TYPE=Release"),
            cargo("build", "-p", "driveline-gateway-ros2", "--features", "engine"),
            ["python3", "examples/ros2_bridge/tests/check_ros2_bridge.py"],
            ["python3", "examples/ros2_services/tests/check_ros2_services.py"],
        ],
        "tests",
        {"DRIVELINE_ROS2_GATEWAY": str(DEBUG / "driveline-gateway-ros2")},
        suite="gateways",
        builds=True,
    ),
    Step(
        "hosts-long",
        "Outages of about a lease and about a minute, and many restarts, between hosts, for some ten minutes",
        [cargo("test", "-p", "driveline-gateway-zenoh", "--features", "engine", "--test", "outages", "--test", "faults") + ["--", "--ignored", "--nocapture", "--test-threads=1"]],
        "tests",
        suite="by name",
    ),
    Step(
        "two-hosts",
        "The commands of examples/two_hosts, in network namespaces",
        [
            *cmake("build", "-DCMAKE_BUILD_TYPE=Release"),
            cargo("build", "-p", "driveline-gateway-zenoh", "--features", "engine"),
            ["python3", "examples/two_hosts/tests/check_two_hosts.py", "build/bin", "build/lib"],
        ],
        "tests",
        {"DRIVELINE_GATEWAY": str(DEBUG / "driveline-gateway-zenoh")},
        as_root=True,
        suite="gateways",
        builds=True,
    ),
    Step(
        "peers",
        "Other middleware compiles as peers of the evaluation lab, the usual variants (none that loses datagrams) carry a ping-pong, and chains of real work run",
        [
            cargo("build", "-p", "driveline-capi"),
            [
                *["cmake", "-S", "peers", "-B", str(PEERS), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", f"-DPEERS_DIR={PEERS / 'peers'}"],
                f"-DPEERS_DRIVELINE_LIBRARY={DEBUG / 'libdriveline.so'}",
            ],
            ["cmake", "--build", str(PEERS), "-j", JOBS],
            # Beside the gateways: Zenoh is the same, and need not be built twice.
            cargo("build", "--manifest-path", "peers/rust/Cargo.toml", "--target-dir", str(TARGET)),
            ["install", "-t", str(PEERS / "peers"), str(DEBUG / "iceoryx2"), str(DEBUG / "zenoh")],
            cargo("build", "-p", "driveline-cli"),
            cargo("test", "-p", "driveline-bench", "--features", "peers-test", "--test", "conformance", "--test", "chain"),
            cargo("test", "-p", "driveline-cli", "--test", "lab", "torn"),
            # On edges of other middleware, and S7, which takes PCL.
            ["python3", "tools/check_experiments.py", str(DEBUG / "driveline"), "W9", "S7", "B2"],
        ],
        "tests",
        {"DRIVELINE_PEERS": str(PEERS / "peers"), "PEERS_TEST_CHECK": "ping-pong", "PEERS_TEST_USUAL": "1"},
        suite="gateways",
        builds=True,
    ),
    Step(
        "lints",
        "Lints of the peers in Rust, and API documentation of the gateways' engines: what `clippy` and `docs` do not build",
        [
            # Where they were built, so that what they need at build time is there.
            cargo("clippy", "--manifest-path", "peers/rust/Cargo.toml", "--target-dir", str(TARGET), "--all-targets") + ["--", "-D", "warnings"],
            cargo("doc", "-p", "driveline-gateway-zenoh", "-p", "driveline-gateway-ros2", "--features", "driveline-gateway-zenoh/engine,driveline-gateway-ros2/engine", "--no-deps"),
        ],
        environment={"RUSTDOCFLAGS": "-D warnings"},
        suite="gateways",
    ),
    Step(
        "ros2-types",
        "Types and samples of ROS 2 against the Python package rosbags",
        [["python3", "tools/python_packages.py"], cargo("test", "-p", "driveline-rosidl", "--features", "rosbags-test", "--test", "rosbags")],
        "tests",
        {"DRIVELINE_ROSBAGS_PYTHON": str(ROOT / "build/python/bin/python")},
        suite="gateways",
        builds=True,
    ),
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


# What tests say that could not be tested here; they pass, and it is said once more at the end.
SKIPPED = []
# ctest keeps to itself why.
SKIPPED_BY_CTEST = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) .*\*\*\*Skipped")


def skipped(line, command):
    """What a line of the output of a command says about something that could not be tested here, or None."""
    found = SKIPPED_BY_CTEST.match(line)
    if found:
        again = ["ctest", "--test-dir", command[command.index("--test-dir") + 1]] if "--test-dir" in command else ["ctest"]
        return f"SKIPPED: {found[1]}: `{' '.join(again)} -V -R '^{found[1]}$'` says why"
    return line if line.startswith("SKIPPED: ") else None


def run_command(command, environment, failures):
    """Runs one command with its output passed through, and read by `failures`. Returns (exit status, tally)."""
    tally = Tally()
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    ) as process:
        for raw in process.stdout:
            sys.stdout.buffer.write(raw)
            sys.stdout.flush()
            line = raw.decode(errors="replace").rstrip("\r\n")
            tally += count(line)
            failures.feed(line)
            SKIPPED.extend(filter(None, [skipped(line, command)]))
    return process.returncode, tally


def run_step(step, said=None):
    """Runs one step. Returns its tally; what failed in it is added to `said`, as (name, lines of the reason)."""
    print(f"\n=== {step.name}: {step.title}", flush=True)
    if step.as_root and os.geteuid() != 0:
        print(f"--- {step.name}: not run, 1 ignored: only root can be several users", flush=True)
        return Tally(0, 0, 1)
    started, tally, status, named, unnamed = time.monotonic(), Tally(), 0, {}, []
    for command in step.commands:
        failures = Failures()
        try:
            ended, counted = run_command(command, step.environment, failures)
        except FileNotFoundError as e:
            line = f"error: cannot start {command[0]}: {e.strerror}; run `make setup`"
            print(line)
            failures.feed(line)
            ended, counted = 127, Tally()
        tally += counted
        if ended != 0:
            status = status or ended
            named.update(failures.named())
            unnamed += failures.unnamed()
            if step.builds:
                break
    tally = finish(step, status, tally, time.monotonic() - started)
    if said is not None and tally.failed:
        said += [(f"{step.name}: {name}", lines) for name, lines in named.items()] or [(step.name, unnamed)]
    return tally


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


def print_failures(said):
    """Reasons first, and then every name once more: the end of an output is what is seen of it."""
    if any(lines for _, lines in said):
        print("\n=== reasons", flush=True)
    for name, lines in said[:MOST_REASONS]:
        if lines:
            print(f"{name}\n    " + "\n    ".join(lines))
    if said:
        print("\n=== failed", flush=True)
    for name, _ in said:
        print(f"FAILED {name}")


def want_of_room(suite, free):
    """What to tell of a disk with `free` bytes, if a whole suite may not fit there."""
    if free >= ROOM[suite] << 30:
        return None
    return f"{ROOT} has {free / (1 << 30):.1f} GiB free, and a build from nothing takes up to {ROOM[suite]}: make room, or build elsewhere with CARGO_TARGET_DIR"


def main(arguments):
    if arguments == ["--list"]:
        for step in STEPS:
            print(f"{step.name:11} {step.title}" + {"test": "", "gateways": " (make test-gateways)"}.get(step.suite, f" ({step.suite})"))
        return 0
    suite = "gateways" if "--gateways" in arguments else "test"
    arguments = [a for a in arguments if a != "--gateways"]
    chosen = [s for s in STEPS if (s.name in arguments if arguments else s.suite == suite)]
    unknown = set(arguments) - {s.name for s in STEPS}
    if unknown:
        print(f"error: there is no step {', '.join(sorted(unknown))}; `tools/run_tests.py --list` names them", file=sys.stderr)
        return 2
    whole = not arguments and "CARGO_TARGET_DIR" not in os.environ
    trouble = want_of_room(suite, shutil.disk_usage(ROOT).free) if whole else None
    if trouble:
        print(f"warning: {trouble}", file=sys.stderr, flush=True)
    started, total, failed, said = time.monotonic(), Tally(), [], []
    before = leftovers.snapshot()
    for step in chosen:
        tally = run_step(step, said)
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
        said += [(f"leftovers: {line}", []) for line in found]
    print_failures(said)
    seconds = time.monotonic() - started
    for line in dict.fromkeys(SKIPPED):
        print(line)
    left_out = [s.name for s in chosen if s.as_root and os.geteuid() != 0]
    if failed and trouble:
        print(f"warning: {trouble}")
    print(
        f"\nin {seconds // 60:.0f} min {seconds % 60:.0f} s"
        + (f"; not run: {', '.join(left_out)}" if left_out else "")
        + (f"; failed: {', '.join(failed)}" if failed else "")
    )
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
