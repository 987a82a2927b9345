#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the example of the hand-over: results, size of the change, and the README.

The programs before and after the change give the same result, and the change is small. The queue
loses no frame. The README shows the change and the queue as they are in the sources.

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
    """Returns (number of frames, share of edges in per cent) as the program prints them."""
    environment = {"DRIVELINE_DOMAIN_DIR": domain, "PATH": "/usr/bin:/bin"}
    text = subprocess.run(
        [program, video],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    ).stdout
    pattern = r"(\d+) frames, ([\d.]+) % of the pixels are edges\n"
    frames, share = re.fullmatch(pattern, text).groups()
    return int(frames), float(share)


def changes():
    """Returns the lines that differ between the two programs, in the form of the README."""
    before, after = ((HERE / name).read_text().splitlines() for name in ("before.cpp", "after.cpp"))
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return [line for line in lines if not line.startswith("@@")]


def check_results(before, after, queue, make_video):
    with tempfile.TemporaryDirectory() as directory:
        video = str(Path(directory) / "video.avi")
        subprocess.run([make_video, video], check=True)
        domain = f"{directory}/domain"
        frames_before, share_before = result(before, video, domain)
        frames_after, share_after = result(after, video, domain)
        frames_queued, share_queued = result(queue, video, domain)
    print(f"before: {frames_before}, {share_before}; after: {frames_after}, {share_after}")
    print(f"queue: {frames_queued}, {share_queued}")
    # The scheduler determines which frames are skipped, but each frame has the same edges.
    assert frames_before > 0 and frames_after > 0, "no frame arrived"
    same = share_before > 0.5 and abs(share_before - share_after) < 0.001
    assert same, "the two programs see different pictures"
    complete = frames_queued == FRAMES and abs(share_before - share_queued) < 0.001
    assert complete, "the queue lost frames"


def check_readme():
    readme = README.read_text()
    changed = changes()
    new = [line for line in changed if line.startswith("+") and not line.startswith("+#include")]
    assert len(new) <= MAX_NEW_LINES, f"{len(new)} new lines"
    pattern = r"<!-- handover:begin -->\n```diff\n(.*?)```\n<!-- handover:end -->"
    shown = re.search(pattern, readme, re.DOTALL)
    assert shown, (
        "README.md does not show the change between "
        "<!-- handover:begin --> and <!-- handover:end -->"
    )
    shown = [line.rstrip() for line in shown[1].splitlines() if line.strip()]
    assert shown == [line.rstrip() for line in changed], (
        "README.md shows another change than that of the sources:\n" + "\n".join(changed)
    )
    pattern = r" *// queue:begin\n(.*?) *// queue:end"
    source = re.search(pattern, (HERE / "queue.cpp").read_text(), re.DOTALL)
    pattern = r"<!-- queue:begin -->\n```cpp\n(.*?)```\n<!-- queue:end -->"
    shown = re.search(pattern, readme, re.DOTALL)
    same = source and shown and source[1] == shown[1]
    assert same, "README.md shows another queue than queue.cpp has"


def main():
    before, after, queue, make_video = sys.argv[1:]
    check_results(before, after, queue, make_video)
    check_readme()


if __name__ == "__main__":
    main()
