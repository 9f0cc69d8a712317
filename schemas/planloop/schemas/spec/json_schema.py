"""Generate the JSON Schema (draft-07) of a plan file from the field tables.

It accepts what the compiler accepts as types, shorthands and aliases included; what needs the whole plan (references,
rights, budgets) only the compiler can check. The generated file is `schemas/planloop/schemas/json/plan.schema.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.spec.field import (
    SETTING_PATTERN,
    EitherType,
    Field,
    FieldType,
    ListType,
    MapType,
    ScalarKind,
    ScalarType,
    TableType,
)
from planloop.schemas.spec.tables import TABLES, fields_by_name

# Letters are ASCII to the `\w` of editors, so the others are spelled out, a little more than the compiler takes.
ID_PATTERN: Final = r"^[0-9A-Za-z_\u0080-\uffff][0-9A-Za-z_.\u0080-\uffff-]{0,63}$"
_PLAIN: Final[Mapping[ScalarKind, JsonObject]] = {
    "text": {"type": "string"},
    "word": {"type": "string"},
    "id": {"type": "string", "pattern": ID_PATTERN},
    "pattern": {"type": "string"},
    "loose": {"type": ["string", "integer"]},
    "flag": {"type": "boolean"},
    "any": {},
}
_NUMBERS: Final[Mapping[ScalarKind, tuple[str, str]]] = {
    # The type of the canonical value, and what it may be written as in text, if it may.
    "integer": ("integer", ""),
    "number": ("number", ""),
    "count": ("integer", r"^\d+(\.\d+)?\s*[kKmMgGbB]?$"),
    "duration": ("number", f"^{quantities.DURATION_PATTERN}$"),
    "size": ("integer", f"^{quantities.SIZE_PATTERN}$"),
    "money": ("number", r"^\$?\d+(\.\d+)?$"),
}
_SETTING: Final[JsonObject] = {"type": "string", "pattern": f"^{SETTING_PATTERN}$"}
_ID: Final[JsonObject] = {"type": "string", "pattern": ID_PATTERN, "description": "The id, unique among its siblings."}


def plan_schema() -> JsonObject:
    """The whole schema. Equal tables give equal schemas, key for key."""
    listed = sorted({name for type_ in _all_types() if (name := _listed_table(type_))})
    definitions = {name: _table(name) for name in sorted(TABLES) if name != "plan"}
    definitions |= {f"{name}-item": _item(name) for name in listed}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "planloop plan",
        **_table("plan"),
        "definitions": definitions,
    }


def _all_types() -> list[FieldType]:
    return [each for table in TABLES.values() for row in table.fields for each in _parts(row.type)]


def _parts(type_: FieldType) -> list[FieldType]:
    match type_:
        case ListType():
            return [type_, *_parts(type_.item)]
        case MapType():
            return [type_, *_parts(type_.value)]
        case EitherType():
            inner = [each for each in (type_.plain, type_.items, type_.map) if each is not None]
            return [type_, *(part for each in inner for part in _parts(each))]
        case _:
            return [type_]


def _listed_table(type_: FieldType) -> str:
    """The table of a map by id that may also be written as a list of maps with ids; empty for other types."""
    if isinstance(type_, MapType) and type_.is_id and isinstance(type_.value, TableType):
        return type_.value.name
    return ""


def _table(name: str) -> JsonObject:
    properties = {spelled: _field(row) for spelled, row in fields_by_name(name).items()}
    out: JsonObject = {
        "description": TABLES[name].doc,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    groups = [_exactly_one(name, group) for group in TABLES[name].one_of]
    return {**out, "allOf": groups} if groups else out


def _exactly_one(table: str, group: tuple[str, ...]) -> JsonObject:
    spelled = [name for name, row in fields_by_name(table).items() if row.name in group]
    return {"oneOf": [{"required": [name]} for name in spelled]}


def _item(name: str) -> JsonObject:
    """A map of the table where it stands in a list, carrying its id."""
    table = _table(name)
    return {**table, "properties": {"id": _ID, "name": _ID, **table["properties"]}}


def _field(row: Field) -> JsonObject:
    out: JsonObject = {"description": row.doc}
    if row.default is not None:
        out["default"] = row.default
    # Draft-07 ignores the keys next to `$ref`, so the reference goes into an `allOf` of one.
    type_ = _type(row.type)
    return {**out, "examples": [row.example], **({"allOf": [type_]} if "$ref" in type_ else type_)}


def _type(type_: FieldType) -> JsonObject:
    match type_:
        case ScalarType():
            return _scalar(type_)
        case ListType():
            item = _type(type_.item)
            return item if item == {} else {"anyOf": [{"type": "array", "items": item}, item]}
        case MapType():
            return _keyed(type_)
        case TableType():
            reference: JsonObject = {"$ref": f"#/definitions/{type_.name}" if type_.name != "plan" else "#"}
            short = _type(fields_by_name(type_.name)[type_.short].type) if type_.short else None
            return {"anyOf": [reference, short]} if short is not None else reference
        case EitherType():
            return {"anyOf": [_type(each) for each in (type_.plain, type_.items, type_.map) if each is not None]}


def _keyed(type_: MapType) -> JsonObject:
    out: JsonObject = {"type": "object", "additionalProperties": _type(type_.value)}
    if type_.is_id:
        out["propertyNames"] = {"pattern": ID_PATTERN}
    listed = _listed_table(type_)
    if not listed:
        return out
    return {"anyOf": [out, {"type": "array", "items": {"$ref": f"#/definitions/{listed}-item"}}]}


def _scalar(type_: ScalarType) -> JsonObject:
    if type_.settable:
        fixed = _scalar(replace(type_, settable=False))
        return fixed if fixed.get("type") == "string" else {"anyOf": [fixed, _SETTING]}
    if type_.choices:
        return {"enum": list(type_.choices)}
    if type_.kind in _PLAIN:
        return _PLAIN[type_.kind]
    name, pattern = _NUMBERS[type_.kind]
    number: JsonObject = {"type": name} | ({} if type_.minimum is None else {"minimum": type_.minimum})
    return {"anyOf": [number, {"type": "string", "pattern": pattern}]} if pattern else number
