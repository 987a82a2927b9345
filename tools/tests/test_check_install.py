# SPDX-License-Identifier: Apache-2.0
"""The example that is built is the one people read."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from check_install import BEGIN, END, CheckError, example  # noqa: E402


class Example(unittest.TestCase):
    def test_the_block_between_the_markers_is_taken(self):
        text = f"```cpp\nnot this\n```\n{BEGIN}\nwords\n```cpp\nint a;\n\nint b;\n```\n{END}\n"
        self.assertEqual(example(text), "int a;\n\nint b;\n")

    def test_anything_else_is_refused(self):
        block = "```cpp\nint a;\n```\n"
        for bad in (block, f"{BEGIN}{END}", f"{BEGIN}{block}{block}{END}", f"{BEGIN}{block}{END}{BEGIN}{block}{END}"):
            with self.assertRaises(CheckError, msg=bad):
                example(bad)

    def test_twenty_lines_are_promised(self):
        block = lambda n: f"{BEGIN}\n```cpp\n" + "int a;\n" * n + f"```\n{END}"  # noqa: E731
        self.assertEqual(example(block(20)).count("\n"), 20)
        with self.assertRaises(CheckError):
            example(block(21))


if __name__ == "__main__":
    unittest.main()
