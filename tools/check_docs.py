#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that documentation does not drift: links lead somewhere, ARCHITECTURE.md knows every crate.

Usage: check_docs.py [ROOT]. Prints one line for each violation; exit status 1 if there is any.
"""

import re
import subprocess
import sys
from pathlib import Path

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
            continue  # elsewhere; tests need no network
        file, _, fragment = target.partition("#")
        goal = (root / path).parent / file if file else root / path
        if not goal.exists():
            yield f"{path}: the link to {target} leads nowhere"
        elif fragment and goal.suffix == ".md" and fragment not in anchors(goal.read_text()):
            yield f"{path}: {target}: there is no such heading"


def check_crates(root):
    """Every crate has its line in ARCHITECTURE.md."""
    text = (root / "ARCHITECTURE.md").read_text()
    for manifest in sorted(root.glob("crates/*/Cargo.toml")):
        name = manifest.parent.name
        if not re.search(rf"^\| `{name}` \|", text, re.MULTILINE):
            yield f"ARCHITECTURE.md: crate {name} is missing from the table"


def check_tree(root):
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"], check=True, stdout=subprocess.PIPE
    )
    pages = [Path(name) for name in sorted(filter(None, listed.stdout.decode().split("\0"))) if (root / name).is_file()]
    return [problem for page in pages for problem in check_links(root, page)] + list(check_crates(root))


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    problems = check_tree(root)
    for line in problems:
        print(f"error: {line}")
    print(f"documentation: {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
