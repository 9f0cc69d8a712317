"""The log of a replay: its records in order, and which of them are external inputs.

It is read and verified once, and never changes. Positions are indexes into `records`: the revision minus 1.
"""

from __future__ import annotations

from collections.abc import Callable

from planloop.client.plan_paths import PlanPaths
from planloop.controllers.agent.turn.ask import CANCELLED_REASON
from planloop.reconciler.store import backend
from planloop.reconciler.store.log_reader import verified_entries
from planloop.reconciler.store.memory_view import MemoryView
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import merge_values
from planloop.schemas.log.record import Put, Record, RecordDraft, SetStatus, SubRecord
from planloop.schemas.resource import Resource

Blobs = Callable[[str], bytes | None]

EXTERNAL_ACTORS = (
    *("human:", "controller:owner", "controller:journal", "controller:engine"),
    *("controller:mcp", "controller:fork", "controller:container", "guest:"),
)
"""Actors of external inputs: operators, MCP clients, crash recovery, watchers of servers and containers, git.

Their records are played back."""

SWALLOWED = frozenset({"object.deleted"})
"""Records of the engine that the replay writes itself, instead of playing them back."""

OF_ASKING = frozenset({"model.requested", "model.replied", "model.failed", "turn.started", "turn.ended", "agent.ended"})
"""Types of records that end an agent's request, or show that it was not answered."""


@frozen
class ReplayHistory:
    """A log. `plan` is the plan's name; `settled` has the position of the end of each operation, by its id.

    `calls` has the addresses of the calls in a reply, by agent, incarnation and turn, in call order.
    """

    plan: str
    records: tuple[Record, ...]
    objects: tuple[Resource, ...]
    settled: dict[str, int]
    calls: dict[tuple[str, int, int], list[str]]
    blob: Blobs

    def next(self, after: int, fits: Callable[[RecordDraft], bool]) -> int | None:
        """Return the first position, from `after` on, whose record matches `fits`, or None."""
        found = (index for index in range(after, len(self.records)) if fits(self.records[index].draft))
        return next(found, None)

    def is_answered(self, agent: str, after: int) -> bool:
        """Return whether the agent's request at the position `after` was answered, and not cancelled or repeated."""
        for record in self.records[after:]:
            if record.draft.type == "epoch.taken":
                return False
            for one in record.draft.entries:
                if one.subject == agent and one.type in OF_ASKING:
                    is_failure = one.type == "model.failed" and one.data.get("reason") != CANCELLED_REASON
                    return one.type == "model.replied" or is_failure
        return False

    def started(self, op: str) -> tuple[int, str]:
        """Return the position where the operation `op` started, and the address of its call."""
        for index, record in enumerate(self.records):
            for change in record.draft.changes:
                if isinstance(change, Put) and change.address.startswith("call/") and change.spec["op"] == op:
                    return index, change.address
        return len(self.records), ""


def is_outside(draft: RecordDraft) -> bool:
    """Return whether the record is an external input."""
    if draft.actor.startswith("controller:engine"):
        return draft.type not in SWALLOWED
    return draft.actor.startswith(EXTERNAL_ACTORS) or _answer_of_person(draft) is not None


def _answer_of_person(draft: RecordDraft) -> JsonObject | None:
    """Return an operator's answer to an agent's request. Its record has the agent as actor."""
    answer = draft.data.get("approved") or draft.data.get("rejected")
    return answer if isinstance(answer, dict) and str(answer.get("by", "")).startswith("human:") else None


def read_history(place: PlanPaths) -> ReplayHistory:
    """Read the log of the plan at `place`. Raises StoreCorrupt, StoreFailed."""
    view, records = MemoryView(), []
    with backend.open_log(place.folder) as log:
        for entry in verified_entries(log):
            view.fold(entry.record)
            records.append(entry.record)
    objects = tuple(view.everything())
    # A closed reader opens the log for each read, so no connection outlives the replay.
    return ReplayHistory(place.name, tuple(records), objects, _settled(records), _calls(records), log.get_blob)


def missing_blobs(story: ReplayHistory) -> list[str]:
    """Return the missing blobs, as lines. A replay needs all of them."""
    named = {name: record.rev for record in story.records for name in record.draft.blobs}
    return [f"blob {name[:12]} of revision {rev} is missing" for name, rev in named.items() if story.blob(name) is None]


def _settled(records: list[Record]) -> dict[str, int]:
    """Return the position where each operation ended. For a call, this is its last operation."""
    ops: dict[str, str] = {}
    out: dict[str, int] = {}
    for index, record in enumerate(records):
        for change in record.draft.changes:
            if isinstance(change, Put) and change.address.startswith("call/"):
                ops[change.address] = str(change.spec["op"])
        for said in record.draft.entries:
            if said.type == "call.settled" and not said.data.get("late"):
                op = said.data.get("op") or ops.get(said.subject)
                if op is not None:
                    out[str(op)] = index
    return out


def _calls(records: list[Record]) -> dict[tuple[str, int, int], list[str]]:
    incarnations: dict[str, int] = {}
    out: dict[tuple[str, int, int], list[str]] = {}
    for record in records:
        for said in record.draft.entries:
            if said.type == "agent.woken":
                incarnations[said.subject] = int(said.data.get("incarnation", 0))
            elif said.type == "model.replied" and "calls" in said.data:
                key = (said.subject, incarnations.get(said.subject, 0), int(said.data.get("turn", 0)))
                out[key] = [str(call["call"]) for call in said.data["calls"]]
    return out


def entry(draft: RecordDraft, type_: str, subject: str) -> SubRecord | None:
    """Return the record's first entry of that type about `subject`, or None."""
    return next((one for one in draft.entries if (one.type, one.subject) == (type_, subject)), None)


def status_in(draft: RecordDraft, address: str) -> JsonObject:
    """Return the record's merge into the status of the object at `address`."""
    out: JsonObject = {}
    for change in draft.changes:
        if isinstance(change, SetStatus) and change.address == address:
            out = merge_values(out, change.merge)
    return out


def status_after(draft: RecordDraft, resource: Resource) -> JsonObject:
    """Return the status of `resource` after the record is folded."""
    status = resource.status
    for change in draft.changes:
        if isinstance(change, SetStatus) and change.address == resource.address:
            status = merge_values(status, change.merge)
    return status
