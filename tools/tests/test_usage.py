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


if __name__ == "__main__":
    unittest.main()
