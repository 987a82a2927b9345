# SPDX-License-Identifier: Apache-2.0
"""Tests of slowest.py: a slow test has a line in the table, with its own seconds."""

import io
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from run_tests import Step, main  # noqa: E402
from slowest import MOST, Timed, table  # noqa: E402

CARGO = """\
     Running unittests src/lib.rs (target/debug/deps/driveline_types-0123456789abcdef)
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.12s
     Running tests/processes/main.rs (target/debug/deps/processes-0123456789abcdef)
test a ... FAILED
test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 31.50s
   Doc-tests driveline
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 4.00s
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s
"""
CTEST = """\
      Start 1: sdk.reading
 1/3 Test #1: sdk.reading ......................   Passed    9.02 sec
 2/3 Test #12: comp.pipeline ...................***Failed    0.31 sec
 3/3 Test  #3: comp.realdrive ...................***Skipped   0.21 sec
"""


def timed(output, command=()):
    reader = Timed(command)
    for line in output.splitlines():
        reader.feed(line)
    reader.end(7.0)
    return reader.seconds


class Reading(unittest.TestCase):
    def test_each_program_of_cargo_test_has_its_seconds(self):
        programs = [
            ("driveline_types", 0.12),
            ("processes", 31.5),
            ("driveline (documentation)", 4.0),
            ("driveline (documentation)", 0.5),
        ]
        self.assertEqual(timed(CARGO), programs)

    def test_each_test_of_ctest_has_its_seconds(self):
        self.assertEqual(
            timed(CTEST), [("sdk.reading", 9.02), ("comp.pipeline", 0.31), ("comp.realdrive", 0.21)]
        )

    def test_a_script_counts_as_a_whole_and_a_build_does_not(self):
        self.assertEqual(
            timed("1 passed, 0 failed", ["python3", "tools/check_install.py"]),
            [("python3 tools/check_install.py", 7.0)],
        )
        self.assertEqual(timed("   Compiling x", ["cargo", "build"]), [])


class Table(unittest.TestCase):
    def test_the_ten_slowest_are_there_slowest_first(self):
        lines = table([(f"test{i}", float(i)) for i in range(MOST + 5)])
        self.assertEqual(len(lines), MOST)
        self.assertEqual(lines[0], "    14.0 s  test14")
        self.assertEqual(lines[-1], "     5.0 s  test5")

    def test_two_parts_of_one_program_are_one_line(self):
        self.assertEqual(
            table([("a", 1.0), ("b", 2.0), ("a", 1.5)]), ["     2.5 s  a", "     2.0 s  b"]
        )


class AtTheEndOfARun(unittest.TestCase):
    def run_main(self, *commands):
        step = Step("a", "a", list(commands), "tests")
        with mock.patch("run_tests.STEPS", [step]), mock.patch("leftovers.since", return_value=[]):
            with mock.patch("run_tests.TESTS", []), mock.patch("run_tests.STEP_SECONDS", []):
                with mock.patch(
                    "sys.stdout", io.TextIOWrapper(io.BytesIO(), write_through=True)
                ) as output:
                    main(["a"])
                    return output.buffer.getvalue().decode()

    def test_the_table_names_step_and_program(self):
        said = self.run_main(["printf", "%s", CARGO], ["printf", "%s", CTEST])
        lines = said[said.index("=== slowest tests and test programs") :].splitlines()
        self.assertEqual(
            lines[1:4],
            [
                "    31.5 s  a: processes",
                "     9.0 s  a: sdk.reading",
                "     4.5 s  a: driveline (documentation)",
            ],
        )
        self.assertRegex(said, r"=== slowest steps\n +\d+\.\d s  a\n")

    def test_the_last_line_is_still_the_count(self):
        self.assertRegex(
            self.run_main(["printf", "%s", CARGO]).splitlines()[-1], r"^\d+ passed, \d+ failed$"
        )


if __name__ == "__main__":
    unittest.main()
