# SPDX-License-Identifier: Apache-2.0
"""Tests of check_experiments.py: no experiment passes without measurements or report."""

import contextlib
import copy
import html
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from check_experiments import main  # noqa: E402

HEAD = "experiment,case,role,cell,system,what,subject,unit,n\n"


def experiment(name, cases, left_out=(), chain=None, reach="host"):
    """Entry of an experiment in the manifest, with the keys that are read."""
    return {
        "scenario": {"id": name, "chain": chain, "link": {"reach": reach}},
        "rounds": 1,
        "cases": cases,
        "left_out": [{"what": what, "reason": reason} for what, reason in left_out],
    }


def case(system, edges=None):
    """A case of a system, or of a chain with the systems of its edges."""
    chain = (
        {"edges": {f"edge{i}": {"system": s, "size": 1} for i, s in enumerate(edges)}}
        if edges
        else None
    )
    return {
        "id": f"cell · {system}",
        "directory": system.replace("/", "_"),
        "role": "floor" if system == "futex" else "measured",
        "system": system,
        "measure": None,
        "chain": chain,
    }


class Archive:
    """Archive that a working program writes; tests remove parts of it."""

    def __init__(self, *experiments):
        self.manifest = {"experiments": list(experiments)}
        self.runs, self.without_samples = {}, set()
        self.summary = {"experiments": []}
        self.sections = {}
        self.rows = []
        for e in experiments:
            name, cases = e["scenario"]["id"], []
            for c in e["cases"]:
                self.runs[name, c["directory"]] = {
                    "round": 0,
                    "failure": None,
                    "invalid": [],
                    "accounts": [{"invalid": []}],
                }
                cases.append(
                    {
                        "id": c["id"],
                        "figures": {"transport": {"n": 20}},
                        "observed": [],
                        "runs": [{"reasons": []}],
                    }
                )
                self.rows.append(f"{name},{c['id']},measured,cell,x,transport,all,ns,20")
            answer = (
                f"{name}: 5 µs < 6 µs.\n  Without load: 4 µs."
                if cases
                else "Nothing can be measured here: see the cells that were left out."
            )
            self.summary["experiments"].append({"id": name, "answer": answer, "cases": cases})
            lines = "".join(f"<p>{html.escape(line.strip())}</p>" for line in answer.splitlines())
            self.sections[name] = f"<div>{lines}</div>" + (
                "<table><tr><td>5</table>" if cases else ""
            )

    def write(self, directory):
        directory.mkdir()
        (directory / "manifest.json").write_text(json.dumps(self.manifest))
        (directory / "summary.json").write_text(json.dumps(self.summary))
        (directory / "results.csv").write_text(HEAD + "\n".join(self.rows) + "\n")
        sections = "".join(
            f'<section id="{name}"><h2>x</h2>{content}</section>'
            for name, content in self.sections.items()
        )
        (directory / "report.html").write_text(
            f"<!doctype html><main>{sections}</main><script>if (1 < 2) {{}}</script>"
        )
        for (name, case_directory), run in self.runs.items():
            of = directory / "runs" / name / case_directory
            of.mkdir(parents=True)
            (of / "0.json").write_text(json.dumps(run))
            if (name, case_directory) not in self.without_samples:
                (of / "0.transport.arrow").touch()


def judged(archive, *ids, status=0, without=()):
    """Returns exit status and output of main for a program that writes this archive."""
    with tempfile.TemporaryDirectory() as directory:
        ready, program = Path(directory) / "ready", Path(directory) / "driveline"
        archive.write(ready)
        for name in without:
            (ready / name).unlink()
        # The last argument is the directory of the archive.
        program.write_text(
            f'#!/bin/sh\nfor out; do :; done\ncp -r "{ready}" "$out"\nexit {status}\n'
        )
        program.chmod(0o755)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            ended = main([str(program), *ids])
        return ended, output.getvalue()


LINK = experiment("S1", [case("driveline"), case("futex"), case("fastdds/shm")])
NO_PEERS = [
    ("cyclonedds/udp", "not installed: make peers"),
    ("driveline", "it needs driveline_cpp, which is not installed: make peers"),
]
EDGES = [
    case("driveline", ["driveline", "driveline"]),
    case("cyclonedds/udp", ["cyclonedds/udp", "driveline"]),
]
CHAIN = experiment("W9", EDGES, chain={"stages": {}})
NO_CHAIN = experiment("W9", [], NO_PEERS, {"stages": {}})
HOSTS = experiment(
    "W10",
    [],
    [("floor", "bare sockets are"), ("1 kB", "it needs the rights of root")],
    reach="network",
)


def without_works(name, *others):
    """Returns an archive of `others` and of the chain `name`, whose runs all lack their work."""
    archive = Archive(*others, experiment(name, EDGES, chain={"stages": {}}))
    for run in (run for (of, _), run in archive.runs.items() if of == name):
        run["failure"] = "the work /w/ndt.so does not exist: `make peers` builds it"
    for case_of_chain in archive.summary["experiments"][-1]["cases"]:
        case_of_chain.update(figures={}, runs=[{"reasons": ["the work is not there"]}])
    archive.rows = [row for row in archive.rows if not row.startswith(f"{name},")]
    return archive


class Experiments(unittest.TestCase):
    def fails(self, archive, word, *ids, **more):
        ended, said = judged(archive, *ids, **more)
        self.assertEqual(ended, 1, said)
        self.assertIn("FAILED", said)
        self.assertIn(word, said)

    def test_measured_and_reported_experiments_pass(self):
        for ids in ([], ["S1", "W9"]):
            ended, said = judged(Archive(LINK, CHAIN), *ids)
            self.assertEqual((ended, said.splitlines()[-1]), (0, "2 passed, 0 failed"), said)
            self.assertNotIn("SKIPPED", said)

    def test_only_runs_that_measure_one_value_leave_no_raw_samples(self):
        for measure in ("start_up", {"at_rest": {"duration_ms": 500}}, "same_thread", None):
            archive = Archive(experiment("basics", [case("driveline") | {"measure": measure}]))
            archive.without_samples = {("basics", "driveline")}
            if measure in ("same_thread", None):
                self.fails(archive, "it left no raw samples")
            else:
                self.assertEqual(judged(archive)[0], 0)

    def test_a_run_that_the_machine_made_invalid_does_not_fail_the_program(self):
        archive = Archive(LINK)
        archive.runs["S1", "driveline"]["invalid"] = [
            "the hypervisor took 9 % of the processor time"
        ]
        archive.summary["experiments"][0]["cases"][0].update(
            figures={}, runs=[{"reasons": ["the hypervisor took"]}]
        )
        self.assertEqual(judged(archive, status=1)[0], 0)
        archive.runs["S1", "driveline"]["invalid"] = ["the account does not close"]
        self.fails(archive, "the account does not close", status=1)

    def test_an_experiment_without_its_requirements_is_skipped_and_not_counted(self):
        ended, said = judged(without_works("S7", LINK, HOSTS), status=1)
        self.assertEqual((ended, said.splitlines()[-1]), (0, "1 passed, 0 failed"), said)
        self.assertIn(
            "\nSKIPPED: S7 (the work /w/ndt.so does not exist: `make peers` builds it)\n", said
        )
        self.assertIn("\nSKIPPED: W10 (1 kB: it needs the rights of root)\n", said)

    def test_chains_whose_stages_or_works_make_test_builds_are_not_excused(self):
        self.fails(Archive(LINK, NO_CHAIN), "it needs driveline_cpp, which is not installed")
        self.fails(without_works("W9", LINK), "the work /w/ndt.so does not exist", status=1)
        # A missing work does not excuse a run that failed for another reason.
        archive = without_works("S7", LINK)
        archive.runs["S7", "cyclonedds_udp"]["failure"] = "a stage died"
        self.fails(archive, "a stage died", status=1)
        self.fails(
            without_works("S7", LINK), "the work /w/ndt.so does not exist", "S1", "S7", status=1
        )

    def test_a_named_experiment_is_not_skipped(self):
        self.fails(Archive(LINK, NO_CHAIN), "nothing of Driveline was measured", "S1", "W9")
        self.fails(Archive(LINK, NO_CHAIN), "which is not installed", "S1", "W9")
        self.fails(Archive(LINK, HOSTS), "it needs the rights of root", "S1", "W10")

    def test_nothing_is_skipped_for_another_reason(self):
        self.fails(
            Archive(LINK, experiment("S2", [case("fastdds/shm")])),
            "nothing of Driveline was measured",
        )
        self.fails(
            Archive(experiment("S2", [], [("driveline", "not installed: x")])),
            "nothing of Driveline was measured",
        )
        broken = [("driveline", "it needs driveline_cpp, which is broken: no answer")]
        self.fails(
            Archive(LINK, experiment("W9", [], broken, {"stages": {}})),
            "nothing of Driveline was measured",
        )
        self.fails(
            Archive(LINK, experiment("W9", [case("futex")], chain={"stages": {}})),
            "nothing of Driveline was measured",
        )

    def test_a_chain_of_which_driveline_carries_a_part_is_judged(self):
        archive = Archive(CHAIN)
        archive.runs["W9", "cyclonedds_udp"]["failure"] = "a stage died"
        self.fails(archive, "a stage died", status=1)
        archive = Archive(LINK)
        archive.runs["S1", "fastdds_shm"]["failure"] = "the publisher died"
        self.assertEqual(judged(archive, status=1)[0], 0)

    def test_each_experiment_is_reported(self):
        whole = Archive(LINK)

        def without(change):
            archive = copy.deepcopy(whole)
            change(archive, archive.summary["experiments"][0])
            return archive

        for word, change in {
            "summary.json does not have it": lambda a, _: a.summary.update(experiments=[]),
            "cell · driveline: summary.json does not have it": lambda _, e: e["cases"].pop(0),
            "summary.json has no answer": lambda _, e: e.update(answer=" "),
            "cell · futex: summary.json has no figures": lambda _, e: e["cases"][1].update(
                figures={"transport": {"n": 0}}
            ),
            "cell · driveline: summary.json has no figures": lambda _, e: e["cases"][0].update(
                figures={}
            ),
            "there are figures, and the answer is": lambda a, e: (
                e.update(answer="No valid run: nothing."),
                a.sections.update(S1="<p>No valid run: nothing.</p><table></table>"),
            ),
            "report.html has no section": lambda a, _: a.sections.clear(),
            "section of report.html lacks the answer": lambda a, _: a.sections.update(
                S1=a.sections["S1"].replace("5 µs &lt;", "7 µs &lt;")
            ),
            "lacks the answer": lambda a, _: a.sections.update(
                S1=a.sections["S1"].replace(
                    "<p>Without load: 4 µs.</p>", "<script>Without load: 4 µs.</script>"
                )
            ),
            "has no table": lambda a, _: a.sections.update(S1=a.sections["S1"].split("<table>")[0]),
            "cell · driveline: results.csv has no distribution": lambda a, _: a.rows.pop(0),
        }.items():
            with self.subTest(word):
                self.fails(without(change), word)

    def test_a_skipped_experiment_is_reported_too(self):
        archive = Archive(LINK, HOSTS)
        del archive.sections["W10"]
        self.fails(archive, "report.html has no section")

    def test_a_missing_file_is_a_failure(self):
        for name in ("report.html", "results.csv", "summary.json"):
            self.fails(Archive(LINK), f"{name} was not written", without=[name])
        ended, said = judged(Archive(LINK), without=["manifest.json"])
        self.assertEqual((ended, said.splitlines()[-1]), (1, "0 passed, 1 failed"))
        self.assertEqual(judged(Archive(LINK), status=2)[0], 1)

    def test_missing_runs_are_failures(self):
        archive = Archive(LINK)
        del archive.runs["S1", "driveline"]
        self.fails(archive, "0 of 1 runs exist")


if __name__ == "__main__":
    unittest.main()
