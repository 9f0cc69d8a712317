"""Pages of `plan explain`: the list of fields, and who set a value and why."""

from __future__ import annotations

from planloop.client.render import printer, records
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.log.patch import describe_author
from planloop.schemas.spec import tables


def field_index() -> str:
    """Every table of a plan with the names of its fields, and the names of the others."""
    lines = []
    for table in tables.TABLES.values():
        names = ", ".join(one.name for one in table.fields)
        lines.append(f"{table.name}: {table.doc}\n    {names}")
    others = ", ".join(name for name in tables.TABLE_BY_NAME if name not in tables.TABLES)
    return "\n".join([*lines, f"no part of a plan, but of benchmark suites and their worlds:\n    {others}"])


def value_origin(answer: JsonObject) -> str:
    """Who set a value: the value first, then the revision, its author, its reason, and what it took the place of."""
    lines = [_shown(answer["value"])]
    where = f" ({answer['file']})" if answer["by"] == "human:file" and answer.get("file") else ""
    over = ""
    if answer["had_before"]:
        by = (
            f" of rev {answer['over']['rev']}, by {describe_author(answer['over']['by'])}" if answer.get("over") else ""
        )
        over = f", over {_shown(answer['before'])}{by}"
    at = records.clock_time(answer["at"])
    lines.append(f"  set in rev {answer['rev']} by {describe_author(answer['by'])}{where} at {at}{over}")
    if answer["reason"]:
        lines.append(f"  reason: {answer['reason']}")
    lines.append(f"  open to agents: {'yes' if answer['open'] else 'no'}")
    return "\n".join(lines)


def definition_text(values: JsonObject, source: str | None) -> str:
    """What an agent came to have, and the prototype, mixin or line it is from; None: nobody states it."""
    lines = [_listed(value) for value in values.values() if value or len(values) == 1]
    where = (
        f"from {source}" if source else "stated nowhere on its own: from the agents above it, its tier, or by default"
    )
    return "\n".join([*lines, f"  {where}"])


def _listed(value: Json) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return _shown(value)


def _shown(value: Json) -> str:
    text = f'"{value}"' if isinstance(value, str) else printer.as_json(value)
    return text if len(text) <= 400 else text[:400] + " …"
