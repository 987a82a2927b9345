# SPDX-License-Identifier: Apache-2.0
"""What programs in tools/ do alike: answer `--help` without a parser, and end with their reader."""

import signal
import sys


def answer_help(description):
    """Prints the description of a program and ends it, if an argument asks for help."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(description.strip())
        sys.exit(0)


def end_with_the_reader():
    """Ends this program without a message when the reader of its output ends, as in `| head`."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
