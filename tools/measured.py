#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results of `make measure`: promised and measured times, number of rounds, commit.

Usage: measured.py
         prints tables of build/measured/results.jsonl, as Markdown: of each step, the rounds at the
         commit that was measured last
       measured.py --write
         writes the tables into docs/reliability.md, between its two marks

`run_tests.py --measured` adds a line to results.jsonl for each step and round. Times come from
lines that tests print: "MEASURED: WHAT: after TIME (PROMISED promised; ...)".
"""

import json
import platform
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from statistics import median

from test_steps import ROOT, STEPS
from usage import answer_help, end_with_the_reader

RESULTS = ROOT / "build/measured/results.jsonl"
PAGE = ROOT / "docs/reliability.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
# Confidence of the upper bound on the share of failing rounds, after rounds without a failure.
CONFIDENCE = 0.95

LINE = re.compile(r"^MEASURED: (.*): after ([\d.]+)(ns|µs|ms|s) \(([\d.]+)(ns|µs|ms|s) promised\b")
UNITS_S = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def commit():
    """Returns the commit, with a `+` if the tree has uncommitted changes."""
    words = ["git", "-C", ROOT, "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def read(line):
    """Returns the measurement in a line of a test's output, or None."""
    found = LINE.match(line)
    if not found:
        return None
    what, took, unit, promised, promised_unit = found.groups()
    return {
        "what": what,
        "took_s": float(took) * UNITS_S[unit],
        "promised_s": float(promised) * UNITS_S[promised_unit],
    }


def record(step, round_number, tally, seconds, times):
    """Adds the result of one round of a step."""
    entry = {
        "commit": commit(),
        "date": date.today().isoformat(),
        "machine": machine(),
        "step": step,
        "round": round_number,
    }
    entry |= {
        "passed": tally.passed,
        "failed": tally.failed,
        "seconds": round(seconds),
        "times": times,
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def machine():
    """Returns the names of processor and kernel."""
    try:
        models = re.findall(
            r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE
        )
    except OSError:
        models = []
    name = f"{len(models)} × {models[0]}" if models else platform.machine()
    return f"{name}, Linux {platform.release()}"


def most_failures(rounds):
    """Returns the upper bound for the share of failing rounds, if none of `rounds` has failed."""
    return 1 - (1 - CONFIDENCE) ** (1 / rounds)


def seconds(value):
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s"


def newest(entries):
    """Returns the entries of each step at the commit where this step was measured last."""
    last = {e["step"]: e["commit"] for e in entries}
    return [e for e in entries if e["commit"] == last[e["step"]]]


def tables(entries):
    """Yields Markdown lines about entries, those of a step all of one commit."""
    yield f"Machine: {'; '.join(dict.fromkeys(e['machine'] for e in entries))}."
    yield ""
    yield (
        "| step | commit | date | rounds | without a failure | tests in each "
        "| failing rounds, at most (95 %) | minutes of a round |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    order = [step.name for step in STEPS]
    for name in sorted(
        {e["step"] for e in entries},
        key=lambda n: (order.index(n) if n in order else len(order), n),
    ):
        of_step = [e for e in entries if e["step"] == name]
        good = sum(e["failed"] == 0 for e in of_step)
        bound = f"{100 * most_failures(good):.0f} %" if good == len(of_step) else "some fail"
        tests = max(e["passed"] + e["failed"] for e in of_step)
        minutes = median(e["seconds"] for e in of_step) / 60
        yield (
            f"| `{name}` | `{of_step[-1]['commit']}` | {of_step[-1]['date']} "
            f"| {len(of_step)} | {good} | {tests} | {bound} | {minutes:.1f} |"
        )
    times = {}
    for entry in entries:
        for time in entry["times"]:
            times.setdefault((entry["step"], time["what"], time["promised_s"]), []).append(
                time["took_s"]
            )
    if times:
        yield ""
        yield "| step | measured | promised | times | median | longest | in time |"
        yield "|---|---|---|---|---|---|---|"
    for (step, what, promised), took in sorted(times.items()):
        kept = sum(t <= promised for t in took)
        what = what.replace("|", "\\|")
        yield (
            f"| `{step}` | {what} | {seconds(promised)} | {len(took)} | {seconds(median(took))} "
            f"| {seconds(max(took))} | {kept} of {len(took)} |"
        )


def written(page, lines):
    """Returns the page with these lines between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"docs/reliability.md lacks the lines `{BEGIN}` and `{END}`; "
            "results are written between them"
        )
    return "\n".join([before + begin, *lines, end + after])


def main(arguments):
    if arguments not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not RESULTS.exists():
        print(f"error: {RESULTS} does not exist: run `make measure`", file=sys.stderr)
        return 1
    entries = []
    for number, line in enumerate(RESULTS.read_text().splitlines(), 1):
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError as e:
            print(f"error: {RESULTS}:{number}: {e}: remove this line", file=sys.stderr)
            return 1
    if not entries:
        print(f"error: {RESULTS} is empty: run `make measure`", file=sys.stderr)
        return 1
    entries = newest(entries)
    if not arguments:
        end_with_the_reader()
        print(*tables(entries), sep="\n")
        return 0
    uncommitted = sorted({e["step"] for e in entries if e["commit"].endswith("+")})
    if uncommitted:
        print(
            f"error: the last results of {', '.join(uncommitted)} are of a tree with uncommitted "
            "changes: commit, and measure again",
            file=sys.stderr,
        )
        return 1
    try:
        PAGE.write_text(written(PAGE.read_text(), tables(entries)))
    except ValueError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
