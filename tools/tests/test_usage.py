# SPDX-License-Identifier: Apache-2.0
"""Every program in tools/ answers --help, and does nothing else then."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent


class Help(unittest.TestCase):
    def test_every_python_program_answers_help(self):
        programs = [p for p in sorted(TOOLS.glob("*.py")) if os.access(p, os.X_OK)]
        self.assertGreater(len(programs), 10)
        for program in programs:
            with self.subTest(program=program.name):
                done = subprocess.run(
                    [sys.executable, program, "--help"], capture_output=True, text=True, timeout=60
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("usage: ", done.stdout.lower())

    def test_a_list_ends_with_its_reader(self):
        for words in ("mutants.py --list", "run_tests.py --list", "check_language.py --list tools"):
            with self.subTest(program=words):
                name, *arguments = words.split()
                read, write = os.pipe()
                os.close(read)
                with subprocess.Popen(
                    [sys.executable, TOOLS / name, *arguments],
                    stdout=write,
                    stderr=subprocess.PIPE,
                    text=True,
                ) as program:
                    os.close(write)
                    self.assertEqual(program.communicate(timeout=60)[1], "")


if __name__ == "__main__":
    unittest.main()
