# SPDX-License-Identifier: Apache-2.0
"""Tests of check_source.py: each check fails on a tree that breaks its rule."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import check_source  # noqa: E402

SPDX_RS = "// SPDX-License-Identifier: Apache-2.0\n"
SPDX_SH = "# SPDX-License-Identifier: Apache-2.0\n"


def package(name, *dependencies):
    return {"name": name, "dependencies": [{"name": n, "kind": kind} for n, kind in dependencies]}


class Layers(unittest.TestCase):
    def test_left_is_fine_and_right_is_not(self):
        types, shm = package("driveline-types"), package("driveline-shm", ("driveline-types", None))
        self.assertEqual(list(check_source.check_layers([types, shm])), [])
        wrong = package("driveline-types", ("driveline-shm", None))
        (message,) = check_source.check_layers([wrong, shm])
        self.assertIn("driveline-types must not depend on driveline-shm", message)

    def test_build_and_test_dependencies_count_too(self):
        others = [package("driveline"), package("driveline-shm")]
        for kind in ("build", "dev"):
            wrong = package("driveline-types", ("driveline", kind))
            self.assertEqual(len(list(check_source.check_layers([wrong, *others]))), 1, kind)

    def test_a_test_may_use_any_crate_of_its_own_layer(self):
        types = package("driveline-types")
        self.assertEqual(
            list(
                check_source.check_layers(
                    [package("driveline-derive", ("driveline-types", "dev")), types]
                )
            ),
            [],
        )
        self.assertEqual(
            len(
                list(
                    check_source.check_layers(
                        [package("driveline-derive", ("driveline-types", None)), types]
                    )
                )
            ),
            1,
        )

    def test_the_laboratory_may_use_the_product_and_nothing_uses_the_laboratory(self):
        bench, cli = package("driveline-bench"), package("driveline-cli")
        for kind in (None, "build", "dev"):
            wrong = package("driveline-cli", ("driveline-bench", kind))
            (message,) = check_source.check_layers([wrong, bench])
            self.assertIn(
                "driveline-cli must not depend on driveline-bench, not even in tests", message
            )
        fine = package("driveline-lab", ("driveline-bench", None), ("driveline-cli", None))
        self.assertEqual(list(check_source.check_layers([fine, bench, cli])), [])

    def test_a_crate_without_a_layer_is_named(self):
        (message,) = check_source.check_layers([package("driveline-misc")])
        self.assertIn("driveline-misc is in no layer", message)

    def test_foreign_packages_are_ignored(self):
        self.assertEqual(
            list(check_source.check_layers([package("driveline-types", ("serde", None))])), []
        )


class Unsafe(unittest.TestCase):
    def check(self, text, crate="driveline"):
        return list(check_source.check_unsafe(crate, "x.rs", text))

    def test_unsafe_is_found_with_its_line(self):
        (message,) = self.check("fn f() {\n    unsafe { g() }\n}\n")
        self.assertTrue(message.startswith("x.rs:2:"), message)
        self.assertEqual(len(self.check("unsafe impl Send for T {}")), 1)

    def test_the_lint_cannot_be_switched_off(self):
        self.assertEqual(len(self.check("#![allow(unsafe_code)]")), 1)
        self.assertEqual(len(self.check("#[expect(dead_code, unsafe_code)]")), 1)

    def test_words_in_comments_and_literals_do_not_count(self):
        text = '// unsafe\n/* unsafe\n */ let a = "unsafe \\" unsafe"; let b = r#"unsafe " "#; '
        text += 'let c = \'"\'; let d = "x";\n'
        self.assertEqual(self.check(text), [])
        self.assertEqual(len(self.check(text + "unsafe {}")), 1)
        self.assertEqual(len(self.check("fn f<'a, 'b>(x: &'a str) { unsafe {} }")), 1)

    def test_the_quarantine_is_free(self):
        for crate in check_source.QUARANTINE:
            self.assertEqual(self.check("unsafe {}", crate), [])

    def test_a_border_to_c_is_free_and_its_neighbours_are_not(self):
        for border in check_source.BORDERS:
            crate = border.parts[1]
            self.assertEqual(
                list(check_source.check_unsafe(crate, border / "mod.rs", "unsafe {}")), []
            )
            self.assertEqual(
                len(list(check_source.check_unsafe(crate, border.parent / "lib.rs", "unsafe {}"))),
                1,
            )

    def test_a_build_script_or_an_example_outside_crates_is_no_loophole(self):
        self.assertEqual(len(self.check("unsafe {}", crate=None)), 1)


class Text(unittest.TestCase):
    def errors(self, text):
        return [message for is_error, message in check_source.check_text("f", text) if is_error]

    def test_spdx(self):
        self.assertEqual(self.errors(SPDX_RS), [])
        self.assertEqual(self.errors("#!/bin/sh\n" + SPDX_SH), [])
        self.assertEqual(len(self.errors("fn main() {}\n")), 1)
        self.assertEqual(len(self.errors(SPDX_RS.replace("Apache-2.0", "MIT"))), 1)

    def test_a_program_is_executable(self):
        def errors(text, mode):
            return len(list(check_source.check_program("f", text, mode)))

        self.assertEqual(errors("#!/bin/sh\n" + SPDX_SH, 0o644), 1)
        self.assertEqual(errors("#!/bin/sh\n" + SPDX_SH, 0o755), 0)
        self.assertEqual(errors(SPDX_RS, 0o644), 0)

    def test_length(self):
        self.assertEqual(list(check_source.check_text("f", SPDX_RS + "x\n" * 499)), [])
        self.assertEqual(
            [e for e, _ in check_source.check_text("f", SPDX_RS + "x\n" * 600)], [False]
        )
        self.assertEqual(
            [e for e, _ in check_source.check_text("f", SPDX_RS + "x\n" * 1000)], [True]
        )

    def test_generated_files_may_be_long(self):
        said = "// The C ABI. Generated from crates/driveline-capi; do not edit.\n"
        self.assertEqual(list(check_source.check_text("f", SPDX_RS + said + "x\n" * 900)), [])
        self.assertEqual(len(self.errors(SPDX_RS + "x\n" * 1100 + said)), 1)

    def test_home_directories(self):
        for home in ("/" + "home/jane/x", "/" + "root/x", "/" + "Users/jane"):
            self.assertEqual(len(self.errors(SPDX_RS + f'let p = "{home}";\n')), 1, home)
        for fine in (
            "$HOME/x",
            "https://example.org/home/jane",
            "$PREFIX/home/x",
            "../root/x",
            "/run/user",
        ):
            self.assertEqual(self.errors(SPDX_RS + fine + "\n"), [], fine)


class Tree(unittest.TestCase):
    """Runs the whole program on a small workspace."""

    def run_on(self, files):
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            subprocess.run(["git", "init", "-q", root], check=True)
            workspace = (
                SPDX_SH
                + '[workspace]\nresolver = "3"\nmembers = ["crates/*"]\n'
                + '[workspace.lints.rust]\nunsafe_code = "deny"\n'
            )
            for name, text in {"Cargo.toml": workspace, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            program = Path(check_source.__file__)
            done = subprocess.run([sys.executable, program, root], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    @staticmethod
    def crate(name, body="", dependencies="", lints="[lints]\nworkspace = true\n"):
        manifest = (
            f'{SPDX_SH}[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2024"\n'
            f"{lints}[dependencies]\n{dependencies}"
        )
        return {f"crates/{name}/Cargo.toml": manifest, f"crates/{name}/src/lib.rs": SPDX_RS + body}

    def test_a_good_tree_passes(self):
        files = self.crate("driveline-types") | self.crate(
            "driveline-shm",
            "unsafe fn f() {}\n",
            'driveline-types = { path = "../driveline-types" }\n',
        )
        status, output = self.run_on(files)
        self.assertEqual(status, 0, output)

    def test_every_violation_is_named_and_fails(self):
        files = (
            self.crate(
                "driveline-types",
                "unsafe fn f() {}\n",
                'driveline-shm = { path = "../driveline-shm" }\n',
            )
            | self.crate("driveline-shm", lints="")
            | {"examples/x.cpp": "int main() {}\n"}
        )
        status, output = self.run_on(files)
        self.assertEqual(status, 1)
        for expected in (
            "driveline-types must not depend on driveline-shm",
            "crates/driveline-types/src/lib.rs:2: unsafe code",
            "crates/driveline-shm/Cargo.toml: write `[lints]`",
            "examples/x.cpp:1: the first line",
            "4 violations",
        ):
            self.assertIn(expected, output)

    def test_a_gating_test_that_depends_on_time_fails_and_a_listed_one_passes(self):
        test = {
            "crates/driveline-types/tests/x.rs": SPDX_RS + "fn f() { std::thread::sleep(PACE); }\n"
        }
        status, output = self.run_on(self.crate("driveline-types") | test)
        self.assertEqual(status, 1)
        self.assertIn("crates/driveline-types/tests/x.rs:2: a sleep in a gating test", output)
        listed = {"tools/time_in_tests.txt": "1 crates/driveline-types/tests/x.rs\n"}
        self.assertEqual(self.run_on(self.crate("driveline-types") | test | listed)[0], 0)
        status, output = self.run_on(self.crate("driveline-types") | listed)
        self.assertEqual(status, 1)
        self.assertIn("--lower", output)


if __name__ == "__main__":
    unittest.main()
