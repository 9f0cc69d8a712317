"""A conflict is opened, or joined when the same two stand against each other over the same files already. Pure.

Who waits opens it when its wait is over the limit or was a ring, who wants to talk by `contest`: always the one that
asks, in the append of its own step. Whom it comes before is found when it is first looked at (`deciding.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planloop.controllers.agent.conflicts.standing import gives_way, held, task_of, touches
from planloop.controllers.leases.places import inner
from planloop.reconciler.storing.store import View
from planloop.schemas import conflict as conflicts
from planloop.schemas import limits
from planloop.schemas.conflict import Because, ConflictSpec, ConflictStatus, Party, conflict_from_json, status_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Change, Drop, Put
from planloop.schemas.resource import Resource


@frozen
class Ask:
    """What `party` wants: that `against` makes room on `paths`."""

    party: Party
    against: str
    paths: tuple[str, ...]
    because: Because


@frozen
class Opened:
    """The conflict with `against` that stands by now. No changes: everything about it was said before."""

    address: str
    against: str
    changes: tuple[Change, ...]
    is_new: bool


def opened(view: View, ask: Ask, now: float, also: int = 0) -> Opened:
    """Opens a conflict for `ask`, or joins the one that these two have over these files.

    `also` counts those that the same append opens before it.
    """
    between = open_between(view, ask.party.agent, ask.against)
    meant = [one for one in between if any(touches(path, ask.paths) for path in status_from_json(one.status).paths)]
    if not meant:
        return _new(view, ask, now, also)
    first, *rest = sorted(meant, key=lambda one: conflicts.number_of(one.address))
    # What is ruled stays as it was ruled; what is open is one question from now on.
    taken_in = [one for one in rest if one.state == conflicts.OPEN]
    joined = _joined(view, first, ask, taken_in)
    absorbed = [change for one in taken_in for change in _absorbed(view, one, first, now)]
    return Opened(joined.address, ask.against, (*joined.changes, *absorbed), is_new=False)


def opened_with(
    view: View, party: Party, others: Iterable[str], paths: tuple[str, ...], because: Because, now: float
) -> tuple[Opened, ...]:
    """The conflicts of `party` with each of `others` over `paths`. One that stands is joined, a new one needs room."""
    found: list[Opened] = []
    for other in others:
        new_count = sum(one.is_new for one in found)
        made = opened(view, Ask(party, other, paths, because), now, also=new_count)
        if not made.is_new or has_room(view, new_count):
            found.append(made)
    return tuple(found)


def open_between(view: View, one: str, other: str) -> Iterable[Resource]:
    """The conflicts that stand between two parties."""
    for each in view.list(conflicts.KIND):
        if is_open(each) and {one, other} == set(conflict_from_json(each.spec).parties):
            yield each


def is_contested(view: View, asker: str, holder: str, paths: Sequence[str]) -> bool:
    """Whether somebody else stands against `holder` over any of these files already."""
    for each in view.list(conflicts.KIND):
        spec, status = conflict_from_json(each.spec), status_from_json(each.status)
        # One that is ruled moves the holder only if that is who gives way.
        moves = status.state == conflicts.OPEN or (status.ruling and gives_way(spec, status.ruling) == holder)
        is_theirs = spec.holds == holder and spec.wants != asker and moves
        if is_open(each) and is_theirs and any(touches(path, paths) for path in status.paths):
            return True
    return False


def has_room(view: View, also: int = 0) -> bool:
    """Whether one more conflict may stand, beside `also` that the same append opens."""
    return sum(map(is_open, view.list(conflicts.KIND))) + also < limits.CONFLICTS_OPEN_MAX


def is_open(conflict: Resource) -> bool:
    """Whether a conflict stands."""
    return conflict.state in (conflicts.OPEN, conflicts.RULED)


def other_side(view: View, agent: str, paths: Sequence[str]) -> Party:
    """The one in the way as a party, with what it says that it holds the files for."""
    found = view.get(agent)
    uid, incarnation = ("", 0) if found is None else (found.uid, int(found.status.get("incarnation") or 0))
    return Party(agent, uid, incarnation, _reasons(view, agent, paths))


def _reasons(view: View, agent: str, paths: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(one.reason for _, one in held(view, agent, paths) if one.reason))


def _new(view: View, ask: Ask, now: float, also: int) -> Opened:
    known = view.list(conflicts.KIND)
    number = 1 + also + max((conflicts.number_of(each.address) for each in known), default=0)
    address = conflicts.address_of(number)
    uid = conflicts.uid_of(address, now)
    spec = ConflictSpec(ask.party.agent, ask.against, ask.because)
    parties = {each.agent: [each.to_json()] for each in (ask.party, other_side(view, ask.against, ask.paths))}
    status: JsonObject = {
        "state": conflicts.OPEN,
        "paths": sorted(ask.paths),
        "parties": parties,
        "since": now,
        "started_at": now,
    }
    refs = tuple(dict.fromkeys((*spec.parties, *_tasks(view, spec.parties), *_locks(view, ask.paths))))
    put = Put(address, uid, spec.to_json(), refs, status=status)
    return Opened(address, ask.against, (put, *_forgotten(known, also)), is_new=True)


def _tasks(view: View, parties: Iterable[str]) -> Iterable[str]:
    return (task_of(view, each) for each in parties)


def _locks(view: View, paths: Sequence[str]) -> Iterable[str]:
    """The locks that the conflict is about: it is looked at again when one of them changes hands."""
    named = (f"lock/{path}" for path in paths)
    touched = (each.address for each in view.list("lock") if touches(str(each.spec["path"]), paths))
    return (*named, *touched)


def _forgotten(known: Sequence[Resource], also: int) -> Iterable[Change]:
    """The oldest that are over, when there are many. The newest stays, so that no number is used twice.

    Of several that one append opens each has others forgotten.
    """
    over = sorted((each for each in known if not is_open(each)), key=lambda one: conflicts.number_of(one.address))
    surplus = max(0, len(known) + 1 + also - limits.CONFLICTS_KEPT_MAX)
    first = max(0, surplus - 1) if also else 0
    return tuple(Drop(each.address, each.uid) for each in over[first:surplus])


def _joined(view: View, conflict: Resource, ask: Ask, taken_in: Sequence[Resource]) -> Opened:
    """Says what is new about the asker and its paths, and what it has of those that it takes in."""
    status = status_from_json(conflict.status)
    merge: JsonObject = {}
    # Its end takes them out of the plan, as theirs would have.
    orders = [order for one in taken_in for order in one.status.get("order") or ()]
    if orders:
        merge["order"] = [*(conflict.status.get("order") or ()), *orders]
    theirs = (path for one in taken_in for path in status_from_json(one.status).paths)
    paths = tuple(sorted({*status.paths, *ask.paths, *theirs}))
    if paths != status.paths:
        merge["paths"] = list(paths)
    known = status.parties.get(ask.party.agent)
    party = _merged(known, ask.party)
    if party != known:
        merge["parties"] = {party.agent: [party.to_json()]}
    if not merge:
        return Opened(conflict.address, ask.against, (), is_new=False)
    refs = tuple(dict.fromkeys((*conflict.refs, *_locks(view, paths))))
    put = Put(conflict.address, conflict.uid, conflict.spec, refs, conflict.owner, status=merge)
    return Opened(conflict.address, ask.against, (put,), is_new=False)


def _absorbed(view: View, conflict: Resource, into: Resource, now: float) -> Iterable[Change]:
    """The end of a conflict that another one has taken in."""
    merge: JsonObject = {
        "state": conflicts.OVER,
        "why": f"it is part of {into.address}",
        "due_at": None,
        "ended_at": now,
    }
    yield Put(conflict.address, conflict.uid, conflict.spec, status=merge)
    approval = view.get(conflicts.approval_of(conflict.address))
    if approval is not None:
        yield Drop(approval.address, approval.uid)


def _merged(known: Party | None, said: Party) -> Party:
    """What a party says by now: a word it leaves out stays as it was."""
    if known is None or (known.uid, known.incarnation) != (said.uid, said.incarnation):
        return said
    return Party(
        said.agent,
        said.uid,
        said.incarnation,
        said.intent or known.intent,
        said.proposal or known.proposal,
        said.call or known.call,
    )


def paths_of(status: ConflictStatus) -> str:
    """The paths in words, as both parties name them."""
    found = [inner(path) for path in status.paths]
    fork = next((f" (in {fork})" for _, fork in found if fork), "")
    return ", ".join(f"`{path}`" for path, _ in found) + fork
