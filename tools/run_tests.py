#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of `make test`, `make test-gateways` or `make measure`.

The output ends with the slowest tests and steps, one line for each failure, and the line "N passed,
M failed". The steps after a failed step still run. So do the commands after a failed command of a
step, unless the step builds what they need. A step fails if it should run tests and runs none.

Usage: run_tests.py [STEP...]               runs the steps of `make test`
       run_tests.py --list                  prints the names of the steps of all suites
       run_tests.py --gateways [STEP...]    runs the steps of `make test-gateways`
       run_tests.py --measured [--rounds N] [STEP...]
                                            runs the steps of `make measure` in N rounds (default 3)
                                            and adds the results to build/measured (measured.py)
With names, only the named steps run, even if they belong to another suite.
"""

import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path

import leftovers
import measured
from failures import Failures
from slowest import Timed, table
from test_programs import Program, has_documentation, programs_of_cargo, runs_tests, split
from test_steps import JOBS, LONG, ROOT, STEPS, Step
from usage import answer_help, end_with_the_reader

# Maximum number of failures whose reasons are repeated at the end.
MOST_REASONS = 30
# Number of test programs that run at the same time, except in measured steps. Most of them wait.
AT_ONCE = 2 * int(JOBS)
# After a silence of this many seconds, the names of the running programs are printed.
SILENT_S = 60
# Disk space that each suite needs for a build from nothing, in GiB. Checked before the first step,
# so that the linker does not fail in the last one.
ROOM = {"test": 8, "gateways": 12, "measured": 20}


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    ignored: int = 0

    def __add__(self, other):
        return Tally(
            self.passed + other.passed, self.failed + other.failed, self.ignored + other.ignored
        )


PATTERNS = [
    # cargo test, once for each test program
    (
        re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored"),
        lambda m: Tally(int(m[1]), int(m[2]), int(m[3])),
    ),
    # ctest
    (
        re.compile(r"^\d+% tests passed, (\d+) tests failed out of (\d+)"),
        lambda m: Tally(int(m[2]) - int(m[1]), int(m[1])),
    ),
    # check_experiments.py
    (re.compile(r"^(\d+) passed, (\d+) failed$"), lambda m: Tally(int(m[1]), int(m[2]))),
    # python's unittest
    (re.compile(r"^Ran (\d+) tests? in "), lambda m: Tally(int(m[1]))),
    (
        re.compile(r"^FAILED \((.*)\)"),
        lambda m: (lambda n: Tally(-n, n))(
            sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", m[1])))
        ),
    ),
]


def count(line):
    """Returns the tally of one line of output; zero if it has no numbers of tests."""
    for pattern, tally in PATTERNS:
        found = pattern.match(line)
        if found:
            return tally(found)
    return Tally()


# Lines of tests that cannot run on this machine. They count as passed; the lines are repeated at
# the end.
SKIPPED = []
# ctest does not print the reason.
SKIPPED_BY_CTEST = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) .*\*\*\*Skipped")


def skipped(line, command):
    """Returns the text about a skipped test in a line of a command's output, or None."""
    found = SKIPPED_BY_CTEST.match(line)
    if found:
        again = (
            ["ctest", "--test-dir", command[command.index("--test-dir") + 1]]
            if "--test-dir" in command
            else ["ctest"]
        )
        return f"SKIPPED: {found[1]}: `{' '.join(again)} -V -R '^{found[1]}$'` says why"
    return line if line.startswith("SKIPPED: ") else None


# Measurements that tests have printed.
MEASURED = []
# Seconds of tests and test programs, and of steps, as (name, seconds).
TESTS, STEP_SECONDS = [], []


@dataclass
class Result:
    """The result of a command."""

    status: int = 0
    tally: Tally = field(default_factory=Tally)
    failures: Failures = field(default_factory=Failures)
    # Processor time, in seconds, of the command and all commands that it waited for. A large part
    # of the step's time means that the step builds, which a faster machine shortens; a small part
    # means that it waits.
    worked_s: float = 0.0


def run_job(job, write, step, messages=None):
    """Runs one command. Returns its result.

    Its output goes to `write` line by line. With a file `messages`, its standard output goes there
    instead.
    """
    result, timed, started = Result(), Timed(job.command), time.monotonic()

    def read(line):
        result.tally += count(line)
        result.failures.feed(line)
        timed.feed(line)
        SKIPPED.extend(filter(None, [skipped(line, job.command)]))
        MEASURED.extend(filter(None, [measured.read(line)]))

    def say(line):
        write(f"{line}\n".encode())
        read(line)

    if job.title:
        say(job.title)
    try:
        process = subprocess.Popen(
            job.command,
            cwd=job.directory,
            env={**os.environ, **job.environment},
            stdout=messages or subprocess.PIPE,
            stderr=subprocess.PIPE if messages else subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    except OSError as e:
        say(f"error: cannot start {job.command[0]}: {e.strerror}; run `make setup`")
        result.status = 127
        return result
    with process:
        for raw in process.stderr if messages else process.stdout:
            write(raw)
            read(raw.decode(errors="replace").rstrip("\r\n"))
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = result.status = os.waitstatus_to_exitcode(status)
        result.worked_s = used.ru_utime + used.ru_stime
    # 101: the program has printed its failed tests.
    if job.title and result.status not in (0, 101):
        ended = (
            f"exit status: {result.status}" if result.status > 0 else f"signal: {-result.status}"
        )
        say(f"  process didn't exit successfully: `{shlex.join(job.command)}` ({ended})")
        result.tally += Tally(0, 1)
    timed.end(time.monotonic() - started)
    TESTS.extend((f"{step}: {name}", seconds) for name, seconds in timed.seconds)
    return result


def pass_through(raw):
    sys.stdout.buffer.write(raw)
    sys.stdout.flush()


def say_to(write, line):
    """Writes one line of text."""
    write(f"{line}\n".encode())


def build_programs(step, command, write):
    """Builds the test programs of a command of cargo test.

    Returns (programs, result of the build); no programs if the build has failed.
    """
    cargo, words = split(command)
    with tempfile.TemporaryFile() as messages:
        build = [*cargo, "--no-run", "--message-format=json-render-diagnostics"]
        build = Program(step.name, build, environment=step.environment)
        built = run_job(build, write, step.name, messages)
        if built.status:
            return [], built
        messages.seek(0)
        output = messages.read().decode()
    programs = sorted(programs_of_cargo(step, command, output), key=lambda p: not is_long(p))
    if has_documentation(command):
        examples = [*cargo, "--doc", *(["--", *words] if words else [])]
        programs.append(Program(step.name, examples, environment=step.environment))
    return programs, built


def is_long(program):
    """Returns true for a test program that starts before the others."""
    return Path(program.command[0]).name.rpartition("-")[0] in LONG


def run_commands(step, commands, write):
    """Runs commands of a step at the same time, in measured steps one after the other.

    The programs of a command `cargo test` count as a command each. Returns the results.
    """
    jobs, results = [], []
    for command in commands:
        if runs_tests(command):
            programs, built = build_programs(step, command, write)
            jobs += programs
            results.append(built)
        else:
            jobs.append(Program(step.name, command, environment=step.environment))
    at_once = 1 if step.suite == "measured" else AT_ONCE
    if len(jobs) > 1 < at_once:
        return results + run_together(step, jobs, at_once, write)
    return results + [run_job(job, write, step.name) for job in jobs]


def run_together(step, jobs, at_once, write):
    """Runs jobs, several at a time, and prints the output of each as a whole when it ends."""
    results, running, ended = [], {}, queue.Queue()
    todo = deque(jobs)

    def run(job):
        output = []
        result = run_job(job, output.append, step.name)
        ended.put((job, output, result))

    while todo or running:
        while todo and len(running) < at_once:
            job = todo.popleft()
            running[id(job)] = (job, time.monotonic())
            threading.Thread(target=run, args=(job,), daemon=True).start()
        try:
            job, output, result = ended.get(timeout=SILENT_S)
        except queue.Empty:
            for job, started in running.values():
                say_to(
                    write,
                    f"    running for {time.monotonic() - started:.0f} s: "
                    f"{job.title.strip() or shlex.join(job.command)}",
                )
            continue
        del running[id(job)]
        write(b"".join(output))
        results.append(result)
    return results


def run_step(step, said=None, write=pass_through):
    """Runs one step and returns its tally.

    Adds its failures to `said`, as (name, lines of the reason).
    """
    say_to(write, f"\n=== {step.name}: {step.title}")
    if step.as_root and os.geteuid() != 0:
        say_to(
            write, f"--- {step.name}: not run, 1 ignored: only root can be several users"
        )
        return Tally(0, 0, 1)
    started, results = time.monotonic(), []
    for commands in step.rounds():
        results += run_commands(step, commands, write)
        if step.builds and any(r.status for r in results):
            break
    seconds = time.monotonic() - started
    STEP_SECONDS.append((step.name, seconds))
    failed = [r for r in results if r.status]
    tally = finish(
        step,
        failed[0].status if failed else 0,
        sum((r.tally for r in results), Tally()),
        seconds,
        sum(r.worked_s for r in results),
        write,
    )
    if said is not None and tally.failed:
        named = {name: lines for r in failed for name, lines in r.failures.named().items()}
        said += [(f"{step.name}: {name}", lines) for name, lines in named.items()] or [
            (step.name, [line for r in failed for line in r.failures.unnamed()])
        ]
    return tally


def finish(step, status, tally, seconds, worked, write):
    """Judges a step by exit status and counts, and prints its closing line."""
    if step.counts == "check":
        tally = Tally(1, 0) if status == 0 else Tally(0, 1)
    elif status != 0 and tally.failed == 0:
        tally += Tally(0, 1)
    elif status == 0 and tally.passed == 0:
        say_to(write, f"error: {step.name} ran no test")
        tally += Tally(0, 1)
    ignored = f", {tally.ignored} ignored" if tally.ignored else ""
    say_to(
        write,
        f"--- {step.name}: {tally.passed} passed, {tally.failed} failed{ignored} "
        f"({seconds:.0f} s; {worked:.0f} s of processors)",
    )
    return tally


def print_failures(said):
    """Prints the reasons, then the names of all failures, which readers see at the end."""
    if any(lines for _, lines in said):
        print("\n=== reasons", flush=True)
    for name, lines in said[:MOST_REASONS]:
        if lines:
            print(f"{name}\n    " + "\n    ".join(lines))
    if said:
        print("\n=== failed", flush=True)
    for name, _ in said:
        print(f"FAILED {name}")


def print_slowest():
    """Prints the slowest tests and test programs, and the slowest steps."""
    for title, seconds in (("tests and test programs", TESTS), ("steps", STEP_SECONDS)):
        if seconds:
            print(f"\n=== slowest {title}\n" + "\n".join(table(seconds)), flush=True)


def lack_of_space(suite, free):
    """Returns a warning if a whole suite may not fit into `free` bytes, else None."""
    if free >= ROOM[suite] << 30:
        return None
    return (
        f"{ROOT} has {free / (1 << 30):.1f} GiB free, and a build from nothing takes up to "
        f"{ROOM[suite]}: make room, or build elsewhere with CARGO_TARGET_DIR"
    )


def rounds_of(arguments):
    """Returns (number of rounds, other arguments). Raises ValueError for an invalid number."""
    if "--rounds" not in arguments:
        return 3, arguments
    at = arguments.index("--rounds")
    number = arguments[at + 1] if at + 1 < len(arguments) else ""
    if not number.isdecimal() or int(number) == 0:
        raise ValueError(f"--rounds needs a number of at least 1, not '{number}'")
    if "--measured" not in arguments:
        raise ValueError("--rounds needs --measured: other steps run once")
    return int(number), arguments[:at] + arguments[at + 2 :]


def start_beside(steps):
    """Runs steps one after the other in a thread of their own.

    Returns a future for each, of (tally, failures as in `run_step`, output).
    """
    futures = [Future() for _ in steps]

    def run():
        for step, future in zip(steps, futures):
            said, output = [], []
            try:
                future.set_result((run_step(step, said, output.append), said, output))
            except Exception as e:
                future.set_exception(e)

    threading.Thread(target=run, daemon=True).start()
    return futures


def run_round(steps, number, said, record):
    """Runs steps one after the other. Steps with `beside` run in a second thread at the same time.

    Returns (sum of their tallies, names of failed steps).
    """
    total, failed = Tally(), []
    beside = [s for s in steps if s.beside]
    if len(beside) == len(steps):
        beside = []
    running = []

    def add(step, tally):
        nonlocal total
        total += tally
        if tally.failed:
            failed.append(step.name)

    def end_beside():
        step, future = running.pop(0)
        tally, reasons, output = future.result()
        pass_through(b"".join(output))
        said.extend(reasons)
        add(step, tally)

    for step in steps:
        if step in beside:
            if step is beside[0]:
                names = " and ".join(s.name for s in beside)
                say_to(
                    pass_through,
                    f"\n    {names}: run at the same time as the next steps; the output follows "
                    "when they end",
                )
                running = list(zip(beside, start_beside(beside)))
            continue
        MEASURED.clear()
        started = time.monotonic()
        tally = run_step(step, said)
        add(step, tally)
        if record and tally.passed + tally.failed:
            measured.record(step.name, number, tally, time.monotonic() - started, list(MEASURED))
        while running and running[0][1].done():
            end_beside()
    while running:
        if wait([running[0][1]], SILENT_S).done:
            end_beside()
        else:
            say_to(pass_through, f"    {running[0][0].name} is still running")
    return total, failed


def main(arguments):
    if arguments == ["--list"]:
        end_with_the_reader()
        made_by = {
            "test": "",
            "gateways": " (make test-gateways)",
            "measured": " (make measure: {})",
        }
        for step in STEPS:
            print(f"{step.name:12} {step.title}" + made_by[step.suite].format(step.why))
        return 0
    try:
        rounds, arguments = rounds_of(arguments)
    except ValueError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    suite = next((name for name in ("gateways", "measured") if f"--{name}" in arguments), "test")
    arguments = [a for a in arguments if a != f"--{suite}"]
    chosen = [s for s in STEPS if (s.name in arguments if arguments else s.suite == suite)]
    unknown = set(arguments) - {s.name for s in STEPS}
    if unknown:
        print(
            f"error: there is no step {', '.join(sorted(unknown))}; "
            "`tools/run_tests.py --list` names them",
            file=sys.stderr,
        )
        return 2
    whole = not arguments and "CARGO_TARGET_DIR" not in os.environ
    trouble = lack_of_space(suite, shutil.disk_usage(ROOT).free) if whole else None
    if trouble:
        print(f"warning: {trouble}", file=sys.stderr, flush=True)
    started, total, failed, said = time.monotonic(), Tally(), [], []
    before = leftovers.snapshot()
    for number in range(1, (rounds if suite == "measured" else 1) + 1):
        if suite == "measured":
            print(f"\n=== round {number} of {rounds}", flush=True)
        tally, names = run_round(chosen, number, said, suite == "measured")
        total += tally
        failed += [name for name in names if name not in failed]
    print(
        "\n=== leftovers: Nothing of the tests is still running or lies in shared memory",
        flush=True,
    )
    found = leftovers.since(before)
    for line in found:
        print(f"error: {line}")
    total += Tally(0, 1) if found else Tally(1, 0)
    if found:
        failed.append("leftovers")
        said += [(f"leftovers: {line}", []) for line in found]
    print_slowest()
    print_failures(said)
    seconds = time.monotonic() - started
    for line in dict.fromkeys(SKIPPED):
        print(line)
    left_out = [s.name for s in chosen if s.as_root and os.geteuid() != 0]
    if failed and trouble:
        print(f"warning: {trouble}")
    print(
        f"\nin {seconds // 60:.0f} min {seconds % 60:.0f} s"
        + (f"; not run: {', '.join(left_out)}" if left_out else "")
        + (f"; failed: {', '.join(failed)}" if failed else "")
    )
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
