#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the experiments of the laboratory quickly and checks that they work. Speed is not judged.

Usage: check_experiments.py PROGRAM [ID...]
       PROGRAM is the built `driveline`; without ids, all experiments run

An experiment passes if
- it can be planned, and every case of Driveline runs to its end with an account that closes (each
  published sample is in exactly one count);
- summary.json has figures of each such case and an answer;
- report.html has a section with that answer, and results.csv has distributions.

Chains run in Driveline's own stages, which are found in the same places as peers. Other middleware
takes part if it is installed. Its results are not judged here (`make peers-test` does that), except
in chains of which Driveline carries a part.

If all experiments run, two kinds may be SKIPPED, which is printed: S7 if its works were built
without PCL (1.6 GB, which `make test` does not install), and experiments with two hosts, which need
`make gateways` and root. An experiment named on the command line may not be skipped.

Prints "N passed, M failed"; each experiment counts as one.
"""

import csv
import json
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

from usage import answer_help

# Complaints with these beginnings are caused by a busy machine, not by the program.
OF_THE_MACHINE = ("the hypervisor took",)
# Systems that are judged: Driveline and the floors of the machine.
OWN = ("driveline", "futex", "spin", "memcpy")
# Chains whose works need more than `make test` installs.
OPTIONAL_WORKS = ("S7",)
WORK_MISSING = re.compile(r"the work \S+ does not exist: ")
# Measurements of one value per run, which is in the run's file and not in raw samples.
WITHOUT_SAMPLES = ("at_rest", "start_up")
# Beginnings of answers of an experiment without figures.
NO_ANSWER = (
    "Nothing can be measured here",
    "Not run yet",
    "Only floors were measured",
    "No valid run",
)


def complaints(run):
    """Returns why a run is invalid, without reasons that the machine caused."""
    said = [run["failure"]] if run["failure"] else []
    said += run["invalid"]
    for account in run["accounts"]:
        said += account["invalid"]
    return [s for s in said if not s.startswith(OF_THE_MACHINE)]


def is_own(case):
    """Returns true if Driveline, or a floor, has a part in a case."""
    edges = (case.get("chain") or {"edges": {}})["edges"].values()
    return case["system"] in OWN or any(edge["system"] == "driveline" for edge in edges)


def has_samples(case):
    """Returns true if a run of a case leaves raw samples."""
    # A name, an object with the name as its only key, or null if latencies are measured.
    measure = case.get("measure") or ""
    return not any(name in measure for name in WITHOUT_SAMPLES)


def excuse(archive, experiment):
    """Returns the reason why an experiment may be SKIPPED here; None if it may not."""
    scenario, left_out = experiment["scenario"], experiment["left_out"]
    if scenario["id"] in OPTIONAL_WORKS:
        failures = [
            json.loads(path.read_text())["failure"]
            for path in sorted((archive / "runs" / scenario["id"]).glob("*/*.json"))
        ]
        return (
            failures[0]
            if failures and all(failure and WORK_MISSING.search(failure) for failure in failures)
            else None
        )
    if any(is_own(c) and c["role"] == "measured" for c in experiment["cases"]):
        return None
    if not scenario["chain"] and scenario["link"]["reach"] == "network":
        return next(
            (f"{left['what']}: {left['reason']}" for left in left_out if left["what"] != "floor"),
            None,
        )
    return None


def check(archive, experiment):
    """Returns the problems of an experiment."""
    name = experiment["scenario"]["id"]
    wrong = []
    own = [c for c in experiment["cases"] if is_own(c)]
    if not any(c["role"] == "measured" for c in own):
        wrong.append("nothing of Driveline was measured")
        wrong += [f"left out: {left['what']}: {left['reason']}" for left in experiment["left_out"]]
    for case in own:
        directory = archive / "runs" / name / case["directory"]
        runs = sorted(directory.glob("*.json"))
        if len(runs) != experiment["rounds"]:
            wrong.append(f"{case['id']}: {len(runs)} of {experiment['rounds']} runs exist")
        for path in runs:
            run = json.loads(path.read_text())
            wrong += [f"{case['id']}: {c}" for c in complaints(run)]
            raw = list(directory.glob(f"{run['round']}.*.arrow"))
            if not raw and not run["failure"] and has_samples(case):
                wrong.append(f"{case['id']}: it left no raw samples")
    return wrong


class Sections(HTMLParser):
    """Text and number of tables of each section of a page, by the section's id."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.tables = {}, {}
        self._inside, self._script = None, False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._script = tag == "script"
        if tag == "section":
            self._inside = dict(attrs).get("id")
            self.texts[self._inside], self.tables[self._inside] = "", 0
        elif tag == "table" and self._inside is not None:
            self.tables[self._inside] += 1
        elif tag == "p" and self._inside is not None:
            self.texts[self._inside] += "\n"

    def handle_endtag(self, tag):
        self._script = False
        if tag == "section":
            self._inside = None

    def handle_data(self, data):
        if self._inside is not None and not self._script:
            self.texts[self._inside] += data


def words(text):
    """Returns a text with each run of white space replaced by one blank."""
    return " ".join(text.split())


class Reports:
    """The reports of an archive: summary.json, report.html and results.csv."""

    def __init__(self, archive):
        self.summary = {
            e["id"]: e for e in json.loads((archive / "summary.json").read_text())["experiments"]
        }
        self.sections = Sections((archive / "report.html").read_text())
        with open(archive / "results.csv", newline="") as file:
            self.distributions = {
                (row["experiment"], row["case"])
                for row in csv.DictReader(file)
                if row["n"] not in ("", "0")
            }

    def lacks(self, experiment):
        """Returns the missing parts of an experiment's report."""
        name = experiment["scenario"]["id"]
        of, section = self.summary.get(name), self.sections.texts.get(name)
        wrong = [] if of else ["summary.json does not have it"]
        wrong += [] if section is not None else ["report.html has no section of it"]
        if wrong:
            return wrong
        if not of["answer"].strip():
            wrong.append("summary.json has no answer")
        elif words(of["answer"]) not in words(section):
            wrong.append("its section of report.html lacks the answer of summary.json")
        own = {c["id"]: c["role"] for c in experiment["cases"] if is_own(c)}
        counts = False
        for case in (c for c in of["cases"] if c["id"] in own):
            if not any(not run["reasons"] for run in case["runs"]):
                continue
            counts = counts or own[case["id"]] == "measured"
            figures = [*case["figures"].values(), *(o["figure"] for o in case["observed"])]
            if not any(figure["n"] > 0 for figure in figures):
                wrong.append(f"{case['id']}: summary.json has no figures of it")
            if (name, case["id"]) not in self.distributions:
                wrong.append(f"{case['id']}: results.csv has no distribution of it")
        wrong += [
            f"{missing}: summary.json does not have it"
            for missing in own.keys() - {c["id"] for c in of["cases"]}
        ]
        if counts and of["answer"].startswith(NO_ANSWER):
            wrong.append(f"there are figures, and the answer is: {of['answer']}")
        if counts and not self.sections.tables[name]:
            wrong.append("its section of report.html has no table")
        return wrong


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    program, ids = arguments[0], arguments[1:] or ["all"]
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory) / "archive"
        command = [program, "bench", "run", *ids, "--quick", "--rounds", "1", "--out", str(archive)]
        # Status 1: some runs are invalid. The checks below find them.
        status = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        if status not in (0, 1) or not (archive / "manifest.json").is_file():
            print(f"error: `{' '.join(command)}` ended with {status}")
            print("0 passed, 1 failed")
            return 1
        passed = failed = 0
        for written in ("report.html", "results.csv", "summary.json"):
            if not (archive / written).is_file():
                print(f"FAILED {written} was not written")
                failed += 1
        reports = None if failed else Reports(archive)
        for experiment in json.loads((archive / "manifest.json").read_text())["experiments"]:
            name = experiment["scenario"]["id"]
            wrong = reports.lacks(experiment) if reports else []
            reason = excuse(archive, experiment) if ids == ["all"] else None
            if reason and not wrong:
                print(f"SKIPPED: {name} ({reason})")
                continue
            wrong += check(archive, experiment)
            print(
                f"{'FAILED' if wrong else 'ok    '} {name}", *wrong, sep="\n    " if wrong else " "
            )
            failed, passed = failed + bool(wrong), passed + (not wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
