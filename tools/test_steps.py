# SPDX-License-Identifier: Apache-2.0
"""The steps of `make test`, `make test-gateways` and `make measure`, which `run_tests.py` runs.

A merge into main needs the steps of the suites "test" and "gateways": their verdict does not depend
on how fast the machine is. Steps of the suite "measured" are run on purpose, in several rounds,
before a release. The field `why` of such a step gives the reason why it is a measurement.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 2)
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
# The product under test. It is built unoptimised, like the Rust tests, so that cargo compiles each
# crate once, and in a directory of its own, so that `build` has what `make build` made.
BUILD = "build/tests"
DEBUG = TARGET / "debug"
# Unoptimised peers, which compile fast. `make peers` builds the peers for measurements.
PEERS = ROOT / "build/test-peers"


@dataclass
class Together:
    """Commands that run at the same time, in place of one command.

    The output of each is printed as a whole when it ends.
    """

    commands: list


@dataclass
class Step:
    """Commands that run one after the other, and how to count the tests in their output."""

    name: str
    title: str
    commands: list  # of commands, each a list of words, or of `Together`
    # "check": the step itself is the one test; "tests": counted from its output
    counts: str = "check"
    environment: dict = field(default_factory=dict)
    # Needs root; for other users it counts as ignored.
    as_root: bool = False
    # Runs at the same time as the steps after it, so it must not build in a directory in which they
    # build, except with cargo, which locks it. Its output is printed as a whole when it ends. Such
    # steps run one after the other.
    beside: bool = False
    # Target of make that runs it: "test", "gateways" for test-gateways, "measured" for measure.
    suite: str = "test"
    # Reason why a measured step is not gating.
    why: str = ""
    # Each command makes what the next one needs: a failed command ends the step.
    builds: bool = False

    def rounds(self):
        """Returns its commands as lists; commands of one list run at the same time."""
        return [c.commands if isinstance(c, Together) else [c] for c in self.commands]


def cargo(*arguments):
    return ["cargo", *arguments, "--locked"]


def cmake(build, *options):
    return [
        [
            "cmake",
            "-S",
            ".",
            "-B",
            build,
            "-G",
            "Ninja",
            "-DDRIVELINE_CARGO_PROFILE=dev",
            "-DDRIVELINE_BUILD_TESTS=ON",
            *options,
        ],
        ["cmake", "--build", build, "-j", JOBS],
    ]


def fast_compiler():
    """Returns a name for build directories, and the options of CMake for the fastest compiler.

    clang 16 needs 0.6 to 0.75 of g++'s time. Without it, or without its run-time library for
    sanitizers, g++ compiles. The product and its tests are always compiled with the default
    compiler.
    """
    clang = shutil.which("clang++-16")
    library = "libclang_rt.asan-x86_64.so"
    if clang:
        # Prints the path, or only the name if there is no such file.
        asked = [clang, f"-print-file-name={library}"]
        library = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if not Path(library).is_absolute():
        return "gcc", []
    return "clang", ["-DCMAKE_C_COMPILER=clang-16", "-DCMAKE_CXX_COMPILER=clang++-16"]


COMPILER, COMPILED_WITH = fast_compiler()
# Build of the C++ tests with sanitizers.
SANITIZE = f"build/sanitize/{COMPILER}"
# Driveline's own stages of chains, and the works. They need no other middleware.
STAGES = ROOT / "build/test-stages" / COMPILER


def ctest(build):
    return ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-j", JOBS]


# Test programs of the gateways in which each test measures a duration, for example the silence of a
# topic after an outage of a link, or next to a stopped host.
MEASURED_HOSTS = ("bystanders", "outages", "routers", "slow_links")
# Gating programs. Some of their tests also judge durations if the variable in MEASURE is set.
ALSO_MEASURED = ("found", "tls", "two_hosts")
MEASURE = {"DRIVELINE_MEASURE": "1"}
MEASURED_ROS2 = ("lost_links",)
# A test of the gating program `faults` that only `make measure` runs: it makes 10 000 endpoints.
MEASURED_TEST = "ten_thousand_publishers_that_come_and_go_leave_nothing_behind"
# The longest gating test programs. They start first, so that none of them runs alone at the end.
LONG = ("processes", "coordinated_omission", "cli", "launch", "found", "last_numbers", "loom")
# Test programs that need other middleware.
VENDORS = ("ros2_client", "ros2_client_services", "vendors")
PEERS_TESTS = ("chain", "conformance")
# Experiments with real work on edges of other middleware; in addition S7, which needs PCL.
OF_WORKS = ("W9", "S7", "B2", "B2C")
PEERS_FEATURES = ("--features", "driveline-bench/peers-test,driveline-workloads/peers-test")


def test_programs(crate, but=()):
    """Returns arguments of cargo test that choose the test programs of a crate, except `but`."""
    return [
        word
        for path in sorted((ROOT / "crates" / crate / "tests").glob("*.rs"))
        if path.stem not in but
        for word in ("--test", path.stem)
    ]


def test_options(programs):
    """Returns arguments of cargo test that choose these test programs."""
    return [word for program in programs for word in ("--test", program)]


def directory_of(crate):
    """Returns the directory of a crate: lab/bench for driveline-bench, crates/ for the others."""
    return {"driveline-bench": Path("lab/bench")}.get(crate, Path("crates") / crate)


def measured_files():
    """Returns the files of test programs that only `make measure` runs."""
    measured = {
        "driveline-gateway-zenoh": MEASURED_HOSTS,
        "driveline-gateway-ros2": (*MEASURED_ROS2, *VENDORS),
        "driveline-bench": PEERS_TESTS,
    }
    return {
        directory_of(crate) / "tests" / f"{name}.rs"
        for crate, names in measured.items()
        for name in names
    }


# One experiment of each kind. Kinds differ in the measurement (ping-pong, open loop, several links,
# chain, each workload), in the form of the answer, and in settings of processors. The remaining
# experiments are of the same kinds with other numbers.
EXPERIMENTS = [
    "B1",
    "B2",
    "B3",
    "F",
    "K1",
    "K3",
    "S5",
    "S6",
    "W2",
    "W5",
    "W6",
    "W7",
    "W12",
    "W13",
    "refsys",
]

# The features of a dependency depend on the packages that are built with it. With other features,
# all packages that use it are compiled once more. Commands that share a build directory therefore
# name the same packages, and select only targets.
GATEWAYS = [
    "-p",
    "driveline-zenoh",
    "-p",
    "driveline-gateway-zenoh",
    "-p",
    "driveline-gateway-ros2",
    "--features",
    "driveline-gateway-zenoh/engine,driveline-gateway-ros2/engine",
]
# Builds `driveline`, its library, the laboratory and all Rust tests, unoptimised. Dependencies have
# the features of the tests, so nothing is compiled twice. cmake/Core.cmake and `make
# test-containers` use the same arguments.
WORKSPACE = cargo("build", "--workspace", "--lib", "--bins", "--tests", "--examples")

# Builds the programs of the long campaigns of the fault laboratory.
FAULT_PROGRAMS = cargo(
    "build", "-p", "driveline-cli", "-p", "driveline-runtime", "-p", "driveline-chaos", "--bins"
)


def gateway(test):
    """Builds the gateway that has this test, with the features of its tests."""
    return cargo("test", *GATEWAYS, "--no-run", "--test", test)


# Nodes of ROS 2, a workspace of their own.
ROS2_CLIENT = "crates/driveline-gateway-ros2/tests/peer/ros2_client"


def ros2_client(release):
    """Builds the node on ros2-client: for Jazzy, or without features for Humble."""
    features = ["--no-default-features"] if release == "humble" else []
    return [
        cargo(
            "build",
            "--manifest-path",
            f"{ROS2_CLIENT}/Cargo.toml",
            "--target-dir",
            str(TARGET),
            *features,
        ),
        ["install", "-D", str(DEBUG / "ros2-client-peer"), f"build/ros2-client/{release}"],
    ]


def bench():
    """Builds the program behind `driveline bench` and installs it next to `driveline`."""
    return [WORKSPACE, ["install", "-D", "-t", f"{BUILD}/bin", str(DEBUG / "driveline-bench")]]


def experiments(*ids):
    """Builds the stages of chains and runs experiments with the built product.

    Without ids, all experiments run.
    """
    build = [
        "cmake",
        "-S",
        "lab/peers",
        "-B",
        str(STAGES),
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=None",
        "-DPEERS_MIDDLEWARE=OFF",
        *COMPILED_WITH,
        # The works that use PCL take a minute to compile. Of the experiments, only S7 uses them.
        f"-DPEERS_PCL={'OFF' if ids else 'ON'}",
    ]
    return [
        *bench(),
        # The step `product` has built the library.
        [
            *build,
            f"-DPEERS_DIR={STAGES / 'peers'}",
            f"-DPEERS_DRIVELINE_LIBRARY={DEBUG / 'libdriveline.so'}",
        ],
        ["cmake", "--build", str(STAGES), "-j", JOBS],
        # A run mostly waits, so four parts run at the same time.
        Together(
            [
                ["python3", "tools/check_experiments.py", f"{BUILD}/bin/driveline", *part]
                for part in ([ids[i::4] for i in range(4)] if ids else [[]])
            ]
        ),
    ]


STEPS = [
    Step(
        "tools",
        "Tests of the checks themselves",
        [["python3", "-m", "unittest", "discover", "-s", "tools/tests"]],
        "tests",
    ),
    Step(
        "source",
        "Layers, unsafe quarantine, source rules, links and language of documentation",
        [
            Together(
                [
                    ["python3", "tools/check_source.py"],
                    ["python3", "tools/check_docs.py"],
                    ["python3", "tools/check_language.py"],
                ]
            )
        ],
    ),
    Step("licences", "Licences of all packages", [["python3", "tools/check_licences.py"]]),
    Step(
        "format",
        "Formatting",
        [
            Together(
                [
                    ["cargo", "fmt", "--all", "--check"],
                    [
                        *("cargo", "fmt", "--all", "--check"),
                        *("--manifest-path", "lab/peers/rust/Cargo.toml"),
                    ],
                    ["cargo", "fmt", "--manifest-path", f"{ROS2_CLIENT}/Cargo.toml", "--check"],
                    ["python3", "tools/format_cpp.py", "--check"],
                ]
            )
        ],
    ),
    Step(
        "clippy",
        "Lints",
        [
            cargo("clippy", "--workspace", "--all-targets", "--keep-going")
            + ["--features", "driveline-fuzz/programs", "--", "-D", "warnings"]
        ],
        # Nothing is linked, so libFuzzer need not be compiled.
        environment={"CUSTOM_LIBFUZZER_PATH": str(TARGET / "libFuzzer.a")},
    ),
    Step(
        "docs",
        "API documentation",
        [cargo("doc", "--workspace", "--no-deps")],
        environment={"RUSTDOCFLAGS": "-D warnings"},
    ),
    Step(
        "headers",
        "C++ headers under g++ 12, clang 14 and clang 16 without a warning",
        [["python3", "tools/check_headers.py"]],
    ),
    Step(
        "product",
        "Build of the core, the SDK and the examples",
        cmake(BUILD, "-DCMAKE_BUILD_TYPE=None"),
        builds=True,
    ),
    Step(
        "loom",
        "Models of the lock-free code under every interleaving",
        [
            cargo(
                "test",
                "-p",
                "driveline-shm",
                "-p",
                "driveline",
                "-p",
                "driveline-capi",
                "--release",
                "--no-fail-fast",
                *test_options(("loom", "loom_gate", "loom_turn")),
            )
        ],
        "tests",
        # Optimised because there are millions of interleavings, but without LTO: nothing is
        # measured here.
        {
            "RUSTFLAGS": "--cfg loom",
            "CARGO_TARGET_DIR": "target/loom",
            "CARGO_PROFILE_RELEASE_DEBUG": "false",
            "CARGO_PROFILE_RELEASE_LTO": "off",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        },
        beside=True,
    ),
    Step(
        "privileged",
        "Rust tests with several users, and with namespaces",
        [cargo("test", "--workspace", "--test", "processes") + ["--", "--ignored"]],
        "tests",
        as_root=True,
        beside=True,
    ),
    Step(
        "sanitize",
        "C++ SDK tests under the address and undefined-behaviour sanitizers",
        [
            *cmake(
                SANITIZE,
                *COMPILED_WITH,
                "-DCMAKE_BUILD_TYPE=Debug",
                "-DDRIVELINE_SANITIZE=ON",
                "-DDRIVELINE_BUILD_EXAMPLES=OFF",
            ),
            ctest(SANITIZE),
        ],
        "tests",
        builds=True,
        beside=True,
    ),
    Step(
        "cargo",
        "Rust tests, documentation examples included",
        [cargo("test", "--workspace", "--no-fail-fast")],
        "tests",
    ),
    Step(
        "ctest",
        "C++ tests of the SDK and the examples",
        [ctest(BUILD)],
        "tests",
    ),
    Step(
        "experiments",
        "An experiment of each kind of the evaluation lab, quickly, for function",
        experiments(*EXPERIMENTS),
        "tests",
        {"DRIVELINE_PEERS": str(STAGES / "peers")},
        builds=True,
    ),
    Step(
        "install",
        "Use from an install prefix, the example in the README, and the program in docs/cpp.md",
        [["python3", "tools/check_install.py", BUILD]],
    ),
    Step(
        "hosts",
        "Topics between hosts, with network namespaces where this user may make them, "
        "and tests of both gateways without namespaces",
        [
            cargo("clippy", *GATEWAYS, "--all-targets") + ["--", "-D", "warnings"],
            cargo("test", *GATEWAYS, "--no-run"),
            cargo(
                "test",
                *GATEWAYS,
                "--no-fail-fast",
                "--lib",
                "--bins",
                *test_programs("driveline-gateway-zenoh", but=MEASURED_HOSTS),
            )
            + ["--", "--skip", MEASURED_TEST],
        ],
        "tests",
        suite="gateways",
    ),
    Step(
        "hosts-lab",
        "The experiment of the evaluation lab between two hosts, quickly, for function",
        [
            gateway("report"),
            WORKSPACE,
            cargo("test", "--workspace", "--lib") + ["--", "--ignored"],
            # The program finds the gateway in its own directory.
            ["python3", "tools/check_experiments.py", str(DEBUG / "driveline"), "W10"],
        ],
        "tests",
        suite="gateways",
        as_root=True,
        builds=True,
    ),
    Step(
        "ros2",
        "ROS 2 topics: nodes on Debian's CycloneDDS, nodes and a router that behave like "
        "rmw_zenoh, and both together",
        [
            cargo("test", *GATEWAYS, "--no-run"),
            cargo(
                "test",
                *GATEWAYS,
                "--no-fail-fast",
                *test_programs("driveline-gateway-ros2", but=(*VENDORS, *MEASURED_ROS2)),
            ),
        ],
        "tests",
        suite="gateways",
    ),
    Step(
        "ros2-bridge",
        "The commands of examples/ros2_bridge and ros2_services, and their error texts",
        [
            *cmake(BUILD, "-DCMAKE_BUILD_TYPE=None"),
            gateway("live"),
            ["python3", "examples/ros2_bridge/tests/check_ros2_bridge.py"],
            ["python3", "examples/ros2_services/tests/check_ros2_services.py"],
        ],
        "tests",
        {
            "DRIVELINE_BUILD": str(ROOT / BUILD),
            "DRIVELINE_ROS2_GATEWAY": str(DEBUG / "driveline-gateway-ros2"),
        },
        suite="gateways",
        builds=True,
    ),
    Step(
        "two-hosts",
        "The commands of examples/two_hosts, in network namespaces",
        [
            *cmake(BUILD, "-DCMAKE_BUILD_TYPE=None"),
            gateway("report"),
            [
                "python3",
                "examples/two_hosts/tests/check_two_hosts.py",
                f"{BUILD}/bin",
                f"{BUILD}/lib",
            ],
        ],
        "tests",
        {"DRIVELINE_GATEWAY": str(DEBUG / "driveline-gateway-zenoh")},
        as_root=True,
        suite="gateways",
        builds=True,
    ),
    Step(
        "lints",
        "API documentation of the gateways' engines, which `docs` does not build",
        [cargo("doc", *GATEWAYS, "--no-deps")],
        environment={"RUSTDOCFLAGS": "-D warnings"},
        suite="gateways",
    ),
    Step(
        "ros2-types",
        "Types and samples of ROS 2 against the Python package rosbags",
        [
            ["python3", "tools/python_packages.py"],
            cargo(
                "test",
                "--workspace",
                "--features",
                "driveline-rosidl/rosbags-test",
                "--test",
                "rosbags",
            ),
        ],
        "tests",
        {"DRIVELINE_ROSBAGS_PYTHON": str(ROOT / "build/python/bin/python")},
        suite="gateways",
        builds=True,
    ),
    # Measured: `make measure`.
    Step(
        "hosts-links",
        "Topics between hosts after outages of links, next to stopped hosts, through routers, "
        "and on slow links",
        [
            cargo("test", *GATEWAYS, "--no-run", *test_options((*MEASURED_HOSTS, *ALSO_MEASURED))),
            cargo(
                "test",
                *GATEWAYS,
                "--no-fail-fast",
                *test_options((*MEASURED_HOSTS, *ALSO_MEASURED)),
            ),
        ],
        "tests",
        MEASURE,
        suite="measured",
        why="recoveries within 2 s, gaps next to a silent host, ages on slow links: "
        "durations on real sockets",
    ),
    Step(
        "hosts-long",
        "Outages of about a lease and about a minute, many restarts, and 10 000 endpoints "
        "between hosts, for some ten minutes",
        [
            cargo("test", *GATEWAYS, "--test", "outages")
            + ["--", "--ignored", "--nocapture", "--test-threads=1"],
            cargo("test", *GATEWAYS, "--test", "faults")
            + ["--", "--include-ignored", "--nocapture", "--test-threads=1"],
        ],
        "tests",
        MEASURE,
        suite="measured",
        why="minutes of outages and of endpoints that come and go, judged in seconds and bytes",
    ),
    Step(
        "hosts-world",
        "The protocol between hosts in virtual time, a thousand seeds of ten minutes",
        [
            cargo("test", "-p", "driveline-gateway-zenoh", "--release", "--lib")
            + ["--", "protocol_world"]
        ],
        "tests",
        # Optimised, because there are many events, but without LTO. With one codegen unit, as the
        # release profile sets it, a seed takes half of the time that it takes with sixteen units.
        {"DRIVELINE_SEEDS": "1000", "CARGO_PROFILE_RELEASE_LTO": "off"},
        suite="measured",
        why="the same as in `make test` with more seeds, which find rarer faults",
    ),
    Step(
        "hosts-many",
        "Eight hosts with 1000 topics, a stopped host, and a camera over a link that is too slow",
        [
            cargo("bench", "-p", "driveline-gateway-zenoh", "--features", "engine", "--bench", name)
            for name in ("many_hosts", "stalled_host", "slow_link")
        ],
        as_root=True,
        suite="measured",
        why="times until all hosts have found each other, percentiles of ages, processor shares",
    ),
    Step(
        "ros2-links",
        "Topics to nodes on rmw_zenoh after links were silent for up to a minute",
        [cargo("test", *GATEWAYS, "--no-fail-fast", *test_options(MEASURED_ROS2))],
        "tests",
        suite="measured",
        why="recoveries after outages of up to a minute: durations on real sockets",
    ),
    Step(
        "ros2-vendors",
        "ROS 2 topics and services with nodes on Fast DDS in C++, on CycloneDDS in Python, and on "
        "ros2-client in Rust, which has its own implementations of DDS (RustDDS) and rmw_zenoh",
        [
            ["python3", "tools/python_packages.py"],
            # In the build directory of the gateways, which share nearly all of Zenoh.
            *(command for release in ("humble", "jazzy") for command in ros2_client(release)),
            cargo(
                "test",
                *GATEWAYS,
                "--features",
                "driveline-gateway-ros2/vendors-test",
                "--no-fail-fast",
                *test_options(VENDORS),
            ),
        ],
        "tests",
        {
            "DRIVELINE_ROS2_PYTHON": str(ROOT / "build/python/bin/python"),
            "DRIVELINE_ROS2_CLIENT": str(ROOT / "build/ros2-client"),
        },
        suite="measured",
        why="other middleware with timers of its own: Driveline does not control the durations",
        builds=True,
    ),
    Step(
        "peers",
        "Other middleware compiles as peers of the evaluation lab, the usual variants carry a "
        "ping-pong, and chains of real work run",
        [
            WORKSPACE,
            [
                *[
                    "cmake",
                    "-S",
                    "lab/peers",
                    "-B",
                    str(PEERS),
                    "-G",
                    "Ninja",
                    "-DCMAKE_BUILD_TYPE=Debug",
                    f"-DPEERS_DIR={PEERS / 'peers'}",
                ],
                f"-DPEERS_DRIVELINE_LIBRARY={DEBUG / 'libdriveline.so'}",
            ],
            ["cmake", "--build", str(PEERS), "-j", JOBS],
            # In the build directory of the gateways, so that Zenoh is not built twice.
            cargo(
                "build", "--manifest-path", "lab/peers/rust/Cargo.toml", "--target-dir", str(TARGET)
            ),
            ["install", "-t", str(PEERS / "peers"), str(DEBUG / "iceoryx2"), str(DEBUG / "zenoh")],
            cargo(
                "test",
                "--workspace",
                *PEERS_FEATURES,
                "--no-fail-fast",
                *test_options((*PEERS_TESTS, "chain_of_peers", "fusion_of_peers")),
            ),
            cargo("test", "--workspace", "--test", "screen", "torn"),
            # In the same build directory, which has what their build scripts need.
            cargo(
                "clippy",
                "--manifest-path",
                "lab/peers/rust/Cargo.toml",
                "--target-dir",
                str(TARGET),
                "--all-targets",
            )
            + ["--", "-D", "warnings"],
            ["python3", "tools/check_experiments.py", str(DEBUG / "driveline"), *OF_WORKS],
        ],
        "tests",
        {
            "DRIVELINE_PEERS": str(PEERS / "peers"),
            "PEERS_TEST_CHECK": "ping-pong",
            "PEERS_TEST_USUAL": "1",
        },
        suite="measured",
        why="other middleware with losses and delays of its own, and minutes of compiling it",
        builds=True,
    ),
    Step(
        "experiments-all",
        "Every experiment of the evaluation lab, quickly, for function",
        [*cmake(BUILD, "-DCMAKE_BUILD_TYPE=None"), *experiments()],
        "tests",
        {"DRIVELINE_PEERS": str(STAGES / "peers")},
        suite="measured",
        why="the kinds of `make test` with all their numbers",
        builds=True,
    ),
    Step(
        "worst-case",
        "Driveline, iceoryx2 and the floor under a mixed load, plain and with real-time priority "
        "and locked memory, ten minutes a cell",
        [["python3", "tools/worst_case.py"]],
        as_root=True,
        suite="measured",
        why="percentiles and maxima under load, for an hour; "
        "needs `make lab`, `make peers` and stress-ng",
    ),
    Step(
        "kills",
        "Ten thousand kills on the host transport, next to 1 to 16 readers and several publishers, "
        "at any moment and at each step of the protocol",
        [
            cargo("test", "--workspace", "--test", "processes")
            + ["--", "kill_campaign", "--nocapture"]
        ],
        "tests",
        {"DRIVELINE_KILLS": "10000"},
        suite="measured",
        why="the same as in `make test` with its 24 kills; more kills find rarer faults",
    ),
    Step(
        "faults",
        "A small vehicle graph with every fault of the laboratory, one every few seconds, "
        "for about an hour",
        [FAULT_PROGRAMS, ["python3", "tools/measure_faults.py", "long", "30"]],
        suite="measured",
        why="an hour of faults; compares descriptors, segments, memory and files before and after",
        builds=True,
    ),
    Step(
        "false-alarms",
        "The same graph for an hour under `stress-ng --cpu 4`, held by a debugger, and suspended "
        "for a minute: no restart",
        [FAULT_PROGRAMS, ["python3", "tools/measure_faults.py", "calm", "3600", "60"]],
        suite="measured",
        why="an hour; an overloaded or stopped module must not be taken for a broken one",
        builds=True,
    ),
    Step(
        "soak",
        "Hostile memory and sockets, stopped processes and torn samples of the host transport, "
        "for a minute each and 10 000 corruptions per field",
        [
            cargo("test", "--workspace", "--test", "processes")
            + ["--", "hostile_", "stopped::", "torn::"]
        ],
        "tests",
        {"DRIVELINE_SOAK": "60", "DRIVELINE_CORRUPTIONS": "10000"},
        suite="measured",
        why="the same as in `make test`, where each takes seconds; longer runs find rarer faults",
    ),
]
