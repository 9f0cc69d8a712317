"""Parse the file of a world, overlay tables for each case, and find the world of a task. Pure."""

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

# An invalid file gives no world, so verbs and values can rely on its form.

_TOOL: Final = re.compile(r"[a-zA-Z][\w-]*\.[\w-]+")
_NUMBERED: Final = re.compile(r"(.*-)(\d+)")
_SIZE: Final = SizeLimits(size_bytes=limits.WORLD_FILE_BYTES_MAX, nodes=limits.WORLD_NODES_MAX)
_OK: Final = constant_expression({"ok": True})


@frozen
class ReadWorld:
    """The result of parsing. `world` and its canonical `document` are None if a diagnostic is an error."""

    world: SimulatedWorld | None
    document: JsonObject | None
    diagnostics: tuple[Diagnostic, ...]


def read_world(content: bytes, *, file: str) -> ReadWorld:
    """Parse the world, or the pool of tools, in `content`."""
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
    """Parse a world from a value; locations of problems are pointers."""
    work = Normalisation(Problems(), {})
    if not isinstance(document, dict):
        work.faults.add("P0202", "a world must be a map", "write `world: NAME` and `tools:`", to=())
        return ReadWorld(None, None, tuple(one.diagnostic for one in work.faults.found))
    canonical = normalise_document(document, "world", work)
    world = None if work.faults.has_errors else _made(canonical, work.faults)
    return ReadWorld(world, None if world is None else canonical, tuple(one.diagnostic for one in work.faults.found))


def _made(document: JsonObject, problems: Problems) -> SimulatedWorld | None:
    _check_name(document, problems)
    tables = document.get("tables", {})
    checking = _Checking(document, problems)
    for name, rows in tables.items():
        checking.rows(rows, ("tables", name))
    for name, overlay in document.get("overlays", {}).items():
        checking.overlay(overlay, ("overlays", name))
    for name, tool in document.get("tools", {}).items():
        checking.tool(name, tool, ("tools", name))
    if problems.has_errors:
        return None
    made = {name: _tool(name, tool) for name, tool in document.get("tools", {}).items()}
    values, start = document.get("values", {}), dict(tables)
    name = document.get("world") or document["pool"]
    return SimulatedWorld(name, start, made, values, start, highest_serials(start))


def _check_name(document: JsonObject, problems: Problems) -> None:
    given = [name for name in ("world", "pool") if name in document]
    if not given and not problems.is_at(()):
        problems.add("P0210", "the world has no name", "start with `world: NAME`, or `pool: NAME` for decoys", to=())
    if len(given) > 1:
        problems.on_key(
            "P0211", "a file cannot be both a world and a pool", "keep one of `world` and `pool`", to=("pool",)
        )


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
    """Return the highest number of a row by table and prefix."""
    found: dict[str, int] = {}
    for table, rows in tables.items():
        for id_ in rows:
            if (match := _NUMBERED.fullmatch(id_)) is not None:
                key = f"{table}/{match[1]}"
                found[key] = max(found.get(key, 0), int(match[2]))
    return found


@mutable
class _Checking:
    """Checks of a document before it becomes a world."""

    document: JsonObject
    problems: Problems
    known: set[str] = field(default_factory=set)

    def rows(self, rows: JsonObject, to: Pointer, *, may_be_none: bool = False) -> None:
        for id_, row in rows.items():
            self._row(id_, row, (*to, id_), may_be_none=may_be_none)

    def overlay(self, overlay: JsonObject, to: Pointer) -> None:
        """Check overlay rows; null deletes a row."""
        for name, rows in overlay.items():
            self._table(name, (*to, name))
            if isinstance(rows, dict):
                self.rows(rows, (*to, name), may_be_none=True)
            else:
                self.problems.add("P0202", f"`{name}` must be a table", "write a map from ids to rows", to=(*to, name))

    def _row(self, id_: str, row: WorldRow | None, to: Pointer, *, may_be_none: bool) -> None:
        if row is None and may_be_none:
            return
        if not isinstance(row, dict):
            self.problems.add("P0202", f"the row `{id_}` must be a map of fields", "write `{field: value}`", to=to)
        elif row.get("id", id_) != id_ or "id" in row:
            self.problems.on_key("P0209", f"the row `{id_}` contains its id", "delete `id`", to=(*to, "id"))

    def tool(self, name: str, tool: JsonObject, to: Pointer) -> None:
        """Check a tool: its name, its schema, and that each step has the names that it needs."""
        if _TOOL.fullmatch(name) is None:
            hint = "write it as `server.tool`, such as `calendar.update`"
            self.problems.on_key("P0223", f"invalid tool name `{name}`", hint, to=to)
        schema = tool.get("parameters", {})
        problems = list(arguments.schema_problems(schema, (*to, "parameters")))
        if not problems and schema.get("type", "object") != "object":
            problems = [((*to, "parameters", "type"), "arguments must be an `object`", "write `type: object`")]
        for place, words, fix in problems:
            self.problems.add("P0223", words, fix, to=place)
        if problems:
            return  # The names for the steps are unknown.
        self.known = {*self.document.get("values", {}), *schema.get("properties", {})}
        for index, step in enumerate(tool.get("does", ())):
            self._step(step, (*to, "does", str(index)))
        if "returns" in tool:
            self._names(parse_expression(tool["returns"]).names, (*to, "returns"))

    def _step(self, step: JsonObject, to: Pointer) -> None:
        named = [name for name in verbs.VERBS if name in step]
        if len(named) != 1:
            given = " and ".join(f"`{name}`" for name in named) or "none"
            code = "P0211" if named else "P0210"
            hint = f"use one of {', '.join(verbs.VERBS)}"
            self.problems.add(code, f"a step must have one verb, this has {given}", hint, to=to)
            return
        verb, here = named[0], (*to, named[0])
        raw = step[verb]
        if verb == "let":
            self._computed(raw, here)
        if verb != "let":
            count = len(self.problems.found)
            check_exactly_one(f"world-{verb}", raw, here, self.problems)
            if "put" in raw:
                check_exactly_one("world-put", raw["put"], (*here, "put"), self.problems)
            if "in" in raw:
                self._table(raw["in"], (*here, "in"))
            if len(self.problems.found) > count:
                return
        written = verbs.parse_step(step)
        self._names(written.needs, to)
        self.known |= written.gives

    def _computed(self, raw: JsonObject, to: Pointer) -> None:
        for name, each in raw.items():
            if words := verbs.computed_problem(each):
                self.problems.add("P0202", words, "write `{subtract: [$a, $b]}`", to=(*to, name))

    def _table(self, name: str, to: Pointer) -> None:
        tables = self.document.get("tables", {})
        if name not in tables:
            near = did_you_mean(name, tables) if tables else ""
            hint = near or f"add it to `tables`, as in `{name}: {{}}`"
            self.problems.add("P0213", f"unknown table `{name}`", hint, to=to)

    def _names(self, names: Iterable[str], to: Pointer) -> None:
        for name in sorted(set(names) - self.known):
            near = did_you_mean(name, sorted(self.known)) if self.known else ""
            hint = near or "use an argument, a value of the world or an earlier `as`"
            self.problems.add("P0213", f"unknown name `${name}`", hint, to=to)


# Rows that a case adds are in the same file under `overlays`; `laid` maps tasks to overlays. Agents see the file's
# name, but not its content.


def overlay_tables(world: SimulatedWorld, tables: JsonObject) -> SimulatedWorld:
    """Return the world with `tables` merged into its own: fields are merged, null deletes a row."""
    merged = json_patch.merge_values(dict(world.tables), tables)
    return replace(world, tables=merged, start=merged, serials=highest_serials(merged))


def add_tools(document: JsonObject, tools: Mapping[str, JsonObject]) -> JsonObject:
    """Return the document of a world with `tools` added. Existing tools of the same name are kept."""
    return document | {"tools": {**tools, **document.get("tools", {})}}


def add_overlays(document: JsonObject, overlays: Mapping[str, JsonObject], of: Mapping[str, str]) -> JsonObject:
    """Return the document of a world with `overlays` by name. `of` maps top tasks to the overlay of their agents."""
    return document | {"overlays": dict(overlays), "laid": dict(of)}


def find_overlay(document: JsonObject, task: str) -> str | None:
    """Return the overlay for the agents of `task`, a path such as `entry/child`; None if it has none.

    Later attempts (`entry--2`) have the overlay of the first.
    """
    of: JsonObject = document.get("laid", {})
    top = task.partition("/")[0]
    name: str | None = of.get(top, of.get(top.rpartition("--")[0]))
    return name


@mutable
class WorldFile:
    """A world and its canonical `document`. `digest` is the digest of the file's bytes."""

    document: JsonObject
    world: SimulatedWorld
    digest: str = ""
    _laid: dict[str, SimulatedWorld] = field(default_factory=dict)

    def found_by(self, task: str) -> SimulatedWorld:
        """Return the initial world for the agents of `task`, a path such as `entry/child`."""
        name = find_overlay(self.document, task)
        if name is None:
            return self.world
        if name not in self._laid:
            self._laid[name] = overlay_tables(self.world, self.document.get("overlays", {}).get(name, {}))
        return self._laid[name]


def world_file_of(document: JsonObject) -> WorldFile:
    """Return the file of a document that is known to be valid."""
    read = world_from_document(document)
    assert read.world is not None and read.document is not None, read.diagnostics
    return WorldFile(read.document, read.world)
