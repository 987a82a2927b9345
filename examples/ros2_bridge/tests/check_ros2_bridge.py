#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example as its README says, and looks at what a user sees: of data, and when something is wrong.

Usage: check_ros2_bridge.py [unittest arguments]    after `make build`. DRIVELINE_ROS2_GATEWAY names the gateway if it is not in build/bin.
"""

import json
import os
import re
import signal
import socket
import unittest
from pathlib import Path

from ros2_example import PATIENCE_S, TOOL, Example

HERE = Path(__file__).resolve().parent.parent
BOX = re.compile(r"sample \d+ from ROS 2: square, 100x160 at \((\d+), 100\), seen (-?[\d.e+-]+) ms ago")
NOBODY = "not received: no node in ROS 2 publishes it"
STARTED = re.compile(r"process 'gateway-ros2' started as process (\d+)")
AGAIN = "'gateway-ros2' is started again in 1 s; until then nothing that it carries comes or goes"


class Bridge(Example):
    def topics(self):
        return self.told("topic", "list")

    def test_the_commands_of_the_readme(self):
        output = self.run_readme(HERE)
        boxes = BOX.findall(output)
        self.assertTrue(boxes, output)
        for x, age_ms in boxes:
            # The square moves by 8 pixels and begins again at 540; its picture was there before its box.
            self.assertTrue(int(x) % 4 == 0 and int(x) < 540, output)
            self.assertTrue(0 < float(age_ms) < 10_000, output)
        self.assertRegex(output, r"ROS 2 node +\| picture 25 from /camera/image: 640x360 mono8, frame 'pattern'; 1 box to /detector/boxes")
        self.assertIn("ended: 'pattern' has finished", output)
        self.assertNotRegex(output, r"error|warning|gateway-ros2 +\| topic")

    def test_a_gateway_that_is_killed_comes_back_and_so_do_the_boxes(self):
        process = self.start(HERE / "run.sh", "--set", "pattern.frames=1000000", "--set", "boxes.every=1")
        self.until("a box", BOX.search, process)
        os.kill(int(STARTED.search(self.printed())[1]), signal.SIGKILL)
        self.until("a second gateway", lambda text: len(STARTED.findall(text)) == 2, process)
        self.assertIn(AGAIN, self.printed())
        self.until("a box after that", lambda text: BOX.search(STARTED.split(text)[-1]), process)
        carried = self.told("gateway", "list", "--explain")
        self.assertRegex(carried, r"gateway ros2 \(process \d+\) of domain 'ros2_bridge': ROS 2 domain 7, DDS on this host alone")
        self.assertRegex(carried, r"camera/image: goes to ROS 2; [^\n]*\n  published here by 'pattern': sensor_msgs/msg/Image, converted")
        self.assertRegex(carried, r"detector/boxes: comes from ROS 2; ")
        self.until("the reader in ROS 2", lambda _: "read by /detector\n" in self.told("gateway", "list", "--explain"), process)
        self.until("the publisher of boxes", lambda _: re.search(r"detector/boxes +driveline.msgs.Detections2D +1 +1 ", self.topics()), process)
        self.until("that of the status", lambda _: re.search(r"detector/status +std_msgs/msg/String +1 ", self.topics()), process)
        said = self.told("topic", "echo", "/detector/status", "--count", "1", "--timeout", str(PATIENCE_S))
        self.assertRegex(said, r"^# sequence \d+ from '[^\n]* old[^\n]*\ndata: looks for bright squares\n---\n$")
        boxes = self.told("topic", "echo", "detector/boxes", "--json", "--count", "1", "--timeout", str(PATIENCE_S))
        self.assertEqual(json.loads(boxes)["fields"]["detections"][0]["class_label"], "square")
        picture = self.told("topic", "echo", "camera/image", "--count", "1", "--timeout", str(PATIENCE_S))
        self.assertRegex(picture, r"\nwidth: 640\n(.*\n)*data: \[[\d, ]+… \(230400 in all\)\]\n---\n$")
        self.assertRegex(self.told("topic", "info", "detector/status"), r"\n  ROS 2 knows it by RIHS01_[0-9a-f]{64}\n    string data\n")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.printed())

    def test_a_node_that_is_killed_is_not_told_of_any_more(self):
        process = self.start(HERE / "run.sh", "--set", "pattern.frames=1000000", "--set", "boxes.every=1")
        carried = lambda: self.told("gateway", "list", "--explain", "--domain", "ros2_bridge")
        self.until("a box", BOX.search, process)
        self.until("its subscription and its publisher", lambda _: "read by /detector" in carried() and NOBODY not in carried(), process)
        os.kill(self.node_of(process), signal.SIGKILL)
        # DDS believes in it until its lease is over, 10 s later.
        self.until("neither", lambda _: "read by" not in carried() and NOBODY in carried(), process)
        self.assertRegex(carried(), r"camera/image: goes to ROS 2; [^\n]*\n  published here by 'pattern'[^\n]*\n  no node in ROS 2 has a subscription")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.printed())

    def node_of(self, process):
        """The node, which run.sh has started."""
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        [node] = [int(child) for child in children if os.readlink(f"/proc/{child}/exe").endswith("/detector")]
        return node

    def test_a_gateway_that_was_not_built_is_told_with_the_command_that_builds_it(self):
        output = self.fails(HERE / "run.sh", DRIVELINE_ROS2_GATEWAY=str(HERE / "nothing"))
        self.assertRegex(output, r"error: DRIVELINE_ROS2_GATEWAY names \S+/nothing as the program driveline-gateway-ros2, and nothing is there; correct .*`make gateways`")

    def test_ports_that_others_have_are_told_with_their_numbers(self):
        taken = []
        self.addCleanup(lambda: [s.close() for s in taken])
        for port in range(9160, 9226):
            taken.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                taken[-1].bind(("127.0.0.1", port))
            except OSError:
                pass  # somebody else has it
        output = self.fails(TOOL, "run", HERE / "graph.yaml")
        self.assertRegex(output, r"error: failed: process 'gateway-ros2' .*CycloneDDS cannot take part .*UDP ports 9160 to 9225")


if __name__ == "__main__":
    unittest.main()
