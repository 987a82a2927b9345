# SPDX-License-Identifier: Apache-2.0
"""Tests of mutants.py: only a mutant that a test found counts as killed."""

import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from mutants import MUTANTS, ROOT, Bench, Mutant, Tests, check, judge, main, patched  # noqa: E402
from test_steps import directory_of  # noqa: E402

TESTS = Tests("p", "t")
ONE = Mutant("one", "It adds", "sum.txt", "a + b", "a - b", (TESTS,))


class Patches(unittest.TestCase):
    def test_there_are_ten_and_all_apply_to_this_tree(self):
        self.assertEqual(len({m.name for m in MUTANTS}), 10)
        self.assertEqual(list(check(ROOT)), [])

    def test_one_that_does_not_apply_is_named_with_its_promise(self):
        for text, said in (("a * b", "is missing"), ("a + b, a + b", "2 times")):
            with self.assertRaises(ValueError) as raised:
                patched(ONE, text)
            for part in ("mutant 'one'", said, "sum.txt", "It adds"):
                self.assertIn(part, str(raised.exception))
        self.assertIn("cannot read sum.txt", next(check("/nowhere", [ONE])))

    def test_it_ends_the_run_before_anything_is_built(self):
        with (
            mock.patch("mutants.check", return_value=["mutant 'x' does not apply"]),
            mock.patch("mutants.Bench") as bench,
        ):
            with contextlib.redirect_stderr(io.StringIO()) as output:
                self.assertEqual(main([]), 2)
        bench.assert_not_called()
        self.assertIn("mutant 'x'", output.getvalue())

    def test_each_names_tests_that_there_are(self):
        for m in MUTANTS:
            for tests in m.tests:
                crate = ROOT / directory_of(tests.package)
                places = (
                    [crate / "src/lib.rs"]
                    if tests.target == "lib"
                    else [crate / "tests" / f"{tests.target}{end}" for end in (".rs", "/main.rs")]
                )
                self.assertTrue(any(place.is_file() for place in places), (m.name, tests))


class OneTree(Bench):
    """A tree with one file, and a cargo that finds `a - b` if `notices`."""

    def __init__(self, directory, notices=True, compiles=True, passes=True, tests=1):
        super().__init__(Path(directory))
        self.tree.mkdir()
        (self.tree / "sum.txt").write_text("a + b")
        self.notices, self.compiles, self.passes, self.tests = notices, compiles, passes, tests
        self.ran = []

    def cargo(self, arguments):
        is_mutant = "a - b" in (self.tree / "sum.txt").read_text()
        self.ran.append((is_mutant, arguments))
        if "--no-run" in arguments:
            return (101, "error: no") if is_mutant and not self.compiles else (0, "")
        if (is_mutant and self.notices) or not self.passes:
            return 101, "test adds ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored"
        return 0, f"test result: ok. {self.tests} passed; 0 failed; 0 ignored"


class Judging(unittest.TestCase):
    def judge(self, **how):
        with tempfile.TemporaryDirectory() as directory:
            bench, lines = OneTree(directory, **how), []
            verdict = judge([ONE], bench, lines.append)
            self.assertEqual(
                (bench.tree / "sum.txt").read_text(), "a + b", "the tree is whole again"
            )
            self.ran = bench.ran
        return verdict, "\n".join(lines)

    def test_one_that_is_noticed_is_killed(self):
        verdict, said = self.judge()
        self.assertEqual(verdict, (["one"], [], [], []))
        self.assertRegex(said, r"^killed +one +\d+ s +by adds$")
        program, run = ["--no-run", "-p", "p", "--test", "t"], ["-p", "p", "--test", "t", "--"]
        self.assertEqual(self.ran, [(False, program), (False, run), (True, program), (True, run)])

    def test_one_that_is_not_noticed_survives(self):
        verdict, said = self.judge(notices=False)
        self.assertEqual(verdict, ([], ["one"], [], []))
        self.assertIn("It adds", said)

    def test_one_that_does_not_compile_proves_nothing(self):
        verdict, said = self.judge(compiles=False)
        self.assertEqual(verdict, ([], [], [], ["one"]))
        self.assertIn("does not compile", said)

    def test_a_test_that_fails_anyway_proves_nothing(self):
        verdict, said = self.judge(passes=False)
        self.assertEqual(verdict, ([], [], [], ["one"]))
        self.assertIn("fails without any mutant: adds", said)

    def test_tests_that_do_not_run_prove_nothing(self):
        verdict, said = self.judge(tests=0)
        self.assertEqual(verdict, ([], [], [], ["one"]))
        self.assertIn("ran no test", said)

    def test_what_needs_root_is_not_run_by_others(self):
        of_root = Mutant("two", "x", "sum.txt", "a + b", "a - b", (Tests("p", "t", ignored=True),))
        with mock.patch("os.geteuid", return_value=1000):
            verdict = judge([of_root], None, lambda _: None)
        self.assertEqual(verdict, ([], [], ["two"], []))


class Ending(unittest.TestCase):
    def end(self, verdict, *arguments):
        bench = mock.MagicMock()
        bench.return_value.__enter__.return_value.tree = ROOT
        with mock.patch("mutants.judge", return_value=verdict), mock.patch("mutants.Bench", bench):
            with (
                contextlib.redirect_stdout(io.StringIO()) as output,
                contextlib.redirect_stderr(io.StringIO()),
            ):
                status = main(list(arguments))
        return status, output.getvalue().splitlines()[-1]

    def test_only_ten_of_ten_are_success(self):
        names = [m.name for m in MUTANTS]
        self.assertEqual(self.end((names, [], [], [])), (0, "10 of 10 mutants killed"))
        self.assertEqual(self.end((names[1:], names[:1], [], []))[0], 1)
        self.assertEqual(self.end((names[1:], [], names[:1], []))[0], 1)
        self.assertEqual(self.end((names[1:], [], [], names[:1]))[0], 2)

    def test_mutants_that_were_not_chosen_are_named(self):
        status, last = self.end((["settle"], [], [], []), "settle")
        self.assertEqual(status, 1)
        self.assertIn("1 of 10", last)
        self.assertIn("not run: skipped-older, pin-check", last)

    def test_an_unknown_name_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as output:
            self.assertEqual(main(["setle"]), 2)
        self.assertIn("setle", output.getvalue())


class Tree(unittest.TestCase):
    def test_a_tree_is_a_worktree_of_head_and_goes_also_after_an_interrupted_run(self):
        with tempfile.TemporaryDirectory() as directory:
            root, git = (
                Path(directory),
                [
                    "git",
                    "-C",
                    directory,
                    "-c",
                    "user.name=x",
                    "-c",
                    "user.email=x@example.org",
                ],
            )
            subprocess.run(["git", "init", "-q", root], check=True)
            (root / "sum.txt").write_text("a + b")
            subprocess.run([*git, "add", "sum.txt"], check=True)
            subprocess.run([*git, "commit", "-qm", "x"], check=True)
            (root / "sum.txt").write_text("not committed")
            bench = Bench(root / "build", root)
            bench.__enter__()  # and never left: it was killed
            with bench:
                self.assertEqual((bench.tree / "sum.txt").read_text(), "a + b")
            self.assertFalse(bench.tree.exists())
            listed = subprocess.run(
                [*git, "worktree", "list"], check=True, capture_output=True, text=True
            ).stdout
            self.assertEqual(len(listed.splitlines()), 1, listed)

    def test_a_command_that_hangs_is_a_failure_that_says_so(self):
        with tempfile.TemporaryDirectory() as directory:
            bench = OneTree(directory)
            with mock.patch.object(bench, "cargo", side_effect=[(0, ""), (None, "")]):
                (name,) = bench.run(TESTS, "x")
        self.assertIn("no end within", name)


if __name__ == "__main__":
    unittest.main()
