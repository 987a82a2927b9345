# SPDX-License-Identifier: Apache-2.0
"""What has failed, by name and with the first words of its reason, out of what cargo, ctest, unittest and the checks print.

Whoever sees only the end of a long output is to know it all the same.
"""

import re
from collections import deque

# Of each failure; the whole is further up.
REASON_LINES = 8
REASON_COLUMNS = 300

# Which test program speaks.
PROGRAM = re.compile(
    r"^\s+Running (?:unittests )?\S+ \(.*?([^/]+)-[0-9a-f]{16}\)$|^\s+Doc-tests (\S+)$"
)
# A test that has failed: by cargo test, and by cargo test a whole program (101 is that of tests that have names) …
NAMES = [
    re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. FAILED$"),
    re.compile(r"^  process didn't exit successfully: .* \((?P<name>(?!exit status: 101\)).+)\)$"),
]
# … by cargo test again, by ctest, by unittest, by check_experiments.py: what it said follows.
WITH_OUTPUT = [
    re.compile(r"^---- (?P<name>.+) stdout ----$"),
    re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (?P<name>.+?) \.*\s*(?:\*\*\*|Subprocess )(?!Skipped)"),
    re.compile(r"^(?:FAIL|ERROR): (?P<name>\S+ \(.+\))$"),
    re.compile(r"^FAILED (?!\()(?P<name>\S.*)$"),
]
# Where it ends at the latest.
END = re.compile(
    r"^(?:failures:|={20,}|Ran \d+ tests? in |\s*\d+/\d+ Test\s+#\d+: |\s+Start\s+\d+: |test result: |\d+% tests passed|error: test failed|\d+ passed, \d+ failed$)"
)
# Where a reason begins.
REASON = re.compile(
    r"panicked at|: Failure$|^\w*(?:Error|Exception)\b|^(?:error|fatal)\b|: error\b|\(killed: "
)
# Not needed here.
NOISE = re.compile(r"^\s*$|^-{20,}$|^stack backtrace:|^\s+\d+: |^\s+at |^note: ")


class Failures:
    """Reads one step's output line by line."""

    def __init__(self):
        self._reasons = {}  # by name, in the order of failing
        self._program = ""
        self._open = None
        self._last = deque(maxlen=REASON_LINES)
        self._errors = []

    def feed(self, line):
        """A line without its end."""
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
        """What has failed: {name: the first lines of its reason}."""
        return {name: excerpt(lines) for name, lines in self._reasons.items()}

    def unnamed(self):
        """Of a step that has failed without a word of which test it was: what it said about it, or last."""
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
