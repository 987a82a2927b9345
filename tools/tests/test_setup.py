# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/setup.sh on machines that lack something.

Stand-ins that record their calls replace the system's commands.
"""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parent.parent / "setup.sh"
ROOT = SETUP.parent.parent
REAL_TOOLS = ["bash", "sh", "cat", "sed", "sort", "head", "printf", "dirname", "env"]


class Machine:
    """A PATH with the real programs that the script needs, and with stand-ins.

    Stand-ins replace programs that would change the system.
    """

    def __init__(
        self,
        directory,
        *,
        missing=(),
        cargo="1.95.0",
        root=True,
        sudo=False,
        rustup=False,
        components=True,
        refused=(),
    ):
        self.bin = Path(directory) / "bin"
        self.bin.mkdir()
        self.notes = Path(directory) / "notes"
        self.notes.touch()
        for tool in REAL_TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        absent = " ".join(missing) or "-"
        self.stand_in("id", f"echo {0 if root else 1000}")
        self.stand_in(
            "dpkg-query",
            f'for m in {absent}; do [ "${{!#}}" = "$m" ] && exit 1; done; printf installed',
        )
        unknown = " ".join(refused) or "-"
        self.stand_in(
            "apt-get",
            self.note("apt-get")
            + f'; for r in {unknown}; do case " $* " in *" $r "*) exit 100 ;; esac; done',
        )
        self.stand_in("curl", self.note("curl") + "; exit 22")
        if sudo:
            self.stand_in("sudo", self.note("sudo") + '; "$@"')
        if cargo:
            other = "exit 0" if components else "exit 1"
            self.stand_in(
                "cargo",
                f'case $1 in --version) echo "cargo {cargo} (x 2026)" ;; *) {other} ;; esac',
            )
        if rustup:
            newer = 'printf "#!/bin/bash\\necho cargo 1.99.0\\n" > ' + f'"{self.bin}/cargo"'
            self.stand_in("rustup", self.note("rustup") + f'; [ "$1" != toolchain ] || {newer}')

    def note(self, name):
        return f'echo "{name} $*" >> "{self.notes}"'

    def stand_in(self, name, script):
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def setup(self, what):
        environment = {
            "PATH": str(self.bin),
            "HOME": str(self.bin.parent),
            "CARGO_HOME": str(self.bin.parent),
        }
        done = subprocess.run(
            ["bash", SETUP, what], env=environment, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr, self.notes.read_text()


class Setup(unittest.TestCase):
    def run_on(self, what="test", **machine):
        with tempfile.TemporaryDirectory() as directory:
            return Machine(directory, **machine).setup(what)

    def test_on_a_complete_machine_it_is_silent_and_does_nothing(self):
        self.assertEqual(self.run_on(), (0, "", ""))

    def test_only_missing_packages_are_installed_with_a_reason(self):
        status, said, did = self.run_on(missing=["ninja-build", "libgtest-dev"])
        self.assertEqual(status, 0, said)
        self.assertRegex(did, r"apt-get install .* ninja-build libgtest-dev\n")
        self.assertNotIn("cmake", did)
        self.assertIn("ninja-build (fast parallel builds)", said)

    def test_a_demo_needs_no_test_packages(self):
        self.assertEqual(self.run_on("demo", missing=["libgtest-dev"]), (0, "", ""))

    def test_gateways_need_what_tests_need_and_python_environments(self):
        self.assertEqual(self.run_on("gateways"), (0, "", ""))
        self.assertEqual(self.run_on("test", missing=["python3-venv"]), (0, "", ""))
        _, _, did = self.run_on("gateways", missing=["python3-venv", "libgtest-dev"])
        self.assertRegex(did, r"apt-get install .* libgtest-dev python3-venv\n")

    def test_sudo_is_used_only_by_ordinary_users(self):
        _, _, as_root = self.run_on(missing=["cmake"], sudo=True)
        self.assertNotIn("sudo", as_root)
        status, _, as_user = self.run_on(missing=["cmake"], root=False, sudo=True)
        self.assertEqual(status, 0)
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get install", as_user)

    def test_neither_root_nor_sudo_is_explained(self):
        status, said, did = self.run_on(missing=["cmake"], root=False)
        self.assertNotEqual(status, 0)
        self.assertRegex(said, "run as root: .*apt-get install .*cmake")
        self.assertNotIn("apt-get install", did)

    def test_middleware_that_cannot_be_had_is_left_out_and_the_rest_is_installed(self):
        missing = ["libroscpp-dev", "cyclonedds-dev"]
        status, said, did = self.run_on("peers", missing=missing, refused=["libroscpp-dev"])
        self.assertEqual(status, 0, said)
        self.assertRegex(did, r"apt-get install .* cyclonedds-dev\n")
        self.assertIn("left out: libroscpp-dev", said)
        self.assertNotIn("left out: cyclonedds-dev", said)
        status, said, did = self.run_on("peers", missing=missing, root=False)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, "run as root: apt-get install cyclonedds-dev libroscpp-dev")
        self.assertNotIn("apt-get install", did)
        # A package that every peer needs is required.
        status, said, _ = self.run_on("peers", missing=["libxxhash-dev"], refused=["libxxhash-dev"])
        self.assertNotEqual(status, 0)
        self.assertIn("apt-get could not install", said)
        self.assertEqual(self.run_on("peers"), (0, "", ""))

    def test_what_builds_gateways_is_installed_for_gateways_and_for_their_tests(self):
        for suite in ("engines", "gateways"):
            status, said, did = self.run_on(suite, missing=["libclang-dev"])
            self.assertEqual(status, 0, said)
            self.assertIn("apt-get install -y -q --no-install-recommends libclang-dev", did)
        self.assertRegex(
            (ROOT / "Makefile").read_text(), r"(?m)^gateways:.*\n\t@tools/setup.sh engines\n"
        )

    def test_an_old_rust_of_rustup_is_left_alone_outside_this_directory(self):
        status, said, did = self.run_on(cargo="1.70.0", rustup=True)
        self.assertEqual(status, 0, said)
        self.assertEqual(
            did, "rustup toolchain install stable --profile minimal\nrustup override set stable\n"
        )

    def test_a_missing_rust_is_fetched_and_a_failure_to_do_so_is_said(self):
        for cargo in (None, "1.70.0"):
            status, said, did = self.run_on(cargo=cargo)
            self.assertIn("curl", did)
            self.assertNotEqual(status, 0)
            self.assertIn("the Rust installer failed", said)

    def test_missing_components_are_added(self):
        status, _, did = self.run_on(components=False, rustup=True)
        self.assertEqual(status, 0)
        self.assertEqual(did, "rustup component add rustfmt\nrustup component add clippy\n")
        self.assertEqual(self.run_on("demo", components=False), (0, "", ""))

    def test_versions_compare_as_numbers(self):
        self.assertEqual(self.run_on(cargo="1.100.0"), (0, "", ""))

    def test_the_package_lists_are_well_formed(self):
        seen = set()
        for name in ("demo", "test", "compilers", "gateways", "engines", "peers", "middleware"):
            # Lists of peers and of builds of gateways are installed alone, so they may repeat
            # packages of other lists.
            seen = set() if name in ("engines", "peers") else seen
            for line in (ROOT / f"tools/packages/{name}.txt").read_text().splitlines():
                if line and not line.startswith("#"):
                    package, why = line.split(maxsplit=1)
                    self.assertNotIn(package, seen)
                    seen.add(package)
                    self.assertTrue(why)

    def test_wrong_usage_is_refused(self):
        status, said, _ = self.run_on("everything")
        self.assertNotEqual(status, 0)
        self.assertIn("usage", said)


if __name__ == "__main__":
    unittest.main()
