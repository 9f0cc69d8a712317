"""Prints a document as canonical text. Deterministic; reading it back gives the same document, comments aside.

`compile -o yaml`, `plan edit` and the side file `<plan>.new` show it.
The words are in `yaml_writing` and `edn_writing`.
"""

from __future__ import annotations

from planloop.compiler import edn_writing, yaml_writing
from planloop.compiler.syntax import Format
from planloop.schemas.encoding import Json


def format_document(document: Json, spelling: Format) -> str:
    """`document` in the spelling asked for, ending with a line break."""
    return to_yaml(document) if spelling == "yaml" else to_edn(document)


def to_yaml(document: Json) -> str:
    """Block style, two spaces a level, short lists of plain values in brackets; keys in the order they come in."""
    if isinstance(document, dict) and document:
        lines = yaml_writing.map_lines(document, 0)
    elif isinstance(document, list) and document and not yaml_writing.is_short(document):
        lines = yaml_writing.list_lines(document, 0)
    else:
        lines = [yaml_writing.flow(document)]
    return "\n".join(lines) + "\n"


def to_edn(document: Json) -> str:
    """Maps with keyword keys where these read back, an entry a line where it does not fit on one."""
    return "\n".join(edn_writing.lines(document, 0)) + "\n"
