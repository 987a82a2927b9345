#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks ten promises of the product in the source, one at a time, and checks that gating tests
notice each. Gating tests are those of `make test` and `make test-gateways`, which a merge needs.

Usage: mutants.py [--list] [--check] [NAME...]    without names, all ten

--list prints the mutants. --check only checks that every patch still applies; nothing is built.
The mutants live in a git worktree of HEAD (build/mutants/tree) with a target directory of their own
(build/mutants/target), so that they do not disturb other builds. Uncommitted changes are not in it.
First the tests of each mutant must pass without it. Then the mutant is killed if one of these tests
fails, and survives if all pass. A failed test is never run again.

Exit status: 0 if all ten were killed; 1 if one survived or was not run; 2 if a patch does not
apply, a mutant does not compile, or a test fails without any mutant.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from failures import Failures
from run_tests import count
from usage import answer_help, end_with_the_reader

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build/mutants"
# Reached only by a program that hangs: each wait in a gating test has a time-out of a minute.
LIMIT_S = 1800


@dataclass(frozen=True)
class Tests:
    """Tests of one test program."""

    package: str
    target: str  # "lib" or the name of an integration test
    only: str = ""  # runs only tests with this in their names; empty: all
    ignored: bool = False  # runs the ignored tests, which `make test` runs as root

    def program(self):
        """The arguments of cargo test that choose the program."""
        return [
            "-p",
            self.package,
            *(["--lib"] if self.target == "lib" else ["--test", self.target]),
        ]

    def arguments(self):
        """The arguments of cargo test that run the tests."""
        return [
            *self.program(),
            "--",
            *(["--ignored"] if self.ignored else []),
            *filter(None, [self.only]),
        ]


@dataclass(frozen=True)
class Mutant:
    """One promise, the text that keeps it, the text that breaks it, and the smallest set of tests
    that should notice.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: tuple

    def as_root(self):
        """Returns true if only root can run its tests."""
        return any(tests.ignored for tests in self.tests)


MUTANTS = [
    Mutant(
        "skipped-older",
        "A sample that is skipped in favour of a newer one of another publisher counts as missed",
        "crates/driveline-shm/src/subscription.rs",
        "let passed = newest + 1 - e.next();\n"
        "                add(&e.progress.counters.missed, passed);\n",
        "let passed = newest + 1 - e.next();\n",
        (Tests("driveline", "ledger"),),
    ),
    Mutant(
        "settle",
        "Counters of a publisher that is gone stay in the sums of its subscription",
        "crates/driveline-shm/src/inlet.rs",
        "add_edge(&mut gone, e, |publisher| afar.furthest(publisher));\n",
        "\n",
        (Tests("driveline", "ledger"),),
    ),
    Mutant(
        "pin-check",
        "A reader uses a slot only if the slot still holds the wanted sample after it was pinned",
        "crates/driveline-shm/src/protocol/reader.rs",
        "if segment.seqw(slot).load(Relaxed) == sequence {",
        "if segment.seqw(slot).load(Relaxed) == sequence || sequence != 0 {",
        (
            Tests("driveline-shm", "processes", "hostile_memory::"),
            Tests("driveline-shm", "processes", "torn::"),
        ),
    ),
    Mutant(
        "checksum",
        "A sample whose payload does not match its checksum counts as corrupt",
        "crates/driveline-shm/src/subscription.rs",
        "let wrong = sum != XxHash3_64::oneshot(sample.payload());",
        "let wrong = sum == 0 && sum != XxHash3_64::oneshot(sample.payload());",
        (Tests("driveline-shm", "processes", "hostile_memory::"),),
    ),
    Mutant(
        "peer-user",
        "Rights on a topic go by the user that the kernel names (SO_PEERCRED)",
        "crates/driveline-shm/src/sys/peer.rs",
        "credentials(socket).map(|cred| User::of(cred.uid))",
        "credentials(socket).map(|_| User::own())",
        (Tests("driveline-shm", "processes", "users::", ignored=True),),
    ),
    Mutant(
        "held-limit",
        "A subscription holds no more samples at once than it asked for",
        "crates/driveline/src/local/held.rs",
        "counters.filter(|(_, c)| c.load(Ordering::Acquire) == 0);",
        "counters.filter(|(_, c)| c.load(Ordering::Acquire) < u32::MAX);",
        (Tests("driveline", "lib", "local::"), Tests("driveline", "conformance")),
    ),
    Mutant(
        "duplicate-acknowledgement",
        "An acknowledgement that comes twice counts once",
        "crates/driveline-gateway-zenoh/src/window.rs",
        "if before == self.flying.len() {\n            return false;\n",
        "if before == self.flying.len() {\n"
        "            self.counters.delivered += 1;\n            return false;\n",
        (Tests("driveline-gateway-zenoh", "lib", "window::"),),
    ),
    Mutant(
        "unknown-key",
        "A key of a graph file that does not exist is refused",
        "crates/driveline-graph/src/model.rs",
        "#[serde(deny_unknown_fields)]\npub struct ComponentSpec {",
        "pub struct ComponentSpec {",
        (Tests("driveline-graph", "lib"),),
    ),
    Mutant(
        "open-account",
        "A measured run whose account does not close is invalid",
        "lab/bench/src/account.rs",
        "if accounted != published {",
        "if accounted > published {",
        (Tests("driveline-bench", "lib", "account"),),
    ),
    Mutant(
        "deadline-event",
        "A subscription whose deadline has passed without a sample gets an event",
        "crates/driveline-shm/src/deadline.rs",
        "self.not_before = now + REPORT_INTERVAL;\n        Some(DeadlinesMissed { missed, total })",
        "self.not_before = now + REPORT_INTERVAL;\n"
        "        Some(DeadlinesMissed { missed, total }).filter(|_| false)",
        (Tests("driveline", "lib", "executor::"),),
    ),
]


def patched(mutant, text):
    """Returns the text of the mutant's file with its patch.

    Raises ValueError, which names the mutant, if the patch does not apply.
    """
    places = text.count(mutant.old)
    if places != 1:
        found = "is missing" if places == 0 else f"occurs {places} times"
        raise ValueError(
            f"mutant '{mutant.name}' does not apply: its old text {found} in {mutant.file}; "
            f"adapt MUTANTS in tools/mutants.py so that it still breaks this: {mutant.promise}\n"
            f"    {mutant.old.strip()!r}"
        )
    return text.replace(mutant.old, mutant.new)


def check(root, mutants=MUTANTS):
    """Yields a message for each mutant that does not apply to the tree at `root`."""
    for mutant in mutants:
        try:
            patched(mutant, (Path(root) / mutant.file).read_text())
        except OSError as e:
            yield (
                f"mutant '{mutant.name}' does not apply: cannot read {mutant.file}: {e.strerror}; "
                "adapt MUTANTS in tools/mutants.py"
            )
        except ValueError as e:
            yield str(e)


class Broken(Exception):
    """A mutant that could not be tested, with the reason."""


class Bench:
    """A scratch tree in which mutants are built and tested."""

    def __init__(self, scratch=SCRATCH, root=ROOT):
        self.root, self.tree, self.target = root, scratch / "tree", scratch / "target"
        self.passed = set()

    def __enter__(self):
        self.remove()
        self.tree.parent.mkdir(parents=True, exist_ok=True)
        add = ["worktree", "add", "--quiet", "--force", "--detach", self.tree, "HEAD"]
        subprocess.run(["git", "-C", self.root, *add], check=True)
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        """Removes the tree, also that of an interrupted run.

        The target directory stays for the next run.
        """
        subprocess.run(
            ["git", "-C", self.root, "worktree", "remove", "--force", self.tree],
            capture_output=True,
        )
        shutil.rmtree(self.tree, ignore_errors=True)

    def cargo(self, arguments):
        """Runs cargo test in the tree.

        Returns (exit status, output); the status is None after the time-out.
        """
        command = ["cargo", "test", "--locked", *arguments]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        pipes = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        try:
            ran = subprocess.run(command, cwd=self.tree, env=environment, timeout=LIMIT_S, **pipes)
        except subprocess.TimeoutExpired as e:
            return None, (e.output or b"").decode(errors="replace")
        return ran.returncode, ran.stdout.decode(errors="replace")

    def run(self, tests, what):
        """Builds and runs tests. Returns the names of failed tests; empty if all passed."""
        status, output = self.cargo(["--no-run", *tests.program()])
        if status != 0:
            raise Broken(f"{what} does not compile:\n{last_lines(output)}")
        status, output = self.cargo(tests.arguments())
        failures, passed = Failures(), 0
        for line in output.splitlines():
            failures.feed(line)
            passed += count(line).passed
        if status == 0:
            if passed == 0:
                raise Broken(
                    f"`{command(tests)}` ran no test; "
                    f"check that test names still contain '{tests.only}'"
                )
            return []
        names = list(failures.named())
        return names or [
            f"no end within {LIMIT_S} s" if status is None else f"exit status {status}"
        ]

    def test(self, mutant):
        """Returns the names of the tests that notice a mutant; empty if it survives."""
        for tests in mutant.tests:
            if tests not in self.passed:
                failed = self.run(tests, "the tree without any mutant")
                if failed:
                    raise Broken(
                        f"`{command(tests)}` fails without any mutant: {', '.join(failed)}"
                    )
                self.passed.add(tests)
        path = self.tree / mutant.file
        whole = path.read_text()
        path.write_text(patched(mutant, whole))
        try:
            for tests in mutant.tests:
                failed = self.run(tests, f"mutant '{mutant.name}'")
                if failed:
                    return failed
        finally:
            path.write_text(whole)
        return []


def command(tests):
    return f"cargo test {shlex.join(tests.arguments())}"


def last_lines(output, count=15):
    return "\n".join("    " + line for line in output.splitlines()[-count:])


def judge(mutants, bench, write=print):
    """Tests each mutant and prints a line for it.

    Returns (killed, survived, not run, broken): names.
    """
    killed, survived, left_out, broken = [], [], [], []
    for mutant in mutants:
        if mutant.as_root() and os.geteuid() != 0:
            write(f"not run   {mutant.name:26} its tests need root, to be several users")
            left_out.append(mutant.name)
            continue
        started = time.monotonic()
        try:
            noticed = bench.test(mutant)
        except Broken as e:
            write(f"error: {e}")
            broken.append(mutant.name)
            continue
        seconds = time.monotonic() - started
        if noticed:
            more = f" and {len(noticed) - 1} more" if len(noticed) > 1 else ""
            write(f"killed    {mutant.name:26} {seconds:4.0f} s  by {noticed[0]}{more}")
            killed.append(mutant.name)
        else:
            write(
                f"SURVIVED  {mutant.name:26} {seconds:4.0f} s  {mutant.promise}: "
                f"no test of {mutant.file} notices"
            )
            survived.append(mutant.name)
    return killed, survived, left_out, broken


def main(arguments):
    names = [a for a in arguments if not a.startswith("--")]
    unknown = set(names) - {m.name for m in MUTANTS} | {
        a for a in arguments if a.startswith("--")
    } - {"--list", "--check"}
    if unknown:
        print(
            f"error: there is no {', '.join(sorted(unknown))}; "
            "`tools/mutants.py --list` names the mutants",
            file=sys.stderr,
        )
        return 2
    if "--list" in arguments:
        end_with_the_reader()
        for mutant in MUTANTS:
            print(f"{mutant.name:26} {mutant.promise}\n{'':26} {mutant.file}")
            for tests in mutant.tests:
                print(f"{'':26} {command(tests)}")
        return 0
    wrong = list(check(ROOT))
    for message in wrong:
        print(f"error: {message}", file=sys.stderr)
    if wrong or "--check" in arguments:
        return 2 if wrong else 0
    changed = subprocess.run(
        ["git", "-C", ROOT, "status", "--porcelain", "--", "crates", "lab"],
        check=True,
        capture_output=True,
    ).stdout
    if changed:
        print(
            "warning: uncommitted changes are not tested: mutants are made from HEAD",
            file=sys.stderr,
        )
    chosen = [m for m in MUTANTS if not names or m.name in names]
    with Bench() as bench:
        # The commit may differ from the tree.
        wrong = list(check(bench.tree, chosen))
        if wrong:
            print(*(f"error: {message}" for message in wrong), sep="\n", file=sys.stderr)
            return 2
        killed, survived, left_out, broken = judge(
            chosen, bench, lambda line: print(line, flush=True)
        )
    not_run = left_out + [m.name for m in MUTANTS if m not in chosen]
    print(
        f"{len(killed)} of {len(MUTANTS)} mutants killed"
        + (f"; survived: {', '.join(survived)}" if survived else "")
        + (f"; not testable: {', '.join(broken)}" if broken else "")
        + (f"; not run: {', '.join(not_run)}" if not_run else "")
    )
    if broken:
        return 2
    return 0 if len(killed) == len(MUTANTS) else 1


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
