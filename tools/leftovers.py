# SPDX-License-Identifier: Apache-2.0
"""Leftovers of tests: files in shared memory, and processes that are still running."""

import os
import secrets
import time
from pathlib import Path

# Children inherit the environment: a process with this variable was started by this test run.
MARK = "DRIVELINE_TEST_RUN"


def snapshot(shared_memory=Path("/dev/shm")):
    """Marks the processes that tests will start, and returns the existing files.

    Call it before the tests.
    """
    os.environ[MARK] = secrets.token_hex(8)
    return shared_memory, files(shared_memory)


def since(before, proc=Path("/proc"), patience_s=30.0):
    """Returns one line for each new file and each process of the tests.

    Waits up to `patience_s` for processes that are just ending, on a busy machine.
    """
    shared_memory, old = before
    deadline = time.monotonic() + patience_s
    while (found := _since(shared_memory, old, proc)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _since(shared_memory, old, proc):
    found = [
        f"{path} was left in shared memory (unless another program of yours uses it)"
        for path in sorted(files(shared_memory) - old)
    ]
    return found + [
        f"process {pid} ({name}) is still running" for pid, name in marked_processes(proc)
    ]


def files(shared_memory):
    """Returns Driveline's files below `shared_memory`.

    Directories are left out: an empty domain directory may stay.
    """
    return {
        Path(directory) / name
        for top in shared_memory.glob("driveline*")
        for directory, _, names in [
            *os.walk(top),
            *([(shared_memory, [], [top.name])] if not top.is_dir() else []),
        ]
        for name in names
    }


def marked_processes(proc):
    """Yields the processes that this test run started, without this process and its ancestors."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    for directory in proc.glob("[0-9]*"):
        if directory.name == str(os.getpid()):
            continue
        try:
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                yield int(directory.name), (directory / "comm").read_text().strip()
        except OSError:
            continue  # it has just ended, or belongs to another user
