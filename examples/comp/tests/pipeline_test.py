#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the graphs of ComP with `driveline run`, and compares the results with the ground truth.

Usage: pipeline_test.py BIN_DIR LIB_DIR DATA_DIR [unittest arguments]

The test of the real drive needs the files in DATA_DIR (or $DRIVELINE_DATA), and is skipped without
them. The verdict does not depend on speed: a loaded machine may drop frames, but they must be
counted, and the results of the processed frames must be correct.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN_DIR, LIB_DIR, DATA_DIR = (Path(p) for p in sys.argv[1:4])
DATA_DIR = Path(os.environ.get("DRIVELINE_DATA", DATA_DIR))
VIDEO = DATA_DIR / "drive/highway_960x540.mp4"
MODEL = DATA_DIR / "yolo/yolo-fastest-1.1-xl.cfg"
# A log line such as "[detector] detector: ...".
NAMED_TWICE = re.compile(r"\[(\w+)\] \1: .*")


def detector_of(summary):
    """Returns the detector's description of itself."""
    return next((f["text"] for f in summary["facts"] if f["name"] == "detector"), "")


def run_graph(graph, out, **settings):
    """Runs a graph to its end, and returns its summary."""
    graph_file = HERE.parent / "graphs" / f"{graph}.yaml"
    command = [BIN_DIR / "driveline", "run", graph_file, "--report", out]
    for key, value in settings.items():
        command += ["--set", f"{key.replace('__', '.')}={value}"]
    environment = {
        **os.environ,
        "DRIVELINE_COMPONENT_PATH": str(LIB_DIR),
        "DRIVELINE_DOMAIN_DIR": f"{out}/domain",
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode != 0:
        raise AssertionError(
            f"driveline run {graph} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
    twice = NAMED_TWICE.search(done.stdout + done.stderr)
    if twice:
        raise AssertionError(f"a line names its component twice: {twice[0]}")
    return json.loads(Path(out, "summary.json").read_text(encoding="utf-8"))


def scenes_of(path):
    """Reads a scene log; returns {frame index: scene}."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return {int(scene["header"].get("frameIndex", 0)): scene for scene in map(json.loads, lines)}


def lanes_of(scenes):
    """Returns {frame index: ego lane}, with the frame in which the lane was seen.

    A scene contains the newest lanes available, which may be those of an earlier frame.
    """
    frames = {scene["header"]["sourceTimeNs"]: frame for frame, scene in scenes.items()}
    return {
        frames[time]: scene["egoLane"]
        for scene in scenes.values()
        if (time := scene.get("lanesSourceTimeNs")) in frames
    }


def x_at(line, y):
    """Returns the x coordinate of a marking in row y, along its nearest segment."""
    points = sorted((p["y"], p["x"]) for p in line["points"])
    lower, upper = points[0], points[1]
    for a, b in zip(points, points[1:]):
        lower, upper = a, b
        if y <= b[0]:
            break
    return lower[1] + (y - lower[0]) * (upper[1] - lower[1]) / (upper[0] - lower[0])


def overlap(a, b):
    """Returns intersection over union of two boxes (x, y, width, height)."""
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / (a[2] * a[3] + b[2] * b[3] - both)


def labels(name):
    with open(HERE / "labels" / name, encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


class Drive(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name

    def run_annotated(self, **settings):
        """Runs the graph that writes images and a scene log; returns its summary and scenes."""
        scene_log = f"{self.out}/scenes.jsonl"
        summary = run_graph(
            "annotated",
            self.out,
            **settings,
            annotate__output=f"{self.out}/frames",
            scene_log__output=scene_log,
        )
        return summary, scenes_of(scene_log)

    def check_counters(self, summary, frames):
        """Checks that nothing failed, and that the counters account for the published samples."""
        self.assertEqual(summary["frames_published"], frames)
        stages = {s["stage"] for s in summary["stages"]}
        self.assertEqual(stages >= {"camera", "lane", "detector", "tracker", "fusion"}, True)
        self.assertEqual(sum(s["failed"] for s in summary["stages"]), 0, summary["stages"])
        skipped = {
            s["stage"]: (s["counters"] or {}).get("skipped_missing", 0) for s in summary["stages"]
        }
        for s in summary["subscriptions"]:
            published = summary["published"][s["topic"]]
            self.assertGreater(s["received"], 0, s)
            self.assertLessEqual(s["received"] + s["missed"], published, s)
            if s["stage"] in ("lane", "detector"):
                # Each frame triggers these stages. Only samples in flight at the end may be
                # neither received nor counted.
                counted = s["received"] + s["missed"] + skipped[s["stage"]]
                self.assertGreaterEqual(counted, published - 2, s)
        self.assertTrue(Path(self.out, "report.html").stat().st_size > 10_000)


class Pipeline(Drive):
    def test_synthetic_drive_in_five_processes(self):
        summary = run_graph("five_processes", self.out, camera__source="synthetic:60")
        self.check_counters(summary, 60)
        self.assertIn("classical", detector_of(summary))

    def test_synthetic_drive_in_one_process(self):
        self.check_counters(run_graph("one_process", self.out, camera__source="synthetic:60"), 60)

    def test_synthetic_drive_mixed(self):
        self.check_counters(run_graph("mixed", self.out, camera__source="synthetic:60"), 60)

    def test_looped_drive_ends_after_its_number_of_frames(self):
        settings = {"camera__source": "synthetic:25", "camera__loop": "true", "camera__frames": 60}
        self.check_counters(run_graph("five_processes", self.out, **settings), 60)

    def test_videos_with_a_longer_audio_track_play_to_their_end(self):
        for name in ("longer_audio.mkv", "longer_audio.ts"):
            with self.subTest(name):
                video = HERE / "data" / name
                summary = run_graph("one_process", f"{self.out}/{name}", camera__source=video)
                self.assertEqual(summary["frames_published"], 25)
                self.assertEqual(sum(s["failed"] for s in summary["stages"]), 0, summary["stages"])

    def test_blank_frames_yield_nothing(self):
        _, scenes = self.run_annotated(
            camera__source="synthetic:30", camera__blank_every=1, camera__rate_hz=10
        )
        self.assertTrue(scenes)
        for scene in scenes.values():
            self.assertEqual(scene.get("objects", []), [])
            self.assertFalse(scene["egoLane"].get("valid", False))


class RealDrive(Drive):
    @unittest.skipUnless(
        VIDEO.is_file() and MODEL.is_file(),
        f"no real drive and network in {DATA_DIR}; set DRIVELINE_DATA",
    )
    def test_real_drive_with_the_real_network(self):
        # Slower than the recording, so that even a loaded machine processes most frames. The
        # verdict does not depend on the rate.
        summary, scenes = self.run_annotated(
            camera__source=VIDEO, camera__rate_hz=9, detector__model=MODEL
        )
        self.check_counters(summary, 221)
        self.assertIn("YOLO", detector_of(summary))
        self.check_lanes(lanes_of(scenes))
        self.check_cars(scenes)

    def check_lanes(self, lanes):
        """Compares the ego lanes with the labelled lanes."""
        self.assertGreater(len(lanes), 50)
        found = sum(lane.get("valid", False) for lane in lanes.values())
        self.assertGreaterEqual(found, 0.95 * len(lanes), "lanes on at least 95 % of the frames")
        checked = 0
        for row in labels("highway_lanes.csv"):
            lane = lanes.get(int(row["frame"]))
            if lane is None:
                continue
            x = x_at(lane[row["side"]], float(row["y_px"]))
            self.assertLessEqual(abs(x - float(row["x_px"])), 12, row)
            checked += 1
        self.assertGreater(checked, 30)

    def check_cars(self, scenes):
        """Compares the detected objects with the labelled cars."""
        cars = matched = 0
        frames = set()
        for row in labels("highway_cars.csv"):
            scene = scenes.get(int(row["frame"]))
            if scene is None or row["visible"] != "full":
                continue
            left, top, right, bottom = (
                float(row[k]) for k in ("left_px", "top_px", "right_px", "bottom_px")
            )
            label = [left, top, right - left, bottom - top]
            boxes = [
                [o["box"].get(k, 0.0) for k in ("x", "y", "width", "height")]
                for o in scene.get("objects", [])
            ]
            cars += 1
            frames.add(row["frame"])
            matched += any(overlap(label, b) >= 0.5 for b in boxes)
        self.assertGreaterEqual(len(frames), 10)
        self.assertGreaterEqual(
            matched,
            0.85 * cars,
            f"{matched} of {cars} labelled cars in {len(frames)} frames",
        )


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
