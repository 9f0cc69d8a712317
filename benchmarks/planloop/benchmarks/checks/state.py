"""`state`: what lies in the simulated world at the end, however the agent got there.

`after` is the golden way: the world must look as if these calls had been made, but for what `ignore` names. `tables`
are matchers of rows that must be there, `new` of the rows that were added to a table: these and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planloop.benchmarks import worlds
from planloop.benchmarks.checks import fitting
from planloop.benchmarks.checks.assigning import matched
from planloop.benchmarks.checks.contract import Evidence, Judged
from planloop.benchmarks.checks.rules import BadCheck, listed, members, usable
from planloop.benchmarks.worlds.world import World
from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.frozen import frozen

SHOWN: int = 5
"""Differences in the message; they all have the same cause as a rule."""


@frozen
class Wanted:
    """`after` are the golden calls (None: any end), `new` matchers of new rows by table."""

    after: tuple[tuple[str, JsonObject], ...] | None
    ignore: tuple[str, ...]
    tables: JsonObject
    new: Mapping[str, Sequence[Json]]

    @property
    def probes(self) -> int:
        return (self.after is not None) + sum(len(rows) for rows in self.tables.values()) + len(self.new)


def judge(arguments: JsonObject, evidence: Evidence) -> Judged:
    """Whether the world ended as it must."""
    try:
        wanted = read(arguments)
        if evidence.world is None or evidence.end is None:
            raise BadCheck("the case has no world", "name one under `world`")
        golden = None if wanted.after is None else golden_end(evidence.world, wanted.after)
    except BadCheck as error:
        return Judged("error", str(error), probes=0)
    faults = list(_faults(wanted, golden, evidence.world, evidence.end))
    more = f" (and {len(faults) - SHOWN} more)" if len(faults) > SHOWN else ""
    return Judged(
        "fail" if faults else "pass",
        "; ".join(faults[:SHOWN]) + more if faults else "the world ended as it must",
        wanted.probes,
        evidence={"differences.txt": "\n".join(faults).encode()} if faults else {},
    )


def read(arguments: Json) -> Wanted:
    """The check as it is written. Raises BadCheck."""
    given = members(arguments, ("after", "ignore", "tables", "new"), "`state`")
    ignore = listed(given.get("ignore", []), ("ignore",))
    if not all(isinstance(name, str) for name in ignore):
        raise BadCheck("`ignore` lists names", "such as `messages`, or `messages.body`", ("ignore",))
    tables = members(given.get("tables", {}), None, "`tables`", ("tables",))
    for name, rows in tables.items():
        usable({"subset": members(rows, None, "a table", ("tables", name))}, ("tables", name))
    new = {name: listed(rows, ("new", name)) for name, rows in members(given.get("new", {}), None, "`new`").items()}
    for name, rows in new.items():
        usable(rows, ("new", name))
    after = listed(given["after"], ("after",)) if "after" in given else None
    calls = None if after is None else tuple(_call(one, place) for place, one in enumerate(after))
    return Wanted(calls, tuple(ignore), tables, new)


def golden_end(world: World, calls: Sequence[tuple[str, JsonObject]]) -> World:
    """The world after `calls`, if its tools never fail at first. Raises BadCheck where one fails."""
    world = replace(world, tools={name: replace(tool, errors=None) for name, tool in world.tools.items()})
    for tool, arguments in calls:
        world, answer = worlds.call(world, tool, arguments)
        if answer.error:
            raise BadCheck(f"the golden call of `{tool}` fails: {answer.text}", "mend the call", ("after",))
    return world


def _faults(wanted: Wanted, golden: World | None, world: World, end: World) -> Iterator[str]:
    if golden is not None:
        yield from worlds.differences(world, end, golden, wanted.ignore)
    for name, rows in wanted.tables.items():
        why = fitting.fault({"subset": rows}, end.tables.get(name, {}))
        if why:
            yield f"{name}: {why}"
    for name, patterns in wanted.new.items():
        yield from _new(name, patterns, world.start.get(name, {}), end.tables.get(name, {}))


def _new(name: str, patterns: Sequence[Json], before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[str]:
    """What is wrong with the rows that were added: each pattern has one of its own, and none is left over."""
    rows = [row for id_, row in after.items() if id_ not in before]
    why = [[fitting.fault(pattern, row) for row in rows] for pattern in patterns]
    serving = matched([[place for place, words in enumerate(each) if not words] for each in why])
    for pattern, each, place in zip(patterns, why, serving, strict=True):
        if place is None:
            best = min(each, key=len) if each else "none was added"
            yield f"{name}: no new row is like {encode_text(pattern)}: {best}"
    for place, row in enumerate(rows):
        if place not in serving:
            yield f"{name}: a new row is too much: {encode_text(row)[:200]}"


def _call(written: Json, place: int) -> tuple[str, JsonObject]:
    at = ("after", str(place))
    if not isinstance(written, dict) or len(written) != 1:
        raise BadCheck("this is no golden call", "write `tool: {argument: value}`", at)
    tool, arguments = next(iter(written.items()))
    return tool, members({} if arguments is None else arguments, None, "what a tool is called with", (*at, tool))
