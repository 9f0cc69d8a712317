"""Write plain values as YAML text: scalars in a given style, collections as blocks or flow.

What is written reads back to the same value, by our reader and by YAML 1.1 readers: a text that any of them would take
for something else is quoted. `planloop.compiler.read` prints whole documents with it,
`planloop.compiler.splice.yaml_editor` pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from planloop.compiler.source import YamlTrap
from planloop.compiler.yaml import scalars
from planloop.schemas.canonical_json import Json, JsonObject, encode
from planloop.schemas.frozen import frozen

FLOW_COLUMNS_MAX: Final = 100  # A list of plain values longer than this gets a line an item.

_UNSAFE_START: Final = frozenset("-?:,[]{}#&*!|>'\"%@` \t")
_UNSAFE: Final = re.compile(
    r":(?=[\s,\[\]{}]|$)|\s#|[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[ \t]$"
)
_UNSAFE_IN_FLOW: Final = re.compile(r"[,\[\]{}]")
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_SPECIALS: Final = frozenset(("<<", "="))
_DOCUMENT_MARKS: Final = ("---", "...")


@frozen
class YamlStyle:
    """How a text is laid out: spaces a level, spaces before the dash of a list under its key, and its line break.

    `has_blocks`: whether texts of several lines may stand in `|` blocks, which need a line break after them.
    """

    step: int = 2
    dash: int = 2
    newline: str = "\n"
    has_blocks: bool = True


CANONICAL: Final = YamlStyle()


def is_plain(text: str, *, in_flow: bool, is_key: bool = False) -> bool:
    """Whether `text` can stand without quotes and is still that text."""
    if (
        not text
        or text in _SPECIALS
        or text.startswith(_DOCUMENT_MARKS)
        or _UNSAFE.search(text)
        or (in_flow and _UNSAFE_IN_FLOW.search(text))
    ):
        return False
    # A dash may begin a text when a letter or so follows: `--flag` is one, `- x` is a list.
    if text[0] in _UNSAFE_START and (text[0] != "-" or text[1:2] in ("", " ", "?", ":", ",", "[", "]", "{", "}")):
        return False
    return is_key or _is_text(text)


def _is_text(text: str) -> bool:
    try:
        value = scalars.plain_scalar_value(text)
    except scalars.OutOfRange:
        return False
    return isinstance(value, str) and not isinstance(value, YamlTrap)


def quote_double(text: str) -> str:
    """`text` between double quotes; what cannot be seen is escaped."""
    escaped = re.sub(r'["\\]', lambda found: _ESCAPES[found[0]], text)
    return f'"{_UNPRINTABLE.sub(_escape, escaped)}"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    return _ESCAPES.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def quote_single(text: str) -> str | None:
    """`text` between single quotes; None when it holds what those cannot show on one line."""
    return None if _UNPRINTABLE.search(text) else "'" + text.replace("'", "''") + "'"


def write_scalar(value: Json, *, style: str | None = None, in_flow: bool = False) -> str:
    """Return one line for a scalar. `style` is the quote to keep if possible, None for plain."""
    if not isinstance(value, str):
        return _constant(value)
    if style == "'" and (quoted := quote_single(value)) is not None:
        return quoted
    if style not in ("'", '"') and is_plain(value, in_flow=in_flow):
        return value
    return quote_double(value)


def _constant(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        digits = repr(value)
        return digits.replace("e", ".0e") if "e" in digits and "." not in digits else digits
    return str(value)


def write_key(text: str, *, in_flow: bool = False) -> str:
    """`text` as a key. Keys are always text to our reader, so numbers and `on` stay as people write them."""
    return text if is_plain(text, in_flow=in_flow, is_key=True) else quote_double(text)


def write_flow(value: Json) -> str:
    """`value` on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write_key(k, in_flow=True)}: {write_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write_flow(item) for item in value) + "]"
    return write_scalar(value, in_flow=True)


def write_one_line(value: Json) -> str:
    """`value` on one line, outside brackets."""
    return write_flow(value) if isinstance(value, (dict, list)) else write_scalar(value)


def write_json_like(value: Json) -> str:
    """`value` on one line, spelled so that JSON readers take it too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quote_double(k)}: {write_json_like(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write_json_like(item) for item in value) + "]"
    return encode(value).decode()


def write_block_text(text: str, indent: int, *, is_folded: bool) -> list[str] | None:
    """Header and lines of `text` in a `|` or `>` block; None when neither can hold it. A `>` keeps its lines apart."""
    body = text.rstrip("\n")
    if not body or any(line[:1] in (" ", "\t") for line in body.split("\n")[:1]):
        return None
    lines = write_literal(text if "\n" in text else f"{text}\n", indent)
    if lines is None:
        return None
    if "\n" not in text:
        lines[0] = "|-"
    if not is_folded or re.search(r"(?m)^[ \t]|[ \t]$", text):
        return lines
    folded = ("\n" + " " * indent).join(re.sub(r"\n+", lambda run: "\n" * (len(run[0]) + 1), body).split("\n"))
    kept = ["" if not line.strip() else line for line in (" " * indent + folded).split("\n")]
    return [">" + lines[0][1:], *kept, *[""] * (len(text) - len(body) - 1)]


def write_literal(text: str, indent: int) -> list[str] | None:
    """Header and lines of `text` as a literal block, `indent` spaces in; None when a block cannot hold it."""
    lines = text.split("\n")
    first = next((line for line in lines if line), "")
    if (
        "\n" not in text
        or not first
        or first[0] in " \t"
        or _UNPRINTABLE.search(text.replace("\n", "").replace("\t", ""))
    ):
        return None
    chomp = "-" if lines[-1] else "" if lines[-2] else "+"
    body = lines if lines[-1] else lines[:-1]
    return [f"|{chomp}", *(" " * indent + line if line else "" for line in body)]


def is_short(value: Json) -> bool:
    """Whether a collection is better read on one line: empty, or a short list of plain values."""
    if not isinstance(value, (dict, list)):
        return False
    if not value:
        return True
    is_simple = isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value)
    return is_simple and len(write_flow(value)) <= FLOW_COLUMNS_MAX


def write_entry(name: str, value: Json, indent: int, style: YamlStyle = CANONICAL) -> list[str]:
    """The lines of `name: value`, the first without its indentation."""
    head, *rest = write_after_key(value, indent, style)
    return [f"{write_key(name)}:{head}", *rest]


def write_after_key(value: Json, indent: int, style: YamlStyle = CANONICAL) -> list[str]:
    """What follows the colon of a key that stands `indent` spaces in: the rest of its line, then further lines."""
    if isinstance(value, str) and style.has_blocks and (block := write_literal(value, indent + style.step)):
        return [f" {block[0]}", *block[1:]]
    if is_short(value) or not isinstance(value, (dict, list)):
        return [f" {write_one_line(value)}"]
    deeper = indent + (style.step if isinstance(value, dict) else style.dash)
    lines = write_map(value, deeper, style) if isinstance(value, dict) else write_list(value, deeper, style)
    return ["", " " * deeper + lines[0], *lines[1:]]


def write_map(value: JsonObject, indent: int, style: YamlStyle = CANONICAL) -> list[str]:
    """The lines of a block map whose keys stand `indent` spaces in; the first line without its indentation."""
    return _joined((write_entry(name, each, indent, style) for name, each in value.items()), indent)


def write_list(value: list[Json], indent: int, style: YamlStyle = CANONICAL) -> list[str]:
    """The lines of a block list whose dashes stand `indent` spaces in; the first line without its indentation."""
    return _joined((write_item(each, indent, style) for each in value), indent)


def write_item(value: Json, indent: int, style: YamlStyle = CANONICAL) -> list[str]:
    """The lines of one list item, from its dash."""
    if isinstance(value, str) and style.has_blocks and (block := write_literal(value, indent + 2)):
        return [f"- {block[0]}", *block[1:]]
    if is_short(value) or not isinstance(value, (dict, list)):
        return [f"- {write_one_line(value)}"]
    inner = write_map(value, indent + 2, style) if isinstance(value, dict) else write_list(value, indent + 2, style)
    return [f"- {inner[0]}", *inner[1:]]


def _joined(blocks: Iterable[list[str]], indent: int) -> list[str]:
    out: list[str] = []
    for block in blocks:
        out += [" " * indent + block[0] if out else block[0], *block[1:]]
    return out
