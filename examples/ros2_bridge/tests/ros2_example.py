# SPDX-License-Identifier: Apache-2.0
"""What tests of the examples with ROS 2 share: an example is run in a domain of its own, and what it prints is looked at."""

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
        self.environment = {**os.environ, "DRIVELINE_DOMAIN_DIR": f"{folder.name}/domain", "DRIVELINE_COMPONENT_PATH": str(BUILD / "lib")}
        self.log = Path(folder.name, "log")

    def start(self, *command, **environment):
        """In a session of its own, so that a signal to all of it is what Ctrl-C is."""
        environment = {**self.environment, **environment}
        with self.log.open("w", encoding="utf-8") as to:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def printed(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def until(self, what, condition, process):
        """Waits for a condition on what was printed; returns its value."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := condition(self.printed())):
            over = time.monotonic() > deadline or process.poll() is not None
            self.assertFalse(over, f"{what} is missing; this was printed:\n{self.printed()}")
            # time: a pause between polls
            time.sleep(0.05)
        return value

    def fails(self, *command, **environment):
        """What a command prints that ends with an error."""
        process = self.start(*command, **environment)
        self.assertNotEqual(process.wait(PATIENCE_S), 0, self.printed())
        return self.printed()

    def told(self, *command):
        done = subprocess.run([TOOL, *command], env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        # 1: a gateway is just being started, and does not answer yet; what it says is looked at anyway.
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout

    def run_readme(self, example):
        """Runs the commands of an example's README as they stand there, but that it was built before, and gives what they print."""
        readme = (example / "README.md").read_text(encoding="utf-8")
        commands = readme.split(BEGIN)[1].split(END)[0]
        self.assertEqual(commands.count(BUILD_COMMAND), 1, "what was built before these tests")
        process = self.start("bash", "-e", "-c", commands.replace(BUILD_COMMAND, ""))
        self.assertEqual(process.wait(PATIENCE_S), 0, self.printed())
        return self.printed()
