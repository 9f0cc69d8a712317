"""A ruling as the patch that it is, and everything that takes effect with it in the same record. Pure.

The patch is signed by whoever rules and passes the gate like any other: a ruling that its author may not make changes
nothing. Who was above both may rule as long as the conflict stands; the first ruling counts, and one that nobody has
followed yet may be overruled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

from planloop.controllers.agent.conflicts import routing, telling
from planloop.controllers.agent.conflicts.opening import is_open
from planloop.controllers.agent.conflicts.standing import held, is_waiting, task_of
from planloop.controllers.agent.conflicts.telling import Said
from planloop.controllers.agent.conflicts.terms import Making, for_stays, for_yields, news
from planloop.controllers.agent.conflicts.yielding import given_way, going_on
from planloop.controllers.leases.places import inner
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import conflict as conflicts
from planloop.schemas import limits, patching, pointer
from planloop.schemas.conflict import ConflictSpec, How, Ruling, conflict_from_json, name, status_from_json
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import Author, author_from_text, author_in_words
from planloop.schemas.patching import Op
from planloop.schemas.record import Also, Change, Drop, SetStatus
from planloop.schemas.resource import Resource


class Unruled(Exception):
    """It makes no sense as things stand: NotFound, Resolved, NotAllowed, Declared …"""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@frozen
class Wish:
    """What somebody wants to be ruled. `for_agent` is a party's path or id, empty for the usual one."""

    conflict: str
    how: str
    for_agent: str = ""
    plan: str = ""


@frozen
class Ruled:
    """A ruling that can be made: its patch, and the changes and the step that go into the record with it.

    `ops` is empty and `is_again` true when the very same was ruled by the same before.
    """

    ruling: Ruling
    ops: tuple[Op, ...]
    changes: tuple[Change, ...] = ()
    also: tuple[Also, ...] = ()
    is_again: bool = False


def ruled(view: View, document: JsonObject, wish: Wish, by: Author, now: float) -> Ruled:
    """What `wish` comes to. Raises Unruled."""
    conflict = _found(view, wish.conflict)
    if len(wish.plan) > limits.CONFLICT_PLAN_MAX:
        raise Unruled("BadArguments", f"the parties are told {limits.CONFLICT_PLAN_MAX} characters at most")
    spec, status = conflict_from_json(conflict.spec), status_from_json(conflict.status)
    ruling = Ruling(_how(wish.how), _party(spec, wish), str(by), wish.plan, now)
    if status.ruling is not None and _is_same(status.ruling, ruling):
        return Ruled(status.ruling, (), is_again=True)
    if not is_open(conflict):
        raise Unruled("Resolved", f"{conflict.address} is over: {status.why}")
    if not by.is_human and not routing.is_above(f"agent/{by.name}", *spec.parties):
        raise Unruled("NotAllowed", f"{conflict.address} is between {_names(spec)}; you are not above both")
    if status.ruling is not None and not _may_overrule(by, status.ruling.by):
        raise Unruled("Resolved", f"{author_in_words(status.ruling.by)} has ruled `{status.ruling.how}` already")
    made = Making(view, conflict, spec, status, ruling)
    _require_followable(made)
    yielded = given_way(made)
    changes = (*_changes(made), *yielded.changes)
    # What it overrules leaves the plan with it: two orders would be a ring, and two words on one matter no word.
    taken_back = (*undone(conflict, document), *_forgotten(made, document))
    ops = (*taken_back, *_ops(made, patching.apply(document, taken_back)))
    return Ruled(ruling, ops, changes, (_told(made), *yielded.also))


def _found(view: View, name_: str) -> Resource:
    number = name_.removeprefix("conflict/").removeprefix("approval/conflict-")
    found = view.get(f"conflict/{number}") if number.isdigit() else None
    if found is None:
        raise Unruled("NotFound", f"there is no conflict `{name_}`")
    return found


def _how(word: str) -> How:
    for how in get_args(How):
        if word == how:
            return how  # type: ignore[no-any-return]
    raise Unruled("BadArguments", f"`{word}` is no ruling: {', '.join(conflicts.WAYS)}")


def _party(spec: ConflictSpec, wish: Wish) -> str:
    if not wish.for_agent:
        return spec.usual(_how(wish.how))
    said = wish.for_agent.removeprefix("agent/").removeprefix("task/")
    paths = {each.partition("/")[2]: each for each in spec.parties}
    found = [each for path, each in paths.items() if path == said or path.endswith(f"/{said}")]
    if len(found) != 1:
        raise Unruled("BadArguments", f"`{wish.for_agent}` is not one of {_names(spec)}")
    return found[0]


def _names(spec: ConflictSpec) -> str:
    return " and ".join(name(each) for each in spec.parties)


def _may_overrule(by: Author, before: str) -> bool:
    """Whether a ruling that nobody has followed yet gives way: to a person always, to agents only from below them."""
    earlier = author_from_text(before)
    if by.is_human or earlier.is_human:
        return by.is_human
    return addresses.parse(f"agent/{earlier.name}").is_within(addresses.parse(f"agent/{by.name}"))


def _require_followable(made: Making) -> None:
    """Raises Unruled when it could not be done: by a command, by who holds it to its end, or as it is done already."""
    how, holds = made.ruling.how, made.spec.holds
    if how == "merge" and not made.stays.startswith("agent/"):
        raise Unruled("NoAgent", f"no agent works on {made.stays} that could do both: rule `sequence` or `cancel`")
    if how == "fork" and _is_command(made):
        raise Unruled("NoAgent", f"{made.yields} is a command and ends where it began: rule `sequence` or `cancel`")
    if how == "fork" and _is_forked(made):
        words = (
            f"these files are in the fork that {name(made.yields)} has already: rule otherwise, or for the other one"
        )
        raise Unruled("Forked", words)
    if how in ("cancel", "fork") or made.yields != holds:
        return
    grants = [one for _, one in held(made.view, holds, made.status.paths)]
    if any(one.kept == "declared" for one in grants):
        task = task_of(made.view, holds)
        words = (
            f"{task} holds it by its `locks` in the plan, to its end: rule `sequence` or `cancel`, or edit its `locks`"
        )
        raise Unruled("Declared", words)


def _is_command(made: Making) -> bool:
    task = made.view.get(made.yields)
    return task is not None and task.kind == "task" and bool(task.spec["work"]["kind"] == "run")


def _is_forked(made: Making) -> bool:
    """Whether the one that is to get a fork has one, and the files that it is about are in that one."""
    fork = task_of(made.view, made.yields).replace("task/", "fork/", 1)
    return made.view.get(fork) is not None and all(inner(path)[1] == fork for path in made.status.paths)


def _is_same(one: Ruling, other: Ruling) -> bool:
    return replace(one, at=0.0) == replace(other, at=0.0)


def _ops(made: Making, document: JsonObject) -> Iterator[Op]:
    """The patch of the plan."""
    match made.ruling.how:
        case "cancel":
            yield Op("add", (*_tokens(made, made.ruling.for_agent), "cancel"), True)
            return
        case "fork":
            tokens = (*_tokens(made, made.ruling.for_agent), "fork")
            if not (pointer.has(document, tokens) and pointer.get(document, tokens)):
                yield Op("add", tokens, True)
            return
        case "sequence":
            yield from _in_order(made, document)
        case "merge":
            yield from _noted(made, document, made.stays, for_stays(made))
        case "release":
            pass
    if made.ruling.how != "sequence" or made.yields == made.spec.holds:
        yield from _noted(made, document, made.yields, for_yields(made))


def _in_order(made: Making, document: JsonObject) -> Iterator[Op]:
    """The one that gives way needs the task of the other."""
    if order := _order(made):
        tokens = (*_tokens(made, made.yields), "needs")
        known: list[Json] = pointer.get(document, tokens) if pointer.has(document, tokens) else []
        yield Op("add", tokens, [*known, order["needs"]])


def undone(conflict: Resource, document: JsonObject) -> Iterator[Op]:
    """The patch that takes the order of a conflict that is over out of the plan, which may drop the first task then."""
    for order in conflict.status.get("order") or ():
        tokens = (*pointer.of_task(addresses.parse(order["task"]).path), "needs")
        known: list[Json] = pointer.get(document, tokens) if pointer.has(document, tokens) else []
        left = [each for each in known if each != order["needs"]]
        if left != known:
            yield Op("replace", tokens, left) if left else Op("remove", tokens)


def _forgotten(made: Making, document: JsonObject) -> Iterator[Op]:
    """The patch that takes what was ruled before on the conflict from the tasks that were told of it."""
    for agent in made.spec.parties:
        tokens, key = (*_tokens(made, agent), "rulings"), _key(made)
        known: JsonObject = pointer.get(document, tokens) if pointer.has(document, tokens) else {}
        if key in known:
            yield Op("remove", (*tokens, key) if len(known) > 1 else tokens)


def _noted(made: Making, document: JsonObject, agent: str, text: str) -> Iterator[Op]:
    """The ruling in the plan, at the task of the one whom it tells what to do."""
    tokens = (*_tokens(made, agent), "rulings")
    known: JsonObject = pointer.get(document, tokens) if pointer.has(document, tokens) else {}
    yield Op("add", tokens, {**known, _key(made): text})


def _key(made: Making) -> str:
    """Under which name a task has what was ruled."""
    return made.conflict.address.replace("/", "-")


def _tokens(made: Making, agent: str) -> tuple[str, ...]:
    """Where the task of a party is in the document."""
    return pointer.of_task(addresses.parse(task_of(made.view, agent)).path)


def _changes(made: Making) -> Iterator[Change]:
    """What takes effect with the patch: the conflict's own status, the call that waits, and who is told."""
    ruling, conflict, now = made.ruling, made.conflict, made.ruling.at
    yield SetStatus(conflict.address, conflict.uid, {**_merge(made), "ruling": [ruling.to_json()]})
    approval = made.view.get(conflicts.approval_of(conflict.address))
    if approval is not None:
        yield Drop(approval.address, approval.uid)
    yield from going_on(made.view, made.spec)
    said = Said(conflict.address, int(conflict.status.get("rulings", 0)) + 1)
    waits = is_waiting(made.view, made.status.parties[made.spec.wants].call)
    for agent in made.spec.parties:
        text = news(made, agent)
        # Whose call waits reads it there.
        if text and not (agent == made.spec.wants and waits):
            yield from telling.ruled(made.view, said, agent, text, now)


def _merge(made: Making) -> JsonObject:
    ruling = made.ruling
    by, about = author_in_words(ruling.by), name(ruling.for_agent)
    why = f"{by} ruled `{ruling.how}` for {about}; {name(made.yields)} gives way"
    rulings = int(made.conflict.status.get("rulings", 0)) + 1
    merge: JsonObject = {"state": conflicts.RULED, "why": why, "due_at": ruling.at + limits.CONFLICT_ANSWER_S}
    return merge | {"rulings": rulings, "order": [order] if (order := _order(made)) else None}


def _order(made: Making) -> JsonObject:
    """What the ruling adds to the needs of a task; empty for nothing."""
    task, first = made.view.get(task_of(made.view, made.yields)), task_of(made.view, made.stays)
    if made.ruling.how != "sequence" or task is None:
        return {}
    order: JsonObject = {"task": task.address, "needs": first.partition("/")[2]}
    is_ours = order in (made.conflict.status.get("order") or ())
    return order if is_ours or first not in task.spec["needs"] else {}


def _told(made: Making) -> Also:
    return Also("conflict.ruled", made.conflict.address, made.ruling.to_json())
