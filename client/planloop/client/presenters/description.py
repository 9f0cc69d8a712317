"""What `plan describe` shows of an object, as JSON; and why a task waits for a slot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planloop.client.presenters.approvals import ObjectsView
from planloop.client.render import budgets, locks, object_details, object_tables
from planloop.controllers.task import counters
from planloop.controllers.task.decide import explain_task
from planloop.schemas import address as addresses
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.resource import Condition, Resource

# Why a task waits for a slot, said where people look, by the controller's own rules.
#
# Such a task writes nothing until it begins: a plan of 1,000 tasks would begin with 1,000 writes.


def with_slot_reasons(item: Resource, known: Sequence[Resource], now: float) -> Resource:
    """Return `item`, with the reason added if it waits for a slot and has no written reason."""
    if item.kind != "task" or item.status or item.deleting:
        return item
    says = explain_task(item, _Seen(known), now, _unseen)
    if says.reason != counters.AWAITING_SLOT:
        return item
    ready = Condition("Ready", "False", says.reason, says.message, 0.0, item.generation, says.unblocks)
    return replace(item, status={"why": says.message, "conditions": {ready.type: ready.to_json()}})


def _unseen(*_: object) -> str:
    """Check no folder: a task waits for a slot before that."""
    return ""


class _Seen:
    """A view of the objects that were read."""

    def __init__(self, known: Sequence[Resource]) -> None:
        self._known = {one.address: one for one in known}
        self.rev = max((one.rev for one in known), default=0)

    def get(self, address: str) -> Resource | None:
        return self._known.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return [one for one in self._known.values() if one.kind == kind]

    def owned_by(self, address: str) -> Sequence[Resource]:
        return [one for one in self._known.values() if one.owner == address]

    def referrers(self, address: str) -> Iterable[str]:
        return [one.address for one in self._known.values() if address in one.refs]


# The content of `plan describe` for the API: the state, and labels with text.


def describe_answer(plan: ObjectsView, found: Resource, now: float) -> JsonObject:
    """The answer to GET /v1/describe/… for an object of `plan`."""
    known = [one for kind in sorted(addresses.KINDS) for one in plan.list(kind)]
    item, *others = locks.with_current_holders(
        [with_slot_reasons(found, known, now), *object_details.related_objects(known, found)], plan.list("lock")
    )
    facts = object_details.object_facts(item, others, costs=budgets.Costs(known), now=now)
    return {
        "rev": plan.rev,
        "address": item.address,
        "state": object_tables.state_of(item),
        "facts": [{"label": label, "text": text} for label, text in facts],
    }
