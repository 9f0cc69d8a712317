"""The names of tools: one list for the plan language and for what runs them."""

from __future__ import annotations

from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.schemas.shell.commands import UNDECIDED
from planloop.schemas.tools import CORE_TOOLS, PATH_TOOLS, TOLD_APART, TOOLS


def test_every_tool_that_a_plan_may_name_is_there_and_none_is_without_a_name() -> None:
    assert BUILT_IN_TOOLS.keys() == TOOLS.keys()


def test_common_tool_of_every_agent_exists() -> None:
    assert set(CORE_TOOLS) <= TOOLS.keys()


def test_tools_with_call_patterns_name_the_subject_of_a_call() -> None:
    arguments = {"path": "a", "command": "b", "url": "http://c/d", "uri": "e", "server": "f"}
    told = {name for name, tool in BUILT_IN_TOOLS.items() if UNDECIDED not in tool.subjects(arguments)}
    exact = {name for name, tool in BUILT_IN_TOOLS.items() if tool.exact(arguments) is not None}
    assert told == TOLD_APART
    assert exact | PATH_TOOLS == TOLD_APART
