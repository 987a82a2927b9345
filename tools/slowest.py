# SPDX-License-Identifier: Apache-2.0
"""The slowest tests, test programs and steps of a run, from the output of cargo and ctest."""

import re
import shlex

from failures import PROGRAM

# Lines of each table.
MOST = 10

# Last line of one test program of cargo test, and of one test of ctest.
CARGO = re.compile(r"^test result: .*; finished in (\d+(?:\.\d+)?)s$")
CTEST = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) .*?(\d+(?:\.\d+)?) sec\b")


class Timed:
    """Reads the output of one command line by line and remembers the seconds of each test program
    or test in it.
    """

    def __init__(self, command=()):
        self._command = command
        self._program = None
        self.seconds = []  # (name, seconds)

    def feed(self, line):
        """Reads a line without its end."""
        program = PROGRAM.match(line)
        if program:
            self._program = program[1] or f"{program[2]} (documentation)"
        elif found := CARGO.match(line):
            self.seconds.append((self._program or "a program of cargo test", float(found[1])))
        elif found := CTEST.match(line):
            self.seconds.append((found[1], float(found[2])))

    def end(self, seconds):
        """Ends the command, which took `seconds`. A script is a test program as a whole."""
        if self._command[:1] == ["python3"] and not self.seconds:
            self.seconds.append((shlex.join(self._command), seconds))


def table(seconds):
    """Returns the ten slowest of (name, seconds), one line each.

    A name that occurs several times has one line with the sum.
    """
    sums = {}
    for name, of_it in seconds:
        sums[name] = sums.get(name, 0.0) + of_it
    slowest = sorted(sums.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST]
    return [f"{of_it:8.1f} s  {name}" for name, of_it in slowest]
