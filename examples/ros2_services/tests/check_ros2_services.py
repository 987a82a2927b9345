#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example as its README describes, and checks its output, with and without the node.

Usage: check_ros2_services.py [unittest arguments]
Needs `make build`. DRIVELINE_ROS2_GATEWAY names the gateway if it is not in build/bin.
"""

import os
import re
import signal
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE.parent / "ros2_bridge/tests"))

from ros2_example import PATIENCE_S, TOOL, Example  # noqa: E402

SUM = re.compile(r"ROS 2 says that (\d+) \+ 100 is (\d+)")
ANSWER = re.compile(r"ROS 2 node +\| /driveline/add answers call (\d+): (\d+)")


def numbers(pattern, text):
    """Returns the numbers of each match of a pattern, as tuples."""
    return [tuple(int(n) for n in match) for match in pattern.findall(text)]


class Services(Example):
    def find_in_gateway_list(self, pattern):
        return re.search(pattern, self.run_tool("gateway", "list", "--explain"))

    def node_of(self, process):
        """Returns the process id of the node that run.sh started."""
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        nodes = [
            int(child)
            for child in children.read_text(encoding="utf-8").split()
            if Path(f"/proc/{child}/comm").read_text(encoding="utf-8") == "adder\n"
        ]
        self.assertEqual(len(nodes), 1, self.output())
        return nodes[0]

    def test_readme_commands(self):
        output = self.run_readme(HERE)
        self.assertEqual(numbers(SUM, output), [(n, n + 100) for n in range(10)], output)
        answers = numbers(ANSWER, output)
        self.assertTrue(answers, output)
        self.assertEqual(answers, [(n + 1, n + 3) for n in range(len(answers))], output)
        self.assertIn("' asks for 1 + 2: 3", output)
        self.assertRegex(output, r"ROS 2 node +\| asked for 9 \+ 100 by /ros/add: 109")
        self.assertIn("ended: 'asker' has finished", output)
        self.assertNotRegex(output, r"error|warning|failed")

    def test_without_the_node_no_call_is_made_and_the_list_says_why(self):
        process = self.start(TOOL, "run", HERE / "graph.yaml")
        self.wait_for(
            "the line of the asker",
            lambda text: "no node serves /ros/add yet" in text,
            process,
        )
        self.wait_for(
            "the server of Driveline",
            lambda _: self.find_in_gateway_list(r"driveline/add: [^\n]*"),
            process,
        )
        found = self.wait_for(
            "the reason why /ros/add is not called",
            lambda _: self.find_in_gateway_list(r"not called: no node in ROS 2 offers it"),
            process,
        )
        self.assertNotRegex(self.output(), r"asked for|asks for", found)
        self.interrupt(process)

    def test_a_killed_node_is_reported_once_and_the_run_ends_after_its_calls(self):
        process = self.start(HERE / "run.sh", "--set", "asker.calls=12")
        self.wait_for("an answer", lambda text: "ROS 2 says that 2 + 100 is 102" in text, process)
        os.kill(self.node_of(process), signal.SIGTERM)
        self.wait_for(
            "the line about the killed node",
            lambda text: "no node serves /ros/add any more" in text,
            process,
        )
        process.wait(PATIENCE_S)
        output = self.output()
        self.assertEqual(output.count("any more"), 1, output)
        self.assertLessEqual(output.count("no node serves /ros/add yet"), 1, output)
        counted = re.search(r"(\d+) calls were answered, (\d+) were not", output)
        self.assertTrue(counted, output)
        answered = len(re.findall(r"ROS 2 says that", output))
        self.assertEqual([int(n) for n in counted.groups()], [answered, 12 - answered], output)
        self.assertIn("'asker' has finished", output)


if __name__ == "__main__":
    unittest.main()
