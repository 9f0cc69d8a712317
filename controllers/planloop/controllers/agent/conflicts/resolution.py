"""Resolve a conflict by a patch, and what that takes from the party that yields, all in one record. Pure."""

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
from planloop.controllers.shared.leases.grants import lock_path
from planloop.controllers.shared.leases.lock_changes import LockRows
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

# A ruling that is being made: who gives way and who stays, and what each of them is told. Pure.

YIELDING_NOTE: Final = (
    "What you hold of it goes with the end of your turn, or now with `release`; read it again before you write"
)
"""What becomes of what the holder holds, whether it does something for it or not."""


@frozen
class ResolutionDraft:
    """The conflict as it stands, and what is to be ruled."""

    view: View
    conflict: Resource
    spec: ConflictSpec
    status: ConflictStatus
    ruling: Ruling

    @property
    def yields(self) -> str:
        """Who is to give way."""
        return yielding_party(self.spec, self.ruling)

    @property
    def stays(self) -> str:
        """The other one."""
        return staying_party(self.spec, self.ruling)

    @property
    def paths(self) -> str:
        return describe_paths(self.status)


def party_message(made: ResolutionDraft, agent: str) -> str:
    """What a party is told of the ruling; empty when that says itself."""
    match made.ruling.how:
        case "cancel":
            return (
                ""
                if agent == made.yields
                else f"the task of {party_name(made.yields)} is cancelled: {made.ruling.plan}"
            )
        case "fork":
            other = f"{party_name(made.yields)} works in a branch of its own from now on"
            return yielding_instructions(made) if agent == made.yields else other
        case "merge" if agent == made.stays:
            return staying_instructions(made)
        case _ if agent == made.yields:
            return yielding_instructions(made)
        case _:
            return ""


def yielding_instructions(made: ResolutionDraft) -> str:
    """What the one that gives way is told to do."""
    text = f"{_gist(made)}. {YIELDING_NOTE}" if made.yields == made.spec.holds else _gist(made)
    return _with_plan(made, text)


def yielding_call_result(made: ResolutionDraft) -> str:
    """The result of the call that waits when its agent gives way: what was ruled in one line, then how it goes on."""
    by, plan = describe_author(made.ruling.by), f": {made.ruling.plan}" if made.ruling.plan else ""
    ways = {
        "fork": "Do it again: it is done in your branch.",
        "merge": "Go on with what else you have to do.",
    }
    rest = " ".join((f"{by} ruled it{plan}.", "Nothing was done.", ways.get(made.ruling.how, "")))
    return f"{made.conflict.address}: {_gist(made)}\n{rest.rstrip()}"


def _gist(made: ResolutionDraft) -> str:
    """What the ruling means for the one that gives way."""
    other, paths = party_name(made.stays), made.paths
    match made.ruling.how:
        case "fork":
            return (
                "you work in a branch of your own from now on, and what you do there is merged when your task is done"
            )
        case "merge":
            return f"{other} does your part on {paths} too: leave it alone"
        case "sequence":
            return f"{other} goes first on {paths}, and you when its task has ended"
        case _ if made.yields == made.spec.holds:
            return f"{other} has {paths} next"
        case _:
            return f"{other} keeps {paths}: do something else, or take it later"


def _with_plan(made: ResolutionDraft, text: str) -> str:
    return f"{text}. {made.ruling.plan}" if made.ruling.plan else text


def staying_instructions(made: ResolutionDraft) -> str:
    """What the one that does both is told."""
    return _with_plan(made, f"on {made.paths} you do the part of {party_name(made.yields)} too")


# What a ruling takes from the one that is to give way: it has its effect whether that one obeys, or reads it, or not.
#
# What it holds of the files longer than a turn goes at the end of its open turn, at once when none is open. Nothing is
# lost: it is told, and what it writes later needs the lock anew and the file as it has read it. Pure.

RULED_REASON: Final = "Ruled"
"""The error of a call whose wait a ruling has ended."""


@frozen
class Preemption:
    """`changes` take it from them, and `also` says in the log what is let go in that very record."""

    changes: tuple[Change, ...]
    also: tuple[SubRecord, ...] = ()


def preempt(made: ResolutionDraft) -> Preemption:
    """What the one that gives way by a ruling lets go of, and what becomes of its call that waits."""
    if made.ruling.how == "cancel":  # Its task ends, and all that it holds with it.
        return Preemption(())
    rows = LockRows(made.view)
    answers = [*_shortened(made)]
    if (call := _waiting_call(made)) is not None:
        for path in call.status.get("wants") or ():
            rows.leave(path, call.address)
        answers.append(SetStatus(call.address, call.uid, _answer(made, call)))
    gone = _taken(made, rows)
    data: JsonObject = {"owner": made.yields, "locks": list(gone), "why": f"as ruled in {made.conflict.address}"}
    also = (SubRecord("lock.released", gone[0], data),) if gone else ()
    return Preemption((*rows.changes(), *answers), also)


def _taken(made: ResolutionDraft, rows: LockRows) -> tuple[str, ...]:
    """Says in `rows` what it lets go of; returns the locks that it lets go at once."""
    agent = made.view.get(made.yields)
    if agent is None or agent.kind != "agent":
        return ()  # A command has what its task's `locks` name, to its end.
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
    """What the one that gives way still waits for of these files it is granted to the end of its turn only."""
    for call in made.view.owned_by(made.yields):
        wants = call.status.get("wants") or ()
        if is_waiting_for_lock(made.view, call.address) and any(touches(path, made.status.paths) for path in wants):
            yield SetStatus(call.address, call.uid, {"kept": "turn"})


def _waiting_call(made: ResolutionDraft) -> Resource | None:
    """The call that waits, when its agent is the one that gives way."""
    address = made.status.parties[made.spec.wants].call
    is_meant = made.yields == made.spec.wants and is_waiting_for_lock(made.view, address)
    return made.view.get(address) if is_meant else None


def _answer(made: ResolutionDraft, call: Resource) -> JsonObject:
    """What the call that waits is told: it waits for the other's task, or is refused."""
    if made.ruling.how == "sequence":
        after = task_of_party(made.view, made.stays)
        state = CallState.AUTHORIZED if is_priority_over(made.view, after) else CallState.AWAITING_CHILD
        why = f"waits for {after} to end, as was ruled in {made.conflict.address}"
        # `ends` is where the lock controller sees whom the call waits for, so that a ring through it is found.
        due_at = detection.wait_deadline(call)
        return {"state": str(state), "after": after, "ends": [after], "why": why, "due_at": due_at, "unblocks": []}
    return {"refused": {"reason": RULED_REASON, "message": yielding_call_result(made)}}


def is_priority_over(view: View, task: str) -> bool:
    """Whether nobody has to wait for a task any more."""
    found = view.get(task)
    return found is None or has_task_ended(found)


def resume_kept_back_changes(view: View, spec: ConflictSpec) -> Iterator[Change]:
    """The changes that let go on what was kept back by an order that holds no more."""
    for agent in spec.parties:
        for call in calls_kept_back(view, agent):
            merge: JsonObject = {"state": str(CallState.AUTHORIZED), "after": None, "ends": None, "why": None}
            yield SetStatus(call.address, call.uid, merge)


# A ruling as the patch that it is, and everything that takes effect with it in the same record. Pure.
#
# The patch is signed by whoever rules and passes the gate like any other: a ruling that its author may not make changes
# nothing. Who was above both may rule as long as the conflict stands; the first ruling counts, and one that nobody has
# followed yet may be overruled.


class InvalidResolution(Exception):
    """It makes no sense as things stand: NotFound, Resolved, NotAllowed, Declared …"""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@frozen
class ResolutionRequest:
    """What somebody wants to be ruled. `for_agent` is a party's path or id, empty for the usual one."""

    conflict: str
    how: str
    for_agent: str = ""
    plan: str = ""


@frozen
class ConflictResolution:
    """A ruling that can be made: its patch, and the changes and the step that go into the record with it.

    `ops` is empty and `is_again` true when the very same was ruled by the same before.
    """

    ruling: Ruling
    ops: tuple[PatchOp, ...]
    changes: tuple[Change, ...] = ()
    also: tuple[SubRecord, ...] = ()
    is_again: bool = False


def plan_resolution(
    view: View, document: JsonObject, wish: ResolutionRequest, by: Author, now: float
) -> ConflictResolution:
    """What `wish` comes to. Raises InvalidResolution."""
    conflict = _found(view, wish.conflict)
    if len(wish.plan) > limits.CONFLICT_PLAN_MAX:
        raise InvalidResolution("BadArguments", f"the parties are told {limits.CONFLICT_PLAN_MAX} characters at most")
    spec, status = conflict_from_json(conflict.spec), conflict_status_from_json(conflict.status)
    ruling = Ruling(_how(wish.how), _party(spec, wish), str(by), wish.plan, now)
    if status.ruling is not None and _is_same(status.ruling, ruling):
        return ConflictResolution(status.ruling, (), is_again=True)
    if not is_conflict_open(conflict):
        raise InvalidResolution("Resolved", f"{conflict.address} is over: {status.why}")
    if not by.is_human and not decide.is_ancestor_of_both(f"agent/{by.name}", *spec.parties):
        raise InvalidResolution("NotAllowed", f"{conflict.address} is between {_names(spec)}; you are not above both")
    if status.ruling is not None and not _may_overrule(by, status.ruling.by):
        raise InvalidResolution(
            "Resolved", f"{describe_author(status.ruling.by)} has ruled `{status.ruling.how}` already"
        )
    made = ResolutionDraft(view, conflict, spec, status, ruling)
    _require_followable(made)
    yielded = preempt(made)
    changes = (*_changes(made), *yielded.changes)
    # What it overrules leaves the plan with it: two orders would be a ring, and two words on one matter no word.
    taken_back = (*undo_ordering(conflict, document), *_forgotten(made, document))
    ops = (*taken_back, *_ops(made, json_patch.apply_ops(document, taken_back)))
    return ConflictResolution(ruling, ops, changes, (_told(made), *yielded.also))


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
    raise InvalidResolution("BadArguments", f"`{word}` is no ruling: {', '.join(conflicts.WAYS)}")


def _party(spec: ConflictSpec, wish: ResolutionRequest) -> str:
    if not wish.for_agent:
        return spec.usual(_how(wish.how))
    said = wish.for_agent.removeprefix("agent/").removeprefix("task/")
    paths = {each.partition("/")[2]: each for each in spec.parties}
    found = [each for path, each in paths.items() if path == said or path.endswith(f"/{said}")]
    if len(found) != 1:
        raise InvalidResolution("BadArguments", f"`{wish.for_agent}` is not one of {_names(spec)}")
    return found[0]


def _names(spec: ConflictSpec) -> str:
    return " and ".join(party_name(each) for each in spec.parties)


def _may_overrule(by: Author, before: str) -> bool:
    """Whether a ruling that nobody has followed yet gives way: to a person always, to agents only from below them."""
    earlier = author_from_text(before)
    if by.is_human or earlier.is_human:
        return by.is_human
    return addresses.parse_address(f"agent/{earlier.name}").is_within(addresses.parse_address(f"agent/{by.name}"))


def _require_followable(made: ResolutionDraft) -> None:
    """Raises InvalidResolution when it could not be done: by a command, by who holds it to its end, or as it is done
    already.
    """
    how, holds = made.ruling.how, made.spec.holds
    if how == "merge" and not made.stays.startswith("agent/"):
        raise InvalidResolution(
            "NoAgent", f"no agent works on {made.stays} that could do both: rule `sequence` or `cancel`"
        )
    if how == "fork" and _is_command(made):
        raise InvalidResolution(
            "NoAgent", f"{made.yields} is a command and ends where it began: rule `sequence` or `cancel`"
        )
    if how == "fork" and _is_forked(made):
        party = party_name(made.yields)
        words = f"these files are in the fork that {party} has already: rule otherwise, or for the other one"
        raise InvalidResolution("Forked", words)
    if how in ("cancel", "fork") or made.yields != holds:
        return
    grants = [one for _, one in locks_of_party(made.view, holds, made.status.paths)]
    if any(one.kept == "declared" for one in grants):
        task = task_of_party(made.view, holds)
        words = (
            f"{task} holds it by its `locks` in the plan, to its end: rule `sequence` or `cancel`, or edit its `locks`"
        )
        raise InvalidResolution("Declared", words)


def _is_command(made: ResolutionDraft) -> bool:
    task = made.view.get(made.yields)
    return task is not None and task.kind == "task" and bool(task.spec["work"]["kind"] == "run")


def _is_forked(made: ResolutionDraft) -> bool:
    """Whether the one that is to get a fork has one, and the files that it is about are in that one."""
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
    """The one that gives way needs the task of the other."""
    if order := _order(made):
        tokens = (*_tokens(made, made.yields), "needs")
        known: list[Json] = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else []
        yield PatchOp("add", tokens, [*known, order["needs"]])


def undo_ordering(conflict: Resource, document: JsonObject) -> Iterator[PatchOp]:
    """The patch that takes the order of a conflict that is over out of the plan, which may drop the first task then."""
    for order in conflict.status.get("order") or ():
        tokens = (*json_pointer.task_pointer(addresses.parse_address(order["task"]).path), "needs")
        known: list[Json] = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else []
        left = [each for each in known if each != order["needs"]]
        if left != known:
            yield PatchOp("replace", tokens, left) if left else PatchOp("remove", tokens)


def _forgotten(made: ResolutionDraft, document: JsonObject) -> Iterator[PatchOp]:
    """The patch that takes what was ruled before on the conflict from the tasks that were told of it."""
    for agent in made.spec.parties:
        tokens, key = (*_tokens(made, agent), "rulings"), _key(made)
        known: JsonObject = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else {}
        if key in known:
            yield PatchOp("remove", (*tokens, key) if len(known) > 1 else tokens)


def _noted(made: ResolutionDraft, document: JsonObject, agent: str, text: str) -> Iterator[PatchOp]:
    """The ruling in the plan, at the task of the one whom it tells what to do."""
    tokens = (*_tokens(made, agent), "rulings")
    known: JsonObject = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else {}
    yield PatchOp("add", tokens, {**known, _key(made): text})


def _key(made: ResolutionDraft) -> str:
    """Under which name a task has what was ruled."""
    return made.conflict.address.replace("/", "-")


def _tokens(made: ResolutionDraft, agent: str) -> tuple[str, ...]:
    """Where the task of a party is in the document."""
    return json_pointer.task_pointer(addresses.parse_address(task_of_party(made.view, agent)).path)


def _changes(made: ResolutionDraft) -> Iterator[Change]:
    """What takes effect with the patch: the conflict's own status, the call that waits, and who is told."""
    ruling, conflict, now = made.ruling, made.conflict, made.ruling.at
    yield SetStatus(conflict.address, conflict.uid, {**_merge(made), "ruling": [ruling.to_json()]})
    approval = made.view.get(conflicts.conflict_approval_address(conflict.address))
    if approval is not None:
        yield Drop(approval.address, approval.uid)
    yield from resume_kept_back_changes(made.view, made.spec)
    said = ConflictRuling(conflict.address, int(conflict.status.get("rulings", 0)) + 1)
    waits = is_waiting_for_lock(made.view, made.status.parties[made.spec.wants].call)
    for agent in made.spec.parties:
        text = party_message(made, agent)
        # Whose call waits reads it there.
        if text and not (agent == made.spec.wants and waits):
            yield from detection.ruling_messages(made.view, said, agent, text, now)


def _merge(made: ResolutionDraft) -> JsonObject:
    ruling = made.ruling
    by, about = describe_author(ruling.by), party_name(ruling.for_agent)
    why = f"{by} ruled `{ruling.how}` for {about}; {party_name(made.yields)} gives way"
    rulings = int(made.conflict.status.get("rulings", 0)) + 1
    merge: JsonObject = {"state": conflicts.RULED, "why": why, "due_at": ruling.at + limits.CONFLICT_ANSWER_S}
    return merge | {"rulings": rulings, "order": [order] if (order := _order(made)) else None}


def _order(made: ResolutionDraft) -> JsonObject:
    """What the ruling adds to the needs of a task; empty for nothing."""
    task, first = made.view.get(task_of_party(made.view, made.yields)), task_of_party(made.view, made.stays)
    if made.ruling.how != "sequence" or task is None:
        return {}
    order: JsonObject = {"task": task.address, "needs": first.partition("/")[2]}
    is_ours = order in (made.conflict.status.get("order") or ())
    return order if is_ours or first not in task.spec["needs"] else {}


def _told(made: ResolutionDraft) -> SubRecord:
    return SubRecord("conflict.ruled", made.conflict.address, made.ruling.to_json())
