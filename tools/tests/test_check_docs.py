# SPDX-License-Identifier: Apache-2.0
"""Links that lead nowhere and crates that nobody describes are found."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from check_docs import anchor, check_tree  # noqa: E402


class Docs(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, text in {"ARCHITECTURE.md": "| `driveline-types` | words |\n", **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_tree(root)

    def test_good_links(self):
        files = {
            "docs/a.md": "# A b: c\n[up](../README.md) ![picture](p.svg) [dir](../docs) [me](#a-b-c)",
            "docs/p.svg": "",
            "README.md": "[a](docs/a.md#a-b-c) [web](https://example.org/x)\n```\n[no](link)\n```\n",
        }
        self.assertEqual(self.check(files), [])

    def test_bad_links(self):
        found = self.check({"README.md": "# T\n[x](gone.md) [y](#nope) [z](ARCHITECTURE.md#nope)"})
        self.assertEqual(len(found), 3, found)

    def test_a_crate_without_a_line_is_found(self):
        (found,) = self.check({"crates/driveline-types/Cargo.toml": "", "crates/driveline-new/Cargo.toml": ""})
        self.assertIn("driveline-new", found)

    def test_anchors(self):
        self.assertEqual(anchor("From an existing program: `four` lines"), "from-an-existing-program-four-lines")


if __name__ == "__main__":
    unittest.main()
