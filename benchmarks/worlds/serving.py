"""Worlds as tool servers of a plan: `controllers/worlds.py` over files in the plan's folder.

A file is read once, when it is first asked for; one that is at fault is read again at each asking. Of an agent's world
only what is otherwise than in the file is kept: rows by table and id, each in a list, where an empty one stands for a
row that is gone, because what is kept is merged and a merge takes no null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.worlds.calling import call
from benchmarks.worlds.laying import laid as laid_over
from benchmarks.worlds.laying import overlay_of
from benchmarks.worlds.reading import read_world
from benchmarks.worlds.world import Answer, Row, World, WorldTool
from controllers.worlds import WorldCall, WorldOffer
from schemas import limits
from schemas.call import CallResult, CallState
from schemas.diagnostic import Diagnostic
from schemas.encoding import JsonObject, digest, digest_of
from schemas.frozen import frozen
from schemas.mcp import ServedTool, ServerFailed

_ROWS: Final = "rows"
_SERIALS: Final = "serials"
_FAILED: Final = "failed"


@frozen
class _File:
    """A file that was read: its world, and the same with each of its overlays."""

    digest: str
    document: JsonObject
    world: World
    laid: dict[str, World]

    def found_by(self, task: str) -> World:
        """The world as the agents of `task` find it at first."""
        name = overlay_of(self.document, task)
        if name is None:
            return self.world
        if name not in self.laid:
            self.laid[name] = laid_over(self.world, self.document.get("overlays", {}).get(name, {}))
        return self.laid[name]


@dataclass(slots=True)
class ServedWorlds:
    """See `Worlds`. `read` gives the bytes of a file of the plan's folder; it raises OSError."""

    read: Callable[[str], bytes]
    _files: dict[str, _File] = field(default_factory=dict)

    def offer(self, file: str, server: str) -> WorldOffer:
        """See `Worlds.offer`."""
        found = self._file(file)
        prefix = f"{server}."
        tools = [_offered(tool, prefix) for name, tool in found.world.tools.items() if name.startswith(prefix)]
        if not tools:
            servers = ", ".join(dict.fromkeys(name.partition(".")[0] for name in found.world.tools)) or "none"
            raise ServerFailed("BadWorld", f"{file}: no tool in it begins with `{prefix}`; there are {servers}")
        return WorldOffer(found.world.name, found.digest, tuple(tools))

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        """See `Worlds.call`."""
        before = with_kept(self._file(file).found_by(task), kept)
        after, answer = call(before, tool, arguments)
        return WorldCall(_result(answer), kept_of(before, after))

    def _file(self, file: str) -> _File:
        found = self._files.get(file)
        if found is None:
            found = self._read(file)
            if len(self._files) >= limits.SPECS_KEPT_MAX:
                self._files.clear()
            self._files[file] = found
        return found

    def _read(self, file: str) -> _File:
        try:
            content = self.read(file)
        except OSError as error:
            raise ServerFailed("BadWorld", f"{file}: {error.strerror or error}") from None
        read = read_world(content, file=file)
        if read.world is None or read.document is None:
            raise ServerFailed("BadWorld", "; ".join(_told(read.diagnostics)))
        return _File(digest(content), read.document, read.world, {})


def with_kept(world: World, kept: JsonObject) -> World:
    """The world with what is kept of an agent's."""
    if not kept:
        return world
    tables = dict(world.tables)
    for name, rows in kept.get(_ROWS, {}).items():
        changed = {id_: row[0] for id_, row in rows.items() if row}
        gone = {id_ for id_, row in rows.items() if not row}
        tables[name] = {id_: row for id_, row in tables.get(name, {}).items() if id_ not in gone} | changed
    serials = {**world.serials, **kept.get(_SERIALS, {})}
    return replace(world, tables=tables, serials=serials, failed={**world.failed, **kept.get(_FAILED, {})})


def kept_of(before: World, after: World) -> JsonObject:
    """What a call merges into what is kept."""
    rows = {name: changed for name in after.tables if (changed := dict(_changed(before, after, name)))}
    serials = {name: n for name, n in after.serials.items() if before.serials.get(name) != n}
    failed = {name: n for name, n in after.failed.items() if before.failed.get(name) != n}
    parts: JsonObject = {_ROWS: rows, _SERIALS: serials, _FAILED: failed}
    return {name: part for name, part in parts.items() if part}


def _changed(before: World, after: World, table: str) -> Iterator[tuple[str, list[Row]]]:
    old, new = before.tables[table], after.tables[table]
    if old is new:
        return
    for id_, row in new.items():
        if old.get(id_) is not row and old.get(id_) != row:
            yield id_, [row]
    for id_ in old:
        if id_ not in new:
            yield id_, []


def _offered(tool: WorldTool, prefix: str) -> ServedTool:
    name = tool.name.removeprefix(prefix)
    hints: JsonObject = {} if tool.writes else {"read_only_hint": True}
    return ServedTool(name, tool.about, tool.parameters, hints, digest_of([name, tool.about, tool.parameters]))


def _result(answer: Answer) -> CallResult:
    if answer.error:
        return CallResult(CallState.FAILED, answer.text, answer.error)
    is_text = isinstance(answer.value, str)
    return CallResult(CallState.SUCCEEDED, answer.text, value=None if is_text else answer.value)


def _told(diagnostics: tuple[Diagnostic, ...]) -> Iterator[str]:
    """The first faults, each with its place and its cure."""
    for one in diagnostics[: limits.DIAGNOSTICS_SHOWN_MAX]:
        place = "" if one.span is None else f"{one.span.file}:{one.span.line}:{one.span.column}: "
        yield f"{place}{one.code} {one.summary}" + (f" ({one.hint})" if one.hint else "")
