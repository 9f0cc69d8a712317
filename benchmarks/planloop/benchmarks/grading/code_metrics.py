"""Soft figures of code: lines changed, branches, style. They never change a verdict.

Pure functions of texts, for every language alike and without a tool that an image may lack: what they count, any reader
can see. So they compare models on the same case; between languages they say little.
Which there are says `SOFT` of `planloop.schemas.spec.suite`; `runtime` is measured where the checks are run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

FILE_BYTES_MAX: Final = 256 << 10
FILES_MAX: Final = 2_000
BYTES_MAX: Final = 16 << 20
LINE_MAX: Final = 120
_NOT_MADE_BY_HAND: Final = frozenset({"node_modules", "target", "dist", "build", "__pycache__"})
_LOCKS: Final = frozenset({"package-lock.json", "yarn.lock", "pnpm-lock.yaml", "deps-lock.json"})

# A text that is not closed goes to the end: looked for again from each of its signs, it would take hours.
_C_TEXT: Final = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?", re.DOTALL
)
_LISP_TEXT: Final = re.compile(r";[^\n]*|\"(?:\\.|[^\"\\])*\"?|\\[^\s]", re.DOTALL)
_HASH_TEXT: Final = re.compile(r"#[^\n]*|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?")
_C_BRANCH: Final = re.compile(r"\b(?:if|for|while|case|catch)\b|&&|\|\||\?\?|\?(?=\s)")
_LISP_BRANCH: Final = re.compile(
    r"\((?:if|if-not|if-let|if-some|when|when-not|when-let|when-some|cond|condp|cond->>?|some->>?|case|for|doseq|loop|while|"
    r"catch|and|or)(?=[\s)])"
)
_HASH_BRANCH: Final = re.compile(r"\b(?:if|elif|for|while|case|except|and|or)\b")

_LANGUAGES: Final = {
    **dict.fromkeys(("ts", "tsx", "js", "jsx", "mjs", "cjs", "java", "go", "rs", "c", "cpp"), (_C_TEXT, _C_BRANCH)),
    **dict.fromkeys(("clj", "cljs", "cljc", "bb"), (_LISP_TEXT, _LISP_BRANCH)),
    **dict.fromkeys(("py", "sh", "rb"), (_HASH_TEXT, _HASH_BRANCH)),
}
"""By the end of a file's name: what is text or comment in it, and what is a branch."""

_PAIRS: Final = {")": "(", "]": "[", "}": "{"}


def measure_code(wanted: Collection[str], before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, float]:
    """The figures among `wanted`, of the texts of a workspace by path, as they were given and as they were left."""
    made = {path: text for path, text in after.items() if before.get(path) != text}
    figures = {
        "churn": sum(count_changed_lines(before.get(path, ""), after.get(path, "")) for path in {*before, *after}),
        "complexity": sum(count_branches(path, text) for path, text in made.items()),
        "lint": sum(count_style_problems(path, text) for path, text in made.items()),
    }
    return {name: float(value) for name, value in figures.items() if name in wanted}


def count_changed_lines(before: str, after: str) -> int:
    """Lines that came and lines that went, whatever their order."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total() + (old - new).total()


def count_branches(path: str, text: str) -> int:
    """Places where the code branches: conditions, loops, cases, catches, `and` and `or`; none in unknown languages."""
    language = _LANGUAGES.get(_ending(path))
    return len(language[1].findall(language[0].sub(" ", text))) if language else 0


def count_style_problems(path: str, text: str) -> int:
    """Lines that are too long, end in blanks or are indented with tabs and spaces; a last line without an end; brackets
    that do not match, which count once a file."""
    lines = text.splitlines()
    long = sum(len(line) > LINE_MAX for line in lines)
    blank = sum(line != line.rstrip() for line in lines)
    mixed = sum(bool(re.match(r" +\t|\t+ ", line)) for line in lines)
    unended = bool(text) and not text.endswith("\n")
    return long + blank + mixed + unended + (not _is_balanced(path, text))


def read_texts(folder: Path) -> dict[str, str]:
    """The texts below `folder` by path, but for what no hand wrote: what is installed, built, locked or hidden.

    Those that are large, and those beyond the 2,000th or 16 MiB, are left out. Raises OSError. Blocks: for a thread.
    """
    found: dict[str, str] = {}
    left_bytes = BYTES_MAX
    for path in _files(folder):
        if len(found) == FILES_MAX or left_bytes < 0:
            break
        content = path.read_bytes() if path.stat().st_size <= FILE_BYTES_MAX else b"\0"
        left_bytes -= len(content)
        if b"\0" not in content:
            found[path.relative_to(folder).as_posix()] = content.decode(errors="replace")
    return found


def _files(folder: Path) -> Iterator[Path]:
    """In one order, so that the same files are left out each time."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_MADE_BY_HAND and not name.startswith("."))
        paths = (Path(place) / name for name in sorted(names) if name not in _LOCKS)
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _ending(path: str) -> str:
    return PurePosixPath(path).suffix.removeprefix(".").lower()


def _is_balanced(path: str, text: str) -> bool:
    """Whether all brackets of the code match; in unknown languages they are taken to."""
    language = _LANGUAGES.get(_ending(path))
    if language is None:
        return True
    open_: list[str] = []
    for sign in re.findall(r"[()\[\]{}]", language[0].sub(" ", text)):
        if sign not in _PAIRS:
            open_.append(sign)
        elif not open_ or open_.pop() != _PAIRS[sign]:
            return False
    return not open_
