# SPDX-License-Identifier: Apache-2.0
"""Finds failed tests and the first lines of their reasons in the output of cargo, ctest, unittest
and the checks.

run_tests.py repeats them at the end of its output, where readers of a long output see them.
"""

import re
from collections import deque

# Maximum excerpt of each failure; the whole output is further up.
REASON_LINES = 8
REASON_COLUMNS = 300

# Line before the output of a test program.
PROGRAM = re.compile(
    r"^\s+Running (?:unittests )?\S+ \(.*?([^/]+)-[0-9a-f]{16}\)$|^\s+Doc-tests (\S+)$"
)
# Line of cargo test for a failed test, and for a failed test program as a whole. Status 101 is left
# out: it means that the failed tests have lines of their own.
NAMES = [
    re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. FAILED$"),
    re.compile(r"^  process didn't exit successfully: .* \((?P<name>(?!exit status: 101\)).+)\)$"),
]
# Line before the output of a failed test: of cargo test, ctest, unittest and check_experiments.py.
WITH_OUTPUT = [
    re.compile(r"^---- (?P<name>.+) stdout ----$"),
    re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (?P<name>.+?) \.*\s*(?:\*\*\*|Subprocess )(?!Skipped)"),
    re.compile(r"^(?:FAIL|ERROR): (?P<name>\S+ \(.+\))$"),
    re.compile(r"^FAILED (?!\()(?P<name>\S.*)$"),
]
# Line after the output of a failed test.
END = re.compile(
    r"^(?:failures:|={20,}|Ran \d+ tests? in |\s*\d+/\d+ Test\s+#\d+: |\s+Start\s+\d+: "
    r"|test result: |\d+% tests passed|error: test failed|\d+ passed, \d+ failed$)"
)
# First line of a reason.
REASON = re.compile(
    r"panicked at|: Failure$|^\w*(?:Error|Exception)\b|^(?:error|fatal)\b|: error\b|\(killed: "
)
# Lines that are left out of excerpts.
NOISE = re.compile(r"^\s*$|^-{20,}$|^stack backtrace:|^\s+\d+: |^\s+at |^note: ")


class Failures:
    """Failures of one step, from its output line by line."""

    def __init__(self):
        self._reasons = {}  # by name, in the order of failing
        self._program = ""
        self._open = None
        self._last = deque(maxlen=REASON_LINES)
        self._errors = []

    def feed(self, line):
        """Reads a line without its end."""
        program = PROGRAM.match(line)
        if program:
            self._program = (program[1] or f"{program[2]} (documentation)") + ": "
        if not NOISE.match(line):
            self._last.append(line)
        if REASON.search(line) and len(self._errors) < REASON_LINES:
            self._errors.append(line)
        failed = first_match(NAMES, line)
        with_output = first_match(WITH_OUTPUT, line)
        if failed:
            self._reasons.setdefault(self._program + failed["name"], [])
        elif with_output:
            self._open = self._reasons.setdefault(self._program + with_output["name"], [])
        elif END.match(line):
            self._open = None
        elif self._open is not None and not NOISE.match(line):
            self._open.append(line)

    def named(self):
        """Returns the failed tests as {name: first lines of the reason}."""
        return {name: excerpt(lines) for name, lines in self._reasons.items()}

    def unnamed(self):
        """Returns the error lines of a failed step that names no test, or else its last lines."""
        return cut(self._errors or self._last)


def first_match(patterns, line):
    return next((m for m in (pattern.match(line) for pattern in patterns) if m), None)


def excerpt(lines):
    begin = next(
        (i for i, line in enumerate(lines) if REASON.search(line)),
        max(0, len(lines) - REASON_LINES),
    )
    return cut(lines[begin : begin + REASON_LINES])


def cut(lines):
    return [
        line if len(line) <= REASON_COLUMNS else line[: REASON_COLUMNS - 1] + "…" for line in lines
    ]
