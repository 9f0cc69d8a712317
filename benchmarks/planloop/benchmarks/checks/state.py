"""The `state` check: the final content of the simulated world, whatever calls led to it.

`after` lists the golden calls: the world must look as if these calls had been made, except for what `ignore` names.
`tables` are matchers of rows that must exist. `new` are matchers of the rows added to a table: these and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planloop.benchmarks.checks.call_rules import BadCheck, as_list, assign_calls, require_members, require_usable
from planloop.benchmarks.checks.evidence import Evidence
from planloop.benchmarks.worlds import state
from planloop.benchmarks.worlds.world import SimulatedWorld
from planloop.controllers.task.checks.run import CheckFinding
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.checks.matchers import find_mismatch
from planloop.schemas.frozen import frozen

SHOWN: int = 5
"""How many differences the message shows; usually they have the same cause."""


@frozen
class WantedState:
    """A `state` check. `after` are the golden calls (None: any final state), `new` matchers of new rows by table."""

    after: tuple[tuple[str, JsonObject], ...] | None
    ignore: tuple[str, ...]
    tables: JsonObject
    new: Mapping[str, Sequence[Json]]

    @property
    def probes(self) -> int:
        return (self.after is not None) + sum(len(rows) for rows in self.tables.values()) + len(self.new)


def judge_state(arguments: JsonObject, evidence: Evidence) -> CheckFinding:
    """Judge whether the final state of the world is as required."""
    try:
        wanted = parse_state(arguments)
        if evidence.world is None or evidence.end is None:
            raise BadCheck("the case has no world", "add `world`")
        golden = None if wanted.after is None else golden_end(evidence.world, wanted.after)
    except BadCheck as error:
        return CheckFinding("error", str(error), probes=0)
    problems = list(_differences(wanted, golden, evidence.world, evidence.end))
    more = f" (and {len(problems) - SHOWN} more)" if len(problems) > SHOWN else ""
    return CheckFinding(
        "fail" if problems else "pass",
        "; ".join(problems[:SHOWN]) + more if problems else "the final state of the world is as required",
        probes=wanted.probes,
        evidence={"differences.txt": "\n".join(problems).encode()} if problems else {},
    )


def parse_state(arguments: Json) -> WantedState:
    """Parse the check. Raises BadCheck."""
    given = require_members(arguments, ("after", "ignore", "tables", "new"), "`state`")
    ignore = as_list(given.get("ignore", []), ("ignore",))
    if not all(isinstance(name, str) for name in ignore):
        raise BadCheck("`ignore` must be a list of names", "write `messages` or `messages.body`", ("ignore",))
    tables = require_members(given.get("tables", {}), None, "`tables`", ("tables",))
    for name, rows in tables.items():
        require_usable({"subset": require_members(rows, None, "a table", ("tables", name))}, ("tables", name))
    new = {
        name: as_list(rows, ("new", name))
        for name, rows in require_members(given.get("new", {}), None, "`new`").items()
    }
    for name, rows in new.items():
        require_usable(rows, ("new", name))
    after = as_list(given["after"], ("after",)) if "after" in given else None
    calls = None if after is None else tuple(_call(one, place) for place, one in enumerate(after))
    return WantedState(calls, tuple(ignore), tables, new)


def golden_end(world: SimulatedWorld, calls: Sequence[tuple[str, JsonObject]]) -> SimulatedWorld:
    """The world after `calls`, with initial errors of its tools switched off. Raises BadCheck if a call fails."""
    world = replace(world, tools={name: replace(tool, errors=None) for name, tool in world.tools.items()})
    for tool, arguments in calls:
        world, answer = state.call_tool(world, tool, arguments)
        if answer.error:
            raise BadCheck(f"the golden call of `{tool}` fails: {answer.text}", "correct the call", ("after",))
    return world


def _differences(
    wanted: WantedState, golden: SimulatedWorld | None, world: SimulatedWorld, end: SimulatedWorld
) -> Iterator[str]:
    if golden is not None:
        yield from state.world_differences(world, end, golden, wanted.ignore)
    for name, rows in wanted.tables.items():
        why = find_mismatch({"subset": rows}, end.tables.get(name, {}))
        if why:
            yield f"{name}: {why}"
    for name, patterns in wanted.new.items():
        yield from _new(name, patterns, world.start.get(name, {}), end.tables.get(name, {}))


def _new(name: str, patterns: Sequence[Json], before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[str]:
    """Problems of the added rows: each pattern must match a different row, and no row may be left over."""
    rows = [row for id_, row in after.items() if id_ not in before]
    why = [[find_mismatch(pattern, row) for row in rows] for pattern in patterns]
    serving = assign_calls([[place for place, words in enumerate(each) if not words] for each in why])
    for pattern, each, place in zip(patterns, why, serving, strict=True):
        if place is None:
            best = min(each, key=len) if each else "no row was added"
            yield f"{name}: no new row matches {encode_text(pattern)}: {best}"
    for place, row in enumerate(rows):
        if place not in serving:
            yield f"{name}: unexpected new row: {encode_text(row)[:200]}"


def _call(written: Json, place: int) -> tuple[str, JsonObject]:
    at = ("after", str(place))
    if not isinstance(written, dict) or len(written) != 1:
        raise BadCheck("a golden call must be a map with one tool", "write `tool: {argument: value}`", at)
    tool, arguments = next(iter(written.items()))
    return tool, require_members({} if arguments is None else arguments, None, "the arguments of a tool", (*at, tool))
