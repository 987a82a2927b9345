#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Before and after the change the program finds the same, the change is small, and the README shows it as it is.

A queue loses no frame.

Usage: check_handover.py BEFORE AFTER QUEUE MAKE_VIDEO
"""

import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
README = HERE.parent.parent / "README.md"
# Frames that make_video.cpp writes.
FRAMES = 40
# Lines of `after` that `before` does not have, includes not counted.
MAX_NEW_LINES = 6


def result(program, video, domain):
    """(frames, per cent) that the program prints."""
    environment = {"DRIVELINE_DOMAIN_DIR": domain, "PATH": "/usr/bin:/bin"}
    text = subprocess.run([program, video], check=True, capture_output=True, text=True, env=environment, timeout=120).stdout
    frames, share = re.fullmatch(r"(\d+) frames, ([\d.]+) % of the pixels are edges\n", text).groups()
    return int(frames), float(share)


def changes():
    """The lines that differ, as in the README."""
    before, after = ((HERE / name).read_text().splitlines() for name in ("before.cpp", "after.cpp"))
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return [line for line in lines if not line.startswith("@@")]


def main():
    before, after, queue, make_video = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        video = str(Path(directory) / "video.avi")
        subprocess.run([make_video, video], check=True)
        one, other = result(before, video, f"{directory}/domain"), result(after, video, f"{directory}/domain")
        every = result(queue, video, f"{directory}/domain")
    print("before:", one, "after:", other, "queue:", every)
    # Which frames are skipped is up to the scheduler; what is found in each is not.
    assert one[0] > 0 and other[0] > 0, "no frame arrived"
    assert one[1] > 0.5 and abs(one[1] - other[1]) < 0.001, "the two programs see different pictures"
    assert every[0] == FRAMES and abs(one[1] - every[1]) < 0.001, "the queue lost frames"
    changed = changes()
    new = [line for line in changed if line.startswith("+") and not line.startswith("+#include")]
    assert len(new) <= MAX_NEW_LINES, f"{len(new)} new lines"
    shown = re.search(r"<!-- handover:begin -->\n```diff\n(.*?)```\n<!-- handover:end -->", README.read_text(), re.DOTALL)
    assert shown, "README.md does not show the change between <!-- handover:begin --> and <!-- handover:end -->"
    shown = [line.rstrip() for line in shown[1].splitlines() if line.strip()]
    assert shown == [line.rstrip() for line in changed], "README.md shows another change than that of the sources:\n" + "\n".join(changed)
    source = re.search(r" *// queue:begin\n(.*?) *// queue:end", (HERE / "queue.cpp").read_text(), re.DOTALL)
    queue_shown = re.search(r"<!-- queue:begin -->\n```cpp\n(.*?)```\n<!-- queue:end -->", README.read_text(), re.DOTALL)
    assert source and queue_shown and source[1] == queue_shown[1], "README.md shows another queue than queue.cpp has"


if __name__ == "__main__":
    main()
