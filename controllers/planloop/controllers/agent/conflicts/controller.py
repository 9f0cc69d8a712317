"""The conflict controller: route each conflict to an agent or operator, escalate unanswered ones, close resolved
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from planloop.controllers.agent.conflicts import decide, detection, resolution
from planloop.controllers.agent.conflicts.decide import (
    CloseConflict,
    ConflictRest,
    RouteConflict,
    decide_conflict,
    incarnation_of,
    locks_of_party,
    task_of_party,
)
from planloop.controllers.agent.conflicts.detection import ConflictCase
from planloop.controllers.agent.conflicts.resolution import resume_kept_back_changes
from planloop.controllers.agent.services import PatchGate
from planloop.controllers.agent.tools.files import text_difference
from planloop.reconciler.clock import Clock
from planloop.reconciler.effects.truncate import truncate_output
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.store.store import Store, View
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.log.patch import Author, Patch, PatchAccepted
from planloop.schemas.log.record import Change, Drop, Put, Record, RecordDraft, SubRecord
from planloop.schemas.objects import conflict as conflicts
from planloop.schemas.objects.approval import WAITING, ApprovalSpec
from planloop.schemas.objects.conflict import (
    PERSON,
    ConflictSpec,
    ConflictStatus,
    conflict_from_json,
    conflict_status_from_json,
)
from planloop.schemas.resource import Resource, Uid

# The changes of the parties since they locked or requested the files are read from the log and truncated. Only the
# newest `limits.CONFLICT_RECORDS_MAX` records are read: the log of a day would take too long.

RECORDS_PER_READ = 500


@mutable
class ChangedFile:
    """The digests of a file before the first change (None: it did not exist) and after the last change."""

    before: str | None
    after: str | None


async def changes_by_party(store: Store, spec: ConflictSpec, status: ConflictStatus) -> Mapping[str, str]:
    """Return the changes of each party so far, as text with short diffs. Parties without changes are omitted."""
    since = {agent: first_relevant_revision(store.view, agent, status) for agent in spec.parties}
    after = max(min(since.values()) - 1, store.durable_rev - limits.CONFLICT_RECORDS_MAX, 0)
    found: dict[str, dict[str, ChangedFile]] = {agent: {} for agent in spec.parties}
    while records := await store.log(after, RECORDS_PER_READ):
        for record in records:
            collect_writes(record, since, found)
        after = records[-1].rev
    return {agent: text for agent, files in found.items() if (text := describe_changes(store, files))}


def first_relevant_revision(view: View, agent: str, status: ConflictStatus) -> int:
    """Return the revision from which a party's changes count: its first grant on the files, or its waiting call."""
    fences = [one.fence for _, one in locks_of_party(view, agent, status.paths)]
    party = status.parties.get(agent)
    call = view.get(party.call) if party is not None and party.call else None
    begun = [] if call is None else [call.created_rev]
    return min((*fences, *begun), default=view.rev + 1)


def collect_writes(record: Record, since: Mapping[str, int], found: Mapping[str, dict[str, ChangedFile]]) -> None:
    """Add the writes in `record` to those of their parties."""
    for entry in record.draft.entries:
        wrote = entry.data.get("wrote") if entry.type == "call.settled" else None
        if not isinstance(wrote, dict):
            continue
        agent = str(wrote.get("by"))
        if agent in found and record.rev >= since[agent]:
            _note(found[agent], wrote)


def _note(files: dict[str, ChangedFile], wrote: JsonObject) -> None:
    known = files.get(wrote["path"])
    if known is None:
        files[wrote["path"]] = ChangedFile(wrote["before"], wrote["after"])
    else:
        known.after = wrote["after"]


def describe_changes(store: Store, files: Mapping[str, ChangedFile]) -> str:
    """Return the files with short diffs, at most CONFLICT_FILES_SHOWN."""
    parts = [_shown(store, path, one) for path, one in _first(files.items())]
    rest = len(files) - limits.CONFLICT_FILES_SHOWN
    return "\n".join((*parts, *([f"… and {rest} more files"] if rest > 0 else [])))


def _first(files: Iterable[tuple[str, ChangedFile]]) -> list[tuple[str, ChangedFile]]:
    return sorted(files, key=lambda entry: entry[0])[: limits.CONFLICT_FILES_SHOWN]


def _shown(store: Store, path: str, one: ChangedFile) -> str:
    old = b"" if one.before is None else store.get_blob(one.before)
    new = None if one.after is None else store.get_blob(one.after)
    if new is None:
        return path
    lines = text_difference(old, new, path).splitlines()
    shown = lines[2:] if lines and lines[0].startswith("---") else lines
    return truncate_output("\n".join((path, *shown)).encode(), limits.CONFLICT_DIFF_BYTES)


# The controller assigns each conflict, escalates it if no answer comes, and closes it. Timers are the `due_at` in the
# status, so they survive a crash. Each step is one append.

CONFLICT_AUTHOR: Final = Author("controller", "conflict")


class ConflictReconciler:
    """Reconciles objects of kind `conflict`."""

    kind = conflicts.CONFLICT_KIND

    def __init__(self, store: Store, clock: Clock, gate: PatchGate) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock

    async def reconcile(self, address: Address) -> Outcome:
        """Take the next step of a conflict."""
        found = self._store.view.get(str(address))
        if found is None:
            return Done()
        now = self._clock.now()
        spec, status = conflict_from_json(found.spec), conflict_status_from_json(found.status)
        match decide_conflict(self._store.view, spec, status, now):
            case CloseConflict(why=why):
                await self._close(found, why)
            case RouteConflict() as step:
                await self._assign(found, step)
            case ConflictRest(due_at=due_at):
                return Done() if due_at is None else Again(max(0.0, due_at - now))
        return Again(0.0)

    async def _close(self, conflict: Resource, why: str) -> None:
        case = _case(conflict, {})
        now, view = self._clock.now(), self._store.view
        merge: JsonObject = {"state": conflicts.OVER, "why": why, "due_at": None, "ended_at": now}
        changes = (
            Put(conflict.address, conflict.uid, conflict.spec, status=merge),
            *resume_kept_back_changes(view, case.spec),
            *_without_approval(view, conflict.address),
            *detection.closing_messages(view, case, why, now),
        )
        data: JsonObject = {"why": why, "ruling": conflict.status.get("ruling")}
        if await self._is_undone(conflict, changes, data):
            return
        draft = RecordDraft("conflict.closed", detection.CONFLICT_SENDER, conflict.address, changes, data)
        await self._store.append(draft, {conflict.address: conflict.rev})

    async def _is_undone(self, conflict: Resource, changes: tuple[Change, ...], data: JsonObject) -> bool:
        """Close the conflict with a patch that removes its order from the plan; False if the plan has none."""
        view = self._store.view
        ops = tuple(op for plan in view.list("plan") for op in resolution.undo_ordering(conflict, plan.spec))
        if not ops:
            return False
        also = (SubRecord("conflict.closed", conflict.address, data),)
        # The ruling passed the gate; reverting it needs no approval.
        patch = Patch(CONFLICT_AUTHOR, ops, view.rev, f"{conflict.address} is closed: {data['why']}", is_approved=True)
        return isinstance(await self._gate.rule(patch, changes, also), PatchAccepted)

    async def _assign(self, conflict: Resource, step: RouteConflict) -> None:
        spec, status = conflict_from_json(conflict.spec), conflict_status_from_json(conflict.status)
        # Await before the view is read, so that the step is computed from one state.
        changed = await changes_by_party(self._store, spec, status)
        case = _case(conflict, changed, step.why)
        view, now = self._store.view, self._clock.now()
        to, messages = self._reached(case, step, now)
        due_at = None if to == PERSON else now + limits.CONFLICT_ANSWER_S
        merge: JsonObject = {
            "state": conflicts.OPEN,
            "before": to,
            "told": incarnation_of(view, to),
            "raised": step.raised,
        }
        merge |= {"due_at": due_at, "ruling": None, "why": f"waits for {'a person' if to == PERSON else to}"}
        merge["text"] = detection.describe_conflict(case)
        owner = None if to == PERSON else to
        judge = () if owner is None else (owner, task_of_party(view, owner))
        refs = tuple(dict.fromkeys((*conflict.refs, *judge)))
        put = Put(conflict.address, conflict.uid, conflict.spec, refs, owner, status=merge)
        first = () if status.before else detection.opening_messages(view, case, to, now)
        messages = (*messages, *resume_kept_back_changes(view, spec))
        data: JsonObject = {
            "conflict": conflict.address,
            "before": to,
            "raised": step.raised,
            "why": step.why,
            "paths": list(status.paths),
        }
        kind = "conflict.raised" if status.before else "conflict.opened"
        draft = RecordDraft(kind, detection.CONFLICT_SENDER, conflict.address, (put, *messages, *first), data)
        await self._store.append(draft, {conflict.address: conflict.rev})

    def _reached(self, case: ConflictCase, step: RouteConflict, now: float) -> tuple[str, tuple[Change, ...]]:
        """Return the first agent from `step.to` upward that can get the message, and the changes that send it."""
        view, to = self._store.view, step.to
        while to != PERSON:
            told = detection.assignment_changes(view, case, to, f"{step.raised}.{incarnation_of(view, to)}", now)
            if told is not None:
                return to, told
            to = decide.next_able_above(view, to)
        return PERSON, tuple(_approval(case))


def _case(conflict: Resource, changed: Mapping[str, str], why: str = "") -> ConflictCase:
    spec, status = conflict_from_json(conflict.spec), conflict_status_from_json(conflict.status)
    return ConflictCase(conflict.address, spec, status, changed, why)


def _approval(case: ConflictCase) -> Iterator[Change]:
    """The approval for a conflict that waits for a person."""
    address = conflicts.conflict_approval_address(case.address)
    uid = Uid(address.partition("/")[2])
    what: JsonObject = {"conflict": case.address, "text": detection.describe_conflict(case), **case.spec.to_json()}
    spec = ApprovalSpec("conflict", detection.CONFLICT_SENDER, detection.conflict_headline(case), what)
    yield Put(address, uid, spec.to_json(), owner=case.address, status={"state": WAITING})


def _without_approval(view: View, address: str) -> Iterator[Change]:
    approval = view.get(conflicts.conflict_approval_address(address))
    if approval is not None:
        yield Drop(approval.address, approval.uid)
