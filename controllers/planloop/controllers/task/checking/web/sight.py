"""What is on a page at one moment, as a person sees it and as a screen reader does: values, without a browser.

Made by `sighting.py`. What is hidden is no part of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from planloop.schemas.frozen import frozen
from planloop.schemas.web import Words

_SPACES: Final = re.compile(r"[^\S\n]+")
_LINES: Final = re.compile(r"\s*\n\s*")


@frozen
class Box:
    """A rectangle in CSS pixels of the `document` that it is in: a page has one, and one more for each frame."""

    x: float
    y: float
    width: float
    height: float
    document: int = 0

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


@frozen
class Element:
    """One visible element.

    `node` is its id in the browser, `parent` its parent's place in the sight (-1: none), `span` the pieces of text that
    are in it. `role` and `name` are those of the accessibility tree, `named_by` what gave the name. `value` is what a
    field holds, None for what is no field.
    """

    node: int
    parent: int
    depth: int
    tag: str
    attributes: Mapping[str, str]
    role: str
    name: str
    named_by: str
    box: Box
    span: tuple[int, int]
    value: str | None = None
    is_clickable: bool = False
    is_focusable: bool = False
    is_disabled: bool = False
    is_editable: bool = False


@dataclass(frozen=True)
class Sight:
    """A page at one moment, its elements in the order of the document.

    `pieces` are what is to be read, with line ends and spaces between; `spoken` is what dialogs said since the last
    action. `tree` is the accessibility tree for people.
    """

    url: str = ""
    title: str = ""
    elements: tuple[Element, ...] = ()
    pieces: tuple[str, ...] = ()
    spoken: tuple[str, ...] = ()
    tree: str = field(default="", compare=False, repr=False)

    @cached_property
    def words(self) -> str:
        """Everything that is to be read, in lines."""
        return folded("".join((*self.pieces, *(f"\n{one}" for one in self.spoken))))

    def text_of(self, one: Element) -> str:
        """What is to be read in an element."""
        return folded("".join(self.pieces[slice(*one.span)]))

    def shown(self, one: Element) -> str:
        """What the element holds, or else says, or else is called."""
        if one.value is not None:
            return one.value
        return self.text_of(one) or one.name

    def below(self, index: int) -> Iterator[int]:
        """The places of what is within the element at `index`, not itself."""
        depth = self.elements[index].depth
        for at in range(index + 1, len(self.elements)):
            if self.elements[at].depth <= depth:
                return
            yield at

    def find(self, node: int) -> Element | None:
        """The element with this id, None when it is not seen any more."""
        return self._by_node.get(node)

    @cached_property
    def _by_node(self) -> Mapping[int, Element]:
        return {one.node: one for one in self.elements}


def folded(text: str) -> str:
    """The text without what does not count: accents, compatibility forms, how wide spaces are. Lines stay."""
    return _LINES.sub("\n", _SPACES.sub(" ", bare(text))).strip()


def bare(text: str) -> str:
    """The text without accents and compatibility forms."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(sign for sign in plain if not unicodedata.combining(sign)))


def count(words: Words, text: str) -> int:
    """How often `words` are in a text that was folded."""
    if words.is_pattern:
        found = re.finditer(bare(words.text), text, re.IGNORECASE | re.MULTILINE)
        return sum(1 for one in found if one.end() > one.start())
    return _line(text).count(_line(folded(words.text)))


def is_in(words: Words, text: str) -> bool:
    """Whether `words` are in a text that was folded."""
    if words.is_pattern:
        return re.search(bare(words.text), text, re.IGNORECASE | re.MULTILINE) is not None
    return _line(folded(words.text)) in _line(text)


def is_all(words: Words, text: str) -> bool:
    """Whether a text, folded, is these words; a pattern may be anywhere in it."""
    return is_in(words, text) if words.is_pattern else _line(folded(words.text)) == _line(text)


def _line(text: str) -> str:
    return " ".join(text.casefold().split())
