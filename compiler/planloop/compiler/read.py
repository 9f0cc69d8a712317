"""Read a plan's text, YAML or EDN, into plain values with positions.

The suffix of the file says which spelling it is; without one the first character does. Nothing is raised for what
is wrong with the text: that is in the tree's diagnostics.
"""

from __future__ import annotations

import re
from typing import Final

from planloop.compiler.source import (
    Format,
    SizeLimits,
    SourcePath,
    SourcePlace,
    SourceText,
    SourceTree,
    SourceValue,
    decode_source,
)
from planloop.compiler.yaml.reader import read_yaml
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen

DEFAULT_LIMITS: Final = SizeLimits()

_SUFFIXES: Final[dict[str, Format]] = {"yaml": "yaml", "yml": "yaml", "json": "yaml", "edn": "edn", "clj": "edn"}
_LOOKS_LIKE_EDN: Final = re.compile(r"[\s,]*(?:[(;]|#[_:{]|[\[{][\s,]*[:(;])")


@frozen
class UnreadableSource:
    """A tree for bytes that are no readable text."""

    source: SourceText
    format: Format
    diagnostics: tuple[Diagnostic, ...]
    value: SourceValue = None

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def text(self) -> str:
        return self.source.text

    def place(self, _path: SourcePath) -> SourcePlace | None:
        return None


def read_source(content: bytes, *, file: str, limits: SizeLimits = DEFAULT_LIMITS) -> SourceTree:
    """The text in `content`, read. `file` is the name that spans carry; its suffix says how to read."""
    source, faults = decode_source(content, file=file, limits=limits)
    spelling = source_format(file, source.text)
    if faults:
        return UnreadableSource(source, spelling, faults)
    if spelling == "edn":
        from planloop.compiler.edn.reader import read_edn  # noqa: PLC0415 - most plans are YAML

        return read_edn(source, limits)
    return read_yaml(source, limits)


def source_format(file: str, text: str) -> Format:
    """The spelling that the name of `file` says, else the one that `text` begins like."""
    suffix = file.rpartition(".")[2].lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return "edn" if _LOOKS_LIKE_EDN.match(text) else "yaml"
