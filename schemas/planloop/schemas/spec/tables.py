"""All field tables by name, and lookups of fields in them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from planloop.schemas.checks.kinds import CHECK_TABLES
from planloop.schemas.spec.agent import AGENT_TABLES
from planloop.schemas.spec.field import (
    ChangeClass,
    EitherType,
    Field,
    FieldTable,
    FieldType,
    ListType,
    MapType,
    TableType,
)
from planloop.schemas.spec.hook import HOOK_TABLES
from planloop.schemas.spec.mixin import MIXIN_TABLES
from planloop.schemas.spec.plan import MODEL_TABLES, PLAN_TABLES
from planloop.schemas.spec.suite import CALL_TABLES, LOG_TABLES, SUITE_TABLES, WORLD_TABLES
from planloop.schemas.spec.task import BUDGET, CASE, FORK, GRANTED, HEAL, LOCK, TASK

TABLES: Final[Mapping[str, FieldTable]] = MappingProxyType(
    {
        table.name: table
        for table in (
            *PLAN_TABLES,
            *MODEL_TABLES,
            TASK,
            CASE,
            GRANTED,
            HEAL,
            LOCK,
            BUDGET,
            FORK,
            *CHECK_TABLES,
            *AGENT_TABLES,
            *HOOK_TABLES,
            *MIXIN_TABLES,
        )
    }
)

TABLE_BY_NAME: Final[Mapping[str, FieldTable]] = MappingProxyType(
    {**TABLES, **{table.name: table for table in (*SUITE_TABLES, *CALL_TABLES, *LOG_TABLES, *WORLD_TABLES)}},
)
"""`TABLES`, and the tables of suites and simulated worlds, which are not part of a plan."""

# Fields of a compiled spec that come from the structure of the plan, not from one written field.
_DERIVED: Final = {
    "task": {"parent": ChangeClass.NONE, "children": ChangeClass.HOT, "work": ChangeClass.RESTART},
    "agent": {"task": ChangeClass.NONE, "parent": ChangeClass.NONE, "rights": ChangeClass.PREFIX},
    "plan": {},
}


@cache
def fields_by_name(table: str) -> Mapping[str, Field]:
    """Return the fields of a table by name and by alias. Raises KeyError for an unknown table."""
    return {name: field for field in TABLE_BY_NAME[table].fields for name in (field.name, *field.aliases)}


@cache
def change_class(kind: str, field: str) -> ChangeClass:
    """Return the effect that changing `field` has on running work.

    `kind` is an object's kind or a table; `field` is a name of the document (`on-change`) or of the lowered spec
    (`on_change`). An undeclared field is HOT: it is read at the next step.
    """
    derived = _DERIVED.get(kind, {}).get(field)
    if derived is not None:
        return derived
    table = fields_by_name(kind) if kind in TABLES else {}
    if field in table:
        return table[field].change
    for row in table.values():
        if field in row.lowered:
            return row.change
    return ChangeClass.HOT


def find_field(dotted: str) -> tuple[FieldTable, Field | None] | None:
    """Return the table, and the field if any, that `dotted` names: `task.budget.usd`, `acceptance.sh`, `agent`.

    If the first word is not a table, it is looked up as a field of a task, a plan and an agent, in this order. Tables
    that are not part of a plan come last.
    """
    words = [word for word in dotted.replace("/", ".").split(".") if word]
    if not words:
        return None
    if words[0] in TABLES and (len(words) > 1 or words[0] not in fields_by_name("task")):
        return _descend(TABLES[words[0]], words[1:])
    for start in ("task", "plan", "agent"):
        found = _descend(TABLES[start], words)
        if found is not None:
            return found
    return _descend(TABLE_BY_NAME[words[0]], words[1:]) if words[0] in TABLE_BY_NAME else None


def _descend(table: FieldTable, words: list[str]) -> tuple[FieldTable, Field | None] | None:
    field: Field | None = None
    for index, word in enumerate(words):
        field = fields_by_name(table.name).get(word)
        if field is None:
            return None
        if index + 1 < len(words):
            below = table_of_type(field.type)
            if below is None:
                return None
            table = TABLE_BY_NAME[below]
    return table, field


def table_of_type(type_: FieldType) -> str | None:
    """Return the table of the values of this type or of their items; None for plain values."""
    match type_:
        case TableType():
            return type_.name
        case ListType():
            return table_of_type(type_.item)
        case MapType():
            return table_of_type(type_.value)
        case EitherType():
            inner = (table_of_type(each) for each in (type_.map, type_.items) if each is not None)
            return next((name for name in inner if name is not None), None)
        case _:
            return None
