"""A world's file becomes a world, or faults with their places and cures. Pure.

What is wrong is told, and nothing is made of a document that has faults: verbs and values may count on its form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from planloop.benchmarks.worlds import arguments, computing, verbs
from planloop.benchmarks.worlds.values import constant, parse
from planloop.benchmarks.worlds.world import Errors, Row, Tables, World, WorldTool
from planloop.compiler.checking import check_exactly_one
from planloop.compiler.faults import Faults, Origins, Pointer, placed
from planloop.compiler.normalising import Work, normalise
from planloop.compiler.reading import read_source
from planloop.compiler.source import SizeLimits
from planloop.compiler.suggesting import did_you_mean
from planloop.schemas import limits
from planloop.schemas.diagnostic import Diagnostic, in_order
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen, mutable

_TOOL: Final = re.compile(r"[a-zA-Z][\w-]*\.[\w-]+")
_NUMBERED: Final = re.compile(r"(.*-)(\d+)")
_SIZE: Final = SizeLimits(size_bytes=limits.WORLD_FILE_BYTES_MAX, nodes=limits.WORLD_NODES_MAX)
_OK: Final = constant({"ok": True})


@frozen
class ReadWorld:
    """`world` and `document`, its canonical form, are None when a diagnostic is an error."""

    world: World | None
    document: JsonObject | None
    diagnostics: tuple[Diagnostic, ...]


def read_world(content: bytes, *, file: str) -> ReadWorld:
    """The world, or the pool of tools, in `content`."""
    tree = read_source(content, file=file, limits=_SIZE)
    if tree.value is None:
        return ReadWorld(None, None, tuple(in_order(tree.diagnostics)))
    work = Work(Faults(), {})
    document = normalise(tree.value, "world", work)
    world = None if tree.diagnostics or work.faults.has_errors else _made(document, work.faults)
    diagnostics = tuple(in_order([*tree.diagnostics, *placed(work.faults.found, Origins(tree, work.moved))]))
    return ReadWorld(world, None if world is None else document, diagnostics)


def world_of(document: Json) -> ReadWorld:
    """The same from a value that was read before, whose places are pointers."""
    work = Work(Faults(), {})
    if not isinstance(document, dict):
        work.faults.add("P0202", "a world is a map", "write `world: NAME` and `tools:`", to=())
        return ReadWorld(None, None, tuple(one.diagnostic for one in work.faults.found))
    canonical = normalise(document, "world", work)
    world = None if work.faults.has_errors else _made(canonical, work.faults)
    return ReadWorld(world, None if world is None else canonical, tuple(one.diagnostic for one in work.faults.found))


def _made(document: JsonObject, faults: Faults) -> World | None:
    _check_name(document, faults)
    tables = document.get("tables", {})
    checking = _Checking(document, faults)
    for name, rows in tables.items():
        checking.rows(rows, ("tables", name))
    for name, overlay in document.get("overlays", {}).items():
        checking.overlay(overlay, ("overlays", name))
    for name, tool in document.get("tools", {}).items():
        checking.tool(name, tool, ("tools", name))
    if faults.has_errors:
        return None
    made = {name: _tool(name, tool) for name, tool in document.get("tools", {}).items()}
    values, start = document.get("values", {}), dict(tables)
    name = document.get("world") or document["pool"]
    return World(name, start, made, values, start, serials(start))


def _check_name(document: JsonObject, faults: Faults) -> None:
    given = [name for name in ("world", "pool") if name in document]
    if not given and not faults.is_at(()):
        faults.add("P0210", "a world has no name", "begin with `world: NAME`, or `pool: NAME` for decoys", to=())
    if len(given) > 1:
        faults.on_key("P0211", "a world is no pool of decoys", "keep one of `world` and `pool`", to=("pool",))


def _tool(name: str, written: JsonObject) -> WorldTool:
    steps = [verbs.written(step) for step in written.get("does", ())]
    fails = written.get("errors")
    return WorldTool(
        name,
        written.get("about", ""),
        {"type": "object", "properties": {}} | written.get("parameters", {}),
        tuple(step.step for step in steps),
        parse(written["returns"]) if "returns" in written else _OK,
        None if fails is None else Errors(fails.get("first", 1), fails.get("says", "503: try again in a moment.")),
        any(step.writes for step in steps),
    )


def serials(tables: Tables) -> dict[str, int]:
    """The highest number that a row has, by table and prefix."""
    found: dict[str, int] = {}
    for table, rows in tables.items():
        for id_ in rows:
            if (match := _NUMBERED.fullmatch(id_)) is not None:
                key = f"{table}/{match[1]}"
                found[key] = max(found.get(key, 0), int(match[2]))
    return found


@mutable
class _Checking:
    """What must hold before a world is made of a document."""

    document: JsonObject
    faults: Faults
    known: set[str] = field(default_factory=set)

    def rows(self, rows: JsonObject, to: Pointer, *, may_be_none: bool = False) -> None:
        for id_, row in rows.items():
            self._row(id_, row, (*to, id_), may_be_none=may_be_none)

    def overlay(self, overlay: JsonObject, to: Pointer) -> None:
        """Rows that are laid over: null takes one away."""
        for name, rows in overlay.items():
            self._table(name, (*to, name))
            if isinstance(rows, dict):
                self.rows(rows, (*to, name), may_be_none=True)
            else:
                self.faults.add("P0202", f"`{name}` is no table", "write rows by their ids", to=(*to, name))

    def _row(self, id_: str, row: Row | None, to: Pointer, *, may_be_none: bool) -> None:
        if row is None and may_be_none:
            return
        if not isinstance(row, dict):
            self.faults.add("P0202", f"the row `{id_}` is a map of fields", "write `{field: value}`", to=to)
        elif row.get("id", id_) != id_ or "id" in row:
            self.faults.on_key("P0209", f"the row `{id_}` has its id twice", "leave `id` out", to=(*to, "id"))

    def tool(self, name: str, tool: JsonObject, to: Pointer) -> None:
        """One tool: its name, its schema, and that each step finds what it needs."""
        if _TOOL.fullmatch(name) is None:
            hint = "write it as `server.tool`, such as `calendar.update`"
            self.faults.on_key("P0223", f"`{name}` is no name of a tool", hint, to=to)
        schema = tool.get("parameters", {})
        faults = list(arguments.faults_of(schema, (*to, "parameters")))
        if not faults and schema.get("type", "object") != "object":
            faults = [((*to, "parameters", "type"), "arguments are an `object`", "write `type: object`")]
        for place, words, cure in faults:
            self.faults.add("P0223", words, cure, to=place)
        if faults:
            return  # What the steps may name is not known.
        self.known = {*self.document.get("values", {}), *schema.get("properties", {})}
        for index, step in enumerate(tool.get("does", ())):
            self._step(step, (*to, "does", str(index)))
        if "returns" in tool:
            self._names(parse(tool["returns"]).names, (*to, "returns"))

    def _step(self, step: JsonObject, to: Pointer) -> None:
        named = [name for name in verbs.VERBS if name in step]
        if len(named) != 1:
            said = " and ".join(f"`{name}`" for name in named) or "none"
            code = "P0211" if named else "P0210"
            self.faults.add(code, f"a step has one verb, this has {said}", f"one of {', '.join(verbs.VERBS)}", to=to)
            return
        verb, here = named[0], (*to, named[0])
        raw = step[verb]
        if verb == "let":
            self._computed(raw, here)
        if verb != "let":
            count = len(self.faults.found)
            check_exactly_one(f"world-{verb}", raw, here, self.faults)
            if "put" in raw:
                check_exactly_one("world-put", raw["put"], (*here, "put"), self.faults)
            if "in" in raw:
                self._table(raw["in"], (*here, "in"))
            if len(self.faults.found) > count:
                return
        written = verbs.written(step)
        self._names(written.needs, to)
        self.known |= written.gives

    def _computed(self, raw: JsonObject, to: Pointer) -> None:
        for name, each in raw.items():
            if words := computing.faults_in(each):
                self.faults.add("P0202", words, "as in `{subtract: [$a, $b]}`", to=(*to, name))

    def _table(self, name: str, to: Pointer) -> None:
        tables = self.document.get("tables", {})
        if name not in tables:
            near = did_you_mean(name, tables) if tables else ""
            hint = near or f"add it to `tables`, as in `{name}: {{}}`"
            self.faults.add("P0213", f"there is no table `{name}`", hint, to=to)

    def _names(self, names: Iterable[str], to: Pointer) -> None:
        for name in sorted(set(names) - self.known):
            near = did_you_mean(name, sorted(self.known)) if self.known else ""
            hint = near or "name an argument, a value of the world or an earlier `as`"
            self.faults.add("P0213", f"nothing is called `${name}` here", hint, to=to)
