"""Write a suite as readable text: YAML with JSON members, one case a line."""

from __future__ import annotations

import re
from typing import Final

from planloop.schemas.canonical_json import JsonObject, encode_text

_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON allows in strings and YAML does not, or takes as the end of a line."""


def suite_lines(document: JsonObject) -> str:
    """The text of `document`: one line for each member, and for each member of `cases` and `tools`."""
    out: list[str] = []
    for name, value in document.items():
        if name in ("cases", "tools") and value:
            out += [f"{name}:", *(f"  {_text(key)}: {_text(one)}" for key, one in value.items())]
        else:
            out.append(f"{name}: {_text(value)}")
    return "\n".join(out) + "\n"


def _text(value: object) -> str:
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", encode_text(value))
