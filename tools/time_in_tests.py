# SPDX-License-Identifier: Apache-2.0
"""Where gating tests depend on time: sleeps, bounds on elapsed time, and time-outs that a slow
machine reaches.

A gating test waits for an event, with a time-out of at least a minute. A place that cannot do
without says why, in a comment `time: REASON` on its line or on the line above. The places that were
there before this rule are counted in `tools/time_in_tests.txt`, a line for each file: `COUNT PATH`.
The numbers may only shrink.
"""

import io
import re
import tokenize
from pathlib import Path

ALLOWED = Path("tools/time_in_tests.txt")
# Only a bug takes that long.
LONG_S = 60.0
HINT = "wait for an event with a time-out of 60 s, use a VirtualClock, or write why not: `// time: REASON` (CONTRIBUTING.md, Time in tests)"

SUFFIXES = {".rs", ".py", ".cpp", ".hpp", ".c"}
REASON = re.compile(r"(?://|#)\s*time: \S")
SLEEP = re.compile(
    r"(?<![\w.:])sleep\s*\(|\bthread::sleep\b|\bsleep_(?:for|until)\s*\(|\btime\.sleep\s*\(|\bpark_timeout\s*\(|\busleep\s*\("
)
# A length of time in Rust, with its unit and number.
LENGTH = re.compile(
    r"\bDuration::from_(secs|secs_f64|millis|micros|nanos)\(\s*([\d_]+(?:\.\d+)?)\s*\)"
)
UNITS_S = {"secs": 1, "secs_f64": 1, "millis": 1e-3, "micros": 1e-6, "nanos": 1e-9}
# A time that has passed, and a comparison with it.
PASSED = re.compile(
    r"\.elapsed\(\)(?:\.as_\w+\(\))?\s*(?:[<>]=?|\.cmp)|[<>]=?\s*[\w.]+\.elapsed\(\)|\bnow\(\)\.since\([^()]*\)\s*[<>]"
)
# What ends when a length of time is over; a test clock (`clock.now()`) moves only when a test advances it.
WAIT = re.compile(
    r"(?<!clock\.)\bnow\(\)\s*\+|\b(?:recv_timeout|wait_timeout\w*|wait_for\w*|wait|timeout|call|call_bytes|call_then|survey|list|poll)\s*\("
)
# A constant that is one, by its name.
CONSTANT = re.compile(
    r"\bconst (\w*(?:PATIENCE|WITHIN|TIMEOUT|LIMIT|BOUND|SOON|STALL|STANDSTILL|LONG|SHORT|GRACE|GAP|RECOVERY)\w*): Duration\b"
)
# The same in Python and C++.
OTHER_WAIT = re.compile(
    r"\btimeout\s*=\s*([\d.]+)\b|\bPATIENCE_S\s*=\s*([\d.]+)\b|\bwait_for\w*\(\s*(?:\w+,\s*)?([\d.]+)(ms|s)\b"
)

TEST_MODULE = re.compile(
    r"#\[cfg\((?:test|all\([^\]]*\btest\b[^\]]*\))\)\](?:\s*#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])"
)
PATH = re.compile(r'#\[path\s*=\s*"([^"]+)"\]')


def lengths(line):
    """The lengths of time that a line of Rust writes out, in seconds."""
    return [float(number.replace("_", "")) * UNITS_S[unit] for unit, number in LENGTH.findall(line)]


def is_short(line):
    return any(length < LONG_S for length in lengths(line))


def blank_python(text):
    """The code of a Python source without comments and texts, line for line."""
    lines = text.splitlines(keepends=True)
    kinds = {
        tokenize.STRING,
        tokenize.COMMENT,
        getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
    }
    try:
        tokens = [
            t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in kinds
        ]
    except (tokenize.TokenError, SyntaxError):
        return text
    for token in reversed(tokens):
        (first, begin), (last, end) = token.start, token.end
        lines[last - 1] = (lines[first - 1][:begin] if first == last else "\n") + lines[last - 1][
            end:
        ]
        if first != last:
            lines[first - 1] = lines[first - 1][:begin] + "\n"
            lines[first : last - 1] = ["\n"] * (last - 1 - first)
            lines[last - 1] = lines[last - 1].removeprefix("\n")
    return "".join(lines)


def is_about_time(line, suffix):
    """What of time a line of a test depends on, or None. `line` is without comments and texts."""
    if SLEEP.search(line):
        return "a sleep"
    if suffix != ".rs":
        found = OTHER_WAIT.search(line)
        if not found:
            return None
        number = float(next(filter(None, found.groups()[:3])))
        return "a short time-out" if number * (1e-3 if found[4] == "ms" else 1) < LONG_S else None
    if (
        PASSED.search(line)
        and not any(length >= LONG_S for length in lengths(line))
        and "PATIENCE" not in line
    ):
        return "a bound on elapsed time"
    if is_short(line) and (WAIT.search(line) or CONSTANT.search(line)):
        return "a short time-out"
    return None


def places(text, blank, suffix, lines=None):
    """The places of a test that depend on time and do not say why: (line number, what). `blank` is
    the text without comments and texts, line for line; `lines` restricts to some.
    """
    whole = text.split("\n")
    blank = blank.split("\n")
    for number, line in enumerate(blank, 1):
        if lines is not None and number not in lines:
            continue
        if line.rstrip().endswith(("(", "+", "<", ">")):
            # As rustfmt breaks what is too long.
            line += " ".join(blank[number : number + 1])
        what = is_about_time(line, suffix)
        said = whole[number - 1], whole[number - 2] if number > 1 else ""
        if what and not (REASON.search(said[0]) or REASON.search(said[1])):
            yield number, what


def modules(text, blank):
    """The test modules of a Rust source:

    (names of those in files of their own, numbers of the lines of those in this one).
    """
    names, lines = [], set()
    for found in TEST_MODULE.finditer(blank):
        if found[2] == ";":
            # Texts are blanked, so a path is read in the whole.
            first = blank.count("\n", 0, found.start())
            attributes = "\n".join(text.split("\n")[first : blank.count("\n", 0, found.end()) + 1])
            path = PATH.search(attributes)
            names.append(path[1] if path else found[1])
            continue
        depth, at = 0, found.end() - 1
        while at < len(blank):
            depth += {"{": 1, "}": -1}.get(blank[at], 0)
            if depth == 0:
                break
            at += 1
        first = blank.count("\n", 0, found.start()) + 1
        lines |= set(range(first, blank.count("\n", 0, at) + 2))
    return names, lines


def file_of(path, name, files):
    """The file of a module that `path` declares, or None."""
    if name.endswith(".rs"):
        return path.parent / name if path.parent / name in files else None
    home = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.parent / path.stem
    return next((p for p in (home / f"{name}.rs", home / name / "mod.rs") if p in files), None)


def all_places(sources, strip, measured=()):
    """The places of all gating tests: {path: [(line number, what)]}. `sources`: {path: text};
    `strip` blanks comments and texts of Rust and C++; `measured`: files of tests that no landing
    waits for.
    """
    sources = {path: text for path, text in sources.items() if path.suffix in SUFFIXES}
    tests, within, blanks = (
        set(),
        {},
        {path: strip(text) for path, text in sources.items() if path.suffix == ".rs"},
    )
    for path, blank in blanks.items():
        names, lines = modules(sources[path], blank)
        tests |= set(filter(None, (file_of(path, name, sources) for name in names)))
        if lines:
            within[path] = lines
    # Modules of test modules are tests, too.
    todo = list(tests)
    while todo:
        path = todo.pop()
        for name in re.findall(
            r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", blanks[path], re.MULTILINE
        ):
            inner = file_of(path, name, sources)
            if inner and inner not in tests:
                tests.add(inner)
                todo.append(inner)
    found = {}
    for path, text in sources.items():
        is_test = path in tests or "tests" in path.parts
        if path in measured or not (is_test or path in within):
            continue
        blank = blanks.get(path) or (blank_python(text) if path.suffix == ".py" else strip(text))
        of_file = list(places(text, blank, path.suffix, None if is_test else within[path]))
        if of_file:
            found[path] = of_file
    return found


def read_allowed(text):
    """{path: number} of the list. Raises ValueError for a line that is none."""
    allowed = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            count, _, path = line.partition(" ")
            allowed[Path(path)] = int(count)
    return allowed


def check(found, allowed):
    """A message for each file with more places than listed, which names them, and for each with
    fewer.
    """
    for path in sorted({*found, *allowed}):
        count, most = len(found.get(path, [])), allowed.get(path, 0)
        if count > most:
            for number, what in found[path]:
                yield f"{path}:{number}: {what} in a gating test: {HINT}"
            if most:
                yield f"{path}: {count} places depend on time, and {ALLOWED} lists {most}: the number may only shrink"
        elif count < most:
            yield f"{path}: {count} places depend on time, and {ALLOWED} lists {most}: lower it with `tools/check_source.py --lower`"


def lowered(text, found):
    """The list with each number lowered to what there is; none is raised, and no file is added."""
    lines = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            count, _, path = line.partition(" ")
            left = min(int(count), len(found.get(Path(path), [])))
            if left == 0:
                continue
            line = f"{left} {path}"
        lines.append(line)
    return "\n".join(lines) + "\n"
