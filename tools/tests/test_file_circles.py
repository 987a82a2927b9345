# SPDX-License-Identifier: Apache-2.0
"""Tests of file_circles.py."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from file_circles import largest


class Circles(unittest.TestCase):
    def circle(self, files):
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / "crates/demo/src"
            (source.parent / "Cargo.toml").parent.mkdir(parents=True)
            (source.parent / "Cargo.toml").write_text("")
            for name, text in files.items():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                (source / name).write_text(text)
            return [str(f.relative_to(source)) for f in largest(Path(directory))]

    def test_files_that_use_each_other_are_a_circle(self):
        files = {
            "lib.rs": "mod a;\nmod b;\nmod c;\npub use a::A;",
            "a.rs": "use crate::b::B;\npub struct A(B);",
            "b.rs": "use super::c;\npub struct B(c::C);",
            "c.rs": "pub struct C(Option<Box<crate::a::A>>);",
        }
        self.assertEqual(self.circle(files), ["a.rs", "b.rs", "c.rs"])

    def test_a_name_leads_through_re_exports_to_its_definition(self):
        files = {
            "lib.rs": "mod a;\nmod b;\npub use a::A;",
            "a.rs": "use crate::b::B;\npub struct A(B);",
            "b.rs": "pub struct B(Option<Box<crate::A>>);",
        }
        self.assertEqual(self.circle(files), ["a.rs", "b.rs"])

    def test_re_exports_tests_comments_and_strings_are_no_use(self):
        files = {
            "lib.rs": "mod a;\npub use a::A;\npub const N: u8 = 1;",
            "a.rs": '// crate::N\npub struct A;\nconst S: &str = "crate::N";\n'
            "#[cfg(test)]\nmod tests {\n    use crate::N;\n    fn f() {}\n}\n",
        }
        self.assertEqual(self.circle(files), [])

    def test_an_arrow_in_one_direction_is_no_circle(self):
        files = {
            "lib.rs": "mod a;\nmod b;",
            "a.rs": "use super::b::{B, self};\npub struct A(B, b::B);",
            "b.rs": "pub struct B;",
        }
        self.assertEqual(self.circle(files), [])


if __name__ == "__main__":
    unittest.main()
