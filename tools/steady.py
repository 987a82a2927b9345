#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds gating tests whose verdict depends on the load of the machine.

Runs each test program many times, in random order, several at a time, next to a CPU load.

Usage: steady.py [OPTION...] [STEP...]
                   without names, the steps of `make test` that run programs of cargo test or ctest
  --gateways       takes the steps of `make test-gateways` instead
  --rounds 30      number of runs of each program
  --at-once 3      number of programs that run at the same time
  --load N         number of processes that only use processor time; default: one per processor
  --seed 1         seed of the order
  --shard 1/4      runs only the first of four parts; each part can run on another machine
  --minutes M      starts no run after this time; the next call continues
  --anew           deletes the results of earlier calls

Results are kept in build/steady, one file for each choice of steps, seed, rounds and shard. A call
with the same arguments continues where the last one ended. Results of different commits are not
mixed: results of another commit are an error until `--anew`. An interrupted run counts as not made.
A failed run stays failed and is never repeated. Documentation examples are not run. The step `loom`
runs only if it is named: its models do not wait for anything.

Prints each failure with its reasons, or the end of its output. Exit status: 0 if all runs were made
and passed, 1 if one failed or left something behind, 2 for wrong arguments or a failed build, 3 if
time ran out before all runs were made.
"""

import argparse
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import leftovers
from failures import Failures
from measured import commit
from test_programs import Program, programs_of_cargo, split
from test_steps import ROOT, STEPS

KEPT = ROOT / "build/steady"
# Reached only by a program that hangs: each wait in a gating test has a time-out of a minute.
LIMIT_S = 1800
# Number of lines shown of the output of a failure that names no test.
LAST_LINES = 30
# Models try all interleavings: the speed of the machine does not matter.
LEFT_OUT = {"loom"}
# Command of a step whose test programs need Python packages.
PACKAGES = ["python3", "tools/python_packages.py"]
# Uses processor time until the process that started it has ended.
BURN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(10**6): pass"


class Unbuilt(Exception):
    """Test programs of a step could not be built or listed, with the reason."""


def escaped(name):
    """Returns the regular expression of CMake that matches only this name.

    The name of a parametrised test ends with its parameter, such as "# GetParam() = 4-byte object".
    """
    return re.sub(r"[][.*+?|()^$\\]", r"\\\g<0>", name)


def programs_of_ctest(step, command, output):
    """Yields the tests that `ctest --show-only=json-v1` reports.

    ctest runs each of them, because it knows their environment.
    """
    directory = command[command.index("--test-dir") + 1]
    for test in json.loads(output)["tests"]:
        run = [
            "ctest",
            "--test-dir",
            directory,
            "--output-on-failure",
            "--no-tests=error",
            "-R",
            f"^{escaped(test['name'])}$",
        ]
        yield Program(f"{step.name}: {test['name']}", run, str(ROOT), step.environment)


def ask(step, command):
    """Returns the output of a command that builds or lists tests."""
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **step.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    if ran.returncode != 0:
        raise Unbuilt(
            f"step {step.name}: `{shlex.join(command)}` has failed; "
            f"`make test ONLY={step.name}` prints the reason"
        )
    return ran.stdout.decode()


def find(steps):
    """Builds and returns all test programs of these steps.

    The same program with the same arguments occurs once.
    """
    found = {}
    for step in steps:
        for command in (c for commands in step.rounds() for c in commands):
            if command[:2] == ["cargo", "test"] and "--no-run" not in command:
                output = ask(step, [*split(command)[0], "--no-run", "--message-format=json"])
                of_command = programs_of_cargo(step, command, output)
            elif command[0] == "ctest":
                output = ask(
                    step,
                    [
                        "ctest",
                        "--test-dir",
                        command[command.index("--test-dir") + 1],
                        "--show-only=json-v1",
                    ],
                )
                of_command = programs_of_ctest(step, command, output)
            elif command[:2] == PACKAGES:
                ask(step, command)
                continue
            else:
                continue
            for program in of_command:
                found.setdefault(tuple(program.command), program)
    programs = sorted(found.values(), key=lambda program: (program.name, program.command))
    names = {}
    for program in programs:
        names[program.name] = names.get(program.name, 0) + 1
        if names[program.name] > 1:
            # The same target was built with other features: a number makes its name unique.
            program.name += f" ({names[program.name]})"
    return programs


def schedule(names, rounds, seed, shard=(1, 1)):
    """Returns the runs of one part as (name, round), in an order that depends only on the seed."""
    runs = [(name, number) for name in sorted(names) for number in range(1, rounds + 1)]
    random.Random(seed).shuffle(runs)
    part, parts = shard
    return runs[part - 1 :: parts]


class State:
    """Finished runs, in a file to which each run is added as soon as it has ended."""

    def __init__(self, path, about):
        self.path, self.about, self.made = Path(path), about, {}

    def load(self):
        """Reads the runs of earlier calls. Raises ValueError if their settings differ."""
        if not self.path.exists():
            return
        # The last line may have been cut when the machine stopped.
        lines = [line for line in self.path.read_text().split("\n")[:-1] if line]
        if not lines:
            return
        about = json.loads(lines[0])
        if about != self.about:
            differ = ", ".join(
                f"{key} {about.get(key)!r}, now {value!r}"
                for key, value in self.about.items()
                if about.get(key) != value
            )
            raise ValueError(
                f"{self.path} has runs with other settings ({differ}): `--anew` deletes them"
            )
        for line in lines[1:]:
            run = json.loads(line)
            self.made[run["program"], run["round"]] = run

    def add(self, run):
        self.made[run["program"], run["round"]] = run
        whole = self.path.exists() and self.path.read_bytes().endswith(b"\n")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a" if whole else "w") as file:
            if not whole:
                # The file is new, or its last line was cut.
                file.writelines(
                    json.dumps(entry) + "\n" for entry in [self.about, *self.made.values()]
                )
            else:
                file.write(json.dumps(run) + "\n")

    def failed(self):
        return [run for run in self.made.values() if run["status"] != 0]


class Load:
    """Processes that keep the processors busy."""

    def __init__(self, count):
        self.count, self.processes = count, []

    def __enter__(self):
        self.processes = [
            subprocess.Popen([sys.executable, "-c", BURN, str(os.getpid())])
            for _ in range(self.count)
        ]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


class Runner:
    """Makes runs, several at a time."""

    def __init__(self, programs, state, at_once=3, limit_s=LIMIT_S, write=print):
        self.programs = {program.name: program for program in programs}
        self.state, self.at_once, self.limit_s, self.write = state, at_once, limit_s, write
        self.lock, self.running, self.stopped = threading.Lock(), set(), False

    def run(self, runs, until=float("inf")):
        """Makes the runs that were not made yet, and starts none after `until` (monotonic clock).

        Returns the number of remaining runs.
        """
        with self.lock:
            todo = deque(run for run in runs if run not in self.state.made)
        threads = [
            threading.Thread(target=self.work, args=(todo, until, len(runs)))
            for _ in range(self.at_once)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self.stop()
            for thread in threads:
                thread.join()
            raise
        return len(todo)

    def stop(self):
        """Ends the running programs; their runs count as not made."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                kill(process)

    def work(self, todo, until, count):
        while not self.stopped and time.monotonic() < until:
            with self.lock:
                if not todo:
                    return
                name, number = todo.popleft()
            status, output, seconds = self.one(self.programs[name])
            with self.lock:
                if self.stopped:
                    return
                run = {
                    "program": name,
                    "round": number,
                    "status": status,
                    "seconds": round(seconds, 1),
                }
                if status != 0:
                    run["output"] = output
                self.state.add(run)
                verdict = "ok    " if status == 0 else "FAILED"
                self.write(
                    f"{len(self.state.made):5}/{count} {verdict} {seconds:6.1f} s  "
                    f"{name} (round {number})"
                )

    def one(self, program):
        """Runs a program.

        Returns (exit status, output, seconds); the status is None after the time-out.
        """
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                program.command,
                cwd=program.directory,
                env={**os.environ, **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as e:
            return 127, f"error: cannot start {program.command[0]}: {e.strerror}", 0.0
        with self.lock:
            self.running.add(process)
            if self.stopped:
                kill(process)
        try:
            output, status = process.communicate(timeout=self.limit_s)[0], process.returncode
        except subprocess.TimeoutExpired:
            kill(process)
            output, status = process.communicate()[0], None
        with self.lock:
            self.running.discard(process)
        return status, output.decode(errors="replace"), time.monotonic() - started


def kill(process):
    """Ends a program and the processes of its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def reasons(run):
    """Returns the failed tests of a run with their reasons, or the end of its output."""
    failures = Failures()
    for line in run["output"].splitlines():
        failures.feed(line)
    lines = [f"no end within {LIMIT_S} s"] if run["status"] is None else []
    for name, reason in failures.named().items():
        lines += [name, *(f"    {line}" for line in reason)]
    return lines or [f"exit status {run['status']}", *run["output"].splitlines()[-LAST_LINES:]]


def table(failed):
    """Yields one line for each failed program, and below it its failures with output."""
    by_program = {}
    for run in failed:
        by_program.setdefault(run["program"], []).append(run)
    for name, runs in sorted(by_program.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        yield f"FAILED {len(runs):3} times  {name}"
        for run in runs:
            yield f"    round {run['round']}, {run['seconds']} s:"
            yield from (f"        {line}" for line in reasons(run))


def shard(text):
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a shard: write 1/4 for the first of four"
        )
    return int(part), int(parts)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="steady.py",
        usage="steady.py [OPTION...] [STEP...]",
        description=__doc__.split("\n\n")[0],
    )
    parser.add_argument("--gateways", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--load", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", type=shard, default=(1, 1))
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("steps", nargs="*")
    return parser.parse_args(arguments)


def chosen(asked, steps):
    """Returns (steps to run, names of steps left out because they need root).

    Raises ValueError for an unknown name.
    """
    unknown = set(asked.steps) - {step.name for step in steps}
    if unknown:
        raise ValueError(
            f"there is no step {', '.join(sorted(unknown))}; `tools/run_tests.py --list` names them"
        )
    suite = "gateways" if asked.gateways else "test"
    named = [
        s
        for s in steps
        if (s.name in asked.steps if asked.steps else s.suite == suite and s.name not in LEFT_OUT)
    ]
    return [s for s in named if not s.as_root or os.geteuid() == 0], [
        s.name for s in named if s.as_root and os.geteuid() != 0
    ]


def main(arguments):
    asked = parse(arguments)
    try:
        steps, not_run = chosen(asked, STEPS)
        programs = find(steps)
        if not programs:
            raise ValueError("these steps run no program of cargo test or ctest")
        words = "-".join(sorted(asked.steps)) or ("gateways" if asked.gateways else "test")
        path = (
            KEPT
            / f"{words}-{asked.rounds}-seed{asked.seed}-{asked.shard[0]}of{asked.shard[1]}.jsonl"
        )
        if asked.anew:
            path.unlink(missing_ok=True)
        state = State(
            path, {"commit": commit(), "programs": [program.name for program in programs]}
        )
        state.load()
    except (ValueError, Unbuilt) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    runs = schedule([program.name for program in programs], asked.rounds, asked.seed, asked.shard)
    print(
        f"{len(programs)} programs, {len(runs)} runs, {len(state.made)} of them already made; "
        f"results: {path}",
        flush=True,
    )
    until = time.monotonic() + asked.minutes * 60 if asked.minutes is not None else float("inf")
    before = leftovers.snapshot()
    runner = Runner(programs, state, asked.at_once, write=lambda line: print(line, flush=True))
    with Load(asked.load):
        left = runner.run(runs, until)
    failed = state.failed()
    print(*table(failed), sep="\n")
    found = leftovers.since(before)
    for line in found:
        print(f"error: {line}")
    print(
        f"{len(state.made) - len(failed)} runs passed, {len(failed)} failed"
        + (
            f", {left} not made yet: call it again with the same arguments to continue"
            if left
            else ""
        )
        + (f"; not run, without root: {', '.join(not_run)}" if not_run else "")
    )
    return 1 if failed or found else 3 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
