#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The vehicle of docs/modes.md: switched by command, and by the reaction to a camera that stays down.

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
    block = re.search(r"<!-- example:begin -->\n```yaml\n(.*?)```\n", PAGE.read_text(), re.DOTALL)
    assert block, f"{PAGE} holds no example between its markers"
    graph = (HERE / "graph.yaml").read_text()
    assert block[1] == graph[graph.index("initial_mode:") :], "the example in docs/modes.md and examples/modes/graph.yaml differ"


def main():
    tool, host, libraries = sys.argv[1:]
    check_page()
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            "DRIVELINE_COMPONENT_PATH": libraries,
            "DRIVELINE_DOMAIN_DIR": f"{directory}/domain",
            "DRIVELINE_HOST": host,
        }

        def ask(*arguments, code=0):
            done = subprocess.run([tool, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
            assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
            return done.stdout

        def until(wanted):
            end = time.monotonic() + PATIENCE_S
            while True:
                state = json.loads(ask("status", "--json"))
                if wanted(state):
                    return state
                assert time.monotonic() < end, state

        with open(f"{directory}/output", "w+") as output:
            run = subprocess.Popen(
                [tool, "run", str(HERE / "graph.yaml"), "--report", f"{directory}/out"], env=environment, stdout=output, stderr=output
            )
            try:
                ask("health", "--wait", "ready", "--timeout", str(PATIENCE_S))
                assert json.loads(ask("mode", "--json"))["current"] == "manual"
                ask("mode", "autonomous")
                ask("mode", "manual")
                ask("mode", "autonomous")
                # The mode has set the speed; a command changes the limit of it.
                ask("param", "set", "planner.limit", "5")
                for value, why in (("99", "99 is above 50"), ("0", "use a mode to stop")):
                    refused = subprocess.run([tool, "param", "set", "planner.limit", value], env=environment, capture_output=True, text=True)
                    assert refused.returncode == 1 and why in refused.stderr, refused
                # The third death in a minute is one too many.
                for restarts in range(3):
                    state = until(lambda s, n=restarts: s["processes"][0]["restarts"] == n and s["processes"][0]["state"] == "ready")
                    os.kill(state["processes"][0]["pid"], signal.SIGKILL)
                state = until(lambda s: s["mode"]["current"] == "safe_stop" and "switch" not in s["mode"])
                assert state["mode"]["latched"] and state["mode"]["active"] == ["brake"], state
                ask("stop", "--timeout", str(PATIENCE_S))
                assert run.wait(PATIENCE_S) == 4, "a module is down"
            finally:
                run.kill()
                run.wait()
                output.seek(0)
                text = output.read()
        speeds = re.findall(r"drives at ([\d.]+) m/s", text)
        assert speeds[:2] == ["2", "8"] and "5" in speeds, text
        summary = json.loads(Path(f"{directory}/out/summary.json").read_text())
        entered = [m["entered"] for m in summary["modes"]]
        assert entered == ["manual", "autonomous", "manual", "autonomous", "safe_stop"], entered
        assert summary["modes"][-1]["cause"].startswith("module 'sensing' stays down"), summary["modes"]


main()
