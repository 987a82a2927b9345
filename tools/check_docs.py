#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that documentation agrees with the tree.

Every relative link has a target, ARCHITECTURE.md lists every crate, and docs/protocols/shm.md lists
the limits of LIMITED_CRATES (constants whose names begin with MAX_) with their values and with
existing tests.

Usage: check_docs.py [ROOT]. Prints one line for each violation; exit status 1 if there is any.
"""

import re
import subprocess
import sys
from pathlib import Path

from usage import answer_help

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchor(heading):
    """The anchor that Markdown viewers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text):
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)}


def check_links(root, path):
    """Relative links and images of one Markdown file, with their anchors."""
    text = (root / path).read_text()
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue  # a web page: tests need no network
        file, _, fragment = target.partition("#")
        goal = (root / path).parent / file if file else root / path
        if not goal.exists():
            yield f"{path}: the target of the link {target} does not exist"
        elif fragment and goal.suffix == ".md" and fragment not in anchors(goal.read_text()):
            yield f"{path}: {target}: there is no such heading"


def check_crates(root):
    """Every crate has its line in ARCHITECTURE.md."""
    text = (root / "ARCHITECTURE.md").read_text()
    for manifest in sorted([*root.glob("crates/*/Cargo.toml"), *root.glob("lab/*/Cargo.toml")]):
        named = re.search(r'^name = "(.*)"$', manifest.read_text(), re.MULTILINE)
        name = named[1] if named else manifest.parent.name
        if not re.search(rf"^\| `{name}` \|", text, re.MULTILINE):
            yield f"ARCHITECTURE.md: crate {name} is missing from the table"


LIMITS_PAGE = Path("docs/protocols/shm.md")
LIMITED_CRATES = ["driveline", "driveline-shm", "driveline-types"]
LIMIT = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?const (MAX_\w+): [^=]+=\s*([^;]*);", re.MULTILINE)


def value_of(expression):
    """Returns the value of a constant's expression if it consists of numbers, else None."""
    numbers = re.sub(r"(?<=\d)_(?=\d)", "", expression)
    # Digits and operators only, so that eval runs no foreign code.
    return eval(numbers) if re.fullmatch(r"[\d()+\-*<\s]+", numbers) else None  # noqa: S307


def source_limits(root):
    """Constants whose names begin with MAX_, by name and file, with their expressions."""
    for crate in LIMITED_CRATES:
        source = root / "crates" / crate / "src"
        for path in sorted(source.rglob("*.rs")):
            for name, expression in LIMIT.findall(path.read_text()):
                yield (name, f"{crate}/{path.relative_to(source)}"), expression


def check_limits(root):
    """The tables of limits name every MAX_ constant, with its value, and tests that exist."""
    if not (root / LIMITS_PAGE).exists():
        return
    section = (
        (root / LIMITS_PAGE).read_text().partition("\n## 8. Limits\n")[2].partition("\n## ")[0]
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `MAX_")
    ]
    listed = {(row[0].strip("`"), row[1]): row for row in rows}
    limits = dict(source_limits(root))
    for name, file in limits.keys() - listed.keys():
        yield (
            f"{LIMITS_PAGE}: section 8 lacks {name} of {file}: "
            "say what happens beyond it, and name the test"
        )
    for name, file in listed.keys() - limits.keys():
        yield f"{LIMITS_PAGE}: section 8 has {name} of {file}, which is not in the source"
    tests = set()
    for crate in LIMITED_CRATES:
        for path in (root / "crates" / crate).rglob("*.rs"):
            tests.update(re.findall(r"^\s*fn (\w+)\(", path.read_text(), re.MULTILINE))
    for (name, file), row in listed.items():
        value = value_of(limits.get((name, file), ""))
        number = re.sub(r"\s", "", re.match(r"[\d\s]*", row[2])[0])
        if value is not None and number != str(value):
            yield f"{LIMITS_PAGE}: section 8: {name} of {file} is {value}, not {row[2]}"
        # Rows of the table of internal bounds have four columns: no test is required.
        named = re.findall(r"`(\w+)`", row[4]) if len(row) == 5 else None
        if named == []:
            yield f"{LIMITS_PAGE}: section 8: {name} of {file} has no test"
        for test in set(named or []) - tests:
            yield f"{LIMITS_PAGE}: section 8: {name} of {file}: there is no test {test}"


def check_tree(root):
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        check=True,
        stdout=subprocess.PIPE,
    )
    pages = [
        Path(name)
        for name in sorted(filter(None, listed.stdout.decode().split("\0")))
        if (root / name).is_file()
    ]
    return (
        [problem for page in pages for problem in check_links(root, page)]
        + list(check_crates(root))
        + list(check_limits(root))
    )


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    problems = check_tree(root)
    for line in problems:
        print(f"error: {line}")
    print(f"documentation: {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main())
