"""Soft figures: parse the figures that a case asks for, and measure code. They never change a verdict."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from planloop.compiler.names import did_you_mean
from planloop.controllers.task.checks.run import CheckFinding
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign
from planloop.schemas.diagnostic import ValueProblem
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.task import CheckSpec
from planloop.schemas.spec.suite import SOFT

# Figures of code are pure functions of texts. They work for every language and need no tool that an image may lack.
# They compare models on the same case, but say little between languages. `SOFT` of `planloop.schemas.spec.suite` lists
# the figures; `runtime` is measured where the checks run.

FILE_BYTES_MAX: Final = 256 << 10
FILES_MAX: Final = 2_000
BYTES_MAX: Final = 16 << 20
LINE_MAX: Final = 120
_NOT_MADE_BY_HAND: Final = frozenset({"node_modules", "target", "dist", "build", "__pycache__"})
_LOCKS: Final = frozenset({"package-lock.json", "yarn.lock", "pnpm-lock.yaml", "deps-lock.json"})

# An unclosed string extends to the end of the file. Searching for its end again at each quote would take hours.
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
"""By file extension: patterns for strings and comments, and for branches."""

_PAIRS: Final = {")": "(", "]": "[", "}": "{"}


def measure_code(wanted: Collection[str], before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, float]:
    """Return the `wanted` figures of a workspace: its texts by path `before` and `after` the attempt."""
    made = {path: text for path, text in after.items() if before.get(path) != text}
    figures = {
        "churn": sum(count_changed_lines(before.get(path, ""), after.get(path, "")) for path in {*before, *after}),
        "complexity": sum(count_branches(path, text) for path, text in made.items()),
        "lint": sum(count_style_problems(path, text) for path, text in made.items()),
    }
    return {name: float(value) for name, value in figures.items() if name in wanted}


def count_changed_lines(before: str, after: str) -> int:
    """Count added and removed lines, whatever their order."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total() + (old - new).total()


def count_branches(path: str, text: str) -> int:
    """Count branches: conditions, loops, cases, catches, `and` and `or`; 0 in unknown languages."""
    language = _LANGUAGES.get(_ending(path))
    return len(language[1].findall(language[0].sub(" ", text))) if language else 0


def count_style_problems(path: str, text: str) -> int:
    """Count lines that are too long, end in blanks or mix tabs and spaces in their indentation; a missing newline at
    the end; and, once a file, unbalanced brackets."""
    lines = text.splitlines()
    long = sum(len(line) > LINE_MAX for line in lines)
    blank = sum(line != line.rstrip() for line in lines)
    mixed = sum(bool(re.match(r" +\t|\t+ ", line)) for line in lines)
    unended = bool(text) and not text.endswith("\n")
    return long + blank + mixed + unended + (not _is_balanced(path, text))


def read_texts(folder: Path) -> dict[str, str]:
    """Read the source files below `folder` by path, without installed, built, lock or hidden files.

    Skips large files, and those after the first 2,000 files or 16 MiB. Raises OSError. Blocks: call in a thread.
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
    """In a fixed order, so that the same files are skipped each time."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_MADE_BY_HAND and not name.startswith("."))
        paths = (Path(place) / name for name in sorted(names) if name not in _LOCKS)
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _ending(path: str) -> str:
    return PurePosixPath(path).suffix.removeprefix(".").lower()


def _is_balanced(path: str, text: str) -> bool:
    """Whether all brackets of the code match; True for unknown languages."""
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


# `soft` of a case is a list of names and maps, as in `plan.json`; older runs have only names. A limit adds a second
# figure: 1 if the limit is kept, else 0, so that its mean is the share of entries that keep the limit.

READS: Final = ("number", "lines", "passes")
TAKEN: Final = frozenset({"accessible", "invented", "malformed", "retries-after-error"})
"""Names of figures that checks or every case already have."""
TIMEOUT_S: Final = 60.0
UNMEASURED: Final = "not measured"
_END: Final = "planloop-soft-exit="
_NOT_RUN: Final = ("126", "127")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@frozen
class SoftFigure:
    """A soft figure. `sh` is the command that measures it, empty for built-in figures. `read`: how to read its
    output."""

    name: str
    sh: str = ""
    read: str = "number"
    max: float | None = None
    min: float | None = None
    timeout_s: float = TIMEOUT_S

    @property
    def check(self) -> CheckSpec:
        """The command as a check, to run where checks run. Its output ends with the exit code; stderr is dropped."""
        line = f"( {self.sh}\n) 2>/dev/null\nprintf '\\n{_END}%s\\n' \"$?\""
        return CheckSpec(f"soft.{self.name}", "sh", {"shell": line}, self.timeout_s)

    def read_from(self, found: CheckFinding) -> float | None:
        """Read the figure from the command's output; None if it contains none or the command could not run."""
        text, mark, code = found.output.decode(errors="replace").rpartition(f"\n{_END}")
        if not mark or code.strip() in _NOT_RUN:
            return None
        match self.read:
            case "passes":
                return float(code.strip() == "0")
            case "lines":
                return float(sum(bool(line.strip()) for line in text.splitlines()))
            case "number":
                numbers = _NUMBER.findall(text)
                return _finite(numbers[-1]) if numbers else None
            case at:
                return _pointed(text, json_pointer.parse_pointer(at))

    def with_limits(self, value: float | None) -> Iterator[tuple[str, float]]:
        """Yield the figures of one entry by name, including its limits."""
        if value is None:
            yield f"{self.name} {UNMEASURED}", 1.0
            return
        yield self.name, value
        yield from self.limits(value)

    def limits(self, value: float) -> Iterator[tuple[str, float]]:
        """Yield for each limit whether `value` keeps it: 1 or 0."""
        if self.max is not None:
            yield f"{self.name} at most {self.max:g}", float(value <= self.max)
        if self.min is not None:
            yield f"{self.name} at least {self.min:g}", float(value >= self.min)


def parse_soft_figures(written: Sequence[Json]) -> tuple[SoftFigure, ...]:
    """Parse the figures that `soft` asks for, which must be valid."""
    return tuple(_figure(name, fields) for _, name, fields in _items(written))


def soft_figure_problems(written: Sequence[Json]) -> Iterator[ValueProblem]:
    """Yield problems of the list that its field types do not show."""
    known: set[str] = set()
    for at, name, fields in _items(written):
        if name in known or name in TAKEN:
            why = "is measured in every case already" if name in TAKEN else "is defined twice"
            yield ValueProblem(
                at, "P0208", f"the soft figure `{name}` {why}", "give it another name", is_key=len(at) > 1
            )
        known.add(name)
        if "sh" in fields and name in SOFT:
            hint = f"rename it, or delete `sh`: `{name}` is measured without a command"
            yield ValueProblem(
                (*at, "sh"), "P0211", f"`{name}` is a built-in figure and takes no `sh`", hint, is_key=True
            )
        elif "sh" in fields and not str(fields["sh"]).strip():
            yield ValueProblem((*at, "sh"), "P0210", "`sh` is empty", "write a command, or delete the line")
        elif "sh" not in fields and name not in SOFT:
            hint = f"{did_you_mean(name, SOFT)} To define a figure, add a command: {name}: {{sh: …}}"
            yield ValueProblem(at, "P0213", f"unknown soft figure `{name}`", hint, is_key=len(at) > 1)
        yield from _of_fields(name, fields, at)


def _of_fields(name: str, fields: JsonObject, at: tuple[str, ...]) -> Iterator[ValueProblem]:
    read = str(fields.get("read", "number"))
    if "read" in fields and "sh" not in fields:
        yield ValueProblem(
            (*at, "read"),
            "P0211",
            "`read` without `sh`",
            "add the `sh` whose output it reads, or delete it",
            is_key=True,
        )
    elif read not in READS and not read.startswith("/"):
        hint = f"use {', '.join(READS)}, or a JSON pointer such as /*/errorCount"
        yield ValueProblem((*at, "read"), "P0223", f"invalid `read`: {read}", hint)
    if "max" in fields and "min" in fields and fields["min"] > fields["max"]:
        words = f"`min` of `{name}` is greater than its `max`"
        yield ValueProblem((*at, "min"), "P0212", words, f"lower it to {fields['max']:g} or less")


def _items(written: Sequence[Json]) -> Iterator[tuple[tuple[str, ...], str, JsonObject]]:
    """Yield the location of each figure, its name, and its fields."""
    for index, item in enumerate(written):
        if isinstance(item, Mapping):
            yield from (((str(index), str(name)), str(name), dict(fields or {})) for name, fields in item.items())
        else:
            yield (str(index),), str(item), {}


def _figure(name: str, fields: JsonObject) -> SoftFigure:
    bounds = {each: float(fields[each]) for each in ("max", "min") if each in fields}
    return SoftFigure(
        name,
        str(fields.get("sh", "")),
        str(fields.get("read", "number")),
        timeout_s=float(fields.get("timeout", TIMEOUT_S)),
        **bounds,
    )


def _pointed(text: str, path: Sequence[str]) -> float | None:
    """The sum of the numbers at `path` of the JSON in `text`. Lists count by length, booleans as 0 and 1."""
    try:
        found: list[Json] = [decode_foreign(text.encode())]
    except ValueError:
        return None
    for token in path:
        found = [inner for each in found for inner in _below(each, token)]
    values = [number for each in found if (number := _as_number(each)) is not None]
    is_every = "*" in path  # The sum of no items is 0; a missing value gives None.
    return _finite(sum(values)) if values or (is_every and not found) else None


def _below(value: Json, token: str) -> Iterator[Json]:
    if isinstance(value, dict):
        yield from value.values() if token == "*" else (value[token],) if token in value else ()
    elif isinstance(value, list) and token == "*":
        yield from value
    elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
        yield value[int(token)]


def _as_number(value: Json) -> float | None:
    if isinstance(value, list):
        return float(len(value))
    return _finite(value) if isinstance(value, int | float) else None


def _finite(value: str | float) -> float | None:
    """The number; None if it is not a finite float. Commands may print numbers of any size."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
