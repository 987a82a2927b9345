# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of the ROS 2 examples: runs an example in its own domain."""

import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
BUILD = Path(os.environ.get("DRIVELINE_BUILD", ROOT / "build")).resolve()
TOOL = BUILD / "bin/driveline"
BEGIN, END = "<!-- commands:begin -->\n```\n", "```\n<!-- commands:end -->"
BUILD_COMMAND = "make build gateways\n"
# Only a failure takes that long.
PATIENCE_S = 180


class Example(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = {
            **os.environ,
            "DRIVELINE_DOMAIN_DIR": f"{folder.name}/domain",
            "DRIVELINE_COMPONENT_PATH": str(BUILD / "lib"),
        }
        self.log = Path(folder.name, "log")

    def start(self, *command, **environment):
        """Starts a command in its own session. A signal to its process group acts like Ctrl-C."""
        environment = {**self.environment, **environment}
        with self.log.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.addCleanup(self.stop, process)
        return process

    def stop(self, process):
        """Ends a process that is still running: SIGINT first, SIGKILL if it does not end."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def interrupt(self, process):
        """Sends SIGINT to a process and its children, and expects that it ends without error."""
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.output())

    def output(self):
        """Returns the output of the started command so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, what, condition, process):
        """Waits until `condition` holds for the output, and returns its value."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := condition(self.output())):
            over = time.monotonic() > deadline or process.poll() is not None
            self.assertFalse(over, f"{what} is missing; this was printed:\n{self.output()}")
            # time: a pause between polls
            time.sleep(0.05)
        return value

    def run_failing(self, *command, **environment):
        """Runs a command that must fail, and returns its output."""
        process = self.start(*command, **environment)
        self.assertNotEqual(process.wait(PATIENCE_S), 0, self.output())
        return self.output()

    def run_tool(self, *arguments):
        """Runs `driveline` with these arguments, and returns its standard output."""
        done = subprocess.run(
            [TOOL, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        # 1: a gateway is starting and does not answer yet. Its output is used nevertheless.
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout

    def run_readme(self, example):
        """Runs the commands in the README of an example, except the build; returns the output."""
        readme = (example / "README.md").read_text(encoding="utf-8")
        commands = readme.split(BEGIN)[1].split(END)[0]
        self.assertEqual(commands.count(BUILD_COMMAND), 1, f"not once: {BUILD_COMMAND}")
        process = self.start("bash", "-e", "-c", commands.replace(BUILD_COMMAND, ""))
        self.assertEqual(process.wait(PATIENCE_S), 0, self.output())
        return self.output()
