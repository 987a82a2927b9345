#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the worst case of a link under a mixed load.

Compares the floor, Driveline and iceoryx2, plain and with FIFO priority and locked memory.

Usage: worst_case.py                 takes ten minutes a cell, about an hour
       worst_case.py --quick         takes seconds, for function only
       worst_case.py --system NAME   only the floor and this system; repeat it for several
       worst_case.py --resume        continue a measurement that was interrupted
       worst_case.py --driveline PATH --out DIRECTORY

Runs lab/benchmarks/worst-case.yaml next to `stress-ng`, and prints p99.9 (with its ratio to the
floor of the same priority), p99.99 and the maximum. Needs root, `make lab`, `make peers` for
iceoryx2, and stress-ng.
Exit codes: 0 measured, 1 a measurement failed or a setting was refused, 2 something is missing.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "lab/benchmarks/worst-case.yaml"
# Kinds of load, with the number of processes of each per core.
LOAD = {
    "cpu": 0.5,
    "vm": 0.25,
    "cache": 0.25,
    "switch": 0.25,
    "timer": 0.25,
    "sock": 0.25,
    "fork": 0.25,
    "pipe": 0.25,
}
VM_BYTES = "128M"
# Time that the processes of the load have to end.
END_SECONDS = 10


def load_command(cores):
    words = ["stress-ng", "--quiet"]
    for kind, share in LOAD.items():
        words += [f"--{kind}", str(max(1, round(cores * share)))]
    return [*words, "--vm-bytes", VM_BYTES]


def missing(driveline, systems):
    if shutil.which("stress-ng") is None:
        return "stress-ng is not installed: `apt-get install stress-ng`"
    if os.geteuid() != 0:
        return "real-time priorities need root: run it with sudo"
    if not driveline.exists():
        return f"{driveline} does not exist: run `make lab`"
    if "iceoryx2/ipc" in systems:
        usual = driveline.parent / "peers", driveline.parent.parent / "peers"
        places = [Path(os.environ["DRIVELINE_PEERS"])] if "DRIVELINE_PEERS" in os.environ else usual
        if not any((place / "iceoryx2").exists() for place in places):
            return "iceoryx2 is not built: run `make peers`, or measure only `--system driveline`"
    return None


def end(load):
    """Ends the load with all its processes, which form a process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(load.pid, number)
            load.wait(END_SECONDS)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def rows(results):
    """Yields (system, has real-time priority, row) for transport times of cells and floors."""
    for row in csv.DictReader(results):
        if row["what"] == "transport" and row["subject"] == "all" and row["role"] != "control":
            floor = row["case"].startswith("floor: ") and "memcpy" not in row["case"]
            if floor or not row["case"].startswith("floor: "):
                real_time = "FIFO" in row["case"]
                yield ("floor" if floor else row["system"]), real_time, row


def microseconds(text):
    return float(text) / 1000 if text else None


def shown(value):
    return "–" if value is None else f"{value:.1f}"


def table(results):
    """Returns a Markdown table with a line for each system, plain ones first."""
    found = list(rows(results))
    floors = {
        real_time: microseconds(row["p99_9"])
        for system, real_time, row in found
        if system == "floor"
    }
    lines = [
        "| settings | system | samples | p99.9 µs | ratio to the floor | p99.99 µs | max µs |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for system, real_time, row in sorted(found, key=lambda f: (f[1], f[0] != "floor", f[0])):
        p999, floor = microseconds(row["p99_9"]), floors.get(real_time)
        ratio = f"{p999 / floor:.2f}" if p999 and floor else "–"
        settings = "FIFO, locked" if real_time else "plain"
        p9999, worst = microseconds(row["p99_99"]), microseconds(row["max"])
        lines.append(
            f"| {settings} | {system} | {row['n']} | {shown(p999)} | {ratio} "
            f"| {shown(p9999)} | {shown(worst)} |"
        )
    return "\n".join(lines)


def not_applied(summary):
    """Returns a line for each setting that the system refused in some runs of a case."""
    lines = {}
    for case in summary["experiments"][0]["cases"]:
        for text in sorted({text for run in case["runs"] for text in run["unset"]}):
            lines.setdefault(text, []).append(case["id"])
    return [f"NOT APPLIED in {len(cases)} cases: {text}" for text, cases in lines.items()]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="seconds, for function only")
    parser.add_argument("--resume", action="store_true", help="continue the measurement in --out")
    parser.add_argument("--system", action="append", help="only the floor and this system")
    parser.add_argument("--driveline", type=Path, default=ROOT / "build/bin/driveline")
    parser.add_argument("--out", type=Path, default=ROOT / "build/worst-case")
    o = parser.parse_args()
    systems = o.system or ["driveline", "iceoryx2/ipc"]
    if reason := missing(o.driveline, systems):
        print(f"worst_case.py: {reason}", file=sys.stderr)
        return 2
    command = [str(o.driveline), "bench", "run"]
    if o.resume:
        command += ["--resume", str(o.out)]
    else:
        shutil.rmtree(o.out, ignore_errors=True)
        command += [str(SCENARIO), "--out", str(o.out), "--systems", ",".join(systems)]
        command += ["--quick"] if o.quick else []
    load = subprocess.Popen(load_command(os.cpu_count() or 1), start_new_session=True)
    try:
        measured = subprocess.run(command).returncode
        loaded = load.poll() is None
    finally:
        end(load)
    if not loaded:
        print(
            f"worst_case.py: the load ended early, with code {load.returncode}: "
            "run `stress-ng` alone to see why",
            file=sys.stderr,
        )
        return 1
    results = o.out / "results.csv"
    if not results.exists():
        print(f"worst_case.py: `{' '.join(command)}` has not written {results}", file=sys.stderr)
        return 1
    with results.open() as file:
        text = table(file)
    refused = not_applied(json.loads((o.out / "summary.json").read_text()))
    text = "\n".join([text, *refused])
    (o.out / "worst-case.md").write_text(text + "\n")
    print(text)
    return 1 if measured or refused else 0


if __name__ == "__main__":
    sys.exit(main())
