# SPDX-License-Identifier: Apache-2.0
"""Tests of the laboratory in containers, which test_containers.py runs."""

import csv
import json
import shutil
import subprocess

from container_place import BIN, PATIENCE, ROOT, check, wait
from test_steps import STAGES

SCENARIO = """\
scenario: 1
id: containers
title: Peers in containers
source: a test
question: Do the processes of peers connect in containers?
systems: [driveline, test/loopback, test/shared, test/dies]
cases: {ping-pong: {}}
vary: {size: [1 KiB], deployment: [bare, container, containers, containers_in_pod,
  containers_without_futex_waitv]}
run: {rounds: 1, messages: 5, warm_up: 1}
"""

WATCHED = """\
scenario: 1
id: watched
title: Watched ends in containers
source: a test
question: Does the lab watch the ends, and count the engine's processes apart?
systems: [driveline, test/large]
cases: {stream: {rate_hz: 50, size: 1 KiB}}
vary: {deployment: [bare, container, containers]}
watch_every_ms: 20
run: {rounds: 1, messages: 50, warm_up: 1}
"""

CHAIN = """\
scenario: 1
id: chain
title: Stages of a chain in containers
source: a test
question: Do the stages of a chain connect in containers?
systems: [driveline]
chain:
  stages:
    camera: {output: frames, work: tag_source, parameters: {width: 320, height: 240, channels: 1}}
    vision: {inputs: [frames], work: apriltag}
  edges: {frames: 256 KiB}
cases: {slow: {rate_hz: 20}}
vary: {deployment: [bare, container, containers]}
run: {rounds: 1, messages: 10, warm_up: 2}
"""

MODULES = """\
scenario: 1
id: modules
title: Modules of a graph in containers
source: a test
question: Do the modules of the chain run in containers?
systems: [driveline]
cases:
  one container:
    deployment: container
    workload: &modules {name: chain, parameters: {deployment: process_per_module,
      background_nodes: 8, load: 0.3}}
  a container for each module: {deployment: containers, workload: *modules}
run: {rounds: 1, seconds: 2}
"""

# Beginning of the names of the counters about the container engine.
ENGINE = "container engine: "


def measure(place, text, archive, **environment):
    """Runs a scenario. Returns the output and the experiment in the manifest."""
    scenario = place.directory / "scenario.yaml"
    scenario.write_text(text)
    # A run that the hypervisor disturbs is invalid (exit code 1); its samples are complete, too.
    done = subprocess.run(
        [BIN / "driveline-bench", "run", scenario, "--out", archive],
        env={**place.environment, **environment},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    text = done.stdout + done.stderr
    check(done.returncode in (0, 1) and (archive / "manifest.json").exists(), text)
    return text, json.loads((archive / "manifest.json").read_text())["experiments"][0]


def install_peer(place):
    """Installs the peer `test`. Returns the directory of peers."""
    peers = place.directory / "peers"
    peers.mkdir(exist_ok=True)
    shutil.copy(ROOT / "lab" / "bench" / "tests" / "peer.py", peers / "test")
    return peers


# Name of the counter that may be 0 if no client of the engine runs: then only the supervisors of
# the containers run, which mostly sleep.
WHILE_ENDS_RUN = ENGINE + "processor time while the ends run, ns"


def check_engine(what, counters, has_engine, has_clients=True):
    found = {name: n for name, n in counters.items() if name.startswith(ENGINE)}
    used = [n for name, n in found.items() if has_clients or name != WHILE_ENDS_RUN]
    check(len(found) == (3 if has_engine else 0) and all(used), f"{what}: {counters}")


def runs(archive, experiment):
    """Yields deployment and record of each measured run."""
    for case in experiment["cases"]:
        if case["role"] == "measured":
            path = archive / "runs" / experiment["scenario"]["id"] / case["directory"] / "0.json"
            deployment = case.get("beside", {}).get("deployment", "bare")
            yield deployment, json.loads(path.read_text())


def test_the_laboratory_watches_ends_in_containers(place):
    archive = place.directory / "watched"
    text, experiment = measure(place, WATCHED, archive, DRIVELINE_PEERS=str(install_peer(place)))
    deployments = set()
    for deployment, run in runs(archive, experiment):
        check(run["failure"] is None, f"{deployment}: {run['failure']}")
        check_engine(deployment, run["counters"], deployment != "bare")
        deployments.add(deployment)
    check(deployments == {"bare", "container", "containers"}, f"{deployments}")
    with (archive / "results.csv").open(newline="") as file:
        memory = {
            (row["system"], row["cell"]): float(row["p50"])
            for row in csv.DictReader(file)
            if row["what"] == "resident_memory" and "subscriber" in row["subject"]
        }
    # `test/large` holds 256 MiB; a client of the engine, which must not be watched, far less.
    large = [of for (system, _), of in memory.items() if system == "test/large"]
    check(len(memory) == 6 and len(large) == 3 and min(large) > 256 << 20, f"{memory}")
    for words in ("CPUs in use", "container engine: processor time", "peak memory"):
        check(words in text, text)


def test_the_laboratory_measures_peers_in_containers(place):
    archive = place.directory / "archive"
    text, experiment = measure(place, SCENARIO, archive, DRIVELINE_PEERS=str(install_peer(place)))
    measured = {}
    for case in experiment["cases"]:
        for path in (archive / "runs" / "containers" / case["directory"]).glob("*.json"):
            run = json.loads(path.read_text())
            # One system's process ends too early, on purpose. Its containers must not stay.
            must_fail = case["system"] == "test/dies"
            check(bool(run["failure"]) == must_fail, f"{case['id']}: {run['failure']}")
            has_engine = case.get("beside", {}).get("deployment", "bare") != "bare"
            if not must_fail:
                check_engine(case["id"], run["counters"], has_engine)
            if case["role"] == "measured":
                measured.setdefault(case["system"], set()).add(case["cell"])
    # `test/shared` has sockets in /dev/shm, so it cannot run with a container each, where every
    # container has a private /dev/shm.
    shared = {"bare", "one container", "a container each, in a pod"}
    every = shared | {"a container each"}
    without = {"a container each without futex_waitv"}
    cells = {
        name: {cell.split(" \N{MIDDLE DOT} ")[-1] for cell in found}
        for name, found in measured.items()
    }
    check(cells.pop("test/shared") == shared, f"{cells}")
    check(cells.pop("driveline") == every | without, f"{cells}")
    check(cells == dict.fromkeys(("test/loopback", "test/dies"), every), f"{cells}")
    left_out = [left for left in experiment["left_out"] if left["what"] == "test/shared"]
    check(len(left_out) == 2 and "containers_in_pod" in left_out[0]["reason"], f"{left_out}")
    check("test/shared: its processes need one /dev/shm" in text, text)
    # The engine may still be removing a container that has ended by itself.
    wait(
        lambda: "driveline-bench" not in place.podman("ps", "--all", "--format", "{{.Names}}"),
        "a container stays",
    )


def test_the_laboratory_runs_the_stages_of_chains_in_containers(place):
    stages = STAGES / "peers"
    needed = [stages / "driveline_cpp", stages / "works" / "apriltag.so"]
    if not all(path.exists() for path in needed):
        return f"{stages} has no stages: run `make test ONLY=experiments`"
    archive = place.directory / "chain"
    text, experiment = measure(place, CHAIN, archive, DRIVELINE_PEERS=str(stages))
    deployments = set()
    for deployment, run in runs(archive, experiment):
        check(run["failure"] is None and not run["invalid"], f"{deployment}: {run}")
        check_engine(deployment, run["counters"], deployment != "bare")
        deployments.add(deployment)
    check(deployments == {"bare", "container", "containers"}, f"{deployments}: {text}")


def test_the_laboratory_runs_modules_of_a_graph_in_containers(place):
    archive = place.directory / "modules"
    text, experiment = measure(place, MODULES, archive)
    deployments = set()
    for deployment, run in runs(archive, experiment):
        check(run["failure"] is None and not run["invalid"], f"{deployment}: {run}")
        check(run["counters"]["instances"] > 0, f"{deployment}: {run['counters']}")
        check_engine(deployment, run["counters"], True, has_clients=False)
        deployments.add(deployment)
    check(deployments == {"container", "containers"}, f"{deployments}: {text}")
    with (archive / "results.csv").open(newline="") as file:
        watched = {
            (row["cell"], row["subject"])
            for row in csv.DictReader(file)
            if row["what"] == "resident_memory" and row["role"] == "measured"
        }
    # The results contain the processes of all modules, in both cells. With so few other nodes, no
    # process runs for `map`.
    check(len(watched) == 14, f"{watched}")
    place.check_that_nothing_stays()
