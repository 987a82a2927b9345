# SPDX-License-Identifier: Apache-2.0
"""Tests of worst_case.py: the table from results.csv of the lab."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import worst_case

HEAD = (
    "experiment,case,role,cell,system,what,subject,unit,n,min,mean,sd,p25,p50,p75,p95,p99,"
    "p99_9,p99_99,max,skewness,excess_kurtosis,value"
)


def row(case, role, system, p999, what="transport"):
    return (
        f"worst-case,{case},{role},,{system},{what},all,ns,1000,1,1,1,1,1,1,1,1,"
        f"{p999},{p999 + 1000},{p999 + 2000},,,"
    )


class Table(unittest.TestCase):
    def test_each_cell_is_compared_with_the_floor_of_its_priority(self):
        lines = [
            HEAD,
            row("driveline: plain", "candidate", "driveline", 30_000),
            row('"driveline: FIFO and locked memory"', "candidate", "driveline", 12_000),
            row("floor: futex · processes · 1→1 at 500 Hz", "floor", "futex", 20_000),
            row("floor: futex · processes · 1→1 at 500 Hz · FIFO 80", "floor", "futex", 10_000),
            row("floor: futex again", "control", "futex", 1),
            row("floor: memcpy 64 KiB", "floor", "memcpy", 1),
            row("driveline: plain", "candidate", "driveline", 1, "schedule_relative"),
        ]
        self.assertEqual(
            worst_case.table(lines).splitlines()[2:],
            [
                "| plain | floor | 1000 | 20.0 | 1.00 | 21.0 | 22.0 |",
                "| plain | driveline | 1000 | 30.0 | 1.50 | 31.0 | 32.0 |",
                "| FIFO, locked | floor | 1000 | 10.0 | 1.00 | 11.0 | 12.0 |",
                "| FIFO, locked | driveline | 1000 | 12.0 | 1.20 | 13.0 | 14.0 |",
            ],
        )

    def test_the_load_has_one_of_each_kind_at_least(self):
        words = worst_case.load_command(2)
        for kind in worst_case.LOAD:
            self.assertGreaterEqual(int(words[words.index(f"--{kind}") + 1]), 1)


if __name__ == "__main__":
    unittest.main()
