"""What `plan explain` says of fields, of error codes, and of who set a value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from compiler import codes
from planloop.rendering import printing, records
from schemas import fields_all
from schemas.encoding import Json, JsonObject
from schemas.fields import Either, Field, FieldTable, FieldType, Keyed, Many, Scalar, Table

CODE: Final = re.compile(r"[pP]\d{4}")
CHANGES: Final = {
    "hot": "counts from the next step on; nothing is restarted",
    "tail": "the running agent is told as a message and goes on",
    "prefix": "counts from the agent's next turn on",
    "restart": "what runs is stopped and begun again",
    "replace": "the old object goes and a new one comes",
    "immutable": "refused while the plan lives",
    "none": "nothing that runs reads it",
}


def is_code(text: str) -> bool:
    """Whether `text` looks like an error code."""
    return CODE.fullmatch(text) is not None


def code(name: str) -> str | None:
    """The page of an error code, None for one that there is not."""
    title = codes.CODES.get(name)
    if title is None:
        return None
    page = _page(name)
    return page if page is not None else f"{name}: {title}"


def _page(name: str) -> str | None:
    # In the wheel the pages lie inside the package; in a checkout they are docs/errors.
    inside = files("planloop").joinpath("errors", f"{name}.md")
    beside = Path(__file__).parents[2] / "docs" / "errors" / f"{name}.md"
    for place in (inside, beside):
        if place.is_file():
            return place.read_text().rstrip()
    return None


def index() -> str:
    """Every table with the names of its fields."""
    lines = []
    for table in fields_all.TABLES.values():
        names = ", ".join(one.name for one in table.fields)
        lines.append(f"{table.name}: {table.doc}\n    {names}")
    return "\n".join(lines)


def field(dotted: str) -> str | None:
    """The documentation of a field or of a whole table; None when there is none of that name."""
    found = fields_all.find(dotted)
    if found is None:
        return None
    table, one = found
    return _table(table) if one is None else _field(table, one)


def nearest(text: str) -> str:
    """Words that name what is spelled most alike."""
    names = sorted({one.name for table in fields_all.TABLES.values() for one in table.fields} | set(codes.CODES))
    close = difflib.get_close_matches(text.rpartition(".")[2], names, n=1)
    return f"did you mean {close[0]}?" if close else "plan explain lists the fields"


def why(answer: JsonObject) -> str:
    """Who set a value: the value first, then the revision, its author, its reason, and what it took the place of."""
    lines = [_shown(answer["value"])]
    where = f" ({answer['file']})" if answer["by"] == "human:file" and answer.get("file") else ""
    over = ""
    if answer["had_before"]:
        by = f" of rev {answer['over']['rev']}, by {answer['over']['by']}" if answer.get("over") else ""
        over = f", over {_shown(answer['before'])}{by}"
    at = records.clock_time(answer["at"])
    lines.append(f"  set in rev {answer['rev']} by {answer['by']}{where} at {at}{over}")
    if answer["reason"]:
        lines.append(f"  reason: {answer['reason']}")
    lines.append(f"  open to agents: {'yes' if answer['open'] else 'no'}")
    return "\n".join(lines)


def _shown(value: Json) -> str:
    text = f'"{value}"' if isinstance(value, str) else printing.as_json(value)
    return text if len(text) <= 400 else text[:400] + " …"


def _table(table: FieldTable) -> str:
    width = max(len(one.name) for one in table.fields)
    rows = [f"  {one.name:<{width}}  {one.doc.partition('. ')[0]}" for one in table.fields]
    return "\n".join([f"{table.name}: {table.doc}", "", *rows])


def _field(table: FieldTable, one: Field) -> str:
    lines = [f"{table.name}.{one.name}   {type_words(one.type)}", "", one.doc, ""]
    if one.default is not None:
        lines.append(f"default   {printing.as_json(one.default)}")
    if one.aliases:
        lines.append(f"also      {', '.join(one.aliases)}")
    lines.append(f"editing   {one.change}: {CHANGES[str(one.change)]}")
    lines += ["example", *_example(one)]
    below = fields_all.table_of(one.type)
    if below is not None:
        lines += ["", f"inside    plan explain {below}"]
    return "\n".join(lines)


def _example(one: Field) -> Iterator[str]:
    yield from (f"    {line}" for line in printing.as_yaml({one.name: one.example}).splitlines())


def type_words(type_: FieldType) -> str:
    """`text`, `list of text`, `map of task`, `text or list of text`."""
    match type_:
        case Scalar():
            return " | ".join(type_.choices) if type_.choices else type_.kind
        case Many():
            return f"list of {type_words(type_.item)}"
        case Keyed():
            return f"map of {type_words(type_.value)} by {'id' if type_.is_id else 'name'}"
        case Table():
            return type_.name
        case Either():
            ways = [way for way in (type_.plain, type_.items, type_.map) if way is not None]
            return " or ".join(type_words(way) for way in ways)
