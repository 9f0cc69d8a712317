"""Fork a plan: its objects at one revision become the first record of a new log, under new uids. Pure.

Running work is not copied: a started call is settled like a call with an unknown end, by its effect class, and the
state of tool servers is dropped. Times that objects wait for keep their distance to now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from planloop.reconciler.admission.field_ownership import STAMP
from planloop.reconciler.admission.object_changes import PLANNED_KINDS
from planloop.reconciler.clock import MINTED
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Mark, Put, RecordDraft, SetStatus
from planloop.schemas.objects.call import CallState, EffectClass
from planloop.schemas.resource import Resource, Uid

FIRST: Final = 1
"""The revision of the first record of a fork, and so of all its objects."""

_TIMES: Final = (
    *("started_at", "not_before", "wake_at", "ended_at", "waiting_since", "since"),
    *("waits_since", "due_at", "gives_up_at", "renewed_at"),
)
_RUNNING_ELSEWHERE: Final = "the plan was forked while this ran; only the original plan knows the outcome"


@frozen
class PlanForkOrigin:
    """The origin of a fork: the plan's name, its state folder for people, the revision and its time."""

    plan: str
    folder: str
    rev: int
    at: float

    def to_json(self) -> JsonObject:
        return {"plan": self.plan, "folder": self.folder, "rev": self.rev, "at": self.at}


@frozen
class PlanForkTarget:
    """New values in a fork: its name, the file of its document in the gate's form, and now in seconds since 1970."""

    plan: str
    document: JsonObject
    source: JsonObject
    now: float


def fork_draft(
    objects: Iterable[Resource], origin: PlanForkOrigin, fresh: PlanForkTarget, mint: Callable[[], str]
) -> RecordDraft:
    """Return the first record of the fork. It must be the first of its log.

    `data.doubts` counts the calls whose outcome is unknown, `data.again` those that will be repeated.
    """
    found = list(objects)
    translation = _Translation(origin, fresh, _new_ids(found, mint), _newest_stamp(found))
    changes: list[Change] = []
    fates: dict[str, int] = {"doubts": 0, "again": 0}
    for one in found:
        status = translation.of(_settled(one, fates))
        changes += _copied(one, status, translation)
    data: JsonObject = {"origin": origin.to_json(), **fates, "objects": len(found)}
    blobs = tuple(digest for digest in (fresh.source["blob"], fresh.source["document"]) if digest)
    return RecordDraft("plan.forked", "human:cli", f"plan/{fresh.plan}", tuple(changes), data, blobs)


def blob_digests_in(text: str) -> set[str]:
    """All sequences of 64 hex digits in `text`, which may name blobs."""
    return set(_DIGEST.findall(text))


_DIGEST: Final = re.compile(r"(?<![0-9a-z])[0-9a-f]{64}(?![0-9a-z])")


def _new_ids(objects: Iterable[Resource], mint: Callable[[], str]) -> Mapping[str, str]:
    """A new id for each uid and operation id. An id used as both, as of a call's first operation, gets one new id."""
    old = {text for one in objects for text in (one.uid, one.spec.get("op")) if isinstance(text, str)}
    return {text: mint() for text in sorted(old)}


def _newest_stamp(objects: Iterable[Resource]) -> int:
    plan = next(one for one in objects if one.kind == "plan")
    return int(plan.status.get("document_rev", 0))


@frozen
class _Translation:
    """Translates ids, addresses and times of the original to those of the fork."""

    origin: PlanForkOrigin
    fresh: PlanForkTarget
    ids: Mapping[str, str]
    newest_stamp: int

    def of(self, value: Json) -> Json:
        """Return `value` with all ids and the plan's address replaced, also in keys."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self.of(item) for key, item in value.items()}
            case list() | tuple():
                return [self.of(item) for item in value]
            case _:
                return value

    def text(self, text: str) -> str:
        if text == f"plan/{self.origin.plan}":
            return f"plan/{self.fresh.plan}"
        return MINTED.sub(lambda found: self.ids.get(found[0], found[0]), text)

    def rev(self, rev: int) -> int:
        """Translate a revision at which something was read, so that a later document stays later."""
        return FIRST if rev >= self.newest_stamp else FIRST - 1

    def moved(self, status: JsonObject) -> JsonObject:
        """Return `status` with times that have the same distance to now as before to the fork's revision."""
        by_s = self.fresh.now - self.origin.at
        times = {name: status[name] + by_s for name in _TIMES if isinstance(status.get(name), int | float)}
        opened = status.get("open")
        if isinstance(opened, dict):
            times["open"] = self.moved({**opened, "base_rev": self.rev(opened["base_rev"])})
        return {**status, **times}

    def leases(self, entries: Json) -> Json:
        """Translate holders and waiters of a lock. A lease keeps its age, and counts progress from the fork's start."""
        if not isinstance(entries, dict):
            return entries
        begun: JsonObject = {"fence": FIRST, "progress": FIRST}
        return {
            name: {**self.moved(one), **{key: begun[key] for key in begun if key in one}}
            for name, one in entries.items()
        }


def _copied(one: Resource, status: JsonObject, translation: _Translation) -> tuple[Change, ...]:
    """Return the changes that create a copy of `one`."""
    spec = translation.of(one.spec)
    match one.kind:
        case "plan":
            spec, status = translation.fresh.document, _plan_status(status, translation.fresh)
        case "task" | "agent" | "hook" | "call":
            status = translation.moved(status)
        case "lock":
            status = {part: translation.leases(value) for part, value in status.items()}
        case "approval" if one.spec.get("kind") == "patch":
            spec = {**spec, "what": {**spec["what"], "base_rev": translation.rev(spec["what"]["base_rev"])}}
    address, uid = translation.text(one.address), Uid(translation.ids[one.uid])
    refs = tuple(translation.text(ref) for ref in one.refs)
    owner = None if one.owner is None else translation.text(one.owner)
    put = Put(address, uid, spec, refs, owner, one.finalizers)
    said = (SetStatus(address, uid, status),) if status else ()
    mark = (Mark(address, uid, deleting=True),) if one.deleting else ()
    return (put, *said, *mark)


def _plan_status(status: JsonObject, fresh: PlanForkTarget) -> JsonObject:
    stamps = _stamped(status.get("stamps", {}))
    file = {**fresh.source, "held_back": None, "rev": FIRST}
    return {**status, "document_rev": FIRST, "stamps": stamps, "file": file}


def _stamped(tree: JsonObject) -> JsonObject:
    """The stamps with the same authors and the fork's first revision."""
    return {key: [FIRST, one[1]] if key == STAMP else _stamped(one) for key, one in tree.items()}


def _settled(one: Resource, fates: dict[str, int]) -> JsonObject:
    """The status of `one` without running work. A started call is settled by its effect class."""
    if one.kind in PLANNED_KINDS and PLANNED_KINDS[one.kind].is_foreign:
        return {}
    if one.kind != "call" or one.state != CallState.STARTED:
        return one.status
    may_run_again = EffectClass(one.spec["effect"]).may_run_again
    fates["again" if may_run_again else "doubts"] += 1
    state = CallState.AUTHORIZED if may_run_again else CallState.UNKNOWN
    return {**one.status, "state": str(state), "why": _RUNNING_ELSEWHERE}
