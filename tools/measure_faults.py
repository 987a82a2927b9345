#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Long campaigns of the fault laboratory, for `make measure`.

Usage: measure_faults.py long TIMES
         causes every fault that lab/chaos/graphs/vehicle.yaml can get, except the end of the
         launcher, TIMES each
       measure_faults.py calm SECONDS STOPPED
         runs the same graph under `stress-ng --cpu 4` for SECONDS, with a debugger attached to a
         module, then suspends the run, and each module alone, for STOPPED seconds: no restart may
         happen

Prints the faults, and descriptors, segments, memory and files before and after. Exit status 1 if an
invariant is broken. Reports go to build/measured/faults. Uses the programs of
`cargo build -p driveline-cli -p driveline-runtime -p driveline-chaos --bins`.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from test_steps import DEBUG, ROOT
from usage import answer_help

GRAPH = ROOT / "lab/chaos/graphs/vehicle.yaml"
REPORTS = ROOT / "build/measured/faults"
# Modules for which the graph declares the limits that the faults `memory` and `descriptors` need.
LIMITED = ("lane", "detector")
STRESS = ["stress-ng", "--cpu", "4", "--quiet"]
# Time for which a debugger holds a module.
HELD_S = 10
STARTED = re.compile(r"module '(\w+)' started as process (\d+)")


def chaos(directory, *arguments):
    """Starts a campaign and returns its process."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    words = [DEBUG / "driveline-chaos", GRAPH, "--json", "--report", directory, *arguments]
    host = {"DRIVELINE_HOST": str(DEBUG / "driveline-test-host"), "PATH": "/usr/bin:/bin"}
    return subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, text=True, env=host)


def finish(process):
    """Prints the figures of a campaign and returns its exit status."""
    text, _ = process.communicate()
    report = json.loads(text)
    print(
        f"{report['duration_s']:.0f} s, caused: {report['caused']}, restarts: {report['restarts']}"
    )
    for finding in report["invariants"]:
        print(f"  {finding['count']:6} {finding['invariant']}", *finding["details"][:5])
    for run in report["runs"]:
        for name, before in run["before"]["processes"].items():
            after = run["after"]["processes"].get(name, {})
            kept = (
                f"{key} {before[key]} -> {after.get(key)}"
                for key in ("descriptors", "segments", "anonymous_kib")
            )
            print(f"  {name}: {', '.join(kept)}")
            kinds = [census.get("kinds", {}) for census in (before, after)]
            for kind in sorted(set().union(*kinds)):
                counts = [of.get(kind, 0) for of in kinds]
                if counts[1] > counts[0]:
                    print(f"    {kind}: {counts[0]} -> {counts[1]}")
        print(f"  files {run['before']['files']} -> {run['after']['files']}")
    return process.returncode


def long(times):
    faults = [
        "--kill",
        "all",
        "--stop",
        "all",
        "--hang",
        "all",
        "--exception",
        "all",
        "--directory",
        "--suspend",
    ]
    for module in LIMITED:
        faults += ["--memory", module, "--descriptors", module]
    return finish(
        chaos(
            REPORTS / "long", *faults, "--times", times, "--pause", "1.2..3", "--stopped", "0.1..3"
        )
    )


def process_of(directory, module):
    """Waits until all modules run. Returns the first process of `module`, from the run's output."""
    output = directory / "run-1/output.txt"
    while True:
        text = output.read_text() if output.exists() else ""
        if "all modules are ready" in text:
            return next(int(pid) for name, pid in STARTED.findall(text) if name == module)
        time.sleep(0.1)


def calm(seconds, stopped):
    directory = REPORTS / "calm"
    missing = [name for name in ("stress-ng", "gdb") if not shutil.which(name)]
    if missing:
        print(
            f"{' and '.join(missing)} missing: apt-get install {' '.join(missing)}", file=sys.stderr
        )
        return 2
    stress = subprocess.Popen(STRESS)
    try:
        faults = ["--suspend", "--stop", "all", "--times", "1"]
        campaign = chaos(directory, *faults, "--quiet", seconds, "--stopped", stopped)
        pid = process_of(directory, "lane")
        debugger = [
            "gdb",
            "-p",
            str(pid),
            "-batch",
            "-nx",
            "-ex",
            f"shell sleep {HELD_S}",
            "-ex",
            "detach",
        ]
        held = subprocess.run(
            debugger, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
        print(f"a debugger held module 'lane' for {HELD_S} s (exit status {held.returncode})")
        return finish(campaign)
    finally:
        stress.terminate()
        stress.wait()


def main(arguments):
    match arguments:
        case ["long", times]:
            return long(times)
        case ["calm", seconds, stopped]:
            return calm(seconds, stopped)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
