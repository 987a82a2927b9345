# SPDX-License-Identifier: Apache-2.0
"""Finds places where gating tests depend on time: sleeps, bounds on elapsed time, short time-outs.

Gating tests are those of `make test` and `make test-gateways`, which a merge needs. A gating test
waits for an event, with a time-out of at least a minute. An exception gives its
reason in a comment `time: REASON` on its line or on the line above. `tools/time_in_tests.txt`
counts the exceptions that are older than this rule, a line for each file: `COUNT PATH`. The numbers
may only shrink.
"""

import io
import re
import tokenize
from pathlib import Path

ALLOWED = Path("tools/time_in_tests.txt")
# Only a bug takes that long.
LONG_S = 60.0
HINT = (
    "wait for an event with a time-out of 60 s, use a VirtualClock, "
    "or write why not: `// time: REASON` (CONTRIBUTING.md, Time in tests)"
)

SUFFIXES = {".rs", ".py", ".cpp", ".hpp", ".c"}
REASON = re.compile(r"(?://|#)\s*time: \S")
SLEEP = re.compile(
    r"(?<![\w.:])sleep\s*\(|\bthread::sleep\b|\bsleep_(?:for|until)\s*\(|\btime\.sleep\s*\("
    r"|\bpark_timeout\s*\(|\busleep\s*\("
)
# A duration in Rust, with its unit and number.
LENGTH = re.compile(
    r"\bDuration::from_(secs|secs_f64|millis|micros|nanos)\(\s*([\d_]+(?:\.\d+)?)\s*\)"
)
UNITS_S = {"secs": 1, "secs_f64": 1, "millis": 1e-3, "micros": 1e-6, "nanos": 1e-9}
# A comparison with an elapsed time.
PASSED = re.compile(
    r"\.elapsed\(\)(?:\.as_\w+\(\))?\s*(?:[<>]=?|\.cmp)|[<>]=?\s*[\w.]+\.elapsed\(\)"
    r"|\bnow\(\)\.since\([^()]*\)\s*[<>]"
)
# Calls that end after a duration. A test clock (`clock.now()`) moves only when a test advances it.
WAIT = re.compile(
    r"(?<!clock\.)\bnow\(\)\s*\+|\b(?:recv_timeout|wait_timeout\w*|wait_for\w*|wait|timeout|call"
    r"|call_bytes|call_then|survey|list|poll)\s*\("
)
# A constant that is a time-out, by its name.
CONSTANT = re.compile(
    r"\bconst (\w*(?:PATIENCE|WITHIN|TIMEOUT|LIMIT|BOUND|SOON|STALL|STANDSTILL|LONG|SHORT|GRACE|GAP"
    r"|RECOVERY)\w*): Duration\b"
)
# A time-out with its length, in Python and C++.
OTHER_WAIT = re.compile(
    r"\btimeout\s*=\s*([\d.]+)\b|\bPATIENCE_S\s*=\s*([\d.]+)\b"
    r"|\bwait_for\w*\(\s*(?:\w+,\s*)?([\d.]+)(ms|s)\b"
)

TEST_MODULE = re.compile(
    r"#\[cfg\((?:test|all\([^\]]*\btest\b[^\]]*\))\)\](?:\s*#\[[^\]]*\])*\s*"
    r"(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])"
)
PATH = re.compile(r'#\[path\s*=\s*"([^"]+)"\]')


def lengths(line):
    """Returns the durations in a line of Rust, in seconds."""
    return [float(number.replace("_", "")) * UNITS_S[unit] for unit, number in LENGTH.findall(line)]


def is_short(line):
    return any(length < LONG_S for length in lengths(line))


def blank_python(text):
    """Returns the code of a Python source without comments and strings, line for line."""
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
    """Returns how a line of a test depends on time, or None.

    `line` has no comments and strings.
    """
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
    """Yields the places of a test that depend on time without a reason: (line number, what).

    `blank` is the text without comments and strings, line for line. `lines` restricts the search.
    """
    whole = text.split("\n")
    blank = blank.split("\n")
    for number, line in enumerate(blank, 1):
        if lines is not None and number not in lines:
            continue
        if line.rstrip().endswith(("(", "+", "<", ">")):
            # rustfmt may have broken the line here.
            line += " ".join(blank[number : number + 1])
        what = is_about_time(line, suffix)
        said = whole[number - 1], whole[number - 2] if number > 1 else ""
        if what and not (REASON.search(said[0]) or REASON.search(said[1])):
            yield number, what


def modules(text, blank):
    """Returns the test modules of a Rust source.

    (names of modules in files of their own, line numbers of modules in this file).
    """
    names, lines = [], set()
    for found in TEST_MODULE.finditer(blank):
        if found[2] == ";":
            # `blank` has no strings, so the path is read from the whole text.
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
    """Returns the file of a module that `path` declares, or None."""
    if name.endswith(".rs"):
        return path.parent / name if path.parent / name in files else None
    home = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.parent / path.stem
    return next((p for p in (home / f"{name}.rs", home / name / "mod.rs") if p in files), None)


def all_places(sources, strip, measured=()):
    """Returns the places of all gating tests: {path: [(line number, what)]}.

    `sources`: {path: text}. `strip` removes comments and strings of Rust and C++. `measured`: files
    of tests that are not gating.
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
    # Modules of test modules are tests as well.
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
    """Returns {path: number} of the list. Raises ValueError for an invalid line."""
    allowed = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            count, _, path = line.partition(" ")
            allowed[Path(path)] = int(count)
    return allowed


def check(found, allowed):
    """Yields messages for each file whose number of places is not the listed one.

    If there are more, each place has a message.
    """
    for path in sorted({*found, *allowed}):
        count, most = len(found.get(path, [])), allowed.get(path, 0)
        if count > most:
            for number, what in found[path]:
                yield f"{path}:{number}: {what} in a gating test: {HINT}"
            if most:
                yield (
                    f"{path}: {count} places depend on time, and {ALLOWED} lists {most}: "
                    "the number may only shrink"
                )
        elif count < most:
            yield (
                f"{path}: {count} places depend on time, and {ALLOWED} lists {most}: "
                "lower it with `tools/check_source.py --lower`"
            )


def lowered(text, found):
    """Returns the list with numbers lowered to those found. No number is raised or added."""
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
