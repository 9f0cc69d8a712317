"""Messages of the product, compared with golden files that `make docs` rewrites.

A test names the text that it looks at and the facts in it, not the wording: `said(found.message, "task/a")` compares
the whole text, `said_in(output, "P0204")` one line of it (or several, one below the other). The expected wording is in
`tests/golden/said/`, in a file for each test file: under the name of the test, one entry for each call, in order.

`said_in` finds a reworded line by its facts and by its likeness to the line that was there.
"""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import yaml

Text: TypeAlias = str | list[str]

TESTS: Final = Path(__file__).resolve().parent
FOLDER: Final = TESTS / "golden" / "said"
LIKENESS_MIN: Final = 0.4
"""A line that resembles the stored one less than this is not taken for its new wording."""

_IN_BASE: Final = r"/(popen-gw\d+/)?[\w.-]+"
"""A test's folder in the folder of a run."""

_PLACES: Final = [
    (re.escape(tempfile.gettempdir()) + r"/pytest-of-[^/\s]+/pytest-\d+" + _IN_BASE, "TMP"),
    (re.escape(tempfile.gettempdir()) + r"/tmp\w{8}\b", "TMP"),
    (re.escape(str(TESTS.parent)) + r"\b", "ROOT"),
    (r"(127\.0\.0\.1|localhost|\[::1\])(:|'?, | port )\d{5}\b", r"\1\g<2>8080"),
    (r"\b[0-9a-f]{64}\b", "5f2c…"),
    (r"(?<![\w.])(?=[0-9a-f]*\d)[0-9a-f]{12}\b", "5b1e0c77a2f4"),
]
"""Patterns of what differs from run to run in every test, and what replaces it."""

_TIMES: Final = (
    (r"\b\d\d\d\d-\d\d-\d\d\b", "2030-01-01"),
    (r"\b\d\d:\d\d:\d\d\b", "14:03:22"),
    (r"\b\d+(\.\d+)? (ms|s|min)\b", "0.1 s"),
    (r"\b(process|pid|epoch|rev|revision) \d+\b", r"\1 4711"),
    (r"(?<=\S) {2,}(?=\S)", "  "),
    (r"(?m)^(\s*14:03:22 +)\d+ ", r"\g<1>31 "),
    (r"(?m)^(\s*)\d+( +14:03:22)", r"\g<1>31\2"),
    (r"(?<=[-.])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,8}\b", "5b1e0c"),
)
"""The same for tests that run real programs: times, process ids, revisions, and columns."""


@dataclass(slots=True, eq=False)
class Entries:
    """The entries of one test: those of its golden file, and those that it found in this run."""

    file: Path
    test: str
    is_real: bool
    is_updating: bool
    is_reached: bool
    stored: list[Text]
    found: list[Text] = field(default_factory=list)

    def place(self) -> str:
        name = self.file.relative_to(TESTS.parent) if self.file.is_relative_to(TESTS) else self.file
        return f"{name}, {self.test}, entry {len(self.found) + 1}"

    def next(self) -> Text | None:
        return self.stored[len(self.found)] if len(self.found) < len(self.stored) else None


_files: dict[Path, dict[str, list[Text]]] = {}
_now: list[Entries] = []


def use_base(folder: str) -> None:
    """Take folders below `folder`, which `--basetemp` named, for the folders of tests."""
    _PLACES.insert(0, (re.escape(str(Path(folder).resolve())) + _IN_BASE, "TMP"))


def golden_file(test_file: Path) -> Path:
    """The file that holds the texts of a test file."""
    return FOLDER / test_file.relative_to(TESTS).with_suffix(".yaml")


def read(file: Path) -> dict[str, list[Text]]:
    """The entries of each test in a golden file; none if there is no such file."""
    if file not in _files:
        _files[file] = yaml.safe_load(file.read_text()) if file.exists() else {}
    return _files[file]


def write(file: Path, tests: dict[str, list[Text]]) -> None:
    """Store the entries of each test, in the order of their names; without any, remove the file."""
    _files[file] = tests
    if not tests:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.dump(dict(sorted(tests.items())), Dumper=_Dumper, allow_unicode=True, width=10_000))


def files_without_tests(folder: Path = FOLDER) -> list[Path]:
    """The golden files in `folder` whose test file was removed or renamed."""
    return [
        file for file in folder.rglob("*.yaml") if not (TESTS / file.relative_to(folder)).with_suffix(".py").exists()
    ]


@contextmanager
def entries_of(entries: Entries) -> Iterator[None]:
    """Let `said` compare with the entries of this test; at its end, none may be left over.

    Raises:
        AssertionError: the golden file has more entries than the test asked for.
    """
    _now.append(entries)
    try:
        yield
    finally:
        _now.pop()
    if entries.is_updating:
        if entries.found != entries.stored:
            rest = {name: stored for name, stored in read(entries.file).items() if name != entries.test}
            write(entries.file, rest | ({entries.test: entries.found} if entries.found else {}))
    elif len(entries.found) < len(entries.stored):
        raise AssertionError(f"{entries.place()}: the test did not ask for it; `make docs` removes it")


def said(text: str | Iterable[str], *facts: str, **known: object) -> None:
    """Compare the whole `text`, or list of texts, with the next golden entry of this test.

    `facts` are words that the text must hold however it is worded: addresses, codes, names. `known` are values that
    it must hold and that differ from run to run; the golden text has `{name}` in their place.
    """
    __tracebackhide__ = True
    entries = _entries()
    texts = [text] if isinstance(text, str) else [*text]
    _require(facts, known, "\n".join(texts), entries)
    normal = [_normal(one, known, entries.is_real) for one in texts]
    found: Text = normal[0] if isinstance(text, str) else normal
    if not entries.is_updating:
        _compare(entries, found)
    entries.found.append(found)


def said_in(text: str | Iterable[str], *facts: str, **known: object) -> None:
    """Compare one line of `text`, or several in a row, with the next golden entry: one with all `facts` must equal it.

    Spaces at both ends of a line are left out. A new entry is written by `make docs` if only one line has the facts;
    otherwise write the line into the golden file yourself.
    """
    __tracebackhide__ = True
    entries = _entries()
    whole = text if isinstance(text, str) else "\n".join(text)
    _require(facts, known, whole, entries)
    lines = [line.strip() for line in _normal(whole, known, entries.is_real).split("\n")]
    expected = entries.next()
    count = expected.count("\n") + 1 if isinstance(expected, str) else 1
    passages = ["\n".join(lines[at : at + count]) for at in range(len(lines) - count + 1)]
    needed = [_normal(fact, known, entries.is_real) for fact in (*facts, *map(str, known.values()))]
    passages = [one for one in passages if one.strip() and all(fact in one for fact in needed)]
    if expected in passages:
        assert expected is not None
        entries.found.append(expected)
    elif entries.is_updating:
        entries.found.append(_nearest(entries, expected, passages))
    else:
        _compare(entries, "\n".join(passages))


def _entries() -> Entries:
    assert _now, "only a running test has golden entries: call this from the test or from its functions"
    assert _now[-1].is_reached, f"`make docs` does not reach {_now[-1].test}: tests/suite/updates.py finds no such call"
    return _now[-1]


def _require(facts: tuple[str, ...], known: dict[str, object], text: str, entries: Entries) -> None:
    missing = [fact for fact in (*facts, *map(str, known.values())) if fact not in text]
    if missing:
        raise AssertionError(f"{entries.place()}: {missing} not in the text:\n{text}")


def _normal(text: str, known: dict[str, object], is_real: bool) -> str:
    for name, value in known.items():
        text = text.replace(str(value), f"{{{name}}}")
    for pattern, instead in (*_PLACES, *(_TIMES if is_real else ())):
        text = re.sub(pattern, instead, text)
    return text


def _compare(entries: Entries, found: Text) -> None:
    expected = entries.next()
    if expected is None:
        raise AssertionError(f"{entries.place()}: missing; `make docs` writes it:\n{found}")
    if expected != found:
        lines = difflib.ndiff(_lines(expected), _lines(found))
        raise AssertionError(f"{entries.place()}: differs; `make docs` rewrites it\n" + "\n".join(lines))


def _lines(text: Text) -> list[str]:
    return text.split("\n") if isinstance(text, str) else text


def _nearest(entries: Entries, expected: Text | None, passages: list[str]) -> str:
    """The passage that takes the place of the stored one."""
    different = [*dict.fromkeys(passages)]
    if len(different) == 1:
        return different[0]
    words = str(expected or "").split()
    likeness = {one: difflib.SequenceMatcher(None, words, one.split()).ratio() for one in different}
    best = max(different, key=likeness.__getitem__, default="")
    if expected is None or not best or likeness[best] < LIKENESS_MIN:
        found = "\n".join(different)
        raise AssertionError(f"{entries.place()}: write the intended line yourself. It is now {expected!r}\n{found}")
    return best


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as they read."""


def _as_it_reads(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_it_reads)
