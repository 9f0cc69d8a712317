"""Reads a plan's text, in either spelling, into plain values with places (see `planloop.compiler.syntax`).

The suffix of the file says which spelling it is; without one the first character does. Nothing is raised for what
is wrong with the text: that is in the tree's diagnostics.
"""

from __future__ import annotations

import re
from typing import Final

from planloop.compiler.reading_edn import read_edn
from planloop.compiler.reading_yaml import read_yaml
from planloop.compiler.source import SizeLimits, Source, decode
from planloop.compiler.syntax import Format, Path, Place, SourceTree, SourceValue
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen

__all__ = ["DEFAULT_LIMITS", "SizeLimits", "format_of", "read_source"]

DEFAULT_LIMITS: Final = SizeLimits()

_SUFFIXES: Final[dict[str, Format]] = {"yaml": "yaml", "yml": "yaml", "json": "yaml", "edn": "edn", "clj": "edn"}
_LOOKS_LIKE_EDN: Final = re.compile(r"[\s,]*(?:[(;]|#[_:{]|[\[{][\s,]*[:(;])")


@frozen
class Unread:
    """A tree for bytes that are no readable text."""

    source: Source
    format: Format
    diagnostics: tuple[Diagnostic, ...]
    value: SourceValue = None

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def text(self) -> str:
        return self.source.text

    def place(self, _path: Path) -> Place | None:
        return None


def read_source(content: bytes, *, file: str, limits: SizeLimits = DEFAULT_LIMITS) -> SourceTree:
    """The text in `content`, read. `file` is the name that spans carry; its suffix says how to read."""
    source, faults = decode(content, file=file, limits=limits)
    spelling = format_of(file, source.text)
    if faults:
        return Unread(source, spelling, faults)
    return read_edn(source, limits) if spelling == "edn" else read_yaml(source, limits)


def format_of(file: str, text: str) -> Format:
    """The spelling that the name of `file` says, else the one that `text` begins like."""
    suffix = file.rpartition(".")[2].lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return "edn" if _LOOKS_LIKE_EDN.match(text) else "yaml"
