"""Read a plan's text, YAML or EDN, into plain values with positions, and print a document as canonical text.

The suffix of the file selects the format, or the first character if there is no suffix. Problems of the text are in
the tree's diagnostics; they raise nothing. Reading a printed document gives the same document.
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
from planloop.schemas.canonical_json import Json
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


def format_document(document: Json, spelling: Format) -> str:
    """`document` in the spelling asked for, ending with a line break."""
    return format_yaml(document) if spelling == "yaml" else format_edn(document)


def format_yaml(document: Json) -> str:
    """Block style, two spaces a level, short lists of plain values in brackets; keys in the order they come in."""
    from planloop.compiler.yaml import writer  # noqa: PLC0415 - most commands only read

    if isinstance(document, dict) and document:
        lines = writer.write_map(document, 0)
    elif isinstance(document, list) and document and not writer.is_short(document):
        lines = writer.write_list(document, 0)
    else:
        lines = [writer.write_flow(document)]
    return "\n".join(lines) + "\n"


def format_edn(document: Json) -> str:
    """Maps with keyword keys where these read back, an entry a line where it does not fit on one."""
    from planloop.compiler.edn import writer  # noqa: PLC0415 - most plans are YAML

    return "\n".join(writer.write_lines(document, 0)) + "\n"
