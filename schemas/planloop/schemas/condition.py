"""Conditions: what a controller has observed about one aspect of an object, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

Truth: TypeAlias = Literal["True", "False", "Unknown"]
STALLED: Final = "Stalled"
"""The condition of an object at which nothing is tried again before something changes."""
INTERNAL_ERROR: Final = "InternalError"
"""Its reason when it is a bug of planloop that stands in the way."""


@frozen
class Condition:
    """`reason` is one CamelCase word for programs; `message` a sentence for people; `since` seconds since 1970.

    `unblocks` are the events or commands that would change it, one a line; empty when nothing is in the way.
    `observed_generation` is the generation of the spec that the controller had read.
    """

    type: str
    status: Truth
    reason: str
    message: str
    since: float
    observed_generation: int
    unblocks: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        out: JsonObject = {
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "since": self.since,
            "observed_generation": self.observed_generation,
            # An empty list replaces an older one in the merge; leaving it out would keep stale advice.
            "unblocks": list(self.unblocks),
        }
        return out


def condition_from_json(type_: str, raw: JsonObject) -> Condition:
    """Inverse of `Condition.to_json`, given the key it was stored under."""
    return Condition(
        type=type_,
        status=raw["status"],
        reason=raw["reason"],
        message=raw["message"],
        since=raw["since"],
        observed_generation=raw["observed_generation"],
        unblocks=tuple(raw.get("unblocks", ())),
    )


def of_status(status: Mapping[str, JsonObject]) -> dict[str, Condition]:
    """The conditions kept under `conditions` in an object's status, by type."""
    return {type_: condition_from_json(type_, raw) for type_, raw in status.get("conditions", {}).items()}


def updated(old: Condition | None, new: Condition) -> Condition:
    """`new`, but with the `since` of `old` when the status did not flip: a transition time, not a report time."""
    if old is None or old.status != new.status or old.reason != new.reason:
        return new
    return Condition(new.type, new.status, new.reason, new.message, old.since, new.observed_generation, new.unblocks)
