"""An object: desired state (`spec`) and observed state (`status`, conditions) at one address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NewType, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen

# Conditions: what a controller has observed about one aspect of an object, and since when.

Truth: TypeAlias = Literal["True", "False", "Unknown"]
STALLED: Final = "Stalled"
"""The condition of an object at which nothing is tried again before something changes."""
INTERNAL_ERROR: Final = "InternalError"
"""The reason if an internal error of planloop is the cause."""


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
        """All but the type, which is the key that it is stored under.

        `unblocks` is written when it is empty too: the merge into the status then replaces an older list.
        """
        out = codec.to_json(self)
        del out["type"]
        return out


def condition_from_json(type_: str, raw: JsonObject) -> Condition:
    """Inverse of `Condition.to_json`, given the key it was stored under."""
    return codec.from_json(Condition, {**raw, "type": type_})


def conditions_of_status(status: Mapping[str, JsonObject]) -> dict[str, Condition]:
    """The conditions kept under `conditions` in an object's status, by type."""
    return {type_: condition_from_json(type_, raw) for type_, raw in status.get("conditions", {}).items()}


def update_condition(old: Condition | None, new: Condition) -> Condition:
    """`new`, but with the `since` of `old` when the status did not flip: a transition time, not a report time."""
    if old is None or old.status != new.status or old.reason != new.reason:
        return new
    return Condition(new.type, new.status, new.reason, new.message, old.since, new.observed_generation, new.unblocks)


# An object: what is wanted (`spec`) and what is observed (`status`) at one address.
#
# Frozen: a change makes a new Resource through the log's fold (`planloop.schemas.log.record`). `spec` and `status` are
# JSON that is never mutated in place; each kind reads its own through the typed records of
# `planloop.schemas.objects.task`, `planloop.schemas.objects.agent` ….

Uid = NewType("Uid", str)
"""Minted once for every object that is created; a re-created address gets a new one."""


@frozen
class Resource:
    """One object of the fold.

    `generation` rises by one with every change of spec. `refs` are addresses whose signal wakes this object; `owner`
    is woken by every change of this one. `finalizers` name the controllers that must tear down before it may go;
    `deleting` says that it is on its way out. `created_rev` and `rev` are the revisions of its first and last change.
    """

    address: str
    uid: Uid
    generation: int
    spec: JsonObject
    status: JsonObject
    refs: tuple[str, ...] = ()
    owner: str | None = None
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    created_rev: int = 0
    rev: int = 0

    @property
    def kind(self) -> str:
        return self.address.partition("/")[0]

    @property
    def state(self) -> str:
        """The one-word summary that its controller wrote, or the empty text before the first reconcile."""
        return str(self.status.get("state", ""))

    @property
    def signal(self) -> tuple[Json, ...]:
        """What other objects may react to; those that name it in `refs` are woken when this changes."""
        return (self.uid, self.generation, self.deleting, self.state, self.status.get("signal"))

    def to_json(self) -> JsonObject:
        """The form of `-o json` and of the API."""
        return {"kind": self.kind, **codec.to_json(self)}


def resource_from_json(raw: JsonObject) -> Resource:
    """Inverse of `Resource.to_json`."""
    return codec.from_json(Resource, raw)


@frozen
class WantedObject:
    """What lowering says should be at an address: a spec with the addresses it refers to."""

    address: str
    spec: JsonObject
    refs: tuple[str, ...] = ()
    owner: str | None = None
    finalizers: tuple[str, ...] = ()
