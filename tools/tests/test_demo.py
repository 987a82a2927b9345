# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/demo.sh: it checks the arguments of `make demo` before the long build."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "demo.sh"


class Check(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.dir = Path(place.name)

    def check(self, video="", model="", speed="100", **environment):
        command = [DEMO, "check", video, model, speed]
        env = {**os.environ, **environment}
        done = subprocess.run(command, cwd=self.dir, env=env, capture_output=True, text=True)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def refused(self, *says, **given):
        code, said = self.check(**given)
        self.assertEqual((code, said.count("\n")), (1, 1), said)
        for text in ("demo: error: ", *says):
            self.assertIn(text, said)

    def test_readable_files_are_accepted_relative_to_the_caller(self):
        for name in ("drive.mp4", "yolo.cfg"):
            (self.dir / name).touch()
        self.assertEqual(self.check(), (0, ""))
        self.assertEqual(self.check("drive.mp4", "./yolo.cfg", "64"), (0, ""))
        self.assertEqual(self.check(str(self.dir / "drive.mp4")), (0, ""))

    def test_a_directory_is_no_model(self):
        (self.dir / "network").mkdir()
        self.refused(
            "MODEL=network is a directory", "name the network's .cfg or .onnx", model="network"
        )

    def test_a_directory_is_a_video_only_with_images_in_it(self):
        frames = self.dir / "frames"
        frames.mkdir()
        (frames / "notes.txt").touch()
        self.refused(
            "VIDEO=frames is a directory without images",
            "name a video, or a folder of images",
            video="frames",
        )
        (frames / "0001.PNG").touch()
        self.assertEqual(self.check("frames"), (0, ""))

    def test_a_missing_file_is_refused_with_the_valid_choices(self):
        self.refused(
            "VIDEO=drive.mp4 cannot be read",
            f"looked from {self.dir}",
            "name a video",
            video="drive.mp4",
        )
        self.refused("MODEL=yolo.cfg cannot be read", "leave MODEL out", model="yolo.cfg")

    def test_a_model_of_an_unknown_kind_is_refused_before_the_build(self):
        (self.dir / "notes.md").touch()
        self.refused(
            "MODEL=notes.md is not a network", "name the network's .cfg or .onnx", model="notes.md"
        )
        for speed in ("fast", "0", "0.0"):
            self.refused(f"SPEED_KMH={speed} is not a speed", speed=speed)

    def test_containers_need_an_engine_before_the_build(self):
        for program in ("bash", "dirname"):
            (self.dir / program).symlink_to(shutil.which(program))
        given = {"DEPLOY": "containers", "PATH": str(self.dir)}
        self.refused("containers needs a container engine", "apt-get install podman", **given)
        (self.dir / "podman").touch(mode=0o755)
        self.assertEqual(self.check(**given), (0, ""))
        self.refused("DEPLOY=cluster is not known", DEPLOY="cluster")


if __name__ == "__main__":
    unittest.main()
