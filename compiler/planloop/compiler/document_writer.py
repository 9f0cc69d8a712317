"""Print a document as canonical YAML or EDN. Reading it back gives the same document.

`compile -o yaml`, `plan edit` and the side file `<plan>.new` show it.
The words are in `yaml_writing` and `edn_writing`.
"""

from __future__ import annotations

from planloop.compiler.edn import writer
from planloop.compiler.source import Format
from planloop.compiler.yaml import writer as yaml_writer
from planloop.schemas.canonical_json import Json


def format_document(document: Json, spelling: Format) -> str:
    """`document` in the spelling asked for, ending with a line break."""
    return format_yaml(document) if spelling == "yaml" else format_edn(document)


def format_yaml(document: Json) -> str:
    """Block style, two spaces a level, short lists of plain values in brackets; keys in the order they come in."""
    if isinstance(document, dict) and document:
        lines = yaml_writer.write_map(document, 0)
    elif isinstance(document, list) and document and not yaml_writer.is_short(document):
        lines = yaml_writer.write_list(document, 0)
    else:
        lines = [yaml_writer.write_flow(document)]
    return "\n".join(lines) + "\n"


def format_edn(document: Json) -> str:
    """Maps with keyword keys where these read back, an entry a line where it does not fit on one."""
    return "\n".join(writer.write_lines(document, 0)) + "\n"
