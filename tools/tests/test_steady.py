# SPDX-License-Identifier: Apache-2.0
"""Tests of steady.py: a rare failure is found, and a failed run is never repeated."""

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import steady  # noqa: E402
from steady import (  # noqa: E402
    Load,
    Runner,
    State,
    find,
    main,
    programs_of_ctest,
    schedule,
    table,
)
from test_programs import Program, programs_of_cargo, split  # noqa: E402
from test_steps import MEASURED_TEST, STEPS, Step  # noqa: E402

# Only a failure takes that long.
PATIENCE_S = 60


def artifact(crate, kind, name, executable, test=True):
    target = {"kind": [kind], "name": name, "src_path": f"/x/{crate}/{name}.rs"}
    about = {
        "reason": "compiler-artifact",
        "manifest_path": f"/x/{crate}/Cargo.toml",
        "target": target,
        "profile": {"test": test},
    }
    return json.dumps({**about, "executable": executable})


class Finding(unittest.TestCase):
    FILTERS = {
        "kill_campaign",
        "protocol_world",
        "torn",
        "hostile_",
        "stopped::",
        "torn::",
        MEASURED_TEST,
    }

    def test_filters_go_to_the_program_and_the_rest_to_cargo(self):
        words = [
            "cargo",
            "test",
            "-p",
            "a",
            "--features",
            "b/c",
            "--test",
            "lab",
            "torn",
            "--locked",
            "--",
            "--ignored",
        ]
        self.assertEqual(
            split(words),
            (
                ["cargo", "test", "-p", "a", "--features", "b/c", "--test", "lab", "--locked"],
                ["torn", "--ignored"],
            ),
        )

    def test_every_command_of_every_step_is_understood(self):
        for step in STEPS:
            for command in (c for commands in step.rounds() for c in commands):
                if command[:2] == ["cargo", "test"]:
                    cargo, words = split(command)
                    self.assertEqual(sorted(cargo + words), sorted(w for w in command if w != "--"))
                    self.assertTrue(
                        all(w.startswith("-") or w in self.FILTERS for w in words), words
                    )

    def test_programs_are_those_with_tests(self):
        lines = [
            "   Compiling a",
            artifact("a", "lib", "a", "/t/debug/deps/a-1"),
            artifact("a", "test", "ledger", "/t/debug/deps/ledger-2"),
        ]
        lines += [
            artifact("a", "bin", "tool", "/t/debug/tool", test=False),
            artifact("a", "lib", "a", None),
            '{"reason":"build-finished"}',
        ]
        step = Step("s", "s", [], environment={"X": "1"})
        found = list(
            programs_of_cargo(step, ["cargo", "test", "--", "--ignored"], "\n".join(lines))
        )
        self.assertEqual([p.name for p in found], ["s: a lib --ignored", "s: a ledger --ignored"])
        self.assertEqual(found[1].command, ["/t/debug/deps/ledger-2", "--ignored"])
        self.assertEqual((found[1].directory, found[1].environment["X"]), ("/x/a", "1"))
        of_rust = [
            Path(p)
            for p in found[0].environment["LD_LIBRARY_PATH"].split(":")
            if list(Path(p).glob("libstd-*.so"))
        ]
        self.assertEqual(len(of_rust), 1, "tests of procedural macros load Rust's shared library")

    def test_tests_of_ctest_are_run_each_alone(self):
        name = "sdk.one/host  # GetParam() = 4-byte object <01-00>"
        output = json.dumps({"tests": [{"name": name}]})
        (found,) = programs_of_ctest(
            Step("ctest", "", []), ["ctest", "--test-dir", "build"], output
        )
        self.assertEqual(found.name, f"ctest: {name}")
        self.assertEqual(
            found.command[-2:],
            ["-R", r"^sdk\.one/host  # GetParam\(\) = 4-byte object <01-00>$"],
        )

    def test_a_program_of_two_steps_is_there_once_and_names_are_different(self):
        steps = [
            Step(name, "", [["cargo", "test", *words]])
            for name, words in (("a", []), ("b", []), ("c", ["--", "--ignored"]))
        ]
        output = "\n".join(
            [artifact("x", "test", "t", "/t/deps/t-1"), artifact("x", "test", "t", "/t/deps/t-2")]
        )
        with mock.patch("steady.ask", return_value=output):
            found = find(steps)
        self.assertEqual(
            [p.name for p in found],
            ["a: x t", "a: x t (2)", "c: x t --ignored", "c: x t --ignored (2)"],
        )

    def test_packages_are_installed_before_programs_that_need_them(self):
        commands = [steady.PACKAGES, ["cargo", "test"]]
        self.assertIn(
            steady.PACKAGES,
            [command for step in STEPS for commands in step.rounds() for command in commands],
        )
        output = artifact("x", "test", "t", "/t/deps/t-1")
        with mock.patch("steady.ask", return_value=output) as ask:
            find([Step("types", "", commands)])
        asked = [call.args[1][:2] for call in ask.call_args_list]
        self.assertEqual(asked, [steady.PACKAGES, ["cargo", "test"]])


class Order(unittest.TestCase):
    names = ["a", "b", "c", "d", "e"]

    def test_each_program_has_its_rounds_in_an_order_of_the_seed(self):
        one = schedule(self.names, 30, seed=1)
        self.assertEqual(
            sorted(one), [(name, number) for name in self.names for number in range(1, 31)]
        )
        self.assertEqual(one, schedule(list(reversed(self.names)), 30, seed=1))
        self.assertNotEqual(one, schedule(self.names, 30, seed=2))
        self.assertNotEqual(one, sorted(one))

    def test_parts_are_the_whole(self):
        whole = schedule(self.names, 7, seed=3)
        parts = [schedule(self.names, 7, 3, (part, 4)) for part in range(1, 5)]
        self.assertEqual(sorted(sum(parts, [])), sorted(whole))


class Scene(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.lines = []

    def program(self, name, script):
        return Program(name, ["sh", "-c", script], str(self.directory))

    def state(self, commit="c1"):
        state = State(self.directory / "kept/state.jsonl", {"commit": commit})
        state.load()
        return state

    def runner(self, programs, **how):
        return Runner(programs, self.state(), write=self.lines.append, **how)


class Running(Scene):
    def test_so_many_run_at_the_same_time_and_no_more(self):
        # Each program waits for the file `go`, which this test creates once three programs run.
        # With fewer, the test would time out; a fourth would be counted. If this test is killed,
        # the programs end by themselves after a minute.
        wait = "n=0; until [ -e go ] || [ $n -ge 6000 ]; do sleep 0.01; n=$((n+1)); done"
        script = f"mkdir in; mkdir here.$$; {wait}; rmdir here.$$"
        runner = self.runner([self.program("a", script)], at_once=3)
        thread = threading.Thread(target=runner.run, args=([("a", n) for n in range(1, 7)],))
        thread.start()
        end = time.monotonic() + PATIENCE_S
        # A program can run before it is in `runner.running`.
        while min(len(list(self.directory.glob("here.*"))), len(runner.running)) < 3:
            self.assertLess(time.monotonic(), end, "three at the same time")
        self.assertEqual(len(runner.running), 3)
        (self.directory / "go").touch()
        thread.join()
        self.assertEqual(len(runner.state.made), 6)

    def test_the_one_failure_is_found_with_what_it_said(self):
        # Fails the third time.
        script = (
            "echo x >> count; test $(wc -l < count) -ne 3 || "
            "{ echo 'test a ... FAILED'; echo 'why'; exit 101; }"
        )
        runner = self.runner([self.program("a", script)], at_once=1)
        self.assertEqual(runner.run(schedule(["a"], 5, 1)), 0)
        (failed,) = runner.state.failed()
        self.assertEqual((failed["status"], "why" in failed["output"]), (101, True))
        said = "\n".join(table([failed]))
        self.assertIn("FAILED   1 times  a", said)
        self.assertEqual(sum("FAILED" in line for line in self.lines), 1)

    def test_a_failed_run_is_not_made_again(self):
        programs, runs = [self.program("a", "echo x >> count; exit 1")], [("a", 1), ("a", 2)]
        self.runner(programs).run(runs)
        self.runner(programs).run(runs)
        self.assertEqual((self.directory / "count").read_text(), "x\nx\n")
        self.assertEqual(len(self.state().failed()), 2)

    def test_what_is_left_is_made_by_the_next_call(self):
        programs, runs = [self.program("a", "echo x >> count")], [("a", n) for n in range(1, 5)]
        self.runner(programs).run(runs[:3])
        self.assertEqual(self.runner(programs).run(runs), 0)
        self.assertEqual((self.directory / "count").read_text().count("x"), 4)

    def test_nothing_is_started_when_the_time_is_over(self):
        self.assertEqual(
            self.runner([self.program("a", "true")]).run(
                [("a", 1), ("a", 2)], until=time.monotonic()
            ),
            2,
        )

    def test_a_run_that_was_interrupted_was_not_made(self):
        runner = self.runner([self.program("a", "touch begun; sleep 1000 & wait")])
        thread = threading.Thread(target=runner.run, args=([("a", 1)],))
        thread.start()
        end = time.monotonic() + PATIENCE_S
        while not (self.directory / "begun").exists():
            self.assertLess(time.monotonic(), end, "begun")
        runner.stop()
        thread.join(PATIENCE_S)
        self.assertFalse(thread.is_alive())
        self.assertEqual(runner.state.made, {})

    def test_a_program_that_hangs_has_failed(self):
        # The limit is far longer than a busy machine takes to start a shell.
        runner = self.runner([self.program("a", "echo before; sleep 1000 & wait")], limit_s=3)
        runner.run([("a", 1)])
        (failed,) = runner.state.failed()
        self.assertEqual((failed["status"], failed["output"]), (None, "before\n"))
        self.assertIn("no end within", "\n".join(table([failed])))

    def test_a_program_that_is_not_there_has_failed(self):
        runner = self.runner([Program("a", ["/no/such/program"])])
        runner.run([("a", 1)])
        self.assertIn("cannot start", runner.state.failed()[0]["output"])


class Kept(Scene):
    def test_a_line_that_was_cut_is_no_run_and_the_file_goes_on(self):
        state = self.state()
        state.add({"program": "a", "round": 1, "status": 0, "seconds": 1.0})
        with state.path.open("a") as file:
            file.write('{"program": "a", "rou')
        after = self.state()
        self.assertEqual(list(after.made), [("a", 1)])
        after.add({"program": "a", "round": 2, "status": 1, "seconds": 1.0, "output": "x"})
        self.assertEqual(list(self.state().made), [("a", 1), ("a", 2)])

    def test_runs_of_another_commit_are_not_mixed(self):
        self.state("c1").add({"program": "a", "round": 1, "status": 0, "seconds": 1.0})
        with self.assertRaises(ValueError) as raised:
            self.state("c2")
        for part in ("c1", "c2", "--anew"):
            self.assertIn(part, str(raised.exception))


class Whole(Scene):
    def call(self, *arguments, scripts=None):
        programs = [
            self.program(name, script) for name, script in (scripts or {"a": "true"}).items()
        ]
        steps = [Step("s", "s", []), Step("g", "g", [], suite="gateways"), Step("loom", "l", [])]
        with (
            mock.patch("steady.find", side_effect=lambda steps: self.found(steps) or programs),
            mock.patch("steady.STEPS", steps),
        ):
            with (
                mock.patch("steady.KEPT", self.directory),
                mock.patch("steady.commit", return_value="c1"),
                mock.patch("leftovers.since", return_value=[]),
            ):
                with (
                    contextlib.redirect_stdout(io.StringIO()) as output,
                    contextlib.redirect_stderr(output),
                ):
                    status = main(["--load", "0", *arguments])
        return status, output.getvalue()

    def found(self, steps):
        self.steps = [step.name for step in steps]

    def test_all_runs_that_passed_are_success_and_one_that_failed_is_not(self):
        status, output = self.call("--rounds", "4")
        self.assertEqual((status, output.splitlines()[-1]), (0, "4 runs passed, 0 failed"))
        self.assertEqual(
            self.call("--rounds", "4", scripts={"a": "true", "b": "true"})[0], 2, "programs differ"
        )
        status, output = self.call(
            "--rounds", "2", "--anew", scripts={"a": "true", "b": "echo no; exit 3"}
        )
        self.assertEqual(status, 1)
        self.assertIn("FAILED   2 times  b", output)
        self.assertIn("no\n", output)

    def test_without_time_for_all_that_is_said(self):
        status, output = self.call("--rounds", "2", "--minutes", "0")
        self.assertEqual(status, 3)
        self.assertIn("2 not made yet", output)

    def test_steps_are_those_of_the_suite_without_models_or_those_that_are_named(self):
        for arguments, expected in (
            ([], ["s"]),
            (["--gateways"], ["g"]),
            (["loom", "g"], ["g", "loom"]),
        ):
            self.call("--anew", "--rounds", "1", *arguments)
            self.assertEqual(sorted(self.steps), expected)
        self.assertEqual(self.call("lomo")[0], 2)

    def test_a_wrong_part_is_refused(self):
        for wrong in ("0/4", "5/4", "x", "1/"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                main(["--shard", wrong])


class Burning(unittest.TestCase):
    def test_the_load_is_there_and_gone_afterwards(self):
        with Load(2) as load:
            pids = [process.pid for process in load.processes]
            self.assertTrue(all(os.path.exists(f"/proc/{pid}") for pid in pids))
        self.assertFalse(any(os.path.exists(f"/proc/{pid}") for pid in pids))

    def test_it_ends_with_the_process_that_has_started_it(self):
        script = (
            "import subprocess, sys; "
            f"print(subprocess.Popen([sys.executable, '-c', {steady.BURN!r}, '1']).pid)"
        )
        done = steady.subprocess.run(
            [sys.executable, "-c", script.replace("'1'", "str(__import__('os').getpid())")],
            capture_output=True,
            text=True,
        )
        pid, end = int(done.stdout), time.monotonic() + PATIENCE_S
        # It can end while its status is read.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
                self.assertLess(time.monotonic(), end, "it goes on burning")


if __name__ == "__main__":
    unittest.main()
