"""Write a suite as text that people can page through: YAML with JSON members, one case a line."""

from __future__ import annotations

import re
from typing import Final

from planloop.schemas.canonical_json import JsonObject, encode_text

_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON takes as they are, and YAML does not, or takes for the end of a line."""


def suite_lines(document: JsonObject) -> str:
    """The members of `document`, each on its own line; those of `cases` and `tools` likewise."""
    out: list[str] = []
    for name, value in document.items():
        if name in ("cases", "tools") and value:
            out += [f"{name}:", *(f"  {_text(key)}: {_text(one)}" for key, one in value.items())]
        else:
            out.append(f"{name}: {_text(value)}")
    return "\n".join(out) + "\n"


def _text(value: object) -> str:
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", encode_text(value))
