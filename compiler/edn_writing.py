"""EDN text of plain values: inline, or broken over lines with aligned entries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from schemas.encoding import Json, JsonObject

COLUMNS_MAX: Final = 100  # A collection that does not fit is broken, an entry a line.

_KEYWORD: Final = re.compile(r"[A-Za-z*!_?$%&=<>.+-][\w*!?$%&=<>.+#-]*", re.ASCII)
_UNSEEN: Final = re.compile(
    r'["\\]|[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]'
)
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def string(text: str) -> str:
    """`text` between quotes; what cannot be seen is escaped."""
    return '"' + _UNSEEN.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}"


def key(text: str, namespace: str = "") -> str:
    """`text` as a key: a keyword where that reads back as this very text, else a string."""
    if not _KEYWORD.fullmatch(text):
        return string(text)
    return f":{namespace}/{text}" if namespace else f":{text}"


def inline(value: Json) -> str:
    """`value` on one line."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case str():
            return string(value)
        case dict():
            return "{" + ", ".join(f"{key(k)} {inline(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + " ".join(inline(item) for item in value) + "]"
        case _:
            return repr(value)


def lines(value: Json, column: int) -> list[str]:
    """`value` starting at `column`, in lines; the first without its indentation, the others with."""
    flat = inline(value)
    if not isinstance(value, (dict, list)) or not value or (column + len(flat) <= COLUMNS_MAX and not _is_deep(value)):
        return [flat]
    blocks = map_blocks(value, column + 1) if isinstance(value, dict) else (lines(item, column + 1) for item in value)
    out = joined(blocks, column + 1)
    out[0] = ("{" if isinstance(value, dict) else "[") + out[0]
    out[-1] += "}" if isinstance(value, dict) else "]"
    return out


def _is_deep(value: Json) -> bool:
    """Whether `value` is a map of maps: those read better broken, however short."""
    return isinstance(value, dict) and any(isinstance(each, dict) and each for each in value.values())


def map_blocks(value: JsonObject, column: int, namespace: str = "") -> Iterable[list[str]]:
    """The lines of each entry of a map whose keys stand at `column`."""
    for name, each in value.items():
        written = key(name, namespace)
        head, *rest = lines(each, column + len(written) + 1)
        yield [f"{written} {head}", *rest]


def joined(blocks: Iterable[list[str]], column: int) -> list[str]:
    """All lines, with the first line of every block but the first moved to `column`."""
    out: list[str] = []
    for block in blocks:
        out += [" " * column + block[0] if out else block[0], *block[1:]]
    return out
