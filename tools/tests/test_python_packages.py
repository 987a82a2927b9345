# SPDX-License-Identifier: Apache-2.0
"""Tests of python_packages.py: the environment is made only if it is missing or outdated."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import python_packages  # noqa: E402


class Environment(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.requirements = Path(directory.name) / "python.txt"
        self.requirements.write_text("one==1\n")
        self.environment = Path(directory.name) / "python"

    def run_main(self, pip=None):
        """Returns (exit status, true if pip was called)."""
        with (
            mock.patch("venv.create", lambda at, with_pip: Path(at).mkdir()),
            mock.patch("subprocess.run", side_effect=pip) as run,
        ):
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()) as self.said,
            ):
                return python_packages.main([self.requirements, self.environment]), run.called

    def test_it_is_made_once_and_again_when_the_list_changes(self):
        self.assertEqual(self.run_main(), (0, True))
        self.assertEqual(self.run_main(), (0, False))
        self.requirements.write_text("one==2\n")
        self.assertEqual(self.run_main(), (0, True))

    def test_a_failure_is_reported_and_tried_again(self):
        self.assertEqual(self.run_main(pip=OSError("no network")), (1, True))
        self.assertIn("no network", self.said.getvalue())
        self.assertEqual(self.run_main(), (0, True))

    def test_every_package_has_one_version(self):
        for line in python_packages.REQUIREMENTS.read_text().splitlines():
            if line and not line.startswith("#"):
                self.assertRegex(line, r"^[\w.-]+==[\d.]+( ;.*)?$")


if __name__ == "__main__":
    unittest.main()
