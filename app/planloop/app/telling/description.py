"""What `plan describe` says of an object, for whoever asks over the API: its state, and labels with words."""

from __future__ import annotations

from planloop.app.telling import unwritten
from planloop.app.telling.waiting import Objects
from planloop.cli.rendering import budgets, by_now, descriptions
from planloop.cli.rendering import objects as cells
from planloop.schemas import address as addresses
from planloop.schemas.encoding import JsonObject
from planloop.schemas.resource import Resource


def answer(plan: Objects, found: Resource, now: float) -> JsonObject:
    """The answer to GET /v1/describe/… for an object of `plan`."""
    known = [one for kind in sorted(addresses.KINDS) for one in plan.list(kind)]
    item, *others = by_now.reasons(
        [unwritten.explained(found, known, now), *descriptions.related(known, found)], plan.list("lock")
    )
    facts = descriptions.facts(item, others, costs=budgets.Costs(known), now=now)
    return {
        "rev": plan.rev,
        "address": item.address,
        "state": cells.state_of(item),
        "facts": [{"label": label, "text": text} for label, text in facts],
    }
