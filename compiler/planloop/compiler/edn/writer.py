"""Write plain values as EDN text: on one line, or over several with aligned entries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from planloop.schemas.canonical_json import Json, JsonObject

COLUMNS_MAX: Final = 100  # A collection that does not fit is broken, an entry a line.

_KEYWORD: Final = re.compile(r"[A-Za-z*!_?$%&=<>.+-][\w*!?$%&=<>.+#-]*", re.ASCII)
_UNSEEN: Final = re.compile(
    r'["\\]|[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]'
)
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def write_string(text: str) -> str:
    """`text` between quotes; what cannot be seen is escaped."""
    return '"' + _UNSEEN.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}"


def write_key(text: str, namespace: str = "") -> str:
    """`text` as a key: a keyword where that reads back as this very text, else a string."""
    if not _KEYWORD.fullmatch(text):
        return write_string(text)
    return f":{namespace}/{text}" if namespace else f":{text}"


def write_inline(value: Json) -> str:
    """`value` on one line."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case str():
            return write_string(value)
        case dict():
            return "{" + ", ".join(f"{write_key(k)} {write_inline(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + " ".join(write_inline(item) for item in value) + "]"
        case _:
            return repr(value)


def write_entry(written_key: str, value: Json, column: int) -> list[str]:
    """The lines of a map's entry that starts at `column`, its key already spelled."""
    head, *rest = write_lines(value, column + len(written_key) + 1)
    return [f"{written_key} {head}", *rest]


def write_task_form(name: str, task: JsonObject, column: int) -> list[str]:
    """The task with this id as `(task "goal" :field value (task …))`, in lines."""
    head = f"(task {write_string(task['goal'])}" if isinstance(task.get("goal"), str) else "(task"
    fields = {"id": name} | {field: value for field, value in task.items() if field not in ("goal", "tasks")}
    children = task.get("tasks", {})
    blocks = [write_entry(write_key(field), value, column + 2) for field, value in fields.items()]
    blocks += [write_task_form(child, value, column + 2) for child, value in children.items()]
    out = [head, *(" " * (column + 2) * (n == 0) + line for block in blocks for n, line in enumerate(block))]
    out[-1] += ")"
    return out


def write_map(value: JsonObject, column: int, *, namespace: str = "") -> list[str]:
    """A map whose keywords all have `namespace`, broken over lines where it does not fit on one."""
    flat = "{" + ", ".join(f"{write_key(k, namespace)} {write_inline(v)}" for k, v in value.items()) + "}"
    if column + len(flat) <= COLUMNS_MAX and not _is_deep(value):
        return [flat]
    out = join_blocks((write_entry(write_key(k, namespace), v, column + 1) for k, v in value.items()), column + 1)
    return _enclosed("{", out, "}")


def write_lines(value: Json, column: int) -> list[str]:
    """`value` starting at `column`, in lines; the first without its indentation, the others with."""
    if isinstance(value, dict) and value:
        return write_map(value, column)
    flat = write_inline(value)
    if not isinstance(value, list) or not value or column + len(flat) <= COLUMNS_MAX:
        return [flat]
    out = join_blocks((write_lines(item, column + 1) for item in value), column + 1)
    return _enclosed("[", out, "]")


def _is_deep(value: Json) -> bool:
    """Whether `value` is a map of maps: those read better broken, however short."""
    return isinstance(value, dict) and any(isinstance(each, dict) and each for each in value.values())


def _enclosed(opener: str, block: list[str], closer: str) -> list[str]:
    out = [opener + block[0], *block[1:]]
    out[-1] += closer
    return out


def join_blocks(blocks: Iterable[list[str]], column: int) -> list[str]:
    """All lines, with the first line of every block but the first moved to `column`."""
    out: list[str] = []
    for block in blocks:
        out += [" " * column + block[0] if out else block[0], *block[1:]]
    return out
