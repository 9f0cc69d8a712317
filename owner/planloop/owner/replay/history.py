"""The records of a log in order, and where each external input came in.

Read once, verified, and never changed. Positions are indexes into `records`, which is revision minus 1.
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
"""Who acts for the world: people, programs from outside, crashes, what watches servers and containers, git.

What they did is played back."""

SWALLOWED = frozenset({"object.deleted"})
"""What the engine itself writes as a matter of course: that is done again, not played back."""

OF_ASKING = frozenset({"model.requested", "model.replied", "model.failed", "turn.started", "turn.ended", "agent.ended"})
"""What becomes of an agent's request, and what shows that nothing did."""


@frozen
class ReplayHistory:
    """A log. `plan` is the plan's name; `settled` places the end of each operation by its id.

    `calls` has the addresses of the calls that a reply asked for, by agent, incarnation and turn, in call order.
    """

    plan: str
    records: tuple[Record, ...]
    objects: tuple[Resource, ...]
    settled: dict[str, int]
    calls: dict[tuple[str, int, int], list[str]]
    blob: Blobs

    def next(self, after: int, fits: Callable[[RecordDraft], bool]) -> int | None:
        """The first place from `after` on whose record `fits`."""
        found = (index for index in range(after, len(self.records)) if fits(self.records[index].draft))
        return next(found, None)

    def is_answered(self, agent: str, after: int) -> bool:
        """Whether what the agent waits for at the place `after` was answered, and not called off or asked anew."""
        for record in self.records[after:]:
            if record.draft.type == "epoch.taken":
                return False
            for one in record.draft.entries:
                if one.subject == agent and one.type in OF_ASKING:
                    is_failure = one.type == "model.failed" and one.data.get("reason") != CANCELLED_REASON
                    return one.type == "model.replied" or is_failure
        return False

    def started(self, op: str) -> tuple[int, str]:
        """Where the operation `op` was begun, and the call that it is of."""
        for index, record in enumerate(self.records):
            for change in record.draft.changes:
                if isinstance(change, Put) and change.address.startswith("call/") and change.spec["op"] == op:
                    return index, change.address
        return len(self.records), ""


def is_outside(draft: RecordDraft) -> bool:
    """Whether the record tells of something that the plan did not do by itself."""
    if draft.actor.startswith("controller:engine"):
        return draft.type not in SWALLOWED
    return draft.actor.startswith(EXTERNAL_ACTORS) or _answer_of_person(draft) is not None


def _answer_of_person(draft: RecordDraft) -> JsonObject | None:
    """A person's answer to what an agent wanted stands in a record that the agent signs."""
    told = draft.data.get("approved") or draft.data.get("rejected")
    return told if isinstance(told, dict) and str(told.get("by", "")).startswith("human:") else None


def read_history(place: PlanPaths) -> ReplayHistory:
    """The story of the plan at `place`. Raises StoreCorrupt, StoreFailed."""
    view, records = MemoryView(), []
    with backend.open_log(place.folder) as log:
        for entry in verified_entries(log):
            view.fold(entry.record)
            records.append(entry.record)
    objects = tuple(view.everything())
    # A closed reader opens the log for each read, so no connection outlives the replay.
    return ReplayHistory(place.name, tuple(records), objects, _settled(records), _calls(records), log.get_blob)


def missing_blobs(story: ReplayHistory) -> list[str]:
    """Every recording that a replay would need and that is gone, in words; a replay is not begun without."""
    named = {name: record.rev for record in story.records for name in record.draft.blobs}
    return [f"blob {name[:12]} of revision {rev} is gone" for name, rev in named.items() if story.blob(name) is None]


def _settled(records: list[Record]) -> dict[str, int]:
    """The place where each operation ended: of a call, the operation that it was started with last."""
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
    """The first thing of that type that the record says about `subject`; None when it says no such thing."""
    return next((one for one in draft.entries if (one.type, one.subject) == (type_, subject)), None)


def status_in(draft: RecordDraft, address: str) -> JsonObject:
    """What the record merges into the status of the object at `address`."""
    out: JsonObject = {}
    for change in draft.changes:
        if isinstance(change, SetStatus) and change.address == address:
            out = merge_values(out, change.merge)
    return out


def status_after(draft: RecordDraft, resource: Resource) -> JsonObject:
    """The status of `resource` once the record is folded: what is taken away with what is put there."""
    status = resource.status
    for change in draft.changes:
        if isinstance(change, SetStatus) and change.address == resource.address:
            status = merge_values(status, change.merge)
    return status
