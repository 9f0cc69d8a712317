"""When a conflict opens (long waits, cycles of waits, contested files), and the messages about it. Pure.

The agent that requests files opens the conflict, in the record of its own step: when its wait exceeds the limit or
closes a cycle, or with the tool `contest`. It joins an open conflict of the same two agents over the same files.
`planloop.controllers.agent.conflicts.decide` finds the agent that decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from planloop.controllers.agent.conflicts import decide
from planloop.controllers.agent.conflicts.decide import locks_of_party, task_of_party, touches, yielding_party
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.shared.leases import grants
from planloop.controllers.shared.leases.grants import LockOwner, Wants
from planloop.controllers.shared.leases.lock_paths import path_in_tree
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Put
from planloop.schemas.objects import conflict as conflicts
from planloop.schemas.objects.conflict import (
    PERSON,
    ConflictCause,
    ConflictParty,
    ConflictSpec,
    ConflictStatus,
    conflict_from_json,
    conflict_status_from_json,
    party_name,
)
from planloop.schemas.objects.lock import DEADLOCK
from planloop.schemas.objects.message import Delivery, Message
from planloop.schemas.resource import Resource


@frozen
class ConflictClaim:
    """The claim of `party` to `paths`, which `against` holds."""

    party: ConflictParty
    against: str
    paths: tuple[str, ...]
    because: ConflictCause


@frozen
class OpenedConflict:
    """The open conflict with `against`. No changes: the claim added nothing to it."""

    address: str
    against: str
    changes: tuple[Change, ...]
    is_new: bool


def open_conflict(view: View, ask: ConflictClaim, now: float, also: int = 0) -> OpenedConflict:
    """Open a conflict for `ask`, or join the open one of these two parties over these files.

    `also` counts conflicts that the same record opens before it.
    """
    between = conflicts_between_parties(view, ask.party.agent, ask.against)
    meant = [
        one for one in between if any(touches(path, ask.paths) for path in conflict_status_from_json(one.status).paths)
    ]
    if not meant:
        return _new(view, ask, now, also)
    first, *rest = sorted(meant, key=lambda one: conflicts.conflict_number(one.address))
    # A ruling is not changed; open conflicts become one question.
    taken_in = [one for one in rest if one.state == conflicts.OPEN]
    joined = _joined(view, first, ask, taken_in)
    absorbed = [change for one in taken_in for change in _absorbed(view, one, first, now)]
    return OpenedConflict(joined.address, ask.against, (*joined.changes, *absorbed), is_new=False)


def open_conflicts(
    view: View, party: ConflictParty, others: Iterable[str], paths: tuple[str, ...], because: ConflictCause, now: float
) -> tuple[OpenedConflict, ...]:
    """Open or join the conflicts of `party` with each of `others` over `paths`, within the limit of open conflicts."""
    found: list[OpenedConflict] = []
    for other in others:
        new_count = sum(one.is_new for one in found)
        made = open_conflict(view, ConflictClaim(party, other, paths, because), now, also=new_count)
        if not made.is_new or has_conflict_room(view, new_count):
            found.append(made)
    return tuple(found)


def conflicts_between_parties(view: View, one: str, other: str) -> Iterable[Resource]:
    """Yield the open conflicts between two parties."""
    for each in view.list(conflicts.CONFLICT_KIND):
        if is_conflict_open(each) and {one, other} == set(conflict_from_json(each.spec).parties):
            yield each


def is_contested(view: View, asker: str, holder: str, paths: Sequence[str]) -> bool:
    """Whether another party has an open conflict with `holder` over any of these files."""
    for each in view.list(conflicts.CONFLICT_KIND):
        spec, status = conflict_from_json(each.spec), conflict_status_from_json(each.status)
        # A ruling moves the holder only if the holder yields.
        moves = status.state == conflicts.OPEN or (status.ruling and yielding_party(spec, status.ruling) == holder)
        is_theirs = spec.holds == holder and spec.wants != asker and moves
        if is_conflict_open(each) and is_theirs and any(touches(path, paths) for path in status.paths):
            return True
    return False


def has_conflict_room(view: View, also: int = 0) -> bool:
    """Whether one more conflict may be open, besides `also` that the same record opens."""
    return sum(map(is_conflict_open, view.list(conflicts.CONFLICT_KIND))) + also < limits.CONFLICTS_OPEN_MAX


def is_conflict_open(conflict: Resource) -> bool:
    """Whether a conflict is open."""
    return conflict.state in (conflicts.OPEN, conflicts.RULED)


def holder_as_party(view: View, agent: str, paths: Sequence[str]) -> ConflictParty:
    """Return the lock holder as a party, with its reason for the locks."""
    found = view.get(agent)
    uid, incarnation = ("", 0) if found is None else (found.uid, int(found.status.get("incarnation") or 0))
    return ConflictParty(agent, uid, incarnation, _reasons(view, agent, paths))


def _reasons(view: View, agent: str, paths: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(one.reason for _, one in locks_of_party(view, agent, paths) if one.reason))


def _new(view: View, ask: ConflictClaim, now: float, also: int) -> OpenedConflict:
    known = view.list(conflicts.CONFLICT_KIND)
    number = 1 + also + max((conflicts.conflict_number(each.address) for each in known), default=0)
    address = conflicts.conflict_address(number)
    uid = conflicts.conflict_uid(address, now)
    spec = ConflictSpec(ask.party.agent, ask.against, ask.because)
    parties = {each.agent: [each.to_json()] for each in (ask.party, holder_as_party(view, ask.against, ask.paths))}
    status: JsonObject = {
        "state": conflicts.OPEN,
        "paths": sorted(ask.paths),
        "parties": parties,
        "since": now,
        "started_at": now,
    }
    refs = tuple(dict.fromkeys((*spec.parties, *_tasks(view, spec.parties), *_locks(view, ask.paths))))
    put = Put(address, uid, spec.to_json(), refs, status=status)
    return OpenedConflict(address, ask.against, (put, *_forgotten(known, also)), is_new=True)


def _tasks(view: View, parties: Iterable[str]) -> Iterable[str]:
    return (task_of_party(view, each) for each in parties)


def _locks(view: View, paths: Sequence[str]) -> Iterable[str]:
    """The locks of the conflict, which is reconciled when one of them changes."""
    named = (f"lock/{path}" for path in paths)
    touched = (each.address for each in view.list("lock") if touches(str(each.spec["path"]), paths))
    return (*named, *touched)


def _forgotten(known: Sequence[Resource], also: int) -> Iterable[Change]:
    """Drop the oldest closed conflicts over the limit. The newest stays, so that no number is used twice.

    If one record opens several conflicts, each drops different ones.
    """
    over = sorted(
        (each for each in known if not is_conflict_open(each)), key=lambda one: conflicts.conflict_number(one.address)
    )
    surplus = max(0, len(known) + 1 + also - limits.CONFLICTS_KEPT_MAX)
    first = max(0, surplus - 1) if also else 0
    return tuple(Drop(each.address, each.uid) for each in over[first:surplus])


def _joined(view: View, conflict: Resource, ask: ConflictClaim, taken_in: Sequence[Resource]) -> OpenedConflict:
    """Merge the new paths and the requester's claim into an open conflict."""
    status = conflict_status_from_json(conflict.status)
    merge: JsonObject = {}
    # The end of this conflict then removes these orders from the plan.
    orders = [order for one in taken_in for order in one.status.get("order") or ()]
    if orders:
        merge["order"] = [*(conflict.status.get("order") or ()), *orders]
    theirs = (path for one in taken_in for path in conflict_status_from_json(one.status).paths)
    paths = tuple(sorted({*status.paths, *ask.paths, *theirs}))
    if paths != status.paths:
        merge["paths"] = list(paths)
    known = status.parties.get(ask.party.agent)
    party = _merged(known, ask.party)
    if party != known:
        merge["parties"] = {party.agent: [party.to_json()]}
    if not merge:
        return OpenedConflict(conflict.address, ask.against, (), is_new=False)
    refs = tuple(dict.fromkeys((*conflict.refs, *_locks(view, paths))))
    put = Put(conflict.address, conflict.uid, conflict.spec, refs, conflict.owner, status=merge)
    return OpenedConflict(conflict.address, ask.against, (put,), is_new=False)


def _absorbed(view: View, conflict: Resource, into: Resource, now: float) -> Iterable[Change]:
    """Yield the changes that close a conflict that was merged into another one."""
    merge: JsonObject = {
        "state": conflicts.OVER,
        "why": f"it was merged into {into.address}",
        "due_at": None,
        "ended_at": now,
    }
    yield Put(conflict.address, conflict.uid, conflict.spec, status=merge)
    approval = view.get(conflicts.conflict_approval_address(conflict.address))
    if approval is not None:
        yield Drop(approval.address, approval.uid)


def _merged(known: ConflictParty | None, said: ConflictParty) -> ConflictParty:
    """Return the current claim of a party: empty fields keep their earlier value."""
    if known is None or (known.uid, known.incarnation) != (said.uid, said.incarnation):
        return said
    return ConflictParty(
        said.agent,
        said.uid,
        said.incarnation,
        said.intent or known.intent,
        said.proposal or known.proposal,
        said.call or known.call,
    )


def describe_paths(status: ConflictStatus) -> str:
    """Return the paths as text, as both parties name them."""
    found = [path_in_tree(path) for path in status.paths]
    fork = next((f" (in {fork})" for _, fork in found if fork), "")
    return ", ".join(f"`{path}`" for path, _ in found) + fork


WAIT_CONFLICTS = "conflicts"
"""In a call's status: the conflicts that were opened for its wait; absent before the limit is reached."""


@frozen
class StalledWait:
    """The result of a check of a wait. `conflicts` are the conflicts opened for it.

    `call` is merged into the call's status. At `due_at` the wait is checked again, or given up.
    """

    changes: tuple[Change, ...]
    call: JsonObject
    conflicts: tuple[str, ...]
    due_at: float | None

    @property
    def unblocks(self) -> tuple[str, ...]:
        """The commands with which a person can decide the conflicts."""
        return tuple(f"plan approve {each} --{how}" for each in self.conflicts for how in ("release", "sequence"))


def first_check_at(since: float, gives_up_at: float) -> float:
    """Return when a wait that began at `since` is checked first."""
    return min(since + limits.CONFLICT_AFTER_S, gives_up_at)


def check_wait(agent: ObservedAgent, view: View, call: Resource) -> StalledWait | None:
    """Check a wait that exceeds the limit or whose conflicts are closed; None while it continues unchanged.

    If the call has a `wait_s`, it ends then. Otherwise it waits for the ruling.
    """
    status, now = call.status, agent.now
    gives_up_at = float(status.get("gives_up_at") or now)
    is_bound = wait_deadline(call) is not None
    if known := status.get(WAIT_CONFLICTS):
        if any((one := view.get(each)) is not None and is_conflict_open(one) for each in known):
            return None
        # The conflicts are closed, but an agent holds the files again: a new wait starts.
        gives_up_at = gives_up_at if is_bound else now + limits.LOCK_WAIT_S
        return StalledWait((), {WAIT_CONFLICTS: None, "gives_up_at": gives_up_at}, (), first_check_at(now, gives_up_at))
    if float(status.get("due_at") or gives_up_at) > now or gives_up_at <= now:
        return None
    addresses, changes = _opened(agent, view, call, "wait")
    if not addresses:
        # It waits behind other waiters, or one of them has opened a conflict: check again, with growing pauses.
        waited_s = max(now - float(status.get("waits_since") or now), limits.CONFLICT_AFTER_S)
        return StalledWait((), {}, (), min(now + limits.CONFLICT_LATER * waited_s, gives_up_at))
    return StalledWait(changes, {WAIT_CONFLICTS: list(addresses)}, addresses, gives_up_at if is_bound else None)


def wait_deadline(call: Resource) -> float | None:
    """Return when a call with `wait_s` gives up, in seconds since 1970; None if it has no `wait_s`."""
    is_bound = call.spec["arguments"].get("wait_s") is not None
    return float(call.status["gives_up_at"]) if is_bound and "gives_up_at" in call.status else None


def deadlock_changes(agent: ObservedAgent, view: View, call: Resource) -> tuple[Change, ...]:
    """Return the changes that open a conflict for a wait that was rejected because it closes a cycle of waits."""
    refused: JsonObject = call.status.get("refused") or {}
    return _opened(agent, view, call, "deadlock")[1] if refused.get("reason") == DEADLOCK else ()


def holders_against(view: View, owner: LockOwner, wants: Wants) -> Iterator[str]:
    """Yield the parties whose grants block `wants` of `owner`."""
    yield from dict.fromkeys(
        decide.party_of_owner(view, each.holder.owner) for each in grants.blocking_grants(view, owner.address, wants)
    )


def _opened(
    agent: ObservedAgent, view: View, call: Resource, because: ConflictCause
) -> tuple[tuple[str, ...], tuple[Change, ...]]:
    """Return the conflicts with all blocking parties, and the changes that open or join them."""
    wants: Wants = call.status.get("wants") or {}
    waits_on = call.address if because == "wait" else ""
    me = agent.resource
    party = ConflictParty(me.address, me.uid, agent.status.incarnation, intent=_intent(agent, call), call=waits_on)
    # Only the first waiter opens a conflict, so that the holder yields once.
    others = (
        other
        for other in holders_against(view, grants.lock_owner(me), wants)
        if because != "wait" or not is_contested(view, me.address, other, tuple(wants))
    )
    made = open_conflicts(view, party, others, tuple(sorted(wants)), because, agent.now)
    return tuple(one.address for one in made), tuple(change for one in made for change in one.changes)


def _intent(agent: ObservedAgent, call: Resource) -> str:
    """Return the purpose of the agent: its stated reason, and the goal of its task."""
    reason, goal = str(call.status.get("reason") or ""), "" if agent.task_spec is None else agent.task_spec.goal
    return "; ".join(part for part in (reason, goal and f"its task: {goal}") if part)[: limits.CONFLICT_WORDS_MAX]


# Messages go to the agent that decides, to both parties, and at the end to all of them. Their ids derive from the
# number of the conflict, so a repeated step delivers nothing twice. An agent that was removed or has a full inbox gets
# no message: a party reads the same in the result of its call, and the conflict goes to the next ancestor.

CONFLICT_SENDER = "controller:conflict"

CONFLICT_READERS = ("model", "outside")
"""The kinds of deciders that a message interrupts in a wait."""

CONFLICT_HEADLINES: Mapping[str, str] = {
    "wait": "{wants} has been waiting for {paths}, which {holds} holds.",
    "deadlock": "{wants} and {holds} were waiting for each other over {paths} (deadlock).",
    "contest": "{wants} needs {paths}, which {holds} holds.",
}


@frozen
class ConflictCase:
    """A conflict for its messages. `changes` is the diff of each party since it locked or requested the files."""

    address: str
    spec: ConflictSpec
    status: ConflictStatus
    changes: Mapping[str, str]
    why: str = ""


@frozen
class ConflictRuling:
    """A ruling of the conflict at `address`, the `count`-th."""

    address: str
    count: int


def describe_conflict(case: ConflictCase) -> str:
    """Return the conflict with both sides as text, for the agent or person that decides."""
    spec = case.spec
    parts = [
        f"{case.address}: {conflict_headline(case)}",
        *((f"You get it because {case.why}.",) if case.why else ()),
    ]
    for agent, does in ((spec.wants, "wants"), (spec.holds, "holds")):
        parts.append(_side(case, agent, does))
    return "\n".join(parts)


def conflict_headline(case: ConflictCase) -> str:
    """Return the subject of the conflict in one sentence."""
    wants, holds = party_name(case.spec.wants), party_name(case.spec.holds)
    return CONFLICT_HEADLINES[case.spec.because].format(wants=wants, holds=holds, paths=describe_paths(case.status))


def _side(case: ConflictCase, agent: str, does: str) -> str:
    party = case.status.parties[agent]
    lines = [f"- {party_name(agent)} ({does}): {party.intent or 'gave no reason'}"]
    if party.proposal:
        lines.append(f"  proposes: {party.proposal}")
    changed = case.changes.get(agent, "")
    lines.append("  changes so far:" if changed else "  no changes so far")
    return "\n".join((*lines, *(f"  {line}" for line in changed.splitlines())))


def resolve_instructions(address: str, spec: ConflictSpec) -> str:
    """Return the possible rulings as text."""
    ways = ((how, spec.usual(how).partition("/")[2], words) for how, words in spec.ways().items())
    lines = "\n".join(f"- {how} (for_agent='{who}'): {words}" for how, who, words in ways)
    return (
        f"You are the ancestor of both. Decide with `resolve(conflict='{address}', how=…, for_agent=…, plan=…)`.\n"
        f"{lines}\nWith the other agent as `for_agent`, the roles are swapped. Both agents get your `plan`. If you do "
        "not answer soon, the conflict goes to the next ancestor or a person."
    )


def assignment_changes(view: View, case: ConflictCase, to: str, what: str, now: float) -> tuple[Change, ...] | None:
    """Return the changes that assign the conflict to the agent `to`; None if it cannot get the message.

    For a model the message has delivery `steer`: an agent that waits for its children must learn why they are blocked.
    """
    text = f"{describe_conflict(case)}\n{resolve_instructions(case.address, case.spec)}"
    body: JsonObject = {"conflict": case.address, "text": text, "paths": list(case.status.paths)}
    body |= {"wants": case.spec.wants, "holds": case.spec.holds}
    message = _message(case.address, to, f"before.{what}", body, now)
    delivered = message_policy.delivery_changes(view, replace(message, delivery=_mode(view, to)))
    return None if isinstance(delivered, message_policy.DeliveryRefused) else delivered


def opening_messages(view: View, case: ConflictCase, to: str, now: float) -> tuple[Change, ...]:
    """Return the changes that tell both parties about the conflict, who decides it, and that they may `send`."""
    where = "a person" if to == PERSON else to
    changes: tuple[Change, ...] = ()
    for agent in case.spec.parties:
        other = next(each for each in case.spec.parties if each != agent)
        party = case.status.parties[other]
        says = "; ".join(part for part in (party.intent, party.proposal and f"it proposes: {party.proposal}") if part)
        paths = describe_paths(case.status)
        text = f"{case.address} is open between you and {party_name(other)} over {paths}; {where} decides it."
        text += f" {party_name(other)}: {says}." if says else ""
        if other.startswith("agent/"):
            text += f" Until then you may write to each other with `send(to='{other.partition('/')[2]}')`."
        message = _message(case.address, agent, "open", {"conflict": case.address, "text": text}, now)
        wakes = agent == case.spec.holds and case.spec.because == "contest"
        changes += _delivered(view, replace(message, wakes=wakes))
    return changes


def ruling_messages(view: View, ruling: ConflictRuling, agent: str, text: str, now: float) -> tuple[Change, ...]:
    """Return the changes that tell a party the ruling and its next step. The message wakes it."""
    body: JsonObject = {"conflict": ruling.address, "text": f"{ruling.address}: {text}"}
    message = _message(ruling.address, agent, f"ruled.{ruling.count}", body, now)
    return _delivered(view, replace(message, delivery=_mode(view, agent)))


def closing_messages(view: View, case: ConflictCase, why: str, now: float) -> tuple[Change, ...]:
    """Return the changes that send one state message about the closed conflict to each of its agents."""
    ruling = case.status.ruling
    facts: JsonObject = {"key": case.address, "conflict": "over", "why": why, "paths": list(case.status.paths)}
    if ruling is not None:
        facts |= {"how": ruling.how, "for": ruling.for_agent, "by": ruling.by, "plan": ruling.plan}
    changes: tuple[Change, ...] = ()
    for agent in dict.fromkeys((*case.spec.parties, case.status.before)):
        message = _message(case.address, agent, "over", facts, now)
        changes += _delivered(view, replace(message, kind="state", wakes=False))
    return changes


def _mode(view: View, agent: str) -> Delivery:
    """The delivery of an urgent message. Scripts and programs poll for messages, so their calls are not interrupted."""
    found = view.get(agent)
    mind = {} if found is None else found.spec.get("mind") or {}
    return "steer" if mind.get("kind") in CONFLICT_READERS else "queue"


def _delivered(view: View, message: Message) -> tuple[Change, ...]:
    if not message.receiver.startswith("agent/"):
        return ()  # Neither a command that holds a declared lock nor a person reads messages.
    delivered = message_policy.delivery_changes(view, message)
    return () if isinstance(delivered, message_policy.DeliveryRefused) else delivered


def _message(address: str, agent: str, what: str, body: JsonObject, now: float) -> Message:
    return Message(
        f"{address}.{what}.{agent.partition('/')[2]}", "conflict", CONFLICT_SENDER, agent, body, now, address
    )
