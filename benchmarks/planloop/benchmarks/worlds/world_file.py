"""A world's file: parse it, overlay tables for each case, and find the world of a task. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Final

from planloop.benchmarks.worlds import arguments, verbs
from planloop.benchmarks.worlds.world import (
    InitialErrors,
    SimulatedWorld,
    Tables,
    WorldRow,
    WorldTool,
    constant_expression,
    parse_expression,
)
from planloop.compiler.check.tasks import check_exactly_one
from planloop.compiler.names import did_you_mean
from planloop.compiler.normalise import Normalisation, normalise_document
from planloop.compiler.problems import Origins, Pointer, Problems, place_problems
from planloop.compiler.read import read_source
from planloop.compiler.source import SizeLimits
from planloop.schemas import json_patch, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic, sort_diagnostics
from planloop.schemas.frozen import frozen, mutable

# A file with problems gives no world: verbs and values may rely on its form.

_TOOL: Final = re.compile(r"[a-zA-Z][\w-]*\.[\w-]+")
_NUMBERED: Final = re.compile(r"(.*-)(\d+)")
_SIZE: Final = SizeLimits(size_bytes=limits.WORLD_FILE_BYTES_MAX, nodes=limits.WORLD_NODES_MAX)
_OK: Final = constant_expression({"ok": True})


@frozen
class ReadWorld:
    """`world` and `document`, its canonical form, are None when a diagnostic is an error."""

    world: SimulatedWorld | None
    document: JsonObject | None
    diagnostics: tuple[Diagnostic, ...]


def read_world(content: bytes, *, file: str) -> ReadWorld:
    """The world, or the pool of tools, in `content`."""
    tree = read_source(content, file=file, limits=_SIZE)
    if tree.value is None:
        return ReadWorld(None, None, tuple(sort_diagnostics(tree.diagnostics)))
    work = Normalisation(Problems(), {})
    document = normalise_document(tree.value, "world", work)
    world = None if tree.diagnostics or work.faults.has_errors else _made(document, work.faults)
    diagnostics = tuple(
        sort_diagnostics([*tree.diagnostics, *place_problems(work.faults.found, Origins(tree, work.moved))])
    )
    return ReadWorld(world, None if world is None else document, diagnostics)


def world_from_document(document: Json) -> ReadWorld:
    """The same from a value that was read before, with pointers as locations."""
    work = Normalisation(Problems(), {})
    if not isinstance(document, dict):
        work.faults.add("P0202", "a world is a map", "write `world: NAME` and `tools:`", to=())
        return ReadWorld(None, None, tuple(one.diagnostic for one in work.faults.found))
    canonical = normalise_document(document, "world", work)
    world = None if work.faults.has_errors else _made(canonical, work.faults)
    return ReadWorld(world, None if world is None else canonical, tuple(one.diagnostic for one in work.faults.found))


def _made(document: JsonObject, faults: Problems) -> SimulatedWorld | None:
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
    return SimulatedWorld(name, start, made, values, start, highest_serials(start))


def _check_name(document: JsonObject, faults: Problems) -> None:
    given = [name for name in ("world", "pool") if name in document]
    if not given and not faults.is_at(()):
        faults.add("P0210", "a world has no name", "begin with `world: NAME`, or `pool: NAME` for decoys", to=())
    if len(given) > 1:
        faults.on_key("P0211", "a world is no pool of decoys", "keep one of `world` and `pool`", to=("pool",))


def _tool(name: str, written: JsonObject) -> WorldTool:
    steps = [verbs.parse_step(step) for step in written.get("does", ())]
    fails = written.get("errors")
    return WorldTool(
        name,
        written.get("about", ""),
        {"type": "object", "properties": {}} | written.get("parameters", {}),
        tuple(step.step for step in steps),
        parse_expression(written["returns"]) if "returns" in written else _OK,
        None
        if fails is None
        else InitialErrors(fails.get("first", 1), fails.get("says", "503: try again in a moment.")),
        any(step.writes for step in steps),
    )


def highest_serials(tables: Tables) -> dict[str, int]:
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
    faults: Problems
    known: set[str] = field(default_factory=set)

    def rows(self, rows: JsonObject, to: Pointer, *, may_be_none: bool = False) -> None:
        for id_, row in rows.items():
            self._row(id_, row, (*to, id_), may_be_none=may_be_none)

    def overlay(self, overlay: JsonObject, to: Pointer) -> None:
        """Overlay rows: null deletes one."""
        for name, rows in overlay.items():
            self._table(name, (*to, name))
            if isinstance(rows, dict):
                self.rows(rows, (*to, name), may_be_none=True)
            else:
                self.faults.add("P0202", f"`{name}` is no table", "write rows by their ids", to=(*to, name))

    def _row(self, id_: str, row: WorldRow | None, to: Pointer, *, may_be_none: bool) -> None:
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
        faults = list(arguments.schema_problems(schema, (*to, "parameters")))
        if not faults and schema.get("type", "object") != "object":
            faults = [((*to, "parameters", "type"), "arguments are an `object`", "write `type: object`")]
        for place, words, cure in faults:
            self.faults.add("P0223", words, cure, to=place)
        if faults:
            return  # The names for the steps are unknown.
        self.known = {*self.document.get("values", {}), *schema.get("properties", {})}
        for index, step in enumerate(tool.get("does", ())):
            self._step(step, (*to, "does", str(index)))
        if "returns" in tool:
            self._names(parse_expression(tool["returns"]).names, (*to, "returns"))

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
        written = verbs.parse_step(step)
        self._names(written.needs, to)
        self.known |= written.gives

    def _computed(self, raw: JsonObject, to: Pointer) -> None:
        for name, each in raw.items():
            if words := verbs.computed_problem(each):
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


# What a case adds is in the same file under `overlays`, and `laid` says which task has which overlay. Agents see the
# file's name and nothing of its content.


def overlay_tables(world: SimulatedWorld, tables: JsonObject) -> SimulatedWorld:
    """The world with rows added to its own: fields are merged, null deletes a row."""
    merged = json_patch.merge_values(dict(world.tables), tables)
    return replace(world, tables=merged, start=merged, serials=highest_serials(merged))


def add_tools(document: JsonObject, tools: Mapping[str, JsonObject]) -> JsonObject:
    """A world's document with other tools beside its own, which stay where both have a name."""
    return document | {"tools": {**tools, **document.get("tools", {})}}


def add_overlays(document: JsonObject, overlays: Mapping[str, JsonObject], of: Mapping[str, str]) -> JsonObject:
    """A world's document with `overlays` by name, and the one that the agents of each task at the top find."""
    return document | {"overlays": dict(overlays), "laid": dict(of)}


def find_overlay(document: JsonObject, task: str) -> str | None:
    """The overlay for the agents of `task`, a path such as `entry/child`; None if there is none.

    A later attempt, `entry--2`, has the overlay of the first.
    """
    of: JsonObject = document.get("laid", {})
    top = task.partition("/")[0]
    name: str | None = of.get(top, of.get(top.rpartition("--")[0]))
    return name


@mutable
class WorldFile:
    """`document` is the canonical one, `world` is built from it, `digest` is that of the file's bytes."""

    document: JsonObject
    world: SimulatedWorld
    digest: str = ""
    _laid: dict[str, SimulatedWorld] = field(default_factory=dict)

    def found_by(self, task: str) -> SimulatedWorld:
        """The world as the agents of `task`, a path such as `entry/child`, find it at first."""
        name = find_overlay(self.document, task)
        if name is None:
            return self.world
        if name not in self._laid:
            self._laid[name] = overlay_tables(self.world, self.document.get("overlays", {}).get(name, {}))
        return self._laid[name]


def world_file_of(document: JsonObject) -> WorldFile:
    """The file of a document that is known to be sound."""
    read = world_from_document(document)
    assert read.world is not None and read.document is not None, read.diagnostics
    return WorldFile(read.document, read.world)
