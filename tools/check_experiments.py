#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every experiment that comes with the program, quickly: whether it works, never how fast.

Usage: check_experiments.py PROGRAM [ID...]    PROGRAM is the built `driveline`; without ids, all experiments.

Each experiment must plan, run every case of Driveline to its end with an account that closes, and be told in the report. Other
middleware takes part if it is installed; what happens to it is not judged here (`make peers-test` does). Of all experiments, one between
hosts may be left out, for it needs `make gateways` and root; one that is named may not.
Prints "N passed, M failed", an experiment each.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# What a busy machine does to a run says nothing about the program.
OF_THE_MACHINE = ("the hypervisor took",)


def complaints(run):
    """Why a run does not count, but for what the machine did to it."""
    said = [run["failure"]] if run["failure"] else []
    said += run["invalid"]
    for account in run["accounts"]:
        said += account["invalid"]
    return [s for s in said if not s.startswith(OF_THE_MACHINE)]


def check(archive, experiment, may_be_left_out):
    """What is wrong with an experiment."""
    name = experiment["scenario"]["id"]
    wrong = []
    own = [c for c in experiment["cases"] if c["system"] in ("driveline", "futex", "spin")]
    # Chains run in programs that `make peers` builds.
    elsewhere = experiment["scenario"]["chain"] or (may_be_left_out and experiment["scenario"]["link"]["reach"] == "network")
    if not any(c["role"] == "measured" for c in own) and not elsewhere:
        wrong.append("nothing of Driveline was measured")
    for case in own:
        directory = archive / "runs" / name / case["directory"]
        runs = sorted(directory.glob("*.json"))
        if len(runs) != experiment["rounds"]:
            wrong.append(f"{case['id']}: {len(runs)} of {experiment['rounds']} runs are there")
        for path in runs:
            run = json.loads(path.read_text())
            wrong += [f"{case['id']}: {c}" for c in complaints(run)]
            raw = list(directory.glob(f"{run['round']}.*.arrow"))
            if not raw and not run["failure"]:
                wrong.append(f"{case['id']}: it left no raw samples")
    return wrong


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    program, ids = arguments[0], arguments[1:] or ["all"]
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory) / "archive"
        command = [program, "bench", "run", *ids, "--quick", "--rounds", "1", "--out", str(archive)]
        # 1: some runs are invalid, which is looked at below.
        status = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        if status not in (0, 1) or not (archive / "manifest.json").is_file():
            print(f"error: `{' '.join(command)}` ended with {status}")
            print("0 passed, 1 failed")
            return 1
        passed = failed = 0
        for experiment in json.loads((archive / "manifest.json").read_text())["experiments"]:
            wrong = check(archive, experiment, ids == ["all"])
            name = experiment["scenario"]["id"]
            print(f"{'FAILED' if wrong else 'ok    '} {name}", *wrong, sep="\n    " if wrong else " ")
            failed, passed = failed + bool(wrong), passed + (not wrong)
        for left in ("report.html", "results.csv", "summary.json"):
            if not (archive / left).is_file():
                print(f"FAILED {left} was not written")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
