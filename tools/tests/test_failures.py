# SPDX-License-Identifier: Apache-2.0
"""Tests of failures.py: the output of `make test` ends with the names of the failed tests."""

import contextlib
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from failures import REASON_COLUMNS, REASON_LINES, Failures  # noqa: E402
from run_tests import ROOM, Step, Tally, main, run_step  # noqa: E402

CARGO = """\
     Running tests/processes/main.rs (target/debug/deps/processes-576e23270a572eae)

running 3 tests
test idle::spins ... FAILED
test idle::rests ... ok
test torn::hunt ... FAILED

failures:

---- idle::spins stdout ----
a table that is long
thread 'idle::spins' (77) panicked at crates/x/tests/idle.rs:22:9:
readers: 0 ticks, 13 sleeps
stack backtrace:
   0: rust_begin_unwind
             at /rustc/panicking.rs:689:5
note: Some details are omitted

---- torn::hunt stdout ----
torn


failures:
    idle::spins
    torn::hunt

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.45s

error: test failed, to rerun pass `-p x --test processes`
     Running unittests src/lib.rs (target/debug/deps/driveline_capi-00112233445566ff)
running 1 test
error: test failed, to rerun pass `-p driveline-capi --lib`

Caused by:
  process didn't exit successfully: `target/debug/deps/driveline_capi-00112233445566ff` \
(signal: 11, SIGSEGV: invalid memory reference)
   Doc-tests driveline
test crates/driveline/src/lib.rs - (line 7) ... FAILED
error: 3 targets failed:
    `-p x --test processes`
"""

CTEST = """\
Test project build
      Start  1: sdk.c
 1/4 Test  #1: sdk.c ............................   Passed    0.05 sec
 2/4 Test  #2: sdk.Reading ......................***Failed    0.31 sec
[ RUN      ] Reading
tests/reading_test.cpp:44: Failure
Value of: sample
[  FAILED  ] Reading (300 ms)
      Start  4: comp.pipeline
 3/4 Test  #3: comp.real_drive ..................***Skipped   0.00 sec
 4/4 Test  #4: comp.pipeline ....................***Timeout  60.00 sec
 5/5 Test  #5: sdk.dies .........................Subprocess aborted***Exception:   0.12 sec
"""

UNITTEST = """\
..F
======================================================================
FAIL: test_it (test_x.Case.test_it)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "test_x.py", line 3, in test_it
    self.assertEqual(1, 2)
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 3 tests in 0.001s

FAILED (failures=1)
"""

EXPERIMENTS = """\
ok     W1
FAILED W2
    case 1: the account does not close
FAILED summary.json was not written
7 passed, 2 failed
"""


def read(text):
    failures = Failures()
    for line in text.splitlines():
        failures.feed(line)
    return failures


class Reading(unittest.TestCase):
    def test_cargo(self):
        self.assertEqual(
            read(CARGO).named(),
            {
                "processes: idle::spins": [
                    "thread 'idle::spins' (77) panicked at crates/x/tests/idle.rs:22:9:",
                    "readers: 0 ticks, 13 sleeps",
                ],
                "processes: torn::hunt": ["torn"],
                "driveline_capi: signal: 11, SIGSEGV: invalid memory reference": [],
                "driveline (documentation): crates/driveline/src/lib.rs - (line 7)": [],
            },
        )

    def test_ctest(self):
        named = read(CTEST).named()
        self.assertEqual(list(named), ["sdk.Reading", "comp.pipeline", "sdk.dies"])
        self.assertEqual(named["sdk.Reading"][0], "tests/reading_test.cpp:44: Failure")

    def test_unittest(self):
        self.assertEqual(
            read(UNITTEST).named(), {"test_it (test_x.Case.test_it)": ["AssertionError: 1 != 2"]}
        )

    def test_experiments(self):
        named = {
            "W2": ["    case 1: the account does not close"],
            "summary.json was not written": [],
        }
        self.assertEqual(read(EXPERIMENTS).named(), named)

    def test_a_check_is_reported_with_its_errors_or_its_last_lines(self):
        self.assertEqual(read("one\nerror: two\nthree").unnamed(), ["error: two"])
        self.assertEqual(read("one\n\ntwo").unnamed(), ["one", "two"])

    def test_a_reason_is_short(self):
        lines = "\n".join(["FAIL: test_it (x.y)", *["x" * 1000] * 50])
        (reason,) = read(lines).named().values()
        self.assertEqual(
            (len(reason), {len(line) for line in reason}), (REASON_LINES, {REASON_COLUMNS})
        )


class Reporting(unittest.TestCase):
    def step(self, *scripts, **options):
        return Step("x", "x", [["sh", "-c", s] for s in scripts], **options)

    def run_all(self, *steps):
        # Replaces the needed disk space by 0, so that the disk of this machine has room.
        room = mock.patch.dict("run_tests.ROOM", dict.fromkeys(ROOM, 0))
        steps = mock.patch("run_tests.STEPS", steps)
        with room, steps, mock.patch("leftovers.since", return_value=[]):
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())) as output:
                status = main([])
                output.flush()
                return status, output.buffer.getvalue().decode().splitlines()

    def test_a_failed_command_hides_no_other_unless_it_builds(self):
        scripts = ["echo one; exit 1", "echo 'test result: ok. 2 passed; 0 failed; 0 ignored;'"]
        for builds, tally in ((False, Tally(2, 1)), (True, Tally(0, 1))):
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                self.assertEqual(
                    run_step(self.step(*scripts, counts="tests", builds=builds)), tally
                )

    def test_the_last_lines_name_every_failure(self):
        failing = self.step(
            "printf 'test a ... FAILED\\n---- a stdout ----\\npanicked at x\\n"
            "test result: FAILED. 0 passed; 1 failed; 0 ignored;\\n'; exit 1",
            counts="tests",
        )
        status, lines = self.run_all(
            failing, self.step("echo 'error: no'; exit 1"), self.step("true")
        )
        self.assertEqual(status, 1)
        self.assertEqual(
            lines[-8:-2], ["    error: no", "", "=== failed", "FAILED x: a", "FAILED x", ""]
        )
        self.assertIn("    panicked at x", lines)
        self.assertEqual(lines[-1], "2 passed, 2 failed")

    def test_without_a_failure_nothing_is_reported(self):
        status, lines = self.run_all(self.step("true"))
        self.assertEqual(status, 0)
        self.assertFalse(
            [
                line
                for line in lines
                if "FAILED" in line or line.startswith("===") and "failed" in line
            ]
        )


if __name__ == "__main__":
    unittest.main()
