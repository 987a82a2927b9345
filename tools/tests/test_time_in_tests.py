# SPDX-License-Identifier: Apache-2.0
"""Tests of time_in_tests.py: places that depend on time are found unless they give a reason."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from check_source import without_comments_and_strings as strip  # noqa: E402
from time_in_tests import (  # noqa: E402
    all_places,
    blank_python,
    check,
    lowered,
    places,
    read_allowed,
)


def of_rust(*lines):
    text = "\n".join(lines)
    return [what for _, what in places(text, strip(text), ".rs")]


class Rust(unittest.TestCase):
    def test_sleeps(self):
        for line in (
            "std::thread::sleep(PACE);",
            "sleep(Duration::from_millis(1));",
            "x.for_each(thread::sleep);",
            "std::thread::park_timeout(PACE);",
        ):
            self.assertEqual(of_rust(line), ["a sleep"], line)
        for line in (
            "set.sleep(armed);",
            "let asleep = sleeps(2);",
            "// thread::sleep(PACE);",
            'let a = "thread::sleep(1)";',
        ):
            self.assertEqual(of_rust(line), [], line)

    def test_bounds_on_elapsed_time(self):
        for line in (
            "assert!(begun.elapsed() < Duration::from_secs(15));",
            "while asked < 3 || begun.elapsed() < WATCHED {",
            "if took > begun.elapsed() {",
            "assert!(MonotonicNs::now().since(before) >= Duration::from_millis(30));",
            "assert!(begun.elapsed().as_millis() < 3);",
        ):
            self.assertEqual(of_rust(line), ["a bound on elapsed time"], line)
        for line in (
            "assert!(begun.elapsed() < Duration::from_secs(60));",
            "assert!(begun.elapsed() < PATIENCE);",
            "took.push(begun.elapsed());",
        ):
            self.assertEqual(of_rust(line), [], line)

    def test_short_time_outs(self):
        for line in (
            "let end = Instant::now() + Duration::from_secs(20);",
            "until(MonotonicNs::now() + Duration::from_millis(59_999));",
            "news.recv_timeout(Duration::from_secs(5)).unwrap();",
            "client.call(question(2), Duration::from_millis(50))",
            "const PATIENCE: Duration = Duration::from_secs(30);",
            "pub(crate) const KNOWN_WITHIN: Duration = Duration::from_secs(6);",
        ):
            self.assertEqual(of_rust(line), ["a short time-out"], line)
        for line in (
            "let end = Instant::now() + Duration::from_secs(60);",
            "const PATIENCE: Duration = Duration::from_secs(60);",
            "const PERIOD: Duration = Duration::from_millis(10);",
            "assert_eq!(pause(3), Duration::from_millis(80));",
            "clock.advance(Duration::from_millis(11));",
        ):
            self.assertEqual(of_rust(line), [], line)
        self.assertEqual(
            of_rust("news.recv_timeout(", "    Duration::from_secs(5),", ");"),
            ["a short time-out"],
            "as rustfmt breaks it",
        )

    def test_a_reason_on_the_line_or_above_it_is_enough(self):
        self.assertEqual(
            of_rust("thread::sleep(PACE); // time: the process under test has to be seen asleep"),
            [],
        )
        self.assertEqual(
            of_rust(
                "// time: the process under test has to be seen asleep", "thread::sleep(PACE);"
            ),
            [],
        )
        for no_reason in ("// time:", "// time", "// sometime: x"):
            self.assertEqual(of_rust(no_reason, "thread::sleep(PACE);"), ["a sleep"], no_reason)
        self.assertEqual(of_rust("// time: x", "", "thread::sleep(PACE);"), ["a sleep"])


class Others(unittest.TestCase):
    def places(self, text, suffix):
        return [
            what
            for _, what in places(
                text, blank_python(text) if suffix == ".py" else strip(text), suffix
            )
        ]

    def test_python(self):
        self.assertEqual(
            self.places("import time\ntime.sleep(0.1)\nrun(x, timeout=5)\n", ".py"),
            ["a sleep", "a short time-out"],
        )
        self.assertEqual(
            self.places(
                "run(x, timeout=900)\nrun(x, timeout=PATIENCE_S)\n"
                "# time.sleep(1)\na = 'time.sleep(1)'\n",
                ".py",
            ),
            [],
        )
        self.assertEqual(self.places("# time: to see it asleep\ntime.sleep(0.1)\n", ".py"), [])

    def test_a_text_over_several_lines_keeps_the_numbers_of_lines(self):
        text = 'a = """\ntime.sleep(1)\n""" + f(\'\')\ntime.sleep(2)\n'
        self.assertEqual(list(places(text, blank_python(text), ".py")), [(4, "a sleep")])

    def test_cpp(self):
        text = (
            "std::this_thread::sleep_for(slow);\ncondition.wait_for(lock, 20ms);\n"
            "client.wait_for_server(1ms);\nclient.wait_for_server(60s);\n"
        )
        self.assertEqual(
            self.places(text, ".cpp"), ["a sleep", "a short time-out", "a short time-out"]
        )


class Files(unittest.TestCase):
    SLEEP = "fn f() { std::thread::sleep(PACE); }\n"

    def found(self, files, **how):
        return sorted(
            map(str, all_places({Path(name): text for name, text in files.items()}, strip, **how))
        )

    def test_tests_are_directories_of_that_name_and_modules_for_tests(self):
        files = {
            "crates/a/src/lib.rs": "#[cfg(test)]\nmod model;\nmod worker;\n"
            '#[cfg(all(test, unix))]\n#[path = "other_tests.rs"]\nmod tests;\n',
            "crates/a/src/model.rs": "mod world;\n",
            "crates/a/src/model/world.rs": self.SLEEP,
            "crates/a/src/other_tests.rs": self.SLEEP,
            "crates/a/src/worker.rs": self.SLEEP,
            "crates/a/tests/x.rs": self.SLEEP,
            "crates/a/benches/x.rs": self.SLEEP,
            "sdk/tests/x.cpp": "sleep_for(slow);\n",
            "sdk/tests/README.md": "sleep_for(slow)\n",
        }
        expected = [
            "crates/a/src/model/world.rs",
            "crates/a/src/other_tests.rs",
            "crates/a/tests/x.rs",
            "sdk/tests/x.cpp",
        ]
        self.assertEqual(self.found(files), expected)

    def test_of_a_file_with_a_module_for_tests_only_that_counts(self):
        text = (
            self.SLEEP
            + '#[cfg(test)]\nmod tests {\n    fn g() { let b = "}"; }\n    '
            + self.SLEEP
            + "}\n"
            + self.SLEEP
        )
        found = all_places({Path("crates/a/src/lib.rs"): text}, strip)
        self.assertEqual(found, {Path("crates/a/src/lib.rs"): [(5, "a sleep")]})

    def test_measured_tests_may_depend_on_time(self):
        files = {"crates/a/tests/x.rs": self.SLEEP, "crates/a/tests/y.rs": self.SLEEP}
        self.assertEqual(
            self.found(files, measured={Path("crates/a/tests/x.rs")}), ["crates/a/tests/y.rs"]
        )


class Ratchet(unittest.TestCase):
    A, B = Path("a.rs"), Path("b.rs")
    TWO = [(3, "a sleep"), (9, "a short time-out")]

    def test_as_many_as_listed_pass(self):
        self.assertEqual(list(check({self.A: self.TWO}, {self.A: 2})), [])

    def test_a_file_that_is_not_listed_has_none(self):
        messages = list(check({self.A: self.TWO}, {}))
        self.assertEqual(
            [m.split(" in a gating")[0] for m in messages],
            ["a.rs:3: a sleep", "a.rs:9: a short time-out"],
        )
        self.assertIn("time: REASON", messages[0])

    def test_more_than_listed_are_all_named(self):
        self.assertEqual(len(list(check({self.A: self.TWO}, {self.A: 1}))), 3)

    def test_fewer_than_listed_have_the_number_lowered(self):
        (message,) = check({self.A: self.TWO[:1]}, {self.A: 2})
        self.assertIn("--lower", message)
        (message,) = check({}, {self.B: 1})
        self.assertIn("b.rs", message)

    def test_lowering_raises_nothing_and_adds_nothing(self):
        text = "# why\n3 a.rs\n1 b.rs\n1 c.rs\n"
        found = {self.A: self.TWO, self.B: self.TWO, Path("d.rs"): self.TWO}
        self.assertEqual(lowered(text, found), "# why\n2 a.rs\n1 b.rs\n")
        self.assertEqual(read_allowed(lowered(text, found)), {self.A: 2, self.B: 1})


if __name__ == "__main__":
    unittest.main()
