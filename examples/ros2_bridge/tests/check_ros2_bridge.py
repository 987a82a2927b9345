#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example as its README says, and looks at what a user sees: of data, and when something is wrong.

Usage: check_ros2_bridge.py [unittest arguments]    after `make build`. DRIVELINE_ROS2_GATEWAY names the gateway if it is not in build/bin.
"""

import os
import re
import signal
import socket
import unittest
from pathlib import Path

from ros2_example import PATIENCE_S, TOOL, Example

HERE = Path(__file__).resolve().parent.parent
BOX = re.compile(r"sample \d+ from ROS 2: square, 100x160 at \((\d+), 100\), seen (-?[\d.e+-]+) ms ago")
STARTED = re.compile(r"module 'gateway-ros2' started as process (\d+)")
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
        self.until("the reader in ROS 2", lambda _: "read by 1 subscription of a node without a name" in self.told("gateway", "list", "--explain"), process)
        self.until("the publisher of boxes", lambda _: re.search(r"detector/boxes +driveline.msgs.Detections2D +1 +1 ", self.topics()), process)
        self.until("that of the status", lambda _: re.search(r"detector/status +std_msgs/msg/String +1 ", self.topics()), process)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.printed())

    def test_a_gateway_that_was_not_built_is_told_with_the_command_that_builds_it(self):
        output = self.fails(HERE / "run.sh", DRIVELINE_ROS2_GATEWAY=str(HERE / "nothing"))
        self.assertRegex(output, r"error: the program driveline-gateway-ros2 was not found .*`make gateways`.*DRIVELINE_ROS2_GATEWAY")

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
        self.assertRegex(output, r"error: failed: module 'gateway-ros2' .*CycloneDDS cannot take part .*UDP ports 9160 to 9225")


if __name__ == "__main__":
    unittest.main()
