"""The simulated worlds of a run: what is written into its folder, and which tool server acts in which of them. Pure.

A world's file has the decoys that were drawn beside its own tools, and what cases lay over its tables. A server, which
is what stands before the dot in a tool's name, belongs to one world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from planloop.benchmarks.compiling.compiled import Entry
from planloop.benchmarks.compiling.filling import filled, nonces_in
from planloop.benchmarks.reading.suite import Case, Suite
from planloop.benchmarks.worlds.laying import for_tasks, with_tools
from planloop.schemas.encoding import JsonObject, digest_of

DECOYS: Final = "decoys"
"""The world of decoys where no case has one."""


def world_file(world: str) -> str:
    """Where a world lies in the run's folder."""
    return f"worlds/{world}.json"


def run_worlds(suite: Suite, cases: Sequence[Case], entries: Iterable[Entry]) -> dict[str, JsonObject]:
    """The documents of the worlds that `cases` use, as `entries` find them."""
    tools: dict[str, JsonObject] = {}
    for case in cases:
        tools |= pool_tools(suite, case)
    used = dict.fromkeys(case.world["use"] for case in cases if case.world is not None)
    if not used:
        return {DECOYS: {"world": DECOYS, "tools": tools}} if tools else {}
    entries = list(entries)
    return {name: _laid(with_tools(suite.worlds[name], tools), suite, name, entries) for name in used}


def pool_tools(suite: Suite, case: Case) -> dict[str, JsonObject]:
    """The tools of the case's pool, by name: any of them may be drawn, or be needed."""
    if case.decoys is None:
        return {}
    found: dict[str, JsonObject] = suite.pools[case.decoys["pool"]].get("tools", {})
    return found


def definition(suite: Suite, case: Case, decoys: Iterable[str]) -> str:
    """The digest of what the case's tools do and act on: another one makes other verdicts."""
    world = {} if case.world is None else suite.worlds[case.world["use"]]
    pool = pool_tools(suite, case)
    return digest_of([world, {name: pool[name] for name in sorted(decoys) if name in pool}])


def _laid(document: JsonObject, suite: Suite, world: str, entries: Sequence[Entry]) -> JsonObject:
    overlays: dict[str, JsonObject] = {}
    of: dict[str, str] = {}
    for entry in entries:
        written = suite.cases[entry.case].world
        if written is None or written["use"] != world or not written.get("with"):
            continue
        nonces = nonces_in(written["with"], suite.seed, entry.case, entry.trial)
        of[entry.name] = entry.name if nonces else entry.case
        overlays.setdefault(of[entry.name], filled(written["with"], nonces))
    return for_tasks(document, overlays, of) if of else document


def servers_of(worlds: Mapping[str, JsonObject], decoys: Iterable[str]) -> dict[str, str]:
    """The world of each tool server. One that has nothing but decoys is in the first world, by name."""
    decoys = frozenset(decoys)
    own: dict[str, str] = {}
    beside: dict[str, str] = {}
    for name in sorted(worlds):
        for tool in worlds[name].get("tools", {}):
            (beside if tool in decoys else own).setdefault(tool.partition(".")[0], name)
    return dict(sorted((beside | own).items()))
