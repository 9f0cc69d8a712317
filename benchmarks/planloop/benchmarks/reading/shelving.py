"""The worlds and pools of a suite, and whether its cases use what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planloop.benchmarks.checks.asking import tools_named
from planloop.benchmarks.checks.rules import READS
from planloop.benchmarks.reading.placing import Reader
from planloop.benchmarks.reading.suite import Case
from planloop.benchmarks.worlds import world_of
from planloop.compiler.compiling import read_library
from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.graph import Sources
from planloop.compiler.shelves import Shelves
from planloop.compiler.suggesting import did_you_mean, nearest
from planloop.compiler.toolsets import Toolsets
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.tools import AGENT_TOOL, TOOLS


@frozen
class Shelf:
    """The documents of a suite's worlds and pools, by name; one that has faults is empty."""

    worlds: Mapping[str, JsonObject]
    pools: Mapping[str, JsonObject]
    reader: Reader
    library: Sources | None = None

    def check(self, case: Case, to: Pointer) -> None:
        """Tells of tools of the case and of its checks that nobody has, and of rows that it lays over no table."""
        use = None if case.world is None else str(case.world.get("use"))
        pool = None if case.decoys is None else str(case.decoys.get("pool"))
        shelves = [table.get(name, {}) for table, name in ((self.worlds, use), (self.pools, pool)) if name is not None]
        if all(shelves):  # Else there are faults of its own.
            self._check_tools(case, shelves, to)
            self._check_calls(case, shelves, to)
        if case.world is not None and case.world.get("with") and (world := self.worlds.get(use or "")):
            self._check_rows(world, case.world["with"], (*to, "world", "with"))

    def _check_tools(self, case: Case, shelves: list[JsonObject], to: Pointer) -> None:
        known = _simulated(shelves)
        for index, tool in enumerate(case.tools or ()):
            if "." not in tool.partition("(")[0]:
                self._check_own(case, tool, (*to, "tools", str(index)))
                continue
            if "*" in tool or tool in known:
                continue
            hint = did_you_mean(tool, known) if known else "name the `world` that it acts in"
            self.reader.faults.add("P0213", f"nobody simulates `{tool}`", hint, to=(*to, "tools", str(index)))

    def _check_calls(self, case: Case, shelves: list[JsonObject], to: Pointer) -> None:
        """Tells of tools that the checks of the case name and that there are not.

        What is needed must be there for this very case. What is free or forbidden may be so for several cases, each
        with another world. An invented tool may be forbidden, but hardly one that is called nearly as another is.
        """
        ours = (*TOOLS, *(f"{AGENT_TOOL}{name}" for name in case.agents), *(case.tools or ()))
        here = dict.fromkeys((*_simulated(shelves), *ours))
        for check in case.checks:
            for at, tool in tools_named(check.kind, check.arguments):
                known = here if at[0] == "need" or tool in here else self._anywhere | here
                if tool in known or (at[0] == "forbid" and nearest(tool, known) is None):
                    continue
                place = (*to, "checks", check.key, check.kind, *at)
                self.reader.faults.add("P0213", f"the case has no tool `{tool}`", did_you_mean(tool, known), to=place)

    @property
    def _anywhere(self) -> dict[str, None]:
        """What may be free or forbidden in some case of the suite."""
        return dict.fromkeys((READS, *_simulated((*self.worlds.values(), *self.pools.values()))))

    def _check_own(self, case: Case, tool: str, to: Pointer) -> None:
        """Tells of a tool of ours as the plan of a run would, whose text nobody has written."""
        if self.library is None:
            return
        faults = Faults()
        named = Shelves(self.library, faults, read_library)
        named.take_plan({"agents": case.agents})
        Toolsets(named, faults).opened((tool,), ())
        for one in (found.diagnostic for found in faults.found):
            if one.code == "P0410":  # A plan can do without a tool; who is measured is to have what the case says.
                self.reader.faults.add("P0213", one.summary, "`plan explain tools` lists what there is", to=to)
            else:
                self.reader.faults.add(one.code, one.summary, one.hint, to=to)

    def _check_rows(self, world: JsonObject, rows: JsonObject, to: Pointer) -> None:
        for one in world_of({**world, "overlays": {"with": rows}}).diagnostics:
            below = (one.pointer or ())[2:]
            self.reader.faults.add(one.code, one.summary, one.hint, to=(*to, *below))


def _simulated(shelves: Iterable[JsonObject]) -> list[str]:
    return [tool for shelf in shelves for tool in shelf.get("tools", {})]


def read_shelf(document: JsonObject, reader: Reader, library: Sources | None) -> Shelf:
    """What the suite's `worlds` and `pools` name. `library` has the toolsets that a case may name."""
    worlds = {name: reader.world(path, ("worlds", name)) for name, path in document.get("worlds", {}).items()}
    pools = {name: reader.world(path, ("pools", name)) for name, path in document.get("pools", {}).items()}
    of: dict[str, str] = {}
    for name, world in worlds.items():
        for server in dict.fromkeys(tool.partition(".")[0] for tool in world.get("tools", {})):
            if (other := of.setdefault(server, name)) != name:
                words = f"the worlds `{other}` and `{name}` both have tools of `{server}`"
                reader.faults.add("P0208", words, "call those of one of them otherwise", to=("worlds", name))
    return Shelf(worlds, pools, reader, library)
