"""Every table by name, and the questions that others ask of them: which field is this, what does changing it do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from planloop.schemas.fields import ChangeClass, Either, Field, FieldTable, FieldType, Keyed, Many, Table
from planloop.schemas.fields_agent import AGENT_TABLES
from planloop.schemas.fields_calls import CALL_TABLES
from planloop.schemas.fields_checks import CHECK_TABLES
from planloop.schemas.fields_fork import FORK
from planloop.schemas.fields_hook import HOOK_TABLES
from planloop.schemas.fields_log import LOG_TABLES
from planloop.schemas.fields_mixin import MIXIN_TABLES
from planloop.schemas.fields_models import MODEL_TABLES
from planloop.schemas.fields_plan import PLAN_TABLES
from planloop.schemas.fields_suite import SUITE_TABLES
from planloop.schemas.fields_task import BUDGET, CASE, GRANTED, HEAL, LOCK, TASK
from planloop.schemas.fields_world import WORLD_TABLES

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

EVERY: Final[Mapping[str, FieldTable]] = MappingProxyType(
    {**TABLES, **{table.name: table for table in (*SUITE_TABLES, *CALL_TABLES, *LOG_TABLES, *WORLD_TABLES)}},
)
"""The tables of suites and of simulated worlds, too, which are no part of a plan."""

# What the tables cannot know: fields of a lowered spec that are made from structure, not from one written field.
_DERIVED: Final = {
    "task": {"parent": ChangeClass.NONE, "children": ChangeClass.HOT, "work": ChangeClass.RESTART},
    "agent": {"task": ChangeClass.NONE, "parent": ChangeClass.NONE, "rights": ChangeClass.PREFIX},
    "plan": {},
}


@cache
def fields_of(table: str) -> Mapping[str, Field]:
    """The fields of a table by name and by alias. Raises KeyError for an unknown table."""
    return {name: field for field in EVERY[table].fields for name in (field.name, *field.aliases)}


@cache
def change_class(kind: str, field: str) -> ChangeClass:
    """What changing `field` does to running work.

    `kind` is an object's kind or a table; `field` is a name of the document (`on-change`) or of the lowered spec
    (`on_change`). A field that nobody declared is HOT: it is read at the next step.
    """
    derived = _DERIVED.get(kind, {}).get(field)
    if derived is not None:
        return derived
    table = fields_of(kind) if kind in TABLES else {}
    if field in table:
        return table[field].change
    for row in table.values():
        if field in row.lowered:
            return row.change
    return ChangeClass.HOT


def find(dotted: str) -> tuple[FieldTable, Field | None] | None:
    """The table, and the field if one is meant, that `dotted` names: `task.budget.usd`, `acceptance.sh`, `agent`.

    A first word that is no table is looked up as a field of a task, a plan and an agent, in this order. Tables that are
    no part of a plan come last.
    """
    words = [word for word in dotted.replace("/", ".").split(".") if word]
    if not words:
        return None
    if words[0] in TABLES and (len(words) > 1 or words[0] not in fields_of("task")):
        return _descend(TABLES[words[0]], words[1:])
    for start in ("task", "plan", "agent"):
        found = _descend(TABLES[start], words)
        if found is not None:
            return found
    return _descend(EVERY[words[0]], words[1:]) if words[0] in EVERY else None


def _descend(table: FieldTable, words: list[str]) -> tuple[FieldTable, Field | None] | None:
    field: Field | None = None
    for index, word in enumerate(words):
        field = fields_of(table.name).get(word)
        if field is None:
            return None
        if index + 1 < len(words):
            below = table_of(field.type)
            if below is None:
                return None
            table = EVERY[below]
    return table, field


def table_of(type_: FieldType) -> str | None:
    """The table that values of this type are, or hold; None for plain values."""
    match type_:
        case Table():
            return type_.name
        case Many():
            return table_of(type_.item)
        case Keyed():
            return table_of(type_.value)
        case Either():
            inner = (table_of(each) for each in (type_.map, type_.items) if each is not None)
            return next((name for name in inner if name is not None), None)
        case _:
            return None
