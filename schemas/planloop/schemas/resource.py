"""An object: what is wanted (`spec`) and what is observed (`status`) at one address.

Frozen: a change makes a new Resource through the log's fold (`planloop.schemas.record`). `spec` and `status` are JSON
that nobody mutates in place; each kind reads its own through the typed records of `planloop.schemas.task`,
`planloop.schemas.agent` ….
"""

from __future__ import annotations

from typing import NewType

from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

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
        return {
            "kind": self.kind,
            "address": self.address,
            "uid": self.uid,
            "generation": self.generation,
            "spec": self.spec,
            "status": self.status,
            "refs": list(self.refs),
            "owner": self.owner,
            "finalizers": list(self.finalizers),
            "deleting": self.deleting,
            "created_rev": self.created_rev,
            "rev": self.rev,
        }


def resource_from_json(raw: JsonObject) -> Resource:
    """Inverse of `Resource.to_json`."""
    return Resource(
        address=raw["address"],
        uid=Uid(raw["uid"]),
        generation=raw["generation"],
        spec=raw["spec"],
        status=raw["status"],
        refs=tuple(raw["refs"]),
        owner=raw["owner"],
        finalizers=tuple(raw["finalizers"]),
        deleting=raw["deleting"],
        created_rev=raw["created_rev"],
        rev=raw["rev"],
    )


@frozen
class Wanted:
    """What lowering says should be at an address: a spec with the addresses it refers to."""

    address: str
    spec: JsonObject
    refs: tuple[str, ...] = ()
    owner: str | None = None
    finalizers: tuple[str, ...] = ()
