# SPDX-License-Identifier: Apache-2.0
"""Tests of run_tests.py: a failure is never reported as a success."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import leftovers  # noqa: E402
from run_tests import (  # noqa: E402
    ROOM,
    STEPS,
    Step,
    Tally,
    count,
    lack_of_space,
    main,
    run_step,
    skipped,
)
from test_steps import ALSO_MEASURED, EXPERIMENTS, ROOT, Together, measured_files  # noqa: E402


def shell(script, counts="tests"):
    """Runs a step of one shell script and discards its output."""
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        return run_step(Step("x", "x", [["sh", "-c", script]], counts))


class Counting(unittest.TestCase):
    def test_lines_of_every_tool(self):
        for line, expected in {
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; "
            "finished in 0.1s": Tally(12, 0, 1),
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured": Tally(3, 2, 0),
            "100% tests passed, 0 tests failed out of 7": Tally(7, 0),
            "71% tests passed, 2 tests failed out of 7": Tally(5, 2),
            "Ran 1 test in 0.1s": Tally(1),
            "Ran 18 tests in 0.2s": Tally(18),
            "FAILED (failures=2, errors=1, skipped=4)": Tally(-3, 3),
            "running 5 tests": Tally(),
        }.items():
            self.assertEqual(count(line), expected, line)


class Steps(unittest.TestCase):
    def test_counts_add_up_over_test_programs(self):
        line = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored;'"
        self.assertEqual(shell(f"{line}; {line}"), Tally(4, 0))

    def test_a_crash_without_a_count_is_a_failure(self):
        self.assertEqual(
            shell("echo 'test result: ok. 2 passed; 0 failed; 0 ignored;'; exit 3"), Tally(2, 1)
        )

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(shell("true"), Tally(0, 1))

    def test_a_check_is_one_test(self):
        self.assertEqual(shell("true", "check"), Tally(1, 0))
        self.assertEqual(shell("false", "check"), Tally(0, 1))

    def test_commands_at_the_same_time_are_all_counted_and_their_outputs_do_not_mix(self):
        with tempfile.TemporaryDirectory() as directory:
            # Each waits for the other: if they ran one after the other, they would never end.
            script = (
                "echo {0} 1; : {2} {1}/pipe; echo {0} 2; "
                "echo 'test result: ok. 2 passed; 0 failed; 0 ignored;'; exit {3}"
            )
            os.mkfifo(f"{directory}/pipe")
            together = Together(
                [
                    ["sh", "-c", script.format(name, directory, to, status)]
                    for name, to, status in (("a", ">", 0), ("b", "<", 5))
                ]
            )
            said = []
            with mock.patch(
                "sys.stdout", io.TextIOWrapper(io.BytesIO(), write_through=True)
            ) as output:
                tally = run_step(Step("x", "x", [together], "tests"), said)
                lines = output.buffer.getvalue().decode().splitlines()
        self.assertEqual(tally, Tally(4, 1))
        said = [line for line in lines if re.match("[ab] ", line)]
        self.assertIn(
            said, (["a 1", "a 2", "b 1", "b 2"], ["b 1", "b 2", "a 1", "a 2"]), "either ends first"
        )

    @staticmethod
    def main(steps, arguments):
        """Runs steps as the command line does. Returns (exit status, lines of output)."""
        with (
            mock.patch("run_tests.STEPS", steps),
            mock.patch("leftovers.since", return_value=[]),
            mock.patch("sys.stdout", io.TextIOWrapper(io.BytesIO(), write_through=True)) as output,
        ):
            status = main(arguments)
            return status, output.buffer.getvalue().decode().splitlines()

    def test_a_step_runs_beside_the_steps_after_it_and_its_failure_counts(self):
        with tempfile.TemporaryDirectory() as directory:
            os.mkfifo(f"{directory}/pipe")

            def waiting(name, to, status):
                # Each waits for the other.
                script = f"echo {name} 1; : {to} {directory}/pipe; echo {name} 2; exit {status}"
                return Step(name, name, [["sh", "-c", script]], beside=name == "a")

            steps = [waiting("a", ">", 3), waiting("b", "<", 0), Step("c", "c", [["true"]])]
            status, lines = self.main(steps, [])
        self.assertEqual(status, 1)
        self.assertEqual([line for line in lines if line in ("a 1", "a 2")], ["a 1", "a 2"])
        self.assertEqual(lines.index("a 2"), lines.index("a 1") + 1, "output is one piece")
        self.assertIn("FAILED a", lines)
        self.assertEqual(lines[-1], "3 passed, 1 failed")

    def test_a_step_that_may_run_beside_others_prints_at_once_if_it_runs_alone(self):
        steps = [Step("a", "a", [["echo", "word"]], beside=True), Step("b", "b", [["false"]])]
        status, lines = self.main(steps, ["a"])
        self.assertEqual(status, 0)
        self.assertFalse(any("run beside" in line for line in lines), lines)

    def test_a_mistake_in_a_step_that_runs_beside_others_ends_the_run(self):
        steps = [Step("a", "a", [[]], beside=True), Step("b", "b", [["true"]])]
        with self.assertRaises(IndexError):
            self.main(steps, [])

    def test_steps_beside_others_have_their_own_build_directories(self):
        def built(step):
            commands = [command for together in step.rounds() for command in together]
            return {c[2] for c in commands if c[:2] == ["cmake", "--build"]}

        suite = [s for s in STEPS if s.suite == "test"]
        for step in (s for s in STEPS if s.beside):
            self.assertIn(step, suite)
            # Cargo locks its directory, but another RUSTFLAGS would build everything in it again.
            self.assertEqual("RUSTFLAGS" in step.environment, step.name == "loom")
            for other in suite[suite.index(step) + 1 :]:
                if not other.beside:
                    self.assertFalse(built(step) & built(other), f"{step.name}, {other.name}")

    # Stands in for cargo: reports the test programs in $PROGRAMS, has one documentation example.
    CARGO = """#!/bin/sh
case "$*" in
    *--no-run*) exec cat "$PROGRAMS" ;;
    *--doc*) echo "   Doc-tests a"; echo "test result: ok. 1 passed; 0 failed; 0 ignored;" ;;
    *) exit 9 ;;
esac
"""

    def cargo(self, scripts, *words):
        """Runs a step of `cargo test` with these test programs, by name.

        Returns (tally, failures, lines of output).
        """
        with tempfile.TemporaryDirectory() as directory:
            programs = Path(directory) / "programs"
            Path(directory, "cargo").write_text(self.CARGO)
            Path(directory, "cargo").chmod(0o755)
            for name, script in scripts.items():
                path = Path(directory, f"{name}-0123456789abcdef")
                path.write_text(f"#!/bin/sh\ncd {directory}\n{script}\n")
                path.chmod(0o755)
                source = f"{directory}/tests/{name}.rs"
                target = {"kind": ["test"], "name": name, "src_path": source}
                with programs.open("a") as file:
                    print(
                        json.dumps(
                            {
                                "reason": "compiler-artifact",
                                "manifest_path": f"{directory}/Cargo.toml",
                                "target": target,
                                "profile": {"test": True},
                                "executable": str(path),
                            }
                        ),
                        file=file,
                    )
            environment = {"PATH": f"{directory}:{os.environ['PATH']}", "PROGRAMS": str(programs)}
            step = Step("x", "x", [["cargo", "test", *words]], "tests", environment)
            said = []
            with mock.patch(
                "sys.stdout", io.TextIOWrapper(io.BytesIO(), write_through=True)
            ) as output:
                tally = run_step(step, said)
                return tally, said, output.buffer.getvalue().decode().splitlines()

    def test_programs_of_cargo_run_at_the_same_time_with_their_documentation(self):
        ok = "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; finished in 0.5s'"
        # Each waits for the other.
        scripts = {
            "a": f"mkfifo pipe; touch made; : > pipe; {ok}",
            "b": f"until [ -e made ]; do :; done; : < pipe; {ok}",
        }
        tally, said, lines = self.cargo(scripts)
        self.assertEqual((tally, said), (Tally(5, 0, 2), []), lines)
        self.assertTrue(any(re.match(r" +Running tests/a\.rs \(.*a-", line) for line in lines))
        self.assertEqual(self.cargo({"a": ok}, "--test", "a")[0], Tally(2, 0, 1))

    def test_a_test_program_that_is_killed_is_a_failure_with_its_name(self):
        failing = (
            "echo 'test one ... FAILED'; "
            "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored;'; exit 101"
        )
        tally, said, _ = self.cargo({"a": "kill -9 $$", "b": failing})
        self.assertEqual(tally, Tally(1, 2))
        self.assertEqual(sorted(name for name, _ in said), ["x: a: signal: 9", "x: b: one"])

    def test_programs_that_cannot_be_built_are_a_failure(self):
        step = Step("x", "x", [["cargo", "test"]], "tests", {"PATH": "/nonexistent"})
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
            self.assertEqual(run_step(step), Tally(0, 1))

    def test_no_test_of_the_gateways_is_left_out(self):
        commands = {
            suite: [
                c
                for step in STEPS
                if step.suite == suite
                for commands in step.rounds()
                for c in commands
            ]
            for suite in ("gateways", "measured")
        }
        of = {
            suite: [
                c
                for c in commands[suite]
                if c[:2] == ["cargo", "test"]
                and "driveline-gateway-zenoh" in c
                and "--features" in c
                and "--no-run" not in c
            ]
            for suite in commands
        }
        # A command without --test would run all test programs.
        self.assertTrue(all("--test" in command for suite in of for command in of[suite]))
        usual = [
            c for suite in of for c in of[suite] if not {"--ignored", "--include-ignored"} & set(c)
        ]
        chosen = [words for command in usual for words in zip(command, [*command[1:], ""])]
        for crate in ("driveline-gateway-zenoh", "driveline-gateway-ros2"):
            for path in (Path(__file__).resolve().parents[2] / "crates" / crate / "tests").glob(
                "*.rs"
            ):
                # The programs of ALSO_MEASURED are in both suites: they also judge durations in the
                # measured suite.
                self.assertEqual(
                    chosen.count(("--test", path.stem)),
                    2 if path.stem in ALSO_MEASURED else 1,
                    path,
                )
        self.assertEqual(
            [sum(word == kind for word, _ in chosen) for kind in ("--lib", "--bins")], [1, 1]
        )
        # Tests that a gating suite ignores or skips are in the measured suite.
        ignored = [
            path
            for path in (
                Path(__file__).resolve().parents[2] / "crates/driveline-gateway-zenoh/tests"
            ).glob("*.rs")
            if "ONLY=hosts-long" in path.read_text()
        ]
        longer = [
            words
            for c in of["measured"]
            if {"--ignored", "--include-ignored"} & set(c)
            for words in zip(c, c[1:])
        ]
        for path in ignored:
            self.assertIn(("--test", path.stem), longer)
        for command in usual:
            for skipped_test in (
                after for word, after in zip(command, command[1:]) if word == "--skip"
            ):
                (path,) = [
                    p
                    for p in ROOT.glob("crates/driveline-gateway-*/tests/*.rs")
                    if f"fn {skipped_test}()" in p.read_text()
                ]
                self.assertIn(path, ignored)

    def test_measured_steps_say_why_and_no_other_does(self):
        for step in STEPS:
            self.assertIn(step.suite, ROOM)
            self.assertEqual(bool(step.why), step.suite == "measured", step.name)
        self.assertTrue(all((ROOT / path).is_file() for path in measured_files()))

    def test_a_gating_suite_runs_no_measured_program(self):
        for step in STEPS:
            if step.suite == "measured":
                continue
            for command in (
                c for commands in step.rounds() for c in commands if c[:2] == ["cargo", "test"]
            ):
                chosen = [after for word, after in zip(command, command[1:]) if word == "--test"]
                if any("driveline-gateway" in word or "peers-test" in word for word in command):
                    self.assertEqual(
                        set(chosen) & {path.stem for path in measured_files()}, set(), step.name
                    )

    def test_measured_rounds_are_all_made_and_recorded(self):
        step = Step(
            "a",
            "a",
            [
                [
                    "sh",
                    "-c",
                    "echo 'MEASURED: x: after 1.50s (2s promised; y)'; "
                    "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'",
                ]
            ],
            "tests",
            suite="measured",
            why="y",
        )
        other = Step("b", "b", [["false"]])
        with (
            tempfile.TemporaryDirectory() as directory,
            mock.patch("run_tests.STEPS", [step, other]),
        ):
            kept = Path(directory) / "results.jsonl"
            with (
                mock.patch("measured.RESULTS", kept),
                mock.patch("leftovers.since", return_value=[]),
                mock.patch("measured.commit", return_value="c1"),
            ):
                with mock.patch(
                    "sys.stdout", io.TextIOWrapper(io.BytesIO(), write_through=True)
                ) as output:
                    self.assertEqual(main(["--measured", "--rounds", "2"]), 0)
                    said = output.buffer.getvalue().decode()
            entries = [json.loads(line) for line in kept.read_text().splitlines()]
        self.assertIn("=== round 2 of 2", said)
        self.assertEqual(
            [(e["step"], e["round"], e["passed"], e["failed"], e["commit"]) for e in entries],
            [("a", 1, 2, 0, "c1"), ("a", 2, 2, 0, "c1")],
        )
        self.assertEqual(
            [e["times"] for e in entries], [[{"what": "x", "took_s": 1.5, "promised_s": 2.0}]] * 2
        )

    def test_a_number_of_rounds_that_is_none_is_refused(self):
        for wrong in ([], ["0"], ["x"], ["hosts-long"]):
            with contextlib.redirect_stderr(io.StringIO()) as output:
                self.assertEqual(main(["--measured", "--rounds", *wrong]), 2)
            self.assertIn("--rounds", output.getvalue())
        with contextlib.redirect_stderr(io.StringIO()) as output:
            self.assertEqual(main(["--rounds", "3", "kills"]), 2)
        self.assertIn("needs --measured", output.getvalue())

    def test_a_missing_program_is_a_failure(self):
        with mock.patch("sys.stdout", io.TextIOWrapper(io.BytesIO(), write_through=True)) as output:
            self.assertEqual(run_step(Step("x", "x", [["no-such-program-here"]])), Tally(0, 1))
            self.assertIn("make setup", output.buffer.getvalue().decode())

    def test_what_only_root_can_run_is_run_by_root_and_reported_by_others(self):
        step = Step("x", "x", [["sh", "-c", "exit 1"]], as_root=True)
        for user, tally in ((0, Tally(0, 1)), (1000, Tally(0, 0, 1))):
            with (
                mock.patch("os.geteuid", return_value=user),
                mock.patch("sys.stdout", io.TextIOWrapper(io.BytesIO())) as output,
            ):
                self.assertEqual(run_step(step), tally)
                said = output.buffer.getvalue().decode()
            self.assertEqual("not run" in said, user != 0)

    def test_an_unknown_step_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as output:
            self.assertEqual(main(["lomo"]), 2)
        self.assertIn("lomo", output.getvalue())

    def test_each_target_of_make_runs_its_own_steps_and_names_reach_all(self):
        steps = [
            Step("a", "a", []),
            Step("b", "b", [], suite="gateways"),
            Step("c", "c", [], suite="measured"),
        ]
        one = ["--measured", "--rounds", "1"]
        for arguments, expected in (
            ([], ["a"]),
            (["--gateways"], ["b"]),
            (["b"], ["b"]),
            (["--gateways", "a"], ["a"]),
            (one, ["c"]),
            (["c"], ["c"]),
        ):
            ran = []
            with (
                mock.patch("run_tests.STEPS", steps),
                mock.patch("run_tests.run_step", lambda s, _: ran.append(s.name) or Tally(1)),
            ):
                with (
                    mock.patch("leftovers.since", return_value=[]),
                    mock.patch("measured.record"),
                    contextlib.redirect_stdout(io.StringIO()),
                ):
                    self.assertEqual(main(arguments), 0)
            self.assertEqual(ran, expected)

    def test_what_make_test_may_skip_is_named_by_a_step_of_another_suite(self):
        named = set()
        for step in STEPS:
            for command in (c for commands in step.rounds() for c in commands):
                if step.suite != "test" and "tools/check_experiments.py" in command:
                    named |= set(command[command.index("tools/check_experiments.py") + 2 :])
        scenarios = Path(__file__).resolve().parents[2] / "lab/experiments/scenarios"
        # Chains run in programs of `make peers`; links between hosts need the gateway and root.
        elsewhere = re.compile(r"^chain:|reach: *\[?network", re.M)
        skipped = {
            path.stem for path in scenarios.glob("*.yaml") if elsewhere.search(path.read_text())
        }
        self.assertGreaterEqual(len(skipped), 4)
        self.assertEqual(skipped - named, set())

    def test_every_kind_of_experiment_is_gating(self):
        def kinds(text):
            # Sections that only describe the experiment are left out.
            text = re.sub(
                r"^(?:published|notes|title|source|question):.*?(?=^\w|\Z)",
                "",
                text,
                flags=re.M | re.S,
            )
            marked = re.findall(
                r"^answer: \w+|^own_tools: true|\bworkload: {name: \w+"
                r"|\b(?:quota_percent|cpus|hogs|links|favour|processing_us):|^chain:",
                text,
                re.M,
            )
            return set(marked) or {"a link"}

        scenarios = {
            path.stem: path.read_text()
            for path in (ROOT / "lab/experiments/scenarios").glob("*.yaml")
        }
        self.assertLessEqual(set(EXPERIMENTS), set(scenarios))
        gating = set().union(*(kinds(scenarios[name]) for name in EXPERIMENTS))
        # Plain links need no experiment of their own: the other kinds contain them.
        self.assertEqual(set().union(*map(kinds, scenarios.values())) - gating, {"a link"})
        self.assertGreaterEqual(len(gating), 17)

    def test_a_full_disk_is_reported_with_the_remedy(self):
        for suite, room in ROOM.items():
            self.assertIsNone(lack_of_space(suite, room << 30))
            warning = lack_of_space(suite, (room << 30) - 1)
            self.assertIn(f"up to {room}", warning)
            self.assertIn("make room", warning)

    def test_what_could_not_be_tested_is_said_again_at_the_end(self):
        step = Step(
            "a",
            "a",
            [
                [
                    "sh",
                    "-c",
                    "echo 'SKIPPED: x: no y here'; "
                    "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'",
                ]
            ],
            "tests",
        )
        with (
            mock.patch("run_tests.STEPS", [step]),
            mock.patch("run_tests.SKIPPED", []),
            mock.patch("leftovers.since", return_value=[]),
        ):
            with mock.patch(
                "sys.stdout", io.TextIOWrapper(io.BytesIO(), write_through=True)
            ) as output:
                self.assertEqual(main(["a"]), 0)
                said = output.buffer.getvalue().decode()
        self.assertEqual(said.count("SKIPPED: x: no y here"), 2)
        self.assertLess(said.index("=== leftovers"), said.rindex("SKIPPED"))

    def test_what_ctest_skips_is_said_with_the_way_to_see_why(self):
        text = skipped(
            " 3/41 Test #12: comp.realdrive ................***Skipped   0.21 sec",
            ["ctest", "--test-dir", "build", "-j", "2"],
        )
        self.assertEqual(
            text,
            "SKIPPED: comp.realdrive: `ctest --test-dir build -V -R '^comp.realdrive$'` says why",
        )
        for line in (
            " 4/41 Test #13: comp.pipeline ....   Passed    9.02 sec",
            "test a ... ok",
            "a SKIPPED: line",
        ):
            self.assertIsNone(skipped(line, ["ctest"]))


class Leftovers(unittest.TestCase):
    def test_files_and_processes_are_found(self):
        with tempfile.TemporaryDirectory() as directory:
            shm = Path(directory)
            (shm / "driveline-7/default").mkdir(parents=True)
            (shm / "driveline-7/default/old").touch()
            (shm / "another-program").touch()
            before = leftovers.snapshot(shm)
            self.assertEqual(leftovers.since(before), [])
            (shm / "driveline-7/default/new").touch()
            (shm / "driveline-file").touch()
            waiting = subprocess.Popen(
                ["sh", "-c", "echo started; read word"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            with waiting:
                waiting.stdout.readline()  # its environment is in place only now
                found = "\n".join(leftovers.since(before, patience_s=0))
                waiting.stdin.close()
            self.assertIn("default/new was left", found)
            self.assertIn("driveline-file was left", found)
            self.assertIn(f"process {waiting.pid} (sh)", found)
            self.assertNotIn("old", found)
            self.assertNotIn("another-program", found)


if __name__ == "__main__":
    unittest.main()
