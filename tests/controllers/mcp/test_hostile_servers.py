"""What a hostile or broken tool server offers and says, before any of it reaches a model or a person."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.mcp import offering
from controllers.mcp.grumbling import HEAD, last_words
from reconciler.effects.rolling_file import RollingFile
from schemas import limits


def tool(name: str, schema: Any, description: str = "d") -> SimpleNamespace:
    return SimpleNamespace(name=name, description=description, title=None, input_schema=schema, annotations=None)


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": ["object"]}, {"$ref": "http://127.0.0.1/x"}])
def test_arguments_that_are_no_object_never_reach_a_provider(schema: dict[str, Any]) -> None:
    (kept,) = offering.offer([tool("odd", schema)], [], []).tools

    assert kept.parameters == {"type": "object"}


def test_a_tool_whose_name_alone_would_fill_a_prompt_is_left_out() -> None:
    made = offering.offer([tool("x" * 70_000, {"type": "object"}), tool("ok", {"type": "object"})], [], [])

    assert [each.name for each in made.tools] == ["ok"]
    assert len(made.left_out) == 1


def test_why_a_server_ended_is_what_it_said_and_never_our_own_line_before_it(tmp_path: Path) -> None:
    grumbles = RollingFile(tmp_path / "log", limits.SERVER_LOG_BYTES_MAX)
    grumbles.add(f"{HEAD}mcp/bad plan 1\n".encode())
    assert last_words(grumbles) == ""

    grumbles.add(b"no module named x\n\n")
    assert last_words(grumbles) == "no module named x"
