#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks comments, pages and printed texts for habits that make them hard to read.

Counts for each room of the tree (a crate, or a directory):
  words    avoided words (the list WORDS) per 10 000 words
  wh       share of doc summaries in Rust that begin with a wh-word, in percent
  long     source lines over 100 columns

The figures may only fall: tools/language.json has the limits of each room, rounded up. A room
without an entry may have 5 avoided words per 10 000, 2 % and no long line. Figures do not replace
reading: an unclear sentence without avoided words is worse than a clear one with them.

Usage: check_language.py [--lower] [--table] [--list ROOM] [DIRECTORY...]
  without arguments   checks the tree; exit status 1 if a figure is above what is allowed
  --lower             first lowers the allowed figures to those of the tree
  --table             also prints the figures of each room
  --list ROOM         prints the places of a room
  DIRECTORY...        prints the figures of other trees, for comparison; nothing is checked
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from usage import answer_help, end_with_the_reader

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = Path("tools/language.json")
COLUMNS = 100
ELSEWHERE = {"words": 5, "wh": 2, "long": 0}

# Avoided words, with plainer words to write instead.
WORDS = {
    r"tells?|told|telling": "report, log, notify, return",
    r"whoever|somebody|nobody|anybody": "the process, the publisher, the thread",
    r"have a look|has a look|looks? whether|looked whether": "check, poll, inspect",
    r"lets? in|letting": "admit, accept",
    r"beside": "next to, alongside, compared with",
    r"in vain": "without success, failed",
    r"what is left|what is there": "the remaining, the existing",
    r"kept in mind|keeps in mind": "remembered, cached",
    r"taken back|takes back": "released, withdrawn, retracted",
    r"under way": "in flight, pending",
    r"for how long|so long as": "the time-out, the duration; while",
    r"those that|the one that|of whom|of which the": "the noun itself",
    r"heeds?|heeded": "uses, follows",
}
AVOIDED = re.compile(r"\b(?:" + "|".join(WORDS) + r")\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
WH = re.compile(r"^(?:what|who|whom|whose|which|where|when|whether|how|why)\b", re.IGNORECASE)

SLASHES = {".rs", ".hpp", ".h", ".cpp", ".c", ".proto"}
HASHES = {".py", ".sh", ".cmake", ".toml", ".yaml", ".yml"}
PAGES = {".md"}
GENERATED = re.compile(r"manifest|\.schema\.json$|golden|benchmarks/[\w-]+\.md$")
# These files quote the avoided words.
QUOTING = {"check_language.py", "test_check_language.py"}
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass
class Figures:
    """Counts of one room."""

    words: int = 0
    avoided: list = field(default_factory=list)
    summaries: int = 0
    wh: list = field(default_factory=list)
    long: list = field(default_factory=list)

    def values(self):
        """Returns the figures that are checked."""
        return {
            "words": 1e4 * len(self.avoided) / max(self.words, 1),
            "wh": 100 * len(self.wh) / max(self.summaries, 1),
            "long": len(self.long),
        }


def prose(path, text):
    """Yields (line number, text) for the comments, pages and quoted texts of a file."""
    lines = text.splitlines()
    if path.suffix in PAGES:
        fenced = False
        for n, line in enumerate(lines, 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced:
                yield n, re.sub(r"`[^`]*`", "", line)
        return
    mark = "//" if path.suffix in SLASHES else "#"
    for n, line in joined(lines):
        stripped = line.strip()
        if stripped.startswith(mark):
            yield n, re.sub(r"`[^`]*`", "", stripped.lstrip("/#! "))
            continue
        for quoted in TEXT.findall(line):
            if " " in quoted:
                yield n, quoted


def joined(lines):
    """Yields (number, line). Lines that end with a backslash are joined with the next one."""
    begun, text = 0, ""
    for n, line in enumerate(lines, 1):
        begun, text = (begun, text + line.lstrip()) if text else (n, line)
        if text.endswith("\\"):
            text = text[:-1]
            continue
        yield begun, text
        text = ""
    if text:
        yield begun, text


def summaries(text):
    """Yields (line number, first line) of each doc comment in Rust."""
    before = ""
    for n, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        kind = stripped[:3] if stripped[:3] in ("///", "//!") else ""
        if kind and before != kind:
            yield n, stripped[3:].strip()
        before = kind


def measure(path, text, into):
    """Adds the figures of one file."""
    for n, sentence in prose(path, text) if path.name not in QUOTING else []:
        into.words += len(WORD.findall(sentence))
        into.avoided += [(path, n, found) for found in AVOIDED.findall(sentence)]
    if path.suffix == ".rs":
        for n, first in summaries(text):
            into.summaries += 1
            if WH.match(first):
                into.wh.append((path, n, first))
    if path.suffix not in PAGES:
        for n, line in enumerate(text.splitlines(), 1):
            if len(line) > COLUMNS:
                into.long.append((path, n, f"{len(line)} columns"))


def room(path):
    """Returns the room of a file: its crate, or its directory."""
    parts = path.parts
    if parts[0] in ("crates", "lab", "examples") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "."


def is_measured(path):
    known = path.suffix in SLASHES | HASHES | PAGES
    return known and not GENERATED.search(str(path))


def figures(root, files):
    """Returns the figures of each room. `files` are paths relative to `root`."""
    rooms = defaultdict(Figures)
    for path in files:
        if is_measured(path):
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            measure(path, text, rooms[room(path)])
    return rooms


def tracked(root):
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    )
    return [Path(p) for p in listed.stdout.splitlines() if (root / p).is_file()]


def rounded_up(values):
    return {k: int(-(-v // 1)) for k, v in values.items()}


def violations(rooms, allowed):
    """Yields a message for each figure above the limit of its room."""
    names = {
        "words": "avoided words per 10 000",
        "wh": "% of doc summaries that begin with a wh-word",
        "long": f"lines over {COLUMNS} columns",
    }
    for name, of_room in sorted(rooms.items()):
        limits = {**ELSEWHERE, **allowed.get(name, {})}
        for key, value in rounded_up(of_room.values()).items():
            if value > limits[key]:
                yield (
                    f"{name}: {value} {names[key]}, at most {limits[key]}: "
                    f"see tools/check_language.py --list {name}"
                )


def lowered(rooms, allowed):
    """Returns the limits, lowered to the figures of the tree, but not below ELSEWHERE."""
    result = {}
    for name, of_room in sorted(rooms.items()):
        limits = allowed.get(name, ELSEWHERE)
        now = rounded_up(of_room.values())
        kept = {k: int(max(min(now[k], limits[k]), ELSEWHERE[k])) for k in ELSEWHERE}
        if kept != ELSEWHERE:
            result[name] = kept
    return result


def table(rooms):
    yield f"{'':36} {'words':>8} {'avoided/10k':>12} {'wh %':>6} {'long':>6}"
    for name, f in sorted(rooms.items()):
        v = f.values()
        yield f"{name:36} {f.words:8} {v['words']:12.1f} {v['wh']:6.1f} {v['long']:6}"


def main(arguments):
    if arguments[:1] == ["--list"]:
        end_with_the_reader()
        rooms = figures(ROOT, tracked(ROOT))
        if len(arguments) != 2 or arguments[1] not in rooms:
            print(f"--list takes one of: {', '.join(sorted(rooms))}", file=sys.stderr)
            return 2
        found = rooms[arguments[1]]
        for path, line, what in sorted(found.avoided + found.wh + found.long):
            print(f"{path}:{line}: {what}")
        return 0
    directories = [Path(a) for a in arguments if not a.startswith("--")]
    if directories:
        rooms = {}
        for directory in directories:
            files = [p.relative_to(directory) for p in directory.rglob("*") if p.is_file()]
            one = Figures()
            for path in filter(is_measured, files):
                text = (directory / path).read_text(encoding="utf-8", errors="replace")
                measure(path, text, one)
            rooms[directory.name] = one
        print("\n".join(table(rooms)))
        return 0
    rooms = figures(ROOT, tracked(ROOT))
    path = ROOT / ALLOWED
    allowed = json.loads(path.read_text()) if path.exists() else {}
    if "--lower" in arguments:
        allowed = lowered(rooms, allowed)
        path.write_text(json.dumps(allowed, indent=1) + "\n")
    if "--table" in arguments:
        print("\n".join(table(rooms)))
    found = list(violations(rooms, allowed))
    for message in found:
        print(f"error: {message}")
    print(f"language: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    answer_help(__doc__)
    sys.exit(main(sys.argv[1:]))
