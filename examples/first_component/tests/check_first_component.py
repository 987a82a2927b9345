#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the README shows the built component, and that the graph of the example runs.

Usage: check_first_component.py DRIVELINE_HOST DIRECTORY_OF_THE_LIBRARY
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
README = HERE.parent.parent / "README.md"
# Number of published pictures. The first is the example's default. The others are for a machine on
# which the camera ends before the other module has received enough.
PICTURES = (50, 500, 5000)
MIN_RESULTS = 10


def check_readme():
    pattern = r"<!-- example:begin -->\n```cpp\n(.*?)```\n"
    block = re.search(pattern, README.read_text(), re.DOTALL)
    assert block, "README.md holds no example between its markers"
    built = (HERE / "lane.cpp").read_text().split("\n", 1)[1]
    same = block[1] == built
    assert same, "the example in README.md and examples/first_component/lane.cpp differ"


def results(host, libraries, pictures):
    """Runs the graph with this number of pictures; returns the printed shares of edges, in %."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            "DRIVELINE_COMPONENT_PATH": libraries,
            "DRIVELINE_DOMAIN_DIR": f"{directory}/domain",
        }

        def start(module, *options):
            graph = str(HERE / "graph.yaml")
            return subprocess.Popen(
                [host, "run", "--graph", graph, "--module", module, *options],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        perception = start("perception")
        is_default = pictures == PICTURES[0]
        options = () if is_default else ("--set", f"pattern.frames={pictures}")
        camera = start("camera", *options)
        try:
            camera_output = camera.communicate(timeout=60 + pictures)[0]
            perception.send_signal(signal.SIGINT)
            output = perception.communicate(timeout=60)[0]
        finally:
            for process in (camera, perception):
                process.kill()
                process.wait()
    assert camera.returncode == 0, camera_output
    shares = re.findall(r"\[printer\] sample \d+: ([\d.]+) % edges", output)
    found = [float(share) for share in shares]
    # If the camera ends before this process has installed its signal handler, SIGINT kills it.
    was_killed = not found and perception.returncode == -signal.SIGINT
    assert perception.returncode == 0 or was_killed, output
    assert len(found) <= pictures, f"{len(found)} results of {pictures} pictures:\n{output}"
    print(f"{len(found)} results of {pictures} pictures")
    return found


def main():
    host, libraries = sys.argv[1:]
    check_readme()
    for pictures in PICTURES:
        found = results(host, libraries, pictures)
        if len(found) > MIN_RESULTS:
            break
    else:
        raise AssertionError(f"no more than {MIN_RESULTS} results")
    # The outline of a square of 100 x 160 pixels in a picture of 640 x 360.
    assert all(0.1 < share < 0.5 for share in found), found
    print(f"{found[-1]} % edges in the last")


if __name__ == "__main__":
    main()
