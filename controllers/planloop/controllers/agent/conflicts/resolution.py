"""Resolve a conflict with a patch, and release the locks of the party that yields, in one record. Pure.

The patch is in the name of the agent or person that decides, and passes the gate like any other; a ruling that its
author may not make changes nothing. Any common ancestor may decide while the conflict is open. The first ruling counts,
but it may be replaced until the yielding party has followed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, get_args

from planloop.controllers.agent.conflicts import decide, detection
from planloop.controllers.agent.conflicts.decide import (
    calls_kept_back,
    has_task_ended,
    is_waiting_for_lock,
    locks_of_party,
    staying_party,
    task_of_party,
    touches,
    yielding_party,
)
from planloop.controllers.agent.conflicts.detection import ConflictRuling, describe_paths, is_conflict_open
from planloop.controllers.shared.leases.grants import LockRows, lock_path
from planloop.controllers.shared.leases.lock_paths import path_in_tree
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import json_patch, json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Author, author_from_text, describe_author
from planloop.schemas.log.record import Change, Drop, SetStatus, SubRecord
from planloop.schemas.objects import conflict as conflicts
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.conflict import (
    ConflictSpec,
    ConflictStatus,
    Ruling,
    RulingKind,
    conflict_from_json,
    conflict_status_from_json,
    party_name,
)
from planloop.schemas.objects.lock import lock_status_from_json
from planloop.schemas.resource import Resource

YIELDING_NOTE: Final = (
    "Your locks on it end with your turn, or now with `release`. Read the files again before you write them"
)
"""What happens to the locks of a holder that yields."""


@frozen
class ResolutionDraft:
    """The conflict and the ruling to make."""

    view: View
    conflict: Resource
    spec: ConflictSpec
    status: ConflictStatus
    ruling: Ruling

    @property
    def yields(self) -> str:
        """The party that yields."""
        return yielding_party(self.spec, self.ruling)

    @property
    def stays(self) -> str:
        """The party that does not yield."""
        return staying_party(self.spec, self.ruling)

    @property
    def paths(self) -> str:
        return describe_paths(self.status)


def party_message(made: ResolutionDraft, agent: str) -> str:
    """Return the message to a party about the ruling; empty if it needs none."""
    match made.ruling.how:
        case "cancel":
            return (
                ""
                if agent == made.yields
                else f"the task of {party_name(made.yields)} is cancelled: {made.ruling.plan}"
            )
        case "fork":
            other = f"{party_name(made.yields)} works on its own branch from now on"
            return yielding_instructions(made) if agent == made.yields else other
        case "merge" if agent == made.stays:
            return staying_instructions(made)
        case _ if agent == made.yields:
            return yielding_instructions(made)
        case _:
            return ""


def yielding_instructions(made: ResolutionDraft) -> str:
    """Return the instructions for the party that yields."""
    text = f"{_gist(made)}. {YIELDING_NOTE}" if made.yields == made.spec.holds else _gist(made)
    return _with_plan(made, text)


def yielding_call_result(made: ResolutionDraft) -> str:
    """Return the result of the waiting call of a party that yields: the ruling in one line, then the next step."""
    by, plan = describe_author(made.ruling.by), f": {made.ruling.plan}" if made.ruling.plan else ""
    ways = {
        "fork": "Call it again: it then works on your branch.",
        "merge": "Continue with your other work.",
    }
    rest = " ".join((f"{by} decided this{plan}.", "Nothing was changed.", ways.get(made.ruling.how, "")))
    return f"{made.conflict.address}: {_gist(made)}\n{rest.rstrip()}"


def _gist(made: ResolutionDraft) -> str:
    """The meaning of the ruling for the party that yields."""
    other, paths = party_name(made.stays), made.paths
    match made.ruling.how:
        case "fork":
            return "you work on your own branch from now on; it is merged when your task is done"
        case "merge":
            return f"{other} also does your part on {paths}: do not change it"
        case "sequence":
            return f"{other} goes first on {paths}; you continue when its task has ended"
        case _ if made.yields == made.spec.holds:
            return f"{other} gets {paths} next"
        case _:
            return f"{other} keeps {paths}: do other work, or lock it later"


def _with_plan(made: ResolutionDraft, text: str) -> str:
    return f"{text}. {made.ruling.plan}" if made.ruling.plan else text


def staying_instructions(made: ResolutionDraft) -> str:
    """Return the instructions for the party that does the work of both."""
    return _with_plan(made, f"on {made.paths} you also do the part of {party_name(made.yields)}")


# A ruling takes effect even if the yielding party never reads it. Its locks on the files end with its open turn, or
# immediately if no turn is open. It gets a message. Later writes need a new lock and the current content of the file.

RULED_REASON: Final = "Ruled"
"""The error of a call whose wait was ended by a ruling."""


@frozen
class Preemption:
    """The changes that release the locks, and the entries about them in the same record."""

    changes: tuple[Change, ...]
    also: tuple[SubRecord, ...] = ()


def preempt(made: ResolutionDraft) -> Preemption:
    """Return the changes that release the locks of the yielding party and answer its waiting call."""
    if made.ruling.how == "cancel":  # Its task ends, and so do its locks.
        return Preemption(())
    rows = LockRows(made.view)
    answers = [*_shortened(made)]
    if (call := _waiting_call(made)) is not None:
        for path in call.status.get("wants") or ():
            rows.leave(path, call.address)
        answers.append(SetStatus(call.address, call.uid, _answer(made, call)))
    gone = _taken(made, rows)
    data: JsonObject = {"owner": made.yields, "locks": list(gone), "why": f"decided in {made.conflict.address}"}
    also = (SubRecord("lock.released", gone[0], data),) if gone else ()
    return Preemption((*rows.changes(), *answers), also)


def _taken(made: ResolutionDraft, rows: LockRows) -> tuple[str, ...]:
    """Write the releases to `rows`; return the locks that are released immediately."""
    agent = made.view.get(made.yields)
    if agent is None or agent.kind != "agent":
        return ()  # A command keeps the `locks` of its task until it ends.
    is_at_once = agent.status.get("open") is None
    gone: list[str] = []
    for lock in made.view.list("lock"):
        grant = lock_status_from_json(lock.status).holders.get(agent.address)
        if grant is None or grant.kept == "declared" or not touches(lock_path(lock), made.status.paths):
            continue
        if is_at_once:
            rows.release(lock.spec["path"], agent.address)
            gone.append(lock.address)
        elif grant.kept != "turn":
            rows.shorten(lock.spec["path"], agent.address)
    return tuple(gone)


def _shortened(made: ResolutionDraft) -> Iterator[Change]:
    """Limit grants that the yielding party still waits for to its current turn."""
    for call in made.view.owned_by(made.yields):
        wants = call.status.get("wants") or ()
        if is_waiting_for_lock(made.view, call.address) and any(touches(path, made.status.paths) for path in wants):
            yield SetStatus(call.address, call.uid, {"kept": "turn"})


def _waiting_call(made: ResolutionDraft) -> Resource | None:
    """The waiting call, if its agent is the party that yields."""
    address = made.status.parties[made.spec.wants].call
    is_meant = made.yields == made.spec.wants and is_waiting_for_lock(made.view, address)
    return made.view.get(address) if is_meant else None


def _answer(made: ResolutionDraft, call: Resource) -> JsonObject:
    """The answer to the waiting call: it waits for the other task, or is rejected."""
    if made.ruling.how == "sequence":
        after = task_of_party(made.view, made.stays)
        state = CallState.AUTHORIZED if is_priority_over(made.view, after) else CallState.AWAITING_CHILD
        why = f"waits for {after} to end, as decided in {made.conflict.address}"
        # The lock controller reads `ends` to find cycles through this call.
        due_at = detection.wait_deadline(call)
        return {"state": str(state), "after": after, "ends": [after], "why": why, "due_at": due_at, "unblocks": []}
    return {"refused": {"reason": RULED_REASON, "message": yielding_call_result(made)}}


def is_priority_over(view: View, task: str) -> bool:
    """Whether a task has ended or was removed, so that nothing waits for it."""
    found = view.get(task)
    return found is None or has_task_ended(found)


def resume_kept_back_changes(view: View, spec: ConflictSpec) -> Iterator[Change]:
    """Yield the changes that resume calls that waited for the other task of a sequence."""
    for agent in spec.parties:
        for call in calls_kept_back(view, agent):
            merge: JsonObject = {"state": str(CallState.AUTHORIZED), "after": None, "ends": None, "why": None}
            yield SetStatus(call.address, call.uid, merge)


class InvalidResolution(Exception):
    """The resolution is not possible: NotFound, Resolved, NotAllowed, Declared …"""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@frozen
class ResolutionRequest:
    """A requested ruling. `for_agent` is a party's path or id, empty for the default."""

    conflict: str
    how: str
    for_agent: str = ""
    plan: str = ""


@frozen
class ConflictResolution:
    """A valid ruling: its patch, and the changes and entries of the same record.

    `ops` is empty and `is_again` true if the same author made the same ruling before.
    """

    ruling: Ruling
    ops: tuple[PatchOp, ...]
    changes: tuple[Change, ...] = ()
    also: tuple[SubRecord, ...] = ()
    is_again: bool = False


def plan_resolution(
    view: View, document: JsonObject, request: ResolutionRequest, by: Author, now: float
) -> ConflictResolution:
    """Return the resolution for `request`. Raises InvalidResolution."""
    conflict = _found(view, request.conflict)
    if len(request.plan) > limits.CONFLICT_PLAN_MAX:
        raise InvalidResolution("BadArguments", f"`plan` has at most {limits.CONFLICT_PLAN_MAX} characters")
    spec, status = conflict_from_json(conflict.spec), conflict_status_from_json(conflict.status)
    ruling = Ruling(_how(request.how), _party(spec, request), str(by), request.plan, now)
    if status.ruling is not None and _is_same(status.ruling, ruling):
        return ConflictResolution(status.ruling, (), is_again=True)
    if not is_conflict_open(conflict):
        raise InvalidResolution("Resolved", f"{conflict.address} is closed: {status.why}")
    if not by.is_human and not decide.is_ancestor_of_both(f"agent/{by.name}", *spec.parties):
        raise InvalidResolution(
            "NotAllowed", f"{conflict.address} is between {_names(spec)}; only a common ancestor may decide it"
        )
    if status.ruling is not None and not _may_overrule(by, status.ruling.by):
        raise InvalidResolution(
            "Resolved", f"{describe_author(status.ruling.by)} has already resolved it as `{status.ruling.how}`"
        )
    made = ResolutionDraft(view, conflict, spec, status, ruling)
    _require_followable(made)
    yielded = preempt(made)
    changes = (*_changes(made), *yielded.changes)
    # The replaced ruling leaves the plan: two orders would be a cycle, and two rulings would contradict each other.
    reverted = (*undo_ordering(conflict, document), *_forgotten(made, document))
    ops = (*reverted, *_ops(made, json_patch.apply_ops(document, reverted)))
    return ConflictResolution(ruling, ops, changes, (_ruled_entry(made), *yielded.also))


def _found(view: View, name_: str) -> Resource:
    number = name_.removeprefix("conflict/").removeprefix("approval/conflict-")
    found = view.get(f"conflict/{number}") if number.isdigit() else None
    if found is None:
        raise InvalidResolution("NotFound", f"there is no conflict `{name_}`")
    return found


def _how(word: str) -> RulingKind:
    for how in get_args(RulingKind):
        if word == how:
            return how  # type: ignore[no-any-return]
    raise InvalidResolution("BadArguments", f"unknown ruling `{word}`; known: {', '.join(conflicts.WAYS)}")


def _party(spec: ConflictSpec, request: ResolutionRequest) -> str:
    if not request.for_agent:
        return spec.usual(_how(request.how))
    said = request.for_agent.removeprefix("agent/").removeprefix("task/")
    paths = {each.partition("/")[2]: each for each in spec.parties}
    found = [each for path, each in paths.items() if path == said or path.endswith(f"/{said}")]
    if len(found) != 1:
        raise InvalidResolution("BadArguments", f"`{request.for_agent}` is not one of {_names(spec)}")
    return found[0]


def _names(spec: ConflictSpec) -> str:
    return " and ".join(party_name(each) for each in spec.parties)


def _may_overrule(by: Author, before: str) -> bool:
    """Whether an unfollowed ruling may be replaced: by a person always, by an agent if its author is a descendant."""
    earlier = author_from_text(before)
    if by.is_human or earlier.is_human:
        return by.is_human
    return addresses.parse_address(f"agent/{earlier.name}").is_within(addresses.parse_address(f"agent/{by.name}"))


def _require_followable(made: ResolutionDraft) -> None:
    """Raise InvalidResolution if the parties cannot follow the ruling."""
    how, holds = made.ruling.how, made.spec.holds
    if how == "merge" and not made.stays.startswith("agent/"):
        raise InvalidResolution("NoAgent", f"{made.stays} has no agent that could do both: use `sequence` or `cancel`")
    if how == "fork" and _is_command(made):
        raise InvalidResolution(
            "NoAgent", f"{made.yields} is a command, which cannot move to a branch: use `sequence` or `cancel`"
        )
    if how == "fork" and _is_forked(made):
        party = party_name(made.yields)
        words = f"{party} already works on its own branch with these files: use another `how` or `for_agent`"
        raise InvalidResolution("Forked", words)
    if how in ("cancel", "fork") or made.yields != holds:
        return
    grants = [one for _, one in locks_of_party(made.view, holds, made.status.paths)]
    if any(one.kept == "declared" for one in grants):
        task = task_of_party(made.view, holds)
        words = (
            f"{task} has it under `locks` in the plan until it ends: use `sequence` or `cancel`, or edit its `locks`"
        )
        raise InvalidResolution("Declared", words)


def _is_command(made: ResolutionDraft) -> bool:
    task = made.view.get(made.yields)
    return task is not None and task.kind == "task" and bool(task.spec["work"]["kind"] == "run")


def _is_forked(made: ResolutionDraft) -> bool:
    """Whether the party that would get a fork already has one that contains the files."""
    fork = task_of_party(made.view, made.yields).replace("task/", "fork/", 1)
    return made.view.get(fork) is not None and all(path_in_tree(path)[1] == fork for path in made.status.paths)


def _is_same(one: Ruling, other: Ruling) -> bool:
    return replace(one, at=0.0) == replace(other, at=0.0)


def _ops(made: ResolutionDraft, document: JsonObject) -> Iterator[PatchOp]:
    """The patch of the plan."""
    match made.ruling.how:
        case "cancel":
            yield PatchOp("add", (*_tokens(made, made.ruling.for_agent), "cancel"), True)
            return
        case "fork":
            tokens = (*_tokens(made, made.ruling.for_agent), "fork")
            if not (json_pointer.has_value(document, tokens) and json_pointer.value_at(document, tokens)):
                yield PatchOp("add", tokens, True)
            return
        case "sequence":
            yield from _in_order(made, document)
        case "merge":
            yield from _noted(made, document, made.stays, staying_instructions(made))
        case "release":
            pass
    if made.ruling.how != "sequence" or made.yields == made.spec.holds:
        yield from _noted(made, document, made.yields, yielding_instructions(made))


def _in_order(made: ResolutionDraft, document: JsonObject) -> Iterator[PatchOp]:
    """Yield the patch that makes the task of the other party a need of the party that yields."""
    if order := _order(made):
        tokens = (*_tokens(made, made.yields), "needs")
        known: list[Json] = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else []
        yield PatchOp("add", tokens, [*known, order["needs"]])


def undo_ordering(conflict: Resource, document: JsonObject) -> Iterator[PatchOp]:
    """Yield the patch that removes the need of a closed conflict from the plan."""
    for order in conflict.status.get("order") or ():
        tokens = (*json_pointer.task_pointer(addresses.parse_address(order["task"]).path), "needs")
        known: list[Json] = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else []
        left = [each for each in known if each != order["needs"]]
        if left != known:
            yield PatchOp("replace", tokens, left) if left else PatchOp("remove", tokens)


def _forgotten(made: ResolutionDraft, document: JsonObject) -> Iterator[PatchOp]:
    """Yield the patch that removes the earlier ruling from the tasks that have it."""
    for agent in made.spec.parties:
        tokens, key = (*_tokens(made, agent), "rulings"), _key(made)
        known: JsonObject = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else {}
        if key in known:
            yield PatchOp("remove", (*tokens, key) if len(known) > 1 else tokens)


def _noted(made: ResolutionDraft, document: JsonObject, agent: str, text: str) -> Iterator[PatchOp]:
    """Yield the patch that adds the ruling to the task that it instructs."""
    tokens = (*_tokens(made, agent), "rulings")
    known: JsonObject = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else {}
    yield PatchOp("add", tokens, {**known, _key(made): text})


def _key(made: ResolutionDraft) -> str:
    """The key of the ruling in a task's `rulings`."""
    return made.conflict.address.replace("/", "-")


def _tokens(made: ResolutionDraft, agent: str) -> tuple[str, ...]:
    """The path of a party's task in the document."""
    return json_pointer.task_pointer(addresses.parse_address(task_of_party(made.view, agent)).path)


def _changes(made: ResolutionDraft) -> Iterator[Change]:
    """Yield the changes besides the patch: the conflict's status, the waiting call and the messages."""
    ruling, conflict, now = made.ruling, made.conflict, made.ruling.at
    yield SetStatus(conflict.address, conflict.uid, {**_merge(made), "ruling": [ruling.to_json()]})
    approval = made.view.get(conflicts.conflict_approval_address(conflict.address))
    if approval is not None:
        yield Drop(approval.address, approval.uid)
    yield from resume_kept_back_changes(made.view, made.spec)
    count = ConflictRuling(conflict.address, int(conflict.status.get("rulings", 0)) + 1)
    waits = is_waiting_for_lock(made.view, made.status.parties[made.spec.wants].call)
    for agent in made.spec.parties:
        text = party_message(made, agent)
        # A waiting call shows it in its result.
        if text and not (agent == made.spec.wants and waits):
            yield from detection.ruling_messages(made.view, count, agent, text, now)


def _merge(made: ResolutionDraft) -> JsonObject:
    ruling = made.ruling
    by, about = describe_author(ruling.by), party_name(ruling.for_agent)
    why = f"{by} resolved it as `{ruling.how}` for {about}; {party_name(made.yields)} yields"
    rulings = int(made.conflict.status.get("rulings", 0)) + 1
    merge: JsonObject = {"state": conflicts.RULED, "why": why, "due_at": ruling.at + limits.CONFLICT_ANSWER_S}
    return merge | {"rulings": rulings, "order": [order] if (order := _order(made)) else None}


def _order(made: ResolutionDraft) -> JsonObject:
    """The need that the ruling adds to a task; empty for none."""
    task, first = made.view.get(task_of_party(made.view, made.yields)), task_of_party(made.view, made.stays)
    if made.ruling.how != "sequence" or task is None:
        return {}
    order: JsonObject = {"task": task.address, "needs": first.partition("/")[2]}
    is_ours = order in (made.conflict.status.get("order") or ())
    return order if is_ours or first not in task.spec["needs"] else {}


def _ruled_entry(made: ResolutionDraft) -> SubRecord:
    return SubRecord("conflict.ruled", made.conflict.address, made.ruling.to_json())
