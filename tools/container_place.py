# SPDX-License-Identifier: Apache-2.0
"""Storage of Podman, graph and runs for tests in containers (test_containers.py)."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
# `make test-containers` installs programs in Python here.
PYTHON = ROOT / "build" / "python_containers"
# Time-out in seconds; only a fault takes that long.
PATIENCE = 60

GRAPH = """\
driveline: 1
name: counting
topics:
  a: {{reach: host, max_payload: 8, qos: {{depth: 16}}}}
  b: {{reach: host, max_payload: 8, qos: {{depth: 16}}}}
modules:
  source:
    {source}
    components:
      counter:
        {{library: lib, class: Counter, parameters: {{limit: 0, period_ms: 10}},
          outputs: {{count: a}}}}
  step:
    restart: {{policy: on_failure}}
    {step}
    components:
      relay: {{library: lib, class: Relay, inputs: {{in: a}}, outputs: {{out: b}}}}
  sink:
    restart: {{policy: on_failure}}
    {sink}
    components:
      printer: {{library: lib, class: Printer, inputs: {{count: b}}}}
"""


class Fault(Exception):
    """A test has failed."""


def check(holds, text):
    if not holds:
        raise Fault(text)


class Place:
    """Storage of Podman, and directory of the graph of a test."""

    def __init__(self, directory):
        self.directory = Path(directory)
        etc = self.directory / "etc"
        etc.mkdir()
        run = self.directory / "run"
        graphroot = self.directory / "root"
        (etc / "containers.conf").write_text(
            '[engine]\ncgroup_manager="cgroupfs"\nevents_logger="file"\nruntime="runc"\n'
            f'static_dir="{graphroot}/libpod"\ntmp_dir="{run}/libpod"\n'
            f'volume_path="{self.directory}/volumes"\n'
            # Containers that an orchestrator starts have these limits; the launcher states its own.
            '[containers]\ndefault_ulimits=["nofile=16384:16384","nproc=8192:8192"]\n'
        )
        (etc / "storage.conf").write_text(
            f'[storage]\ndriver="overlay"\ngraphroot="{graphroot}"\nrunroot="{run}/root"\n'
        )
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(etc / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(etc / "storage.conf"),
            "DRIVELINE_HOST": str(BIN / "driveline-test-host"),
            "NO_COLOR": "1",
        }
        self.environment.pop("DRIVELINE_DOMAIN_DIR", None)
        (self.directory / "lib").touch()

    def graph(self, **keys):
        path = self.directory / "graph.yaml"
        path.write_text(
            GRAPH.format(
                **{
                    "source": "depends_on: []",
                    "step": "depends_on: []",
                    "sink": "depends_on: []",
                    **keys,
                }
            )
        )
        return path

    def podman(self, *arguments):
        done = subprocess.run(
            ["podman", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        check(done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    def driveline(self, *arguments, code=0):
        done = subprocess.run(
            [BIN / "driveline", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
        )
        check(
            done.returncode == code,
            f"driveline {' '.join(map(str, arguments))} ended with {done.returncode} "
            f"and not {code}:\n{done.stdout}{done.stderr}",
        )
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def run(self, *arguments, until="all modules are ready"):
        """Starts a run in the background and waits until its output contains `until`."""
        log = self.directory / "run.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [BIN / "driveline", "run", *arguments],
                env=self.environment,
                stdout=out,
                stderr=out,
                cwd=self.directory,
            )
        run = Run(self, process, log)
        try:
            run.wait_for(until)
            yield run
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def containers(self):
        return self.podman("ps", "--all", "--quiet", "--filter", "label=org.driveline.run").split()

    def module(self, name):
        return self.podman("ps", "--quiet", "--filter", f"label=org.driveline.module={name}")

    def directories(self):
        return sorted(Path("/dev/shm").glob("driveline-run-*"))

    def check_that_nothing_stays(self):
        """Waits for containers that the engine itself is still removing after the end of a run."""
        wait(
            lambda: not self.containers() and not self.directories(),
            "a container or a directory stays",
        )

    def close(self):
        subprocess.run(
            ["podman", "rm", "--all", "--force"],
            env=self.environment,
            capture_output=True,
            check=False,
        )
        subprocess.run(
            ["podman", "rmi", "--all", "--force"],
            env=self.environment,
            capture_output=True,
            check=False,
        )
        subprocess.run(
            ["umount", self.directory / "root" / "overlay"], capture_output=True, check=False
        )


class Run:
    def __init__(self, place, process, log):
        self.place, self.process, self.log = place, process, log

    def text(self):
        return self.log.read_text()

    def wait_for(self, text, times=1):
        wait(
            lambda: self.text().count(text) >= times or self.process.poll() is not None,
            f"{text!r} does not come:\n{self.log}",
        )
        check(self.text().count(text) >= times, f"the run ended without {text!r}:\n{self.text()}")

    def end(self, how=signal.SIGINT, code=0):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        check(
            self.process.returncode == code,
            f"the run ended with {self.process.returncode} and not {code}:\n{self.text()}",
        )


def wait(holds, text):
    until = time.monotonic() + PATIENCE
    while not holds():
        check(time.monotonic() < until, text)
        time.sleep(0.1)


def summary(directory):
    return json.loads((directory / "summary.json").read_text())
