"""The names of tools: one list for the plan language and for what runs them."""

from __future__ import annotations

from controllers.agent.tools.registry import BUILT_IN
from schemas.tools import CORE_TOOLS, TOOLS


def test_every_tool_that_a_plan_may_name_is_there_and_none_is_without_a_name() -> None:
    assert BUILT_IN.keys() == TOOLS.keys()


def test_whatever_every_agent_has_is_a_tool() -> None:
    assert set(CORE_TOOLS) <= TOOLS.keys()
