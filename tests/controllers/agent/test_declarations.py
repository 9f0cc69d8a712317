"""Tool descriptions for models: the schemas of their arguments, short and correct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.hooks import hook_from_fields
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import InvalidToolArguments, validate_arguments
from planloop.controllers.agent.turn.prompt import declare_tool
from tests import rows
from tests.golden_text import said
from tests.product import encode

ALL_BYTES_MAX = 19 << 10
"""Of all built-in tools together: about 4,300 tokens, which every request of an agent that has them all begins with."""

UNREAD_WORDS = {"title", "minLength", "maxLength", "minItems", "maxItems", "exclusiveMinimum"}


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from _schemas(inner)
    if isinstance(schema.get("items"), dict):
        yield from _schemas(schema["items"])


def _parameters(name: str) -> dict[str, Any]:
    found = declare_tool(BUILT_IN_TOOLS[name])["function"]["parameters"]
    assert isinstance(found, dict)
    return found


@rows.each("name", BUILT_IN_TOOLS)
def test_schema_of_a_tool_holds_only_what_a_model_needs(name: str) -> None:
    for schema in _schemas(_parameters(name)):
        assert not UNREAD_WORDS & schema.keys()
        assert schema.get("default", "some") not in (None, "", False, [])
        assert schema.get("additionalProperties", "some") not in (True, False)
        assert {"type": "null"} not in schema.get("anyOf", ())


def test_schema_of_an_optional_argument_is_its_type_alone() -> None:
    hook = _parameters("hook")
    assert hook["required"] == ["name"] and "additionalProperties" not in hook
    assert hook["properties"]["match"]["type"] == "string"
    assert hook["properties"]["rule"]["items"] == {"type": "object"}


def test_null_is_read_as_omitted_and_a_wrong_type_is_reported() -> None:
    assert validate_arguments(BUILT_IN_TOOLS["hook"].function, {"name": "x", "match": None}) == {
        "name": "x",
        "reason": "",
    }
    with pytest.raises(InvalidToolArguments) as caught:
        validate_arguments(BUILT_IN_TOOLS["hook"].function, {"name": "x", "match": 3})
    said(str(caught.value))


def test_all_tools_together_stay_short() -> None:
    assert sum(len(encode(declare_tool(tool))) for tool in BUILT_IN_TOOLS.values()) < ALL_BYTES_MAX


def test_a_hook_that_is_made_from_another_may_have_its_own_model_and_budget() -> None:
    fields = {"extends": "lib:on-your-toes", "model": "house/small", "budget": {"tokens": 1000}}
    made = {"extends": "lib:on-your-toes", "agent": {"model": "house/small"}, "budget": {"tokens": 1000}}
    assert hook_from_fields(fields) == made
    with pytest.raises(ToolFailed) as caught:
        hook_from_fields({"on": ["on-wake"], "model": "house/small"})
    said(str(caught.value), "model", "prompt")


def test_duplicate_field_of_a_hook_or_container_is_refused_unless_equal() -> None:
    assert hook_from_fields({"on": ["on-wake"], "more": {"on": ["on-wake"], "copy": "none"}}) == {
        "on": ["on-wake"],
        "copy": "none",
    }
    for fields in ({"run": "a", "more": {"run": "b"}}, {"prompt": "a", "more": {"agent": {"prompt": "b"}}}):
        with pytest.raises(ToolFailed) as caught:
            hook_from_fields(fields)
        assert caught.value.reason == "BadArguments"
