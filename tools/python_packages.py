#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the Python packages of tools/packages/python.txt into the environment build/python.

Does nothing and prints nothing if the environment has exactly these packages.
Usage: python_packages.py [REQUIREMENTS DIRECTORY]
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from usage import answer_help

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "tools/packages/python.txt"
DIRECTORY = ROOT / "build/python"


def wanted(requirements):
    """Returns the Python version and the list of packages, which define the environment."""
    return f"{sys.version}\n{requirements.read_text()}"


def is_there(requirements, directory):
    made_from = directory / "made_from.txt"
    return made_from.is_file() and made_from.read_text() == wanted(requirements)


def install(requirements, directory):
    """Makes the environment anew. Raises CalledProcessError if pip fails; pip prints its reason."""
    shutil.rmtree(directory, ignore_errors=True)
    venv.create(directory, with_pip=True)
    pip = [
        directory / "bin/python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
    ]
    subprocess.run([*pip, "-r", requirements], check=True)
    # Written last, so that an incomplete environment is made again.
    (directory / "made_from.txt").write_text(wanted(requirements))


def main(arguments):
    requirements, directory = map(Path, arguments) if arguments else (REQUIREMENTS, DIRECTORY)
    if is_there(requirements, directory):
        return 0
    print(f"installing the Python packages of {requirements} into {directory}", flush=True)
    try:
        install(requirements, directory)
    except (OSError, subprocess.CalledProcessError) as e:
        print(
            f"error: {e}; the reason is above. Needed: python3-venv (`make test-gateways` and "
            "`make test-containers` install it), and a package index for pip",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
