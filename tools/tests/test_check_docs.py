# SPDX-License-Identifier: Apache-2.0
"""Tests of check_docs.py: broken links, and crates and limits without a description."""

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
            for name, text in {
                "ARCHITECTURE.md": "| `driveline-types` | words |\n",
                **files,
            }.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_tree(root)

    def test_good_links(self):
        files = {
            "docs/a.md": "# A b: c\n"
            "[up](../README.md) ![picture](p.svg) [dir](../docs) [me](#a-b-c)",
            "docs/p.svg": "",
            "README.md": "[a](docs/a.md#a-b-c) [web](https://example.org/x)\n"
            "```\n[no](link)\n```\n",
        }
        self.assertEqual(self.check(files), [])

    def test_bad_links(self):
        found = self.check({"README.md": "# T\n[x](gone.md) [y](#nope) [z](ARCHITECTURE.md#nope)"})
        self.assertEqual(len(found), 3, found)

    def test_a_crate_without_a_line_is_found(self):
        (found,) = self.check(
            {"crates/driveline-types/Cargo.toml": "", "crates/driveline-new/Cargo.toml": ""}
        )
        self.assertIn("driveline-new", found)

    def limits(
        self, rows, source="pub const MAX_A: usize = 2 * 1_024;\n#[test]\nfn beyond_a() {}\n"
    ):
        page = (
            "# P\n\n## 8. Limits\n\n"
            + "| limit | file | value | beyond | test |\n|---|---|---|---|---|\n"
            + rows
            + "\n## 9. More\n| `MAX_Z` |\n"
        )
        files = {
            "docs/protocols/shm.md": page,
            "crates/driveline-shm/Cargo.toml": "",
            "crates/driveline-shm/src/a.rs": source,
        }
        return self.check({"ARCHITECTURE.md": "| `driveline-shm` | words |\n", **files})

    def test_limits_of_the_source_are_on_the_page_with_value_and_test(self):
        good = "| `MAX_A` | driveline-shm/a.rs | 2 048 bytes | an error | `beyond_a` |\n"
        self.assertEqual(self.limits(good), [])
        for rows, word in [
            ("", "lacks MAX_A"),
            (good.replace("2 048", "2 049"), "is 2048, not 2 049"),
            (good.replace("`beyond_a`", ""), "has no test"),
            (good.replace("beyond_a", "beyond_b"), "no test beyond_b"),
            (
                good + good.replace("MAX_A", "MAX_B"),
                "MAX_B of driveline-shm/a.rs, which is not in the source",
            ),
        ]:
            (found,) = self.limits(rows)
            self.assertIn(word, found)
        self.assertEqual(
            self.limits("| `MAX_A` | driveline-shm/a.rs | 2 048 | bounds work inside |\n"), []
        )
        self.assertEqual(self.limits(good, "const MAX_A: u32 = OTHER + 1;\nfn beyond_a() {}\n"), [])

    def test_anchors(self):
        self.assertEqual(
            anchor("From an existing program: `four` lines"), "from-an-existing-program-four-lines"
        )


if __name__ == "__main__":
    unittest.main()
