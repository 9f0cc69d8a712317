"""The controller of conflicts: brings each before somebody, further when nobody answers, and closes what is over.

Timers are the `due_at` of the status, so they outlive every owner. Each step is one append.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planloop.controllers.agent.conflicts import resolving, routing, telling
from planloop.controllers.agent.conflicts.deciding import Bring, Close, Rest, decide, run_of
from planloop.controllers.agent.conflicts.evidence import changes_of
from planloop.controllers.agent.conflicts.standing import task_of
from planloop.controllers.agent.conflicts.telling import Case
from planloop.controllers.agent.conflicts.yielding import going_on
from planloop.controllers.agent.ports import Gate
from planloop.reconciler.clock import Clock
from planloop.reconciler.contract import Again, Done, Outcome
from planloop.reconciler.storing.store import Store, View
from planloop.schemas import conflict as conflicts
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.approval import WAITING, ApprovalSpec
from planloop.schemas.conflict import PERSON, conflict_from_json, status_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.patch import Accepted, Author, Patch
from planloop.schemas.record import Also, Change, Draft, Drop, Put
from planloop.schemas.resource import Resource, Uid

AUTHOR: Final = Author("controller", "conflict")


class ConflictReconciler:
    """Drives objects of kind `conflict`."""

    kind = conflicts.KIND

    def __init__(self, store: Store, clock: Clock, gate: Gate) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock

    async def reconcile(self, address: Address) -> Outcome:
        """The one next step of a conflict."""
        found = self._store.view.get(str(address))
        if found is None:
            return Done()
        now = self._clock.now()
        spec, status = conflict_from_json(found.spec), status_from_json(found.status)
        match decide(self._store.view, spec, status, now):
            case Close(why=why):
                await self._close(found, why)
            case Bring() as step:
                await self._bring(found, step)
            case Rest(due_at=due_at):
                return Done() if due_at is None else Again(max(0.0, due_at - now))
        return Again(0.0)

    async def _close(self, conflict: Resource, why: str) -> None:
        case = _case(conflict, {})
        now, view = self._clock.now(), self._store.view
        merge: JsonObject = {"state": conflicts.OVER, "why": why, "due_at": None, "ended_at": now}
        changes = (
            Put(conflict.address, conflict.uid, conflict.spec, status=merge),
            *going_on(view, case.spec),
            *_without_approval(view, conflict.address),
            *telling.closed(view, case, why, now),
        )
        data: JsonObject = {"why": why, "ruling": conflict.status.get("ruling")}
        if await self._is_undone(conflict, changes, data):
            return
        draft = Draft("conflict.closed", telling.SENDER, conflict.address, changes, data)
        await self._store.append(draft, {conflict.address: conflict.rev})

    async def _is_undone(self, conflict: Resource, changes: tuple[Change, ...], data: JsonObject) -> bool:
        """Whether it was closed together with a patch that takes its order out of the plan; False: there is none."""
        view = self._store.view
        ops = tuple(op for plan in view.list("plan") for op in resolving.undone(conflict, plan.spec))
        if not ops:
            return False
        also = (Also("conflict.closed", conflict.address, data),)
        # What was ruled passed the gate; that it is taken back waits for nobody.
        patch = Patch(AUTHOR, ops, view.rev, f"{conflict.address} is over: {data['why']}", is_approved=True)
        return isinstance(await self._gate.rule(patch, changes, also), Accepted)

    async def _bring(self, conflict: Resource, step: Bring) -> None:
        spec, status = conflict_from_json(conflict.spec), status_from_json(conflict.status)
        # Awaited before the view is read for the step: what it is computed from is then of one moment.
        changed = await changes_of(self._store, spec, status)
        case = _case(conflict, changed, step.why)
        view, now = self._store.view, self._clock.now()
        to, told = self._reached(case, step, now)
        due_at = None if to == PERSON else now + limits.CONFLICT_ANSWER_S
        merge: JsonObject = {"state": conflicts.OPEN, "before": to, "told": run_of(view, to), "raised": step.raised}
        merge |= {"due_at": due_at, "ruling": None, "why": f"it is before {'a person' if to == PERSON else to}"}
        merge["text"] = telling.text_of(case)
        owner = None if to == PERSON else to
        judge = () if owner is None else (owner, task_of(view, owner))
        refs = tuple(dict.fromkeys((*conflict.refs, *judge)))
        put = Put(conflict.address, conflict.uid, conflict.spec, refs, owner, status=merge)
        first = () if status.before else telling.opened(view, case, to, now)
        told = (*told, *going_on(view, spec))
        data: JsonObject = {
            "conflict": conflict.address,
            "before": to,
            "raised": step.raised,
            "why": step.why,
            "paths": list(status.paths),
        }
        kind = "conflict.raised" if status.before else "conflict.opened"
        draft = Draft(kind, telling.SENDER, conflict.address, (put, *told, *first), data)
        await self._store.append(draft, {conflict.address: conflict.rev})

    def _reached(self, case: Case, step: Bring, now: float) -> tuple[str, tuple[Change, ...]]:
        """The first from `step.to` upward that can be told, and the changes that tell it."""
        view, to = self._store.view, step.to
        while to != PERSON:
            told = telling.brought(view, case, to, f"{step.raised}.{run_of(view, to)}", now)
            if told is not None:
                return to, told
            to = routing.next_above(view, to)
        return PERSON, tuple(_approval(case))


def _case(conflict: Resource, changed: Mapping[str, str], why: str = "") -> Case:
    spec, status = conflict_from_json(conflict.spec), status_from_json(conflict.status)
    return Case(conflict.address, spec, status, changed, why)


def _approval(case: Case) -> Iterator[Change]:
    """What stands for the conflict among the approvals."""
    address = conflicts.approval_of(case.address)
    uid = Uid(address.partition("/")[2])
    what: JsonObject = {"conflict": case.address, "text": telling.text_of(case), **case.spec.to_json()}
    spec = ApprovalSpec("conflict", telling.SENDER, telling.head_of(case), what)
    yield Put(address, uid, spec.to_json(), owner=case.address, status={"state": WAITING})


def _without_approval(view: View, address: str) -> Iterator[Change]:
    approval = view.get(conflicts.approval_of(address))
    if approval is not None:
        yield Drop(approval.address, approval.uid)
