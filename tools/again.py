# SPDX-License-Identifier: Apache-2.0
"""A Rust test that has failed beside all others is judged once more, alone (docs/adr/0025-a-failed-test-again-alone.md).

What is not known to be a single test of cargo's stays failed: a crash, what does not compile, documentation, tests of other tools.
"""

# Each has to pass.
TIMES = 3
# Tests, in all steps together: with more of them something is wrong that is none of theirs.
MOST = 3
# What chooses among the targets of packages, and how many words it takes.
TARGETS = {"--lib": 1, "--bins": 1, "--test": 2}


def command_for(command, target, name):
    """The words that run one test alone, out of those of a `cargo test` and the target that cargo names. Packages and features stay: with others
    it would be compiled anew."""
    end = command.index("--") if "--" in command else len(command)
    words, i = [], 0
    while i < end:
        taken = TARGETS.get(command[i], 0)
        words += [] if taken else [command[i]]
        i += taken or 1
    return [*words, *target, "--", *command[end + 1 :], "--exact", name]


def passes_alone(command, failed, failures, run):
    """Whether all tests that failed in a command pass alone, `TIMES` each. `failed` is how many the command has counted; `run` runs a command and
    gives (exit status, tests passed)."""
    tests = failures.rust_tests()
    if command[:2] != ["cargo", "test"] or not tests or not len(tests) == len(failures.named()) == failed:
        return False
    return all(run(command_for(command, *test)) == (0, 1) for test in tests for _ in range(TIMES))
