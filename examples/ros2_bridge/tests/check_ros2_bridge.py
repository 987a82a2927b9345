#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example as its README describes, and checks its output, with and without faults.

Usage: check_ros2_bridge.py [unittest arguments]
Needs `make build`. DRIVELINE_ROS2_GATEWAY names the gateway if it is not in build/bin.
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
BOX = re.compile(
    r"sample \d+ from ROS 2: square, 100x160 at \((\d+), 100\), seen (-?[\d.e+-]+) ms ago"
)
NO_PUBLISHER = "not received: no node in ROS 2 publishes it"
GATEWAY_STARTED = re.compile(r"process 'gateway-ros2' started as process (\d+)")
GATEWAY_RESTARTS = (
    "'gateway-ros2' is started again in 1 s; until then nothing that it carries comes or goes"
)


class Bridge(Example):
    def start_endless(self):
        """Starts the example with images that do not end, and with every box printed."""
        options = ("--set", "pattern.frames=1000000", "--set", "boxes.every=1")
        return self.start(HERE / "run.sh", *options)

    def gateway_list(self, *options):
        return self.run_tool("gateway", "list", "--explain", *options)

    def echo_once(self, topic, *options):
        limits = ("--count", "1", "--timeout", str(PATIENCE_S))
        return self.run_tool("topic", "echo", topic, *options, *limits)

    def wait_for_topic(self, what, pattern, process):
        def is_listed(_):
            return re.search(pattern, self.run_tool("topic", "list"))

        self.wait_for(what, is_listed, process)

    def node_of(self, process):
        """Returns the process id of the node that run.sh started."""
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        [node] = [
            int(child)
            for child in children
            if os.readlink(f"/proc/{child}/exe").endswith("/detector")
        ]
        return node

    def test_readme_commands(self):
        output = self.run_readme(HERE)
        boxes = BOX.findall(output)
        self.assertTrue(boxes, output)
        for x, age_ms in boxes:
            # The square moves by 8 pixels and starts over at 540. Its image is older than its box.
            self.assertTrue(int(x) % 4 == 0 and int(x) < 540, output)
            self.assertTrue(0 < float(age_ms) < 10_000, output)
        self.assertRegex(
            output,
            r"ROS 2 node +\| picture 25 from /camera/image: 640x360 mono8, frame 'pattern'; "
            r"1 box to /detector/boxes",
        )
        self.assertIn("ended: 'pattern' has finished", output)
        self.assertNotRegex(output, r"error|warning|gateway-ros2 +\| topic")

    def test_gateway_restarts_after_kill_and_carries_boxes_again(self):
        process = self.start_endless()
        self.wait_for("a box", BOX.search, process)
        os.kill(int(GATEWAY_STARTED.search(self.output())[1]), signal.SIGKILL)
        self.wait_for(
            "a second gateway", lambda text: len(GATEWAY_STARTED.findall(text)) == 2, process
        )
        self.assertIn(GATEWAY_RESTARTS, self.output())
        self.wait_for(
            "a box after that",
            lambda text: BOX.search(GATEWAY_STARTED.split(text)[-1]),
            process,
        )
        self.check_gateway_list(process)
        self.check_topics(process)
        self.interrupt(process)

    def check_gateway_list(self, process):
        explained = self.gateway_list()
        self.assertRegex(
            explained,
            r"gateway ros2 \(process \d+\) of domain 'ros2_bridge': ROS 2 domain 7, "
            r"DDS on this host alone",
        )
        self.assertRegex(
            explained,
            r"camera/image: goes to ROS 2; [^\n]*\n"
            r"  published here by 'pattern': sensor_msgs/msg/Image, converted",
        )
        self.assertRegex(explained, r"detector/boxes: comes from ROS 2; ")
        self.wait_for(
            "the reader in ROS 2", lambda _: "read by /detector\n" in self.gateway_list(), process
        )

    def check_topics(self, process):
        self.wait_for_topic(
            "the publisher of boxes",
            r"detector/boxes +driveline.msgs.Detections2D +1 +1 ",
            process,
        )
        self.wait_for_topic(
            "the publisher of the status", r"detector/status +std_msgs/msg/String +1 ", process
        )
        self.assertRegex(
            self.echo_once("/detector/status"),
            r"^# sequence \d+ from '[^\n]* old[^\n]*\ndata: looks for bright squares\n---\n$",
        )
        boxes = json.loads(self.echo_once("detector/boxes", "--json"))
        self.assertEqual(boxes["fields"]["detections"][0]["class_label"], "square")
        self.assertRegex(
            self.echo_once("camera/image"),
            r"\nwidth: 640\n(.*\n)*data: \[[\d, ]+… \(230400 in all\)\]\n---\n$",
        )
        self.assertRegex(
            self.run_tool("topic", "info", "detector/status"),
            r"\n  ROS 2 knows it by RIHS01_[0-9a-f]{64}\n    string data\n",
        )

    def test_gateway_list_drops_a_killed_node(self):
        def explained():
            return self.gateway_list()

        def shows_node(_):
            text = explained()
            return "read by /detector" in text and NO_PUBLISHER not in text

        def shows_no_node(_):
            text = explained()
            return "read by" not in text and NO_PUBLISHER in text

        process = self.start_endless()
        self.wait_for("a box", BOX.search, process)
        self.wait_for("the node's subscription and publisher", shows_node, process)
        os.kill(self.node_of(process), signal.SIGKILL)
        # DDS keeps the node until its lease expires after 10 s.
        self.wait_for("a list without the node", shows_no_node, process)
        self.assertRegex(
            explained(),
            r"camera/image: goes to ROS 2; [^\n]*\n"
            r"  published here by 'pattern'[^\n]*\n"
            r"  no node in ROS 2 has a subscription",
        )
        self.interrupt(process)

    def test_missing_gateway_program_is_reported_with_the_build_command(self):
        output = self.run_failing(HERE / "run.sh", DRIVELINE_ROS2_GATEWAY=str(HERE / "nothing"))
        self.assertRegex(
            output,
            r"error: DRIVELINE_ROS2_GATEWAY names \S+/nothing as the program "
            r"driveline-gateway-ros2, and nothing is there; correct .*`make gateways`",
        )

    def test_occupied_ports_are_reported_with_their_numbers(self):
        sockets = []
        self.addCleanup(lambda: [s.close() for s in sockets])
        for port in range(9160, 9226):
            sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                sockets[-1].bind(("127.0.0.1", port))
            except OSError:
                pass  # Another process uses this port.
        output = self.run_failing(TOOL, "run", HERE / "graph.yaml")
        self.assertRegex(
            output,
            r"error: failed: process 'gateway-ros2' .*CycloneDDS cannot take part "
            r".*UDP ports 9160 to 9225",
        )


if __name__ == "__main__":
    unittest.main()
