"""Worlds for tests: the shipped ones, and small ones of a few lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from planloop.benchmarks.worlds.state import call_tool
from planloop.benchmarks.worlds.world import SimulatedWorld
from planloop.benchmarks.worlds.world_file import read_world
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.diagnostic import Diagnostic
from tests.product import Json

SUITE = Path(__file__).parents[3] / "benchmarks/planloop/benchmarks/suites/tool-calling"

EXTREMES: tuple[Json, ...] = (
    *(sign * number for number in (10**400, 10**308, 1.7e308, 5e-324) for sign in (1, -1)),
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "0001-01-01",
    "9999-12-31T23:59:59.999999Z",
)
"""Numbers and times at the ends of what JSON and calendars know, and beyond."""


def shipped(path: str) -> SimulatedWorld:
    """A world of the tool-calling suite."""
    read = read_world((SUITE / path).read_bytes(), file=path)
    assert read.world is not None, read.diagnostics
    return read.world


def world(text: str, file: str = "world.yaml") -> SimulatedWorld:
    """The world in `text`, which must be sound."""
    read = read_world(text.encode(), file=file)
    assert read.world is not None, read.diagnostics
    return read.world


def told(text: str) -> list[str]:
    """The problems of `text`: line, code, summary and hint."""
    return [_line(one) for one in read_world(text.encode(), file="world.yaml").diagnostics]


def _line(one: Diagnostic) -> str:
    assert one.span is not None, one
    return f"{one.span.line} {one.code} {one.summary} | {one.hint}"


def replay_calls(world: SimulatedWorld, calls: Iterable[tuple[str, JsonObject]]) -> SimulatedWorld:
    """The world after `calls`, in order."""
    for tool, arguments in calls:
        world, _ = call_tool(world, tool, arguments)
    return world
