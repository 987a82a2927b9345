#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds circles of files: files of a Rust crate that use each other in a loop.

An arrow goes from a file to the file that defines a name it uses. The name stands in a `use` or in
a path that begins with `crate`, `self`, `super` or a child module. A re-export does not count as a
use: the arrow goes on to the definition. Tests do not count. A reader must understand all files of
a circle at once.

Usage: file_circles.py [--arrows] [CRATE_DIRECTORY...]   prints circles of more than one file
  --arrows   also prints the arrows of each circle, with the names that make them
"""

import re
import sys
from pathlib import Path

from usage import answer_help

ROOT = Path(__file__).resolve().parent.parent
COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:[^"\\]|\\.)*"|b?\'(?:[^\'\\\n]|\\.[^\'\n]*)\'',
    re.DOTALL,
)
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])((?:crate|self|super)(?:::\w+)+)")
MODULE = re.compile(r"(?:#\[path\s*=\s*TEXT\]\s*)?\bmod\s+(\w+)\s*;")
TESTS = re.compile(
    r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub(?:\([^)]*\))?\s+)?"
    r"(mod\s+\w+\s*([;{])|use\b[^;]*;|fn\b)"
)
DEFINED = r"\b(?:fn|struct|enum|union|trait|type|const|static|macro_rules!|mod)\s+{}\b"


def blanked(text):
    """Returns the text without comments, strings and modules of tests."""
    text = COMMENT_OR_TEXT.sub(lambda m: " " if m.group().startswith("/") else "TEXT", text)
    while found := TESTS.search(text):
        end = found.end()
        if found.group(2) == "{" or found.group(1) == "fn":
            at = text.find("{", found.start())
            depth = 1
            end = at + 1
            while depth and end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
        text = text[: found.start()] + text[end:]
    return text


def leaves(tree):
    """Returns (path, bound name) of each leaf of a use tree; the name is `*` for a glob."""
    tree = tree.strip()
    if "{" not in tree:
        path, _, alias = tree.partition(" as ")
        parts = [p for p in re.split(r"\s*::\s*", path.strip()) if p]
        if parts and parts[-1] == "self":
            parts.pop()
        return [(parts, alias.strip() or parts[-1])] if parts else []
    head, _, rest = tree.partition("{")
    body = rest[: rest.rindex("}")]
    prefix = [p for p in re.split(r"\s*::\s*", head.strip()) if p]
    items, depth, start = [], 0, 0
    for i, c in enumerate(body + ","):
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            items.append(body[start:i])
            start = i + 1
    out = []
    for item in items:
        if not item.strip():
            continue
        if item.strip() == "self":
            out.append((prefix, prefix[-1]))
        elif item.strip().startswith("self as "):
            out.append((prefix, item.strip()[8:]))
        else:
            out += [(prefix + path, name) for path, name in leaves(item)]
    return out


class Module:
    def __init__(self, path, parent):
        self.path, self.parent, self.children = path, parent, {}
        self.text = blanked(path.read_text())
        found = [(m.group(1), leaf) for m in USE.finditer(self.text) for leaf in leaves(m.group(2))]
        self.uses = [leaf for _, leaf in found]
        rest = set(re.findall(r"\w+", MODULE.sub("", USE.sub("", self.text))))
        # A name that is only re-exported is not used here.
        self.used = [path for public, (path, name) in found if not public or name in rest]

    def defines(self, name):
        return re.search(DEFINED.format(re.escape(name)), self.text) is not None


def load(path, parent=None):
    """Returns the module of a file with its child modules."""
    module = Module(path, parent)
    root = path.name in ("lib.rs", "main.rs", "mod.rs")
    below = path.parent if root else path.with_suffix("")
    for name in MODULE.findall(module.text):
        for file in (below / f"{name}.rs", below / name / "mod.rs"):
            if file.is_file():
                module.children[name] = load(file, module)
    return module


def resolve(module, parts, seen=frozenset()):
    """Returns the module that defines a path, as seen from `module`; None for another crate."""
    if not parts:
        return module
    first, rest = parts[0], parts[1:]
    if first == "crate":
        while module.parent:
            module = module.parent
    elif first == "super":
        if not module.parent:
            return None
        module = module.parent
    elif first != "self":
        return item(module, parts, seen)
    while rest and rest[0] == "super" and module.parent:
        module, rest = module.parent, rest[1:]
    return item(module, rest, seen) if rest else module


def item(module, parts, seen):
    first, rest = parts[0], parts[1:]
    if (module.path, first) in seen:
        return None
    seen = seen | {(module.path, first)}
    if first in module.children:
        return item(module.children[first], rest, seen) if rest else module.children[first]
    if module.defines(first):
        return module
    for path, name in module.uses:
        if name == first:
            found = resolve(module, path, seen)
            if found is None:
                return None
            if found.path.stem == first or found.path.parent.name == first:
                return item(found, rest, seen) if rest else found
            return found
    for path, name in module.uses:
        if name == "*" and (found := resolve(module, path[:-1], seen)):
            if inner := item(found, [first], seen):
                return inner
    return None


def modules(module):
    yield module
    for child in module.children.values():
        yield from modules(child)


def arrows(root):
    """Returns the arrows of a crate as {file: {file: names}}."""
    out = {}
    for module in modules(root):
        to = out.setdefault(module.path, {})
        paths = list(module.used)
        text = re.sub(r"\(in [\w:]+\)", "", USE.sub("", module.text))
        paths += [m.split("::") for m in PATH.findall(text)]
        for child in module.children:
            inside = re.findall(rf"(?<![\w:]){child}::(\w+)", text)
            paths += [["self", child, name] for name in inside]
        for path in paths:
            if path[-1] == "*":
                path = path[:-1]
            found = resolve(module, path)
            if found and found is not module:
                to.setdefault(found.path, set()).add(path[-1])
    return out


def circles(graph):
    """Returns sets of strongly connected files, the largest first (Tarjan, without recursion)."""
    index, low, stack, on, found = {}, {}, [], set(), []
    for start in graph:
        if start in index:
            continue
        work = [(start, iter(graph[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, more = work[-1]
            for to in more:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(graph.get(to, {}))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = []
                    while True:
                        circle.append(stack.pop())
                        on.discard(circle[-1])
                        if circle[-1] == node:
                            break
                    if len(circle) > 1:
                        found.append(sorted(circle))
    return sorted(found, key=lambda c: (-len(c), c))


def crates(root):
    return sorted(p.parent for top in ("crates", "lab") for p in (root / top).glob("*/Cargo.toml"))


def of_crate(crate):
    """Yields (arrows, circles) of each root of a crate."""
    for name in ("lib.rs", "main.rs"):
        if (file := crate / "src" / name).is_file():
            graph = arrows(load(file))
            yield graph, circles(graph)


def largest(root=ROOT):
    """Returns the largest circle of the tree as a list of files."""
    found = [c for crate in crates(root) for _, cs in of_crate(crate) for c in cs]
    return max(found, key=len, default=[])


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    for crate in [Path(a).resolve() for a in arguments] or crates(ROOT):
        for graph, found in of_crate(crate):
            for circle in found:
                names = ", ".join(str(f.relative_to(crate / "src")) for f in circle)
                print(f"{len(circle)} files: {names} ({crate.name})")
                if "--arrows" in sys.argv:
                    for file in circle:
                        for to, names in graph[file].items():
                            if to in circle:
                                ends = f"{file.relative_to(crate)} -> {to.relative_to(crate)}"
                                print(f"    {ends}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    answer_help(__doc__)
    main()
