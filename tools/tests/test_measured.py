# SPDX-License-Identifier: Apache-2.0
"""Tests of measured.py: published results name their commit and count every failure."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import measured  # noqa: E402
from measured import BEGIN, END, main, most_failures, newest, read, tables, written  # noqa: E402


def entry(step="hosts-long", number=1, failed=0, times=(), commit="c1", date="2026-01-02"):
    about = {
        "commit": commit,
        "date": date,
        "machine": "2 × x, Linux 6",
        "step": step,
        "round": number,
    }
    times = [
        {"what": what, "took_s": took, "promised_s": promised} for what, took, promised in times
    ]
    return about | {"passed": 5 - failed, "failed": failed, "seconds": 120, "times": times}


class Reading(unittest.TestCase):
    def test_lines_of_tests(self):
        line = (
            "MEASURED: after 3 s, heard again: after 152.31ms "
            "(2s promised; without a processor for up to 0.00ns)"
        )
        expected = {"what": "after 3 s, heard again", "took_s": 0.15231, "promised_s": 2.0}
        found = read(line)
        self.assertEqual(found["what"], expected["what"])
        self.assertAlmostEqual(found["took_s"], expected["took_s"])
        self.assertEqual(found["promised_s"], expected["promised_s"])
        self.assertAlmostEqual(
            read("MEASURED: x: after 3.60µs (1.5ms promised; y)")["took_s"], 3.6e-6
        )
        for other in ("test a ... ok", "a MEASURED: x: after 1.00s (2s promised)", "MEASURED: x"):
            self.assertIsNone(read(other))


class Reporting(unittest.TestCase):
    def test_of_each_step_only_the_commit_that_was_measured_last_counts(self):
        entries = [
            entry(commit="old"),
            entry("soak", commit="old"),
            entry(commit="new"),
            entry(commit="new", number=2),
        ]
        self.assertEqual(newest(entries), entries[1:])
        self.assertEqual(newest([]), [])

    def test_a_failure_is_counted_and_nothing_is_claimed_beyond_the_rounds(self):
        lines = "\n".join(
            tables(
                [
                    entry(),
                    entry(number=2, failed=1),
                    entry("soak"),
                    entry("soak", 2),
                    entry("soak", 3),
                ]
            )
        )
        self.assertIn(
            "| `hosts-long` | `c1` | 2026-01-02 | 2 | 1 | 5 | some fail | 2.0 |", lines
        )
        self.assertIn("| `soak` | `c1` | 2026-01-02 | 3 | 3 | 5 | 63 % | 2.0 |", lines)

    def test_three_hundred_good_rounds_bound_failures_at_one_in_a_hundred(self):
        self.assertAlmostEqual(most_failures(1), 0.95)
        self.assertAlmostEqual(most_failures(299), 0.01, places=4)

    def test_times_of_all_rounds_are_reported_with_the_longest(self):
        rounds = [
            entry(number=n, times=[("heard | again", took, 2.0)])
            for n, took in ((1, 0.1), (2, 2.5), (3, 0.3))
        ]
        lines = "\n".join(tables(rounds))
        self.assertIn(
            "| `hosts-long` | heard \\| again | 2.00 s | 3 | 300 ms | 2.50 s | 2 of 3 |", lines
        )


class Writing(unittest.TestCase):
    PAGE = f"# Page\n\nbefore\n\n{BEGIN}\nold\n{END}\n\nafter\n"

    def test_results_take_the_place_between_the_marks(self):
        self.assertEqual(written(self.PAGE, ["new"]), self.PAGE.replace("old", "new"))
        with self.assertRaises(ValueError):
            written("# Page\n", ["new"])

    def test_the_page_of_this_tree_has_the_marks(self):
        self.assertIn("new", written(measured.PAGE.read_text(), ["new"]))

    def write(self, *entries, more=""):
        with tempfile.TemporaryDirectory() as directory:
            page, results = Path(directory) / "page.md", Path(directory) / "results.jsonl"
            page.write_text(self.PAGE)
            if entries or more:
                results.write_text("".join(json.dumps(e) + "\n" for e in entries) + more)
            with (
                mock.patch("measured.PAGE", page),
                mock.patch("measured.RESULTS", results),
                contextlib.redirect_stderr(io.StringIO()) as said,
            ):
                return main(["--write"]), page.read_text(), said.getvalue()

    def test_results_of_no_commit_are_not_published(self):
        status, page, said = self.write(entry(commit="c1+"), entry("soak"))
        self.assertEqual((status, page), (1, self.PAGE))
        self.assertIn("of hosts-long are", said)
        self.assertIn("commit, and measure again", said)
        status, page, _ = self.write(entry(commit="c1"))
        self.assertEqual(status, 0)
        self.assertIn("`c1`", page)

    def test_without_results_it_says_how_to_get_some(self):
        status, _, said = self.write()
        self.assertEqual(status, 1)
        self.assertIn("make measure", said)

    def test_results_that_cannot_be_read_change_nothing(self):
        for entries, more, word in (
            ([entry()], '{"commit": "c', "results.jsonl:2: "),
            ([], "\n", "remove this line"),
        ):
            status, page, said = self.write(*entries, more=more)
            self.assertEqual((status, page), (1, self.PAGE))
            self.assertIn(word, said)


if __name__ == "__main__":
    unittest.main()
