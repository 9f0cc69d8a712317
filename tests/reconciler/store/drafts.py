"""The few drafts that the store's tests write."""

from __future__ import annotations

from tests.product import Draft, Put, SetStatus, Uid

UID = Uid("u1")


def made(address: str = "task/a", **spec: object) -> Draft:
    return Draft("object.created", "human:cli", address, (Put(address, UID, dict(spec)),))


def status(address: str = "task/a", **merge: object) -> Draft:
    return Draft("object.updated", "controller:task", address, (SetStatus(address, UID, dict(merge)),))
