"""What `plan explain` adds to the compiler's own pages: the list of fields, and who set a value and why."""

from __future__ import annotations

from planloop.rendering import printing, records
from schemas import fields_all
from schemas.encoding import Json, JsonObject


def index() -> str:
    """Every table with the names of its fields."""
    lines = []
    for table in fields_all.TABLES.values():
        names = ", ".join(one.name for one in table.fields)
        lines.append(f"{table.name}: {table.doc}\n    {names}")
    return "\n".join(lines)


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
