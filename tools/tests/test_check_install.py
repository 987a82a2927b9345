# SPDX-License-Identifier: Apache-2.0
"""Tests of check_install.py: the built example is the one on the page."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from check_install import (  # noqa: E402
    BEGIN,
    END,
    MESSAGES_BEGIN,
    MESSAGES_END,
    PROGRAM_BEGIN,
    PROGRAM_END,
    ROOT,
    CheckError,
    example,
    messages,
    program,
)


LINE = "int a;\n"


def blocks(code="int a;\n", cmake="project(x)\n", graph="name: x\n"):
    return f"```cpp\n{code}```\n```cmake\n{cmake}```\n```yaml\n{graph}```\n"


class Example(unittest.TestCase):
    def test_the_blocks_between_the_markers_are_taken(self):
        code = "int a;\n\nint b;\n"
        text = f"```cpp\nnot this\n```\n{BEGIN}\nwords\n{blocks(code)}{END}\n"
        self.assertEqual(example(text), {"cpp": code, "cmake": "project(x)\n", "yaml": "name: x\n"})

    def test_anything_else_is_refused(self):
        one = blocks()
        for bad in (
            one,
            f"{BEGIN}{END}",
            f"{BEGIN}{one}{one}{END}",
            f"{BEGIN}{one}{END}{BEGIN}{one}{END}",
            f"{BEGIN}```cpp\n```{END}",
        ):
            with self.assertRaises(CheckError, msg=bad):
                example(bad)

    def test_twenty_lines_are_promised(self):
        text = lambda n: f"{BEGIN}\n{blocks(LINE * n)}{END}"  # noqa: E731
        self.assertEqual(example(text(20))["cpp"].count("\n"), 20)
        with self.assertRaises(CheckError):
            example(text(21))

    def test_the_program_of_the_page_is_taken(self):
        self.assertIn(
            "int main()", program((ROOT / "docs/cpp.md").read_text(encoding="utf-8"))["cpp"]
        )
        with self.assertRaises(CheckError):
            program(f"{PROGRAM_BEGIN}```cpp\n```{PROGRAM_END}")

    def test_the_messages_of_the_page_are_taken(self):
        page = (ROOT / "docs/cpp.md").read_text(encoding="utf-8")
        self.assertIn("driveline_add_messages(my_msgs", messages(page))
        with self.assertRaises(CheckError):
            messages(f"{MESSAGES_BEGIN}```cpp\n```{MESSAGES_END}")


if __name__ == "__main__":
    unittest.main()
