"""What the parties of a conflict have changed since they took or asked for the files: read from the log, and cut.

Only the newest `limits.CONFLICT_RECORDS_MAX` records are looked at: reading the log of a day would hold up the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planloop.controllers.agent.conflicts.standing import held
from planloop.controllers.agent.tools.comparing import difference
from planloop.reconciler.effects.clamping import clamped
from planloop.reconciler.storing.store import Store, View
from planloop.schemas import limits
from planloop.schemas.conflict import ConflictSpec, ConflictStatus
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.record import Record

PAGE = 500


@mutable
class Changed:
    """One file: the digests of what it was before the first change (None: it was not there) and after the last."""

    before: str | None
    after: str | None


async def changes_of(store: Store, spec: ConflictSpec, status: ConflictStatus) -> Mapping[str, str]:
    """What each party has changed so far: files with short differences, in words. Parties without are left out."""
    since = {agent: since_of(store.view, agent, status) for agent in spec.parties}
    after = max(min(since.values()) - 1, store.durable_rev - limits.CONFLICT_RECORDS_MAX, 0)
    found: dict[str, dict[str, Changed]] = {agent: {} for agent in spec.parties}
    while records := await store.log(after, PAGE):
        for record in records:
            gather(record, since, found)
        after = records[-1].rev
    return {agent: text for agent, files in found.items() if (text := text_of(store, files))}


def since_of(view: View, agent: str, status: ConflictStatus) -> int:
    """The revision from which a party's changes count: its first grant on the files, or when its call began to wait."""
    fences = [one.fence for _, one in held(view, agent, status.paths)]
    party = status.parties.get(agent)
    call = view.get(party.call) if party is not None and party.call else None
    begun = [] if call is None else [call.created_rev]
    return min((*fences, *begun), default=view.rev + 1)


def gather(record: Record, since: Mapping[str, int], found: Mapping[str, dict[str, Changed]]) -> None:
    """Adds the writes in `record` to those of their parties."""
    for entry in record.draft.entries:
        wrote = entry.data.get("wrote") if entry.type == "call.settled" else None
        if not isinstance(wrote, dict):
            continue
        agent = str(wrote.get("by"))
        if agent in found and record.rev >= since[agent]:
            _note(found[agent], wrote)


def _note(files: dict[str, Changed], wrote: JsonObject) -> None:
    known = files.get(wrote["path"])
    if known is None:
        files[wrote["path"]] = Changed(wrote["before"], wrote["after"])
    else:
        known.after = wrote["after"]


def text_of(store: Store, files: Mapping[str, Changed]) -> str:
    """The files with short differences; only named where there are many."""
    parts = [_shown(store, path, one) for path, one in _first(files.items())]
    rest = len(files) - limits.CONFLICT_FILES_SHOWN
    return "\n".join((*parts, *([f"… and {rest} more files"] if rest > 0 else [])))


def _first(files: Iterable[tuple[str, Changed]]) -> list[tuple[str, Changed]]:
    return sorted(files, key=lambda entry: entry[0])[: limits.CONFLICT_FILES_SHOWN]


def _shown(store: Store, path: str, one: Changed) -> str:
    old = b"" if one.before is None else store.get_blob(one.before)
    new = None if one.after is None else store.get_blob(one.after)
    if new is None:
        return path
    lines = difference(old, new, path).splitlines()
    shown = lines[2:] if lines and lines[0].startswith("---") else lines
    return clamped("\n".join((path, *shown)).encode(), limits.CONFLICT_DIFF_BYTES)
