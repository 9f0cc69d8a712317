"""`plan explain`: what a field means, what a code means, and which prototype, mixin or line a value came from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planloop.compiler import rule_words
from planloop.compiler.declared_at import Words
from planloop.compiler.error_pages import page
from planloop.compiler.formatting import to_yaml
from planloop.compiler.graph import Graph
from planloop.compiler.suggesting import did_you_mean
from planloop.schemas.fields import ChangeClass, Either, Field, FieldTable, FieldType, Keyed, Many, Scalar, Table
from planloop.schemas.fields_all import EVERY, TABLES, find, table_of
from planloop.schemas.tools import TOOLS

CHANGES: Final = {
    ChangeClass.HOT: "used from the next step on; what runs goes on",
    ChangeClass.TAIL: "told to the running agent as a message",
    ChangeClass.PREFIX: "used from the agent's next turn on",
    ChangeClass.RESTART: "starts the work over",
    ChangeClass.REPLACE: "what runs is stopped and removed, and a new one is started",
    ChangeClass.IMMUTABLE: "refused while the plan lives",
    ChangeClass.NONE: "touches nothing that runs",
}
_KINDS: Final = {
    "text": "text",
    "word": "a name",
    "id": "a name of letters, digits, `-`, `_` and `.`, at most 64",
    "pattern": "a name or pattern",
    "flag": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "count": "a count: 5000, 200k, 2M",
    "duration": "a time: 90s, 10m, 1h30m; kept in seconds",
    "size": "a size: 512MB (1,000s), 512MiB (1,024s) or 512m (MiB, as in docker); kept in bytes",
    "money": "an amount: 20, 4.50",
    "loose": "text or a whole number",
    "any": "anything",
}


def explain(topic: str) -> str | None:
    """The page on a code (`P0203`), a table (`task`) or a field (`task.budget.usd`, `acceptance`); None if unknown."""
    if topic[:1] in "Pp" and topic[1:].isdigit():
        return page(topic.upper())
    if topic in rule_words.TOPICS:
        return rule_words.page()
    found = find(topic)
    if found is None:
        return None
    table, field = found
    return _of_table(table) if field is None else _of_field(table, field)


def suggestion(topic: str) -> str:
    """A hint for a topic that `explain` does not know."""
    last = topic.replace("/", ".").rpartition(".")[2]
    if topic in TOOLS:
        return f"`{topic}` is a tool: plan explain tools"
    exact = _fields_called(last, TABLES.values()) or _fields_called(last, EVERY.values())
    if exact:
        return " · ".join(f"plan explain {one}" for one in exact)
    return did_you_mean(last, [*EVERY, *(row.name for table in EVERY.values() for row in table.fields)])


def _fields_called(name: str, tables: Iterable[FieldTable]) -> list[str]:
    return [f"{table.name}.{row.name}" for table in tables for row in table.fields if row.name == name]


def provenance(graph: Graph, address: str, field: str) -> str | None:
    """The words that say where a field of an agent or a hook came from; None when it is nobody's.

    `address` may be the task's, the agent's or the hook's; `field` is the document's name of the field.
    """
    path = address.partition("/")[2] if "/" in address else address
    words = graph.provenance.get(f"{address}#{field}" if address.startswith("hook/") else f"agent/{path}#{field}")
    place = words.at(field) if isinstance(words, Words) else ""
    return f"{words} ({place})" if place else words


def _of_table(table: FieldTable) -> str:
    width = max(len(row.name) for row in table.fields)
    rows = "\n".join(f"  {row.name:<{width}}  {row.doc}" for row in table.fields)
    return f"{table.name}\n{table.doc}\n\nFields:\n{rows}\n"


def _of_field(table: FieldTable, field: Field) -> str:
    lines = [f"{table.name}.{field.name}", field.doc, "", f"type      {type_words(field.type)}"]
    if field.aliases:
        lines.append(f"also      {', '.join(field.aliases)}")
    if field.default is not None:
        lines.append(f"default   {_plain(field.default)}")
    if table.name in TABLES:  # Nothing else is changed while it runs.
        lines.append(f"changing  {CHANGES[field.change]}")
    example = to_yaml({field.name: field.example}).strip()
    lines += ["example   " + example.replace("\n", "\n          ")]
    below = table_of(field.type)
    if below is not None and below != table.name:
        lines += ["", _of_table(EVERY[below]).rstrip()]
    elif field.name in ("tools", "deny"):
        lines += ["", "Tools:", *(f"  {tool.name:<11} {tool.doc}" for tool in TOOLS.values())]
    return "\n".join(lines) + "\n"


def type_words(type_: FieldType) -> str:
    """A type in words."""
    match type_:
        case Scalar():
            return " | ".join(type_.choices) if type_.choices else _KINDS[type_.kind]
        case Many():
            return f"a list, or one, of: {type_words(type_.item)}"
        case Keyed():
            return f"a map by {'id' if type_.is_id else 'name'} of: {type_words(type_.value)}"
        case Table():
            return f"a map ({type_.name})" + (f", or just its `{type_.short}`" if type_.short else "")
        case Either():
            parts = [type_words(each) for each in (type_.plain, type_.map) if each is not None]
            parts += [f"a list of: {type_words(type_.items.item)}"] if type_.items is not None else []
            return ", or ".join(parts)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
