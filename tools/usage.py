# SPDX-License-Identifier: Apache-2.0
"""Answers `--help` for programs that take so few arguments that they need no parser."""

import sys


def answer_help(description):
    """Prints the description of a program and ends it, if an argument asks for help."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(description.strip())
        sys.exit(0)
