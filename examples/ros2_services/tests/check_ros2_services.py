#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example as its README says, and looks at what a user sees: of calls in both directions, and when the node has gone.

Usage: check_ros2_services.py [unittest arguments]    after `make build`. DRIVELINE_ROS2_GATEWAY names the gateway if it is not in build/bin.
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

ANSWER = re.compile(r"ROS 2 node +\| /driveline/add answers call (\d+): (\d+)")


class Services(Example):
    def test_the_commands_of_the_readme(self):
        output = self.run_readme(HERE)
        sums = [tuple(int(n) for n in found) for found in re.findall(r"ROS 2 says that (\d+) \+ 100 is (\d+)", output)]
        self.assertEqual(sums, [(n, n + 100) for n in range(10)], output)
        answers = [tuple(int(n) for n in found) for found in ANSWER.findall(output)]
        self.assertTrue(answers, output)
        self.assertEqual(answers, [(n + 1, n + 3) for n in range(len(answers))], output)
        self.assertIn("' asks for 1 + 2: 3", output)
        self.assertRegex(output, r"ROS 2 node +\| asked for 9 \+ 100 by /ros/add: 109")
        self.assertIn("ended: 'asker' has finished", output)
        self.assertNotRegex(output, r"error|warning|failed")

    def test_without_the_node_nothing_is_called_and_the_list_says_so(self):
        process = self.start(TOOL, "run", HERE / "graph.yaml")
        self.until("nobody", lambda text: "no node serves /ros/add yet" in text, process)
        listed = self.until("the server here", lambda _: re.search(r"driveline/add: [^\n]*", self.told("gateway", "list", "--explain")), process)
        listed = self.until("the server there", lambda _: re.search(r"not called: no node in ROS 2 offers it", self.told("gateway", "list", "--explain")), process)
        self.assertNotRegex(self.printed(), r"asked for|asks for", listed)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.printed())

    def test_a_node_that_is_killed_is_missed_once_and_the_run_ends_after_its_calls(self):
        process = self.start(HERE / "run.sh", "--set", "asker.calls=12")
        self.until("an answer", lambda text: "ROS 2 says that 2 + 100 is 102" in text, process)
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()]
        nodes = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "adder\n"]
        self.assertEqual(len(nodes), 1, self.printed())
        os.kill(nodes[0], signal.SIGTERM)
        self.until("that it is missed", lambda text: "no node serves /ros/add any more" in text, process)
        process.wait(PATIENCE_S)
        output = self.printed()
        self.assertEqual(output.count("any more"), 1, output)
        self.assertLessEqual(output.count("no node serves /ros/add yet"), 1, output)
        counted = re.search(r"(\d+) calls were answered, (\d+) were not", output)
        self.assertTrue(counted, output)
        answered = len(re.findall(r"ROS 2 says that", output))
        self.assertEqual([int(n) for n in counted.groups()], [answered, 12 - answered], output)
        self.assertIn("'asker' has finished", output)


if __name__ == "__main__":
    unittest.main()
