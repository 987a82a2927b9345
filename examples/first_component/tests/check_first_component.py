#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The component of the README is the one that is built here, and its graph runs.

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
# As many as the example publishes by itself; and more, for a machine on which they are over before they are seen.
PICTURES = (50, 500, 5000)
ENOUGH = 10


def check_readme():
    block = re.search(r"<!-- example:begin -->\n```cpp\n(.*?)```\n", README.read_text(), re.DOTALL)
    assert block, "README.md holds no example between its markers"
    built = (HERE / "lane.cpp").read_text().split("\n", 1)[1]
    assert block[1] == built, "the example in README.md and examples/first_component/lane.cpp differ"


def results(host, libraries, pictures):
    """What the graph prints of so many pictures: the share of edges in each that it has seen, in per cent."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "DRIVELINE_COMPONENT_PATH": libraries, "DRIVELINE_DOMAIN_DIR": f"{directory}/domain"}

        def start(module, *options):
            command = [host, "run", "--graph", str(HERE / "graph.yaml"), "--module", module, *options]
            return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        perception = start("perception")
        camera = start("camera", *(() if pictures == PICTURES[0] else ("--set", f"pattern.frames={pictures}")))
        try:
            camera_output = camera.communicate(timeout=60 + pictures)[0]
            perception.send_signal(signal.SIGINT)
            output = perception.communicate(timeout=60)[0]
        finally:
            for process in (camera, perception):
                process.kill()
                process.wait()
    assert camera.returncode == 0, camera_output
    found = [float(share) for share in re.findall(r"\[printer\] sample \d+: ([\d.]+) % edges", output)]
    # Where all pictures are over before it has come so far as to listen for signals, this one ends it.
    assert perception.returncode == 0 or not found and perception.returncode == -signal.SIGINT, output
    assert len(found) <= pictures, f"{len(found)} results of {pictures} pictures:\n{output}"
    print(f"{len(found)} results of {pictures} pictures")
    return found


def main():
    host, libraries = sys.argv[1:]
    check_readme()
    found = next((f for f in (results(host, libraries, pictures) for pictures in PICTURES) if len(f) > ENOUGH), [])
    assert found, f"no more than {ENOUGH} results"
    # The outline of a square of 100 x 160 pixels in a picture of 640 x 360.
    assert all(0.1 < share < 0.5 for share in found), found
    print(f"{found[-1]} % edges in the last")


if __name__ == "__main__":
    main()
