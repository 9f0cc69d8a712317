"""The worlds and pools of a suite, and whether its cases use what is in them."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.reading.placing import Reader
from benchmarks.reading.suite import Case
from benchmarks.worlds import world_of
from compiler.faults import Pointer
from compiler.suggesting import did_you_mean
from schemas.encoding import JsonObject
from schemas.frozen import frozen


@frozen
class Shelf:
    """The documents of a suite's worlds and pools, by name; one that has faults is empty."""

    worlds: Mapping[str, JsonObject]
    pools: Mapping[str, JsonObject]
    reader: Reader

    def check(self, case: Case, to: Pointer) -> None:
        """Tells of tools of the case that nobody has, and of rows that it lays over no table."""
        use = None if case.world is None else str(case.world.get("use"))
        pool = None if case.decoys is None else str(case.decoys.get("pool"))
        shelves = [self.worlds.get(use or ""), self.pools.get(pool or "")]
        if all(shelf != {} for shelf in shelves):  # Else it has faults of its own.
            self._check_tools(case, [shelf for shelf in shelves if shelf], to)
        if case.world is not None and case.world.get("with") and (world := self.worlds.get(use or "")):
            self._check_rows(world, case.world["with"], (*to, "world", "with"))

    def _check_tools(self, case: Case, shelves: list[JsonObject], to: Pointer) -> None:
        known = [tool for shelf in shelves for tool in shelf.get("tools", {})]
        for index, tool in enumerate(case.tools or ()):
            if "." not in tool or "*" in tool or tool in known:
                continue
            hint = did_you_mean(tool, known) if known else "name the `world` that it acts in"
            self.reader.faults.add("P0213", f"nobody simulates `{tool}`", hint, to=(*to, "tools", str(index)))

    def _check_rows(self, world: JsonObject, rows: JsonObject, to: Pointer) -> None:
        for one in world_of({**world, "overlays": {"with": rows}}).diagnostics:
            below = (one.pointer or ())[2:]
            self.reader.faults.add(one.code, one.summary, one.hint, to=(*to, *below))


def read_shelf(document: JsonObject, reader: Reader) -> Shelf:
    """What the suite's `worlds` and `pools` name."""
    worlds = {name: reader.world(path, ("worlds", name)) for name, path in document.get("worlds", {}).items()}
    pools = {name: reader.world(path, ("pools", name)) for name, path in document.get("pools", {}).items()}
    of: dict[str, str] = {}
    for name, world in worlds.items():
        for server in dict.fromkeys(tool.partition(".")[0] for tool in world.get("tools", {})):
            if (other := of.setdefault(server, name)) != name:
                words = f"the worlds `{other}` and `{name}` both have tools of `{server}`"
                reader.faults.add("P0208", words, "call those of one of them otherwise", to=("worlds", name))
    return Shelf(worlds, pools, reader)
