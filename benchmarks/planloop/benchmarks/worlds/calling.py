"""Calls of a world's tools: the world before and the call give the world after and what the caller is told. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from planloop.benchmarks.worlds.arguments import BadArguments, fitted
from planloop.benchmarks.worlds.values import ABSENT
from planloop.benchmarks.worlds.world import Answer, Moment, Refusal, World, WorldTool
from planloop.schemas.encoding import Json, JsonObject, encode_text


def call(world: World, tool: str, arguments: JsonObject) -> tuple[World, Answer]:
    """The world after the call, and the answer. A call that fails leaves the tables as they were."""
    found = world.tools.get(tool)
    if found is None:
        return world, Answer(f"There is no tool {tool}.", None, "UnknownTool")
    try:
        given = fitted(found.parameters, arguments)
    except BadArguments as fault:
        return world, Answer(str(fault), None, "BadArguments")
    if (late := _failing(world, found)) is not None:
        return late
    moment = Moment(world, given)
    try:
        for step in found.does:
            step(moment)
        answer = _answer(found.returns.of(moment.scope))
    except Refusal as refusal:
        return world, Answer(str(refusal), None, "ToolError")
    except (ArithmeticError, ValueError) as error:  # Whoever calls chose the values: no bug that it would wait for.
        return world, Answer(f"That cannot be worked out: {error}.", None, "ToolError")
    after = replace(world, tables=moment.tables, serials=moment.serials) if found.writes else world
    return after, answer


def replay(world: World, calls: Iterable[tuple[str, JsonObject]]) -> World:
    """The world after `calls`, in order."""
    for tool, arguments in calls:
        world, _ = call(world, tool, arguments)
    return world


def _failing(world: World, tool: WorldTool) -> tuple[World, Answer] | None:
    """The world and the answer when a tool that fails at first does."""
    count = world.failed.get(tool.name, 0)
    if tool.errors is None or count >= tool.errors.first:
        return None
    return replace(world, failed={**world.failed, tool.name: count + 1}), Answer(tool.errors.says, None, "ToolError")


def _answer(found: Any) -> Answer:
    value: Json = None if found is ABSENT else found
    return Answer(value if isinstance(value, str) else encode_text(value), value)
