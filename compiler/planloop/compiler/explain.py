"""`plan explain`: fields, error codes, hook rules, library names, and where a value came from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from planloop.compiler.error_advice import PLAN_ADVICE, READING_ADVICE, RIGHTS_ADVICE, SUITE_ADVICE, Advice
from planloop.compiler.error_codes import CODES, STOPS_APPLY
from planloop.compiler.graph import Graph, Sources
from planloop.compiler.names import did_you_mean
from planloop.compiler.problems import DeclaredAt
from planloop.compiler.read import format_yaml
from planloop.compiler.resolve.symbols import FOLDERS
from planloop.schemas.rules.language import CONDITIONS, EFFECTS, NUMBER_TESTS, RULE_PLACEHOLDERS, TEXT_TESTS
from planloop.schemas.spec.field import (
    ChangeClass,
    EitherType,
    Field,
    FieldTable,
    FieldType,
    ListType,
    MapType,
    ScalarType,
    TableType,
)
from planloop.schemas.spec.tables import TABLE_BY_NAME, TABLES, find_field, table_of_type
from planloop.schemas.tools import TOOLS

# The page on each diagnostic code: printed by `plan explain P0203`, generated into `docs/reference/errors/`.
#
# Compiling imports none of this; only explaining and the docs do. A test compiles the examples: each wrong one gives
# its code, each right one does not.


def all_advice() -> Mapping[str, Advice]:
    """The advice on every code."""
    return {**READING_ADVICE, **PLAN_ADVICE, **RIGHTS_ADVICE, **SUITE_ADVICE}


def error_page(code: str) -> str | None:
    """The page on `code` as Markdown, None for an unknown code."""
    known = all_advice().get(code)
    if known is None:
        return None
    parts = [f"# {code}: {CODES[code]}", known.why, known.cure]
    if code in STOPS_APPLY:
        parts.append("`plan validate` and `plan diff` print it as a warning. `plan apply` does not start such a plan.")
    if known.wrong:
        parts += ["Wrong:", _block(known.wrong)]
    if known.right:
        parts += ["Right:", _block(known.right)]
    return "\n\n".join(parts) + "\n"


def example_format(text: str) -> str:
    """`edn` or `yaml`, by how an example begins."""
    return "edn" if text.lstrip().startswith(("{:", "(", ";")) else "yaml"


def _block(text: str) -> str:
    return f"```{example_format(text)}\n{text.strip()}\n```"


# `plan explain rule`: the language of rules, as its tables have it.

RULE_TOPICS: Final = frozenset({"rule", "rules", "clause", "when"})

_WIDTH: Final = 110
_EXAMPLE: Final = """\
rule:
  - when: {call: "shell(git push*)", not: {arguments: {command: {contains: --dry-run}}}}
    deny: Leave pushing to people."""


def rules_page() -> str:
    """Every word that a rule may say, with what it means."""
    lines = [
        "rule",
        "A list of clauses, read from the top. Each clause whose `when` matches has its effects. The first clause that "
        "decides is the last one read.",
        "",
        *_table("Fields of a clause:", {"when": "The condition. By default the clause always matches.", **EFFECTS}),
        *_table("Conditions in `when`; all must be true:", CONDITIONS),
        f"A test is a value, a list with one equal value, or a map. Tests for numbers: {' '.join(NUMBER_TESTS)}.",
        "",
        *_table("More tests for texts and arguments:", TEXT_TESTS),
        *_table("Placeholders in texts for the agent, as in `{tool}`:", RULE_PLACEHOLDERS),
        "Example:",
        textwrap.indent(_EXAMPLE, "  "),
    ]
    return "\n".join(lines)


def _table(head: str, words: Mapping[str, str]) -> Iterator[str]:
    yield head
    wide = max(map(len, words)) + 4
    for name, text in words.items():
        yield textwrap.fill(text, _WIDTH, initial_indent=f"  {name:<{wide - 2}}", subsequent_indent=" " * wide)
    yield ""


# Pages of `plan explain` on the library that ships with the product: what a `lib:name` is, as it is written.

LIBRARY: Final = "lib:"


def library_page(topic: str, sources: Sources) -> str | None:
    """The texts that `lib:name` may mean, one for each shelf that has it; of `lib:` every name. None if unknown."""
    if topic == LIBRARY:
        shelves = ((folder, (LIBRARY + name for name in sources.names(folder))) for folder in FOLDERS.values())
        return "\n".join(f"{folder}: {', '.join(names)}" for folder, names in shelves)
    if not topic.startswith(LIBRARY):
        return None
    return "\n\n".join(_texts(topic.removeprefix(LIBRARY), sources)) or None


def suggest_library_topic(topic: str, sources: Sources) -> str:
    """A hint for a topic that there is not but in the library, or nearly; empty when it has nothing like it."""
    names = dict.fromkeys(f"{LIBRARY}{name}" for folder in FOLDERS.values() for name in sources.names(folder))
    if f"{LIBRARY}{topic}" in names:
        return f"plan explain {LIBRARY}{topic}"
    return did_you_mean(topic, names) if topic.startswith(LIBRARY) else ""


def _texts(name: str, sources: Sources) -> Iterator[str]:
    for shelf, folder in FOLDERS.items():
        if name in sources.names(folder):
            path = f"{LIBRARY}{folder}/{name}{'.md' if shelf == 'prompts' else '.yaml'}"
            yield f"{LIBRARY}{name}, a {folder[:-1]} of the library:\n\n{sources.read(path).decode().rstrip()}"


# `plan explain`: what a field means, what a code means, and which prototype, mixin or line a value came from.

CHANGES: Final = {
    ChangeClass.HOT: "takes effect at the next step; running work continues",
    ChangeClass.TAIL: "sent to the running agent as a message",
    ChangeClass.PREFIX: "takes effect at the agent's next turn",
    ChangeClass.RESTART: "restarts the work",
    ChangeClass.REPLACE: "stops and removes the running one, and starts a new one",
    ChangeClass.IMMUTABLE: "is rejected while the plan exists",
    ChangeClass.NONE: "does not affect running work",
}
_KINDS: Final = {
    "text": "text",
    "word": "a name",
    "id": "a name of at most 64 letters, digits, `-`, `_` and `.`",
    "pattern": "a name or pattern",
    "flag": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "count": "a whole number, such as 5000, 200k or 2M",
    "duration": "a duration, such as 90s, 10m or 1h30m; a plain number is seconds",
    "size": "a size: 512MB (powers of 1,000), 512MiB (powers of 1,024), 512m (MiB, as in Docker) or bytes",
    "money": "an amount in dollars, such as 20 or 4.50",
    "loose": "text or a whole number",
    "any": "anything",
}


def explain_topic(topic: str) -> str | None:
    """The page on a code (`P0203`), a table (`task`) or a field (`task.budget.usd`, `acceptance`); None if unknown."""
    if topic[:1] in "Pp" and topic[1:].isdigit():
        return error_page(topic.upper())
    if topic in RULE_TOPICS:
        return rules_page()
    found = find_field(topic)
    if found is None:
        return None
    table, field = found
    return _of_table(table) if field is None else _of_field(table, field)


def suggest_topic(topic: str) -> str:
    """A hint for a topic that `explain` does not know."""
    last = topic.replace("/", ".").rpartition(".")[2]
    if topic in TOOLS:
        return f"`{topic}` is a tool: plan explain tools"
    exact = _fields_called(last, TABLES.values()) or _fields_called(last, TABLE_BY_NAME.values())
    if exact:
        return " · ".join(f"plan explain {one}" for one in exact)
    return did_you_mean(last, [*TABLE_BY_NAME, *(row.name for table in TABLE_BY_NAME.values() for row in table.fields)])


def _fields_called(name: str, tables: Iterable[FieldTable]) -> list[str]:
    return [f"{table.name}.{row.name}" for table in tables for row in table.fields if row.name == name]


def field_provenance(graph: Graph, address: str, field: str) -> str | None:
    """Return the origin of a field of an agent or hook; None if it has no origin.

    `address` may be the task's, the agent's or the hook's; `field` is the document's name of the field.
    """
    path = address.partition("/")[2] if "/" in address else address
    words = graph.provenance.get(f"{address}#{field}" if address.startswith("hook/") else f"agent/{path}#{field}")
    place = words.at(field) if isinstance(words, DeclaredAt) else ""
    return f"{words} ({place})" if place else words


def _of_table(table: FieldTable) -> str:
    width = max(len(row.name) for row in table.fields)
    rows = "\n".join(f"  {row.name:<{width}}  {row.doc}" for row in table.fields)
    return f"{table.name}\n{table.doc}\n\nFields:\n{rows}\n"


def _of_field(table: FieldTable, field: Field) -> str:
    lines = [f"{table.name}.{field.name}", field.doc, "", f"type      {describe_type(field.type)}"]
    if field.aliases:
        lines.append(f"alias     {', '.join(field.aliases)}")
    if field.default is not None:
        lines.append(f"default   {_plain(field.default)}")
    if table.name in TABLES:  # Nothing else is changed while it runs.
        lines.append(f"on edit   {CHANGES[field.change]}")
    example = format_yaml({field.name: field.example}).strip()
    lines += ["example   " + example.replace("\n", "\n          ")]
    below = table_of_type(field.type)
    if below is not None and below != table.name:
        lines += ["", _of_table(TABLE_BY_NAME[below]).rstrip()]
    elif field.name in ("tools", "deny"):
        lines += ["", "Tools:", *(f"  {tool.name:<11} {tool.doc}" for tool in TOOLS.values())]
    return "\n".join(lines) + "\n"


def describe_type(type_: FieldType) -> str:
    """A type in words."""
    match type_:
        case ScalarType():
            return " | ".join(type_.choices) if type_.choices else _KINDS[type_.kind]
        case ListType():
            return f"{describe_type(type_.item)}; or a list of these"
        case MapType():
            return f"a map from {'id' if type_.is_id else 'name'} to {describe_type(type_.value)}"
        case TableType():
            return f"a `{type_.name}` map" + (f", or only its `{type_.short}`" if type_.short else "")
        case EitherType():
            parts = [describe_type(each) for each in (type_.plain, type_.map) if each is not None]
            if type_.items is not None:
                item = type_.items.item
                parts.append(
                    f"a list of {f'`{item.name}` maps' if isinstance(item, TableType) else describe_type(item)}"
                )
            return ", or ".join(parts)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
