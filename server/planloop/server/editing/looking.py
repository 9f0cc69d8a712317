"""Looks at a text as somebody edits it: its faults, what others changed meanwhile, the conflicts, and the edit itself.

Pure but for the local files that a plan includes. It is asked in a process of its own (`working.py`), so all that goes
in and comes out can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from planloop.app import compiling
from planloop.app.compiling import PlanFile
from planloop.cli.rendering import diagnostics
from planloop.schemas import patching
from planloop.schemas.diagnostic import Span
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import DIAGNOSTICS_SHOWN_MAX
from planloop.schemas.patching import Op
from planloop.server.editing import clashes
from planloop.server.editing.clashes import Clash


@frozen
class Draft:
    """A text that was begun on the document `base`, and the `live` one; `chosen` says what was taken by clash."""

    path: Path
    text: str
    base: JsonObject
    live: JsonObject
    chosen: Mapping[str, str]


@frozen
class Looked:
    """What there is to say of a draft.

    `faults` are diagnostics as JSON, `fault_count` how many there are in all. With an error among them `document` is
    None and there are no clashes. `document` is the live one with the edit in it, `ops` turn the live one into it.
    `places` are where the clashes stand in the text, `others` what was changed live since it was begun.
    """

    faults: tuple[JsonObject, ...]
    fault_count: int
    document: JsonObject | None
    clashes: tuple[Clash, ...]
    places: tuple[JsonObject | None, ...]
    ops: tuple[Op, ...]
    others: tuple[Op, ...]

    @property
    def is_open(self) -> bool:
        """Whether there is a clash with no choice made."""
        return any(one.taken is None for one in self.clashes)


def look(draft: Draft) -> Looked:
    """What `draft` says and would do."""
    file = compiling.compiled(draft.path, draft.text.encode())
    others = tuple(patching.difference(draft.base, draft.live))
    found = file.compiled.diagnostics
    faults = tuple(_fault(diagnostics.to_json(one), file, draft.path.name) for one in found[:DIAGNOSTICS_SHOWN_MAX])
    if file.errors:
        return Looked(faults, len(found), None, (), (), (), others)
    settled = clashes.settle(draft.base, file.document, draft.live, draft.chosen)
    ops = tuple(patching.difference(draft.live, settled.document))
    places = tuple(_place(file, one.path) for one in settled.clashes)
    return Looked(faults, len(found), settled.document, settled.clashes, places, ops, others)


def _fault(fault: JsonObject, file: PlanFile, name: str) -> JsonObject:
    """The same with the file called by its name, and `is_here` where it stands in the text itself."""
    own = file.compiled.tree.file
    related = [{**one, "span": _named(one["span"], own, name)} for one in fault["related"]]
    return {**fault, "span": _named(fault["span"], own, name), "related": related}


def _named(span: JsonObject | None, own: str, name: str) -> JsonObject | None:
    if span is None:
        return None
    is_here = span["file"] == own
    return {**span, "file": name if is_here else span["file"], "is_here": is_here}


def _place(file: PlanFile, path: tuple[str, ...]) -> JsonObject | None:
    """Where in the text what stands at `path` is, or what is nearest around it."""
    for length in range(len(path), 0, -1):
        source = file.compiled.origin(path[:length])
        place = file.compiled.tree.place(source) if source is not None else None
        if place is not None:
            span: Span = place.key or place.value
            return span.to_json()
    return None
