# SPDX-License-Identifier: Apache-2.0
"""Tests of fetch_latency_test.sh: `make peers` continues without LatencyTest and says why."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "lab" / "peers" / "fastdds" / "fetch_latency_test.sh"
PARTS = [
    "test/performance/latency/main_LatencyTest.cpp",
    "test/performance/optionarg.hpp",
    "thirdparty/optionparser/optionparser.h",
]


class FetchLatencyTest(unittest.TestCase):
    def fetch(self, parts):
        """Returns (output, fetched files) for a source package of these parts."""
        with tempfile.TemporaryDirectory() as name:
            bin_dir, into = Path(name, "bin"), Path(name, "into")
            bin_dir.mkdir()
            made = "".join(
                f"mkdir -p $(dirname fastdds-1/{part}); : >fastdds-1/{part}\n" for part in parts
            )
            for program, does in {
                "dpkg-query": "echo fastdds 1-2",
                "dpkg-source": "",
                "apt-cache": "echo ' 500 http://somewhere stable/main amd64 Packages'",
                "apt-get": f'case "$*" in *" source "*)\n{made};;\nesac',
            }.items():
                (bin_dir / program).write_text(f"#!/bin/sh\n{does}\n")
                (bin_dir / program).chmod(0o755)
            env = {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
            run = subprocess.run(
                [SCRIPT, into], env=env, capture_output=True, text=True, check=False
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout, sorted(
                str(p.relative_to(into)) for p in into.rglob("*") if p.is_file()
            )

    def test_a_whole_package_is_fetched(self):
        said, files = self.fetch(PARTS)
        self.assertEqual(said, "")
        self.assertEqual(
            files,
            [
                "latency/main_LatencyTest.cpp",
                "optionarg.hpp",
                "optionparser/optionparser.h",
                "version",
            ],
        )

    def test_a_package_that_has_its_parts_elsewhere_is_left_out(self):
        for missing in PARTS[1:]:
            said, files = self.fetch([part for part in PARTS if part != missing])
            self.assertIn(
                "LatencyTest, the latency tool of Fast DDS, is left out: "
                "the source package fastdds 1-2 has its parts elsewhere",
                said,
            )
            self.assertEqual(files, [])

    def test_a_package_without_it_is_left_out(self):
        said, files = self.fetch(PARTS[1:])
        self.assertIn("is left out: the source package fastdds 1-2 has none", said)
        self.assertEqual(files, [])
