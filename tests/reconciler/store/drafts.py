"""The few drafts that the store's tests write."""

from __future__ import annotations

from tests.product import Put, RecordDraft, SetStatus, Uid

UID = Uid("u1")


def made(address: str = "task/a", **spec: object) -> RecordDraft:
    return RecordDraft("object.created", "human:cli", address, (Put(address, UID, dict(spec)),))


def status(address: str = "task/a", **merge: object) -> RecordDraft:
    return RecordDraft("object.updated", "controller:task", address, (SetStatus(address, UID, dict(merge)),))
