#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the vehicle of docs/modes.md: switches modes by command, and after crashes of the camera.

Usage: check_modes.py DRIVELINE DRIVELINE_HOST DIRECTORY_OF_THE_LIBRARY
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PAGE = HERE.parent.parent / "docs/modes.md"
# Reached only if something is wrong.
PATIENCE_S = 60


def check_page():
    """Checks that docs/modes.md shows the example's graph."""
    pattern = r"<!-- example:begin -->\n```yaml\n(.*?)```\n"
    block = re.search(pattern, PAGE.read_text(), re.DOTALL)
    assert block, f"{PAGE} holds no example between its markers"
    graph = (HERE / "graph.yaml").read_text()
    same = block[1] == graph[graph.index("initial_mode:") :]
    assert same, "the example in docs/modes.md and examples/modes/graph.yaml differ"


class Tool:
    """Runs `driveline` in the environment of the test. `output`: file with the output of the run."""

    def __init__(self, tool, environment, output):
        self.tool, self.environment, self.output = tool, environment, output

    def try_command(self, *arguments):
        return subprocess.run(
            [self.tool, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def command(self, *arguments):
        """Returns the output of a command, which must succeed."""
        done = self.try_command(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def wait_for(self, condition):
        """Waits until the state of the run meets a condition, and returns the state."""
        end = time.monotonic() + PATIENCE_S
        while True:
            state = json.loads(self.command("status", "--json"))
            if condition(state):
                return state
            assert time.monotonic() < end, state

    def wait_for_speed(self, speed):
        """Waits until the vehicle has driven at a speed, which follows a switch with a delay."""
        end = time.monotonic() + PATIENCE_S
        while f"drives at {speed} m/s" not in self.output.read_text():
            assert time.monotonic() < end, self.output.read_text()
            # time: a pause between polls; only the time-out of 60 s ends them
            time.sleep(0.005)


def switch_by_command(tool):
    tool.command("health", "--wait", "ready", "--timeout", str(PATIENCE_S))
    assert json.loads(tool.command("mode", "--json"))["current"] == "manual"
    tool.wait_for_speed(2)
    tool.command("mode", "autonomous")
    assert "was already in mode 'autonomous'" in tool.command("mode", "autonomous")
    tool.wait_for_speed(8)
    tool.command("mode", "manual")
    tool.command("mode", "autonomous")
    # The mode has set the speed. The command changes its limit.
    tool.command("param", "set", "planner.limit", "5")
    tool.wait_for_speed(5)
    for value, why in (("99", "99 is above 50"), ("0", "use a mode to stop")):
        refused = tool.try_command("param", "set", "planner.limit", value)
        assert refused.returncode == 1 and why in refused.stderr, refused


def kill_camera_until_it_stays_down(tool):
    # The graph allows two restarts.
    for restarts in range(3):

        def is_ready_again(state, n=restarts):
            sensing = state["processes"][0]
            return sensing["restarts"] == n and sensing["state"] == "ready"

        state = tool.wait_for(is_ready_again)
        os.kill(state["processes"][0]["pid"], signal.SIGKILL)
    state = tool.wait_for(
        lambda s: s["mode"]["current"] == "safe_stop" and "switch" not in s["mode"]
    )
    assert state["mode"]["latched"] and state["mode"]["active"] == ["brake"], state
    tool.wait_for_speed(0)


def main():
    tool_path, host, libraries = sys.argv[1:]
    check_page()
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            "DRIVELINE_COMPONENT_PATH": libraries,
            "DRIVELINE_DOMAIN_DIR": f"{directory}/domain",
            "DRIVELINE_HOST": host,
        }
        tool = Tool(tool_path, environment, Path(f"{directory}/output"))
        with open(f"{directory}/output", "w+") as output:
            run = subprocess.Popen(
                [tool_path, "run", str(HERE / "graph.yaml"), "--report", f"{directory}/out"],
                env=environment,
                stdout=output,
                stderr=output,
            )
            try:
                switch_by_command(tool)
                kill_camera_until_it_stays_down(tool)
                tool.command("stop", "--timeout", str(PATIENCE_S))
                assert run.wait(PATIENCE_S) == 4, "status 4 reports that a module is down"
            finally:
                run.kill()
                run.wait()
                output.seek(0)
                text = output.read()
        speeds = re.findall(r"drives at ([\d.]+) m/s", text)
        assert speeds[:2] == ["2", "8"] and "5" in speeds, text
        summary = json.loads(Path(f"{directory}/out/summary.json").read_text())
        modes = summary["modes"]
        entered = [m["entered"] for m in modes]
        assert entered == ["manual", "autonomous", "manual", "autonomous", "safe_stop"], entered
        assert modes[-1]["cause"].startswith("module 'sensing', which stays down"), modes


main()
