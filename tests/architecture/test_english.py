"""Text in the tree is plain English: at most one phrase of phrases.yaml in 1,000 words, in each kind of text.

A phrase is a sign of a sentence that a technical writer would write in another way, not proof of one. Rewrite the whole
sentence; docs/glossary.md has the terms.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from tests.architecture.tree import PACKAGES, ROOT

pytestmark = [pytest.mark.usefixtures("read_once"), pytest.mark.timeout(300)]

PHRASES: Final[dict[str, str]] = yaml.safe_load(Path(__file__).with_name("phrases.yaml").read_text())
SIGN: Final = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in PHRASES), re.IGNORECASE)
WORD: Final = re.compile(r"[A-Za-z']+")
LIMIT: Final = 1.0
"""Phrases in 1,000 words. Open-source tools with good documentation have 0.1 to 1.3."""


class Line(NamedTuple):
    place: str
    text: str


@pytest.fixture(scope="module")
def read_once() -> None:
    """Read every file before the first test: the time belongs to all of them."""
    _lines()


@pytest.mark.parametrize("kind", ["comments", "docs", "docstrings", "messages", "page", "plans", "tests"])
def test_text_is_plain_english(kind: str) -> None:
    lines = [line for line in _lines()[kind] if line.text]
    signs = [(line, found[0]) for line in lines for found in SIGN.finditer(line.text)]
    words = sum(len(WORD.findall(line.text)) for line in lines)

    assert words > 1_000
    assert len(signs) <= LIMIT * words / 1_000, "\n".join(
        f"{line.place}: `{phrase}` ({_advice(phrase)}): {line.text.strip()[:120]}" for line, phrase in signs
    )


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("A lock is released when its task ends.", []),
        ("Whoever waits is told so.", ["Whoever", "is told"]),
        ("`x` is no number; nobody made it anew.", ["is no", "nobody", "anew"]),
        ("The default is nothing, a default is notable.", []),
    ],
)
def test_the_check_finds_phrases_as_whole_words(text: str, phrases: list[str]) -> None:
    assert [found[0] for found in SIGN.finditer(text)] == phrases


def _advice(phrase: str) -> str:
    return next(advice for pattern, advice in PHRASES.items() if re.fullmatch(pattern, phrase, re.IGNORECASE))


@cache
def _lines() -> dict[str, list[Line]]:
    """Every line of prose, by kind."""
    lines: dict[str, list[Line]] = {}
    for file in _files():
        for kind, number, text in _prose(file):
            lines.setdefault(kind, []).append(Line(f"{file}:{number}", text))
    return lines


def _files() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("web/src/**/*"), *ROOT.glob("web/tests/**/*")]
    found += (file for top in (*PACKAGES, "tests", "docs", "plans") for file in (ROOT / top).rglob("*"))
    return sorted(file.relative_to(ROOT) for file in found if ".plan" not in file.parts and file.is_file())


def _prose(file: Path) -> Iterator[tuple[str, int, str]]:
    top = file.parts[0]
    if file.name == "test_english.py" or "golden" in file.parts:
        return
    if file.suffix == ".py":
        for kind, number, text in _python_prose((ROOT / file).read_text()):
            yield "tests" if top == "tests" else kind, number, text
    elif file.suffix == ".md":
        yield from (("docs", number, text) for number, text in _outside_of_code(file))
    elif file.suffix in {".ts", ".tsx"} and file.name != "api-types.d.ts":
        for number, text in enumerate((ROOT / file).read_text().splitlines(), 1):
            if not text.lstrip().startswith("import "):
                yield "page", number, text
    elif file.suffix == ".yaml" and top == "plans":
        yield from (("plans", number, text) for number, text in enumerate((ROOT / file).read_text().splitlines(), 1))


def _outside_of_code(file: Path) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, text in enumerate((ROOT / file).read_text().splitlines(), 1):
        if text.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, text


def _python_prose(text: str) -> Iterator[tuple[str, int, str]]:
    """Each line of the comments, docstrings and other strings that have a space."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield "comments", token.start[0], token.string
        elif token.type in STRINGS and " " in token.string:
            kind = "docstrings" if token.string.lstrip("rbfuRBFU").startswith('"""') else "messages"
            for offset, line in enumerate(token.string.splitlines()):
                yield kind, token.start[0] + offset, line


STRINGS: Final = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""From Python 3.12 on, the text of an f-string is a token of its own type."""
