#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses Driveline as users do: from an install prefix, outside the source tree.

1. Installs the build directory (default ./build) into its subdirectory prefix/, and checks that
   pages, examples, completion scripts and man pages are there.
2. Extracts the example from README.md (code, CMake project and graph) and builds it, with CMake and
   with pkg-config. The installed tool describes the library and validates the graph.
3. Builds the program in docs/cpp.md with its CMake project, and runs it without a server of the
   service that it calls.
4. Builds two component libraries that share messages with the CMake code in docs/cpp.md, and runs
   both in one module.
5. Builds examples/first_component against the prefix. The installed host runs it.

Usage: check_install.py [BUILD]    after `make build`
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from usage import answer_help

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build"
PREFIX = BUILD / "prefix"
WORK = BUILD / "readme-example"
BEGIN, END = "<!-- example:begin -->", "<!-- example:end -->"
PROGRAM_BEGIN, PROGRAM_END = "<!-- program:begin -->", "<!-- program:end -->"
MESSAGES_BEGIN, MESSAGES_END = "<!-- messages:begin -->", "<!-- messages:end -->"
# A directory of messages besides those of the page.
MORE_MESSAGES = """
driveline_add_messages(more_msgs messages/elsewhere/third.proto IMPORT_DIRS messages)
target_link_libraries(second PRIVATE more_msgs)
"""
MAX_LINES = 20


class CheckError(Exception):
    """A failed check, with its reason."""


def blocks(text, page, begin, end, languages):
    """Returns {language: code} of the blocks between the markers of a page.

    Raises CheckError unless there is exactly one block of each language.
    """
    if text.count(begin) != 1 or text.count(end) != 1:
        raise CheckError(f"{page} must hold {begin} and {end} once each")
    between = text.split(begin)[1].split(end)[0]
    found = {}
    for language in languages:
        of_language = re.findall(rf"```{language}\n(.*?)```", between, re.DOTALL)
        if len(of_language) != 1:
            raise CheckError(
                f"{page} must hold exactly one ```{language} block between the markers, "
                f"not {len(of_language)}"
            )
        found[language] = of_language[0]
    return found


def example(readme):
    """Returns code, CMake project and graph of the README."""
    found = blocks(readme, "README.md", BEGIN, END, ("cpp", "cmake", "yaml"))
    lines = [line for line in found["cpp"].splitlines() if line.strip()]
    if len(lines) > MAX_LINES:
        raise CheckError(
            f"the example in README.md has {len(lines)} lines; at most {MAX_LINES} are promised"
        )
    return found


def program(page):
    """Returns code and CMake project of the program in docs/cpp.md."""
    return blocks(page, "docs/cpp.md", PROGRAM_BEGIN, PROGRAM_END, ("cpp", "cmake"))


def check_program(folder):
    """Builds and runs the program of docs/cpp.md. It must report that no node serves its call."""
    folder.mkdir()
    found = program((ROOT / "docs/cpp.md").read_text())
    (folder / "asker.cpp").write_text(found["cpp"])
    (folder / "CMakeLists.txt").write_text(found["cmake"])
    run(
        "cmake",
        "-S",
        folder,
        "-B",
        folder / "build",
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={PREFIX}",
        stdout=subprocess.DEVNULL,
    )
    run("cmake", "--build", folder / "build")
    environment = os.environ | {"DRIVELINE_DOMAIN_DIR": str(folder / "domain")}
    done = subprocess.run(
        [folder / "build/asker"], env=environment, capture_output=True, text=True, timeout=60
    )
    if (done.returncode, done.stderr) != (1, "no node serves /ros/add\n"):
        raise CheckError(
            f"the program in docs/cpp.md ended with {done.returncode} and said {done.stderr!r}"
        )


def messages(page):
    """CMake project of libraries that share messages: docs/cpp.md's block and MORE_MESSAGES."""
    block = blocks(page, "docs/cpp.md", MESSAGES_BEGIN, MESSAGES_END, ("cmake",))["cmake"]
    head = "cmake_minimum_required(VERSION 3.25)\nproject(messages LANGUAGES CXX)\n"
    return head + block + MORE_MESSAGES


def check_messages(folder):
    """Builds two component libraries that share messages, and runs a module of both to its end."""
    shutil.copytree(ROOT / "sdk/cpp/tests/install", folder)
    (folder / "CMakeLists.txt").write_text(messages((ROOT / "docs/cpp.md").read_text()))
    configure = ("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja")
    run(*configure, f"-DCMAKE_PREFIX_PATH={PREFIX}", stdout=subprocess.DEVNULL)
    run("cmake", "--build", folder / "build")
    environment = os.environ | {
        "DRIVELINE_COMPONENT_PATH": str(folder / "build"),
        "DRIVELINE_DOMAIN_DIR": str(folder / "domain"),
    }
    tool, graph = PREFIX / "bin/driveline", folder / "graph.yaml"
    run(tool, "validate", graph, env=environment)
    said = run(
        tool,
        "run",
        graph,
        "--report",
        folder / "report",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if "number 5, square 25, three libraries" not in said:
        raise CheckError(f"`second` did not print the last message of `first`:\n{said}")


def check_shared():
    """Checks that pages, examples, completion scripts and man pages are in the prefix.

    bash must accept its completion script.
    """
    share = PREFIX / "share"
    wanted = (
        "doc/driveline/README.md",
        "doc/driveline/docs/graph-files.md",
        "doc/driveline/examples/first_component/graph.yaml",
        "bash-completion/completions/driveline",
        "zsh/site-functions/_driveline",
        "fish/vendor_completions.d/driveline.fish",
        "man/man1/driveline.1",
        "man/man1/driveline-run.1",
    )
    missing = [
        name for name in wanted if not (share / name).is_file() or not (share / name).stat().st_size
    ]
    if missing:
        raise CheckError(f"not installed into {share}: {', '.join(missing)}")
    run("bash", "-n", share / "bash-completion/completions/driveline")


def run(*command, **options):
    print("+", " ".join(map(str, command)), flush=True)
    done = subprocess.run(command, text=True, **options)
    if done.returncode != 0:
        raise CheckError(f"{command[0]} failed with status {done.returncode}")
    return done.stdout or ""


def main():
    shutil.rmtree(PREFIX, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    run("cmake", "--install", BUILD, "--prefix", PREFIX, stdout=subprocess.DEVNULL)
    check_shared()
    found = example((ROOT / "README.md").read_text())
    (WORK / "lane.cpp").write_text(found["cpp"])
    (WORK / "CMakeLists.txt").write_text(found["cmake"])
    (WORK / "graph.yaml").write_text(found["yaml"])

    run(
        "cmake",
        "-S",
        WORK,
        "-B",
        WORK / "build",
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={PREFIX}",
        stdout=subprocess.DEVNULL,
    )
    run("cmake", "--build", WORK / "build")
    described = run(
        PREFIX / "bin/driveline",
        "describe",
        WORK / "build/libmy_components.so",
        stdout=subprocess.PIPE,
    )
    if "Lane" not in described:
        raise CheckError(
            f"`driveline describe` does not list the example's class Lane:\n{described}"
        )
    run(
        PREFIX / "bin/driveline",
        "validate",
        WORK / "graph.yaml",
        env=os.environ | {"DRIVELINE_COMPONENT_PATH": str(WORK / "build")},
    )

    check_program(WORK / "asker")
    check_messages(WORK / "messages")

    # A whole project, built against the prefix. The installed host runs it.
    project = WORK / "first_component"
    run(
        "cmake",
        "-S",
        ROOT / "examples/first_component",
        "-B",
        project,
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={PREFIX}",
        stdout=subprocess.DEVNULL,
    )
    run("cmake", "--build", project)
    run(
        "python3",
        ROOT / "examples/first_component/tests/check_first_component.py",
        PREFIX / "bin/driveline-host",
        project,
    )

    pkgconfig = next(PREFIX.glob("lib*/**/driveline.pc"), None)
    if pkgconfig is None:
        raise CheckError("no driveline.pc was installed")
    environment = {"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(pkgconfig.parent)}
    flags = run(
        "pkg-config",
        "--cflags",
        "--libs",
        "driveline",
        "opencv4",
        "protobuf",
        stdout=subprocess.PIPE,
        env=environment,
    ).split()
    # pkg-config lists all of OpenCV. The example needs only the libraries that its code uses.
    flags = [
        f
        for f in flags
        if not f.startswith("-lopencv_") or f in ("-lopencv_core", "-lopencv_imgproc")
    ]
    # OpenCV 4.6 itself is not free of warnings in C++20.
    flags = [f"-isystem{f[2:]}" if f.startswith("-I") and "opencv" in f else f for f in flags]
    run(
        "c++",
        "-std=c++20",
        "-fPIC",
        "-shared",
        "-Wl,--no-undefined",
        WORK / "lane.cpp",
        "-o",
        WORK / "libby_pkgconfig.so",
        *flags,
        "-ldriveline_msgs",
    )
    print(
        "the example in README.md builds from an install prefix, with CMake and with pkg-config, "
        "and so does the program in docs/cpp.md"
    )
    return 0


if __name__ == "__main__":
    answer_help(__doc__)
    try:
        sys.exit(main())
    except CheckError as e:
        print(f"error: {e}")
        sys.exit(1)
