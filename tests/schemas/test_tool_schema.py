"""Schemas of tools in the form that OpenAI, Anthropic and Gemini accept, whatever a server publishes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import limits
from planloop.schemas.tool_schema import drop_non_finite, rename_properties, to_accepted_schema
from tests import rows

NAN, INF = float("nan"), float("inf")
AT_TOP = {"anyOf", "oneOf", "allOf", "enum", "not", "$ref", "$defs", "definitions"}
TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}


def rejected(schema: Any) -> list[str]:
    """Why a provider would reject a request with `schema` as a tool's parameters."""
    found = [f"{word} at the top" for word in AT_TOP & schema.keys()]
    found += [] if schema.get("type") == "object" else ["the top is not an object"]
    found += [] if isinstance(schema.get("properties"), dict) else ["object schema missing properties"]
    jsonschema.Draft202012Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False).encode()
    return [*found, *_wrong(schema)]


def _wrong(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{schema!r} is not an object"
        return
    kind, branches = schema.get("type"), schema.get("anyOf")
    if branches is None and (not isinstance(kind, str) or kind not in TYPES):
        yield f"the type is {kind!r}"
    if kind == "array" and "items" not in schema:
        yield "array schema missing items"
    if kind == "object" and not isinstance(schema.get("properties"), dict):
        yield "object schema missing properties"
    if "enum" in schema and not (kind == "string" and all(schema["enum"])):
        yield "an enum of others than texts"
    if {"$ref", "oneOf", "allOf", "not", "const"} & schema.keys():
        yield f"a keyword that Gemini does not know in {sorted(schema)}"
    inner = [*(branches or ()), *(schema.get("properties") or {}).values()]
    inner += [schema[word] for word in ("items",) if word in schema]
    for each in inner:
        yield from _wrong(each)


def of_property(schema: Any, **beside: Any) -> Any:
    """What becomes of a property with this schema."""
    return to_accepted_schema({"type": "object", "properties": {"x": schema}, **beside})["properties"]["x"]


@rows.each(
    "schema",
    [
        *(
            {},
            None,
            True,
            [],
            "object",
            {"type": "string"},
            {"type": ["object", "null"]},
            {"type": "array", "items": {}},
        ),
        {"type": "object"},
        {"type": "object", "properties": None, "required": None},
        {"type": "object", "properties": []},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"x": {"$ref": "#/$defs/B"}}}, "B": {}}},
        {"$ref": "#"},
        {"$ref": "http://127.0.0.1/x"},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/L"}}, "$defs": {"L": {"$ref": "#/$defs/L"}}},
        {"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "integer"}}}, False]},
        {"type": "object", "properties": {"x": {"type": "number", "maximum": INF, "default": NAN, "enum": [NAN, 1.5]}}},
        {"type": "object", "properties": {"x": {"type": "number", "exclusiveMinimum": True, "minimum": 0}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}}},
        {"type": "object", "properties": {"x": {"type": "array"}, "y": {"type": "float"}, "z": {"type": "any"}}},
        {"type": "object", "properties": {"x": {"enum": ["", "a"]}, "y": {"enum": []}, "z": {"const": None}}},
        {"type": "object", "properties": {"x": {"type": "string", "minLength": "3", "pattern": 7, "required": True}}},
        {
            "type": "object",
            "properties": {"x": {"not": {"type": "string"}}, "y": {"if": {}, "then": {"required": ["y"]}}},
        },
    ],
)
def test_every_provider_accepts_what_becomes_of_a_schema(schema: Any) -> None:
    assert rejected(to_accepted_schema(schema)) == []


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.sampled_from(["object", "a", "#/$defs/a"])
)
_WORDS = st.sampled_from([
    *("type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "enum", "const", "$ref", "$defs", "a"),
    *("minLength", "maximum", "default", "format", "additionalProperties", "prefixItems", "then", "description"),
])  # fmt: skip
_JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=5), max_leaves=12
)


@given(_JSON)
def test_no_json_becomes_a_schema_that_a_provider_rejects(schema: Any) -> None:
    assert rejected(to_accepted_schema(schema)) == []


def test_a_plain_schema_stays_as_it_is() -> None:
    plain = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "depth": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "map": {"type": "object", "properties": {}, "additionalProperties": {"type": "number"}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert to_accepted_schema(plain) == plain


def test_branches_at_the_top_become_one_object_that_requires_what_all_of_them_do() -> None:
    by_id = {"properties": {"id": {"type": "string"}, "at": {"type": "string"}}, "required": ["id", "at"]}
    by_name = {"properties": {"name": {"type": "string"}, "at": {"type": "string"}}, "required": ["name", "at"]}
    made = to_accepted_schema({"type": "object", "oneOf": [by_id, by_name]})

    assert [*made["properties"]] == ["id", "at", "name"]
    assert made["required"] == ["at"]
    assert "`id`, `at`" in made["description"]


def test_the_parts_of_an_object_are_joined() -> None:
    base = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    made = to_accepted_schema(
        {"allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"n": {"type": "integer"}}}], "$defs": {"Base": base}}
    )

    assert made == {
        "type": "object",
        "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["q"],
    }


def test_a_list_of_types_becomes_one_schema_for_each() -> None:
    assert of_property({"type": ["string", "null"], "minLength": 1}) == {
        "anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]
    }
    assert of_property({"type": ["integer"]}) == {"type": "integer"}


def test_a_schema_that_contains_itself_is_shown_once() -> None:
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    made = of_property({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": node}})

    assert made["properties"]["kids"]["items"] == {"type": "object", "properties": {}}


def test_constraint_outside_the_subset_is_described() -> None:
    assert of_property({"enum": [1, 2]}) == {"type": "integer", "description": "One of 1, 2."}
    assert of_property({"type": "string", "format": "uri", "description": "Where."}) == {
        "type": "string",
        "description": "Where. Format: uri.",
    }


def test_references_that_multiply_stay_within_the_size_of_a_tool() -> None:
    defs: dict[str, Any] = {
        f"D{depth}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/D{depth + 1}"} for name in "abcdefgh"}}
        for depth in range(12)
    }
    made = to_accepted_schema({"type": "object", "properties": {"x": {"$ref": "#/$defs/D0"}}, "$defs": defs})

    assert len(json.dumps(made)) <= limits.SERVER_OFFER_BYTES_MAX
    assert rejected(made) == []


def test_names_that_anthropic_rejects_are_replaced_and_found_again() -> None:
    long = "n" * 70
    names = ["$filter", "_filter", "filter[name]", "schön", "plain", long, ""]
    parameters = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": ["$filter"]}
    renamed, originals = rename_properties(parameters)

    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in renamed["properties"])
    assert len(renamed["properties"]) == len(names)
    assert [originals.get(name, name) for name in renamed["properties"]] == names
    assert [originals[name] for name in renamed["required"]] == ["$filter"]


def test_names_that_the_plan_uses_stay() -> None:
    parameters = {"type": "object", "properties": {"$path": {"type": "string"}}}

    assert rename_properties(parameters, ("$path",)) == (parameters, {})


def test_numbers_outside_json_are_left_out() -> None:
    assert drop_non_finite({"a": INF, "b": [NAN, 1, {"c": -INF}]}) == {"b": [1, {}]}
