# SPDX-License-Identifier: Apache-2.0
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import check_language  # noqa: E402


def measured(name, text):
    figures = check_language.Figures()
    check_language.measure(Path(name), text, figures)
    return figures


class Words(unittest.TestCase):
    def avoided(self, name, text):
        return [word for _, _, word in measured(name, text).avoided]

    def test_comments_texts_and_pages_are_read(self):
        self.assertEqual(self.avoided("a.rs", "// Tells whoever asks.\n"), ["Tells", "whoever"])
        self.assertEqual(self.avoided("a.rs", 'say("nobody is there");\n'), ["nobody"])
        self.assertEqual(self.avoided("a.md", "It stands beside it.\n"), ["beside"])
        self.assertEqual(self.avoided("a.py", "# in vain\n"), ["in vain"])

    def test_a_text_of_several_lines_is_read(self):
        text = 'say("in \\\n     vain");\nsay("a b");\n'
        self.assertEqual(self.avoided("a.rs", text), ["in vain"])

    def test_code_is_not_read(self):
        self.assertEqual(self.avoided("a.rs", "fn told(beside: u32) {}\n"), [])
        self.assertEqual(self.avoided("a.rs", "/// See `beside`.\n"), [])
        self.assertEqual(self.avoided("a.md", "```\nbeside\n```\n`told`\n"), [])
        # A key, not a text for people.
        self.assertEqual(self.avoided("a.rs", 'get("beside");\n'), [])


class Summaries(unittest.TestCase):
    def test_wh_words(self):
        text = "/// What it is.\n/// Who reads it.\nfn a() {}\n/// Returns it.\nfn b() {}\n"
        figures = measured("a.rs", text)
        self.assertEqual((figures.summaries, len(figures.wh)), (2, 1))
        self.assertEqual(measured("a.rs", "//! Which is it?\n").values()["wh"], 100)


class Limits(unittest.TestCase):
    def rooms(self, text):
        return {"crates/a": measured("crates/a/src/lib.rs", text)}

    def test_a_room_may_not_get_worse(self):
        rooms = self.rooms("// " + "x" * 100 + "\n")
        self.assertEqual(len(list(check_language.violations(rooms, {}))), 1)
        allowed = {"crates/a": {"words": 5, "wh": 2, "long": 1}}
        self.assertEqual(list(check_language.violations(rooms, allowed)), [])

    def test_lowering_never_raises(self):
        rooms = self.rooms("// " + "x" * 100 + "\n")
        before = {"crates/a": {"words": 9, "wh": 50, "long": 0}}
        self.assertEqual(check_language.lowered(rooms, before), {})
        before["crates/a"]["long"] = 7
        self.assertEqual(check_language.lowered(rooms, before)["crates/a"]["long"], 1)

    def test_rooms(self):
        self.assertEqual(check_language.room(Path("crates/a/src/b/c.rs")), "crates/a")
        self.assertEqual(check_language.room(Path("docs/adr/1.md")), "docs")
        self.assertEqual(check_language.room(Path("README.md")), ".")


if __name__ == "__main__":
    unittest.main()
