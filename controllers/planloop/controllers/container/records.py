"""The records of the container controller: what it saw and did, and none if nothing changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from planloop.containers.engine.engine import HEALS, EngineErrorReason, EngineFailed
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.decide import container_backoff_s
from planloop.controllers.container.observe import ObservedContainer
from planloop.controllers.container.readiness import ContainerReadiness
from planloop.controllers.container.status import (
    ContainerStatus,
    EngineTrouble,
    SeenContainer,
    read_container_status,
    seen_container,
)
from planloop.reconciler.errors import WriteConflict
from planloop.schemas import json_patch, limits, quantities
from planloop.schemas import resource as schemas_resource
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Mark, RecordDraft, SetStatus
from planloop.schemas.objects.container import UP, VANISHED, ContainerState, missing_capabilities_line
from planloop.schemas.resource import Condition, Resource

ACTOR: Final = "controller:container"
_TRIES: Final = 64  # Of a write that others come before; the watcher and a job are two.
_AGAIN: Final = HEALS | {EngineErrorReason.NOT_FOUND, EngineErrorReason.NOT_RUNNING}
"""Reasons to try again: what heals, and what went away under our hands and is made anew."""

_KILLED: Final = 137
_FORBIDDEN: Final = re.compile("not permitted|permission denied|EPERM|EACCES", re.IGNORECASE)
_MORE_MEMORY: Final = "give it more under `limits: {memory: …}`"
_VANISHED_WORDS: Final = "it was removed while it ran, and not by this plan"
_VANISHED_HINT: Final = "plan delete takes it out of the plan, plan down takes all of them down"

StatusMerge: TypeAlias = Callable[[ContainerStatus], JsonObject]
"""From the newest status, what is merged into it."""

HEALTHY_MERGE: Final[JsonObject] = dict.fromkeys(("failed_of", "failed_by", "reason", "why", "hint", "retry_at"))
"""The merge that takes back what was wrong; how often it was so is still counted."""

CLEARED_MERGE: Final[JsonObject] = {
    **HEALTHY_MERGE,
    **dict.fromkeys(("failures", "tries", "losses", "done_of", "is_expired", "is_spent", "counted", "stuck")),
    **dict.fromkeys(("bound_of", "bound_why")),
}
"""The merge that forgets how it has ended."""


def readiness_draft(seen: ObservedContainer, now: ContainerReadiness) -> RecordDraft | None:
    """The record of how far it is; None when the status says so already."""
    resource = seen.resource
    merge = readiness_merge(resource, now, seen.now)
    if json_patch.merge_values(resource.status, merge) == resource.status:
        return None
    data: JsonObject = {"state": str(now.state), "reason": now.reason, "why": now.why}
    return RecordDraft("container.observed", ACTOR, resource.address, (_set(resource, merge),), data)


def readiness_merge(resource: Resource, now: ContainerReadiness, at: float) -> JsonObject:
    """The merge that says how far it is, since `at` if that is news."""
    is_ready = now.state in (*UP, ContainerState.COMPLETED)
    old = schemas_resource.conditions_of_status(resource.status).get("Ready")
    truth: schemas_resource.Truth = "True" if is_ready else "False"
    new = Condition("Ready", truth, now.reason, now.why, at, resource.generation, now.unblocks)
    return {"state": str(now.state), "conditions": {"Ready": schemas_resource.update_condition(old, new).to_json()}}


def end_merge(seen: ObservedContainer, found: SeenContainer) -> JsonObject:
    """The merge that says what follows from the end of a run."""
    if found.exit.code == 0 and not found.exit.error and seen.spec.restart != "always":
        return {**CLEARED_MERGE, "done_of": seen.of, "counted": found.end}
    was_steady = found.ended_at - found.started_at >= limits.CONTAINER_STEADY_S
    failures = 1 if was_steady else seen.status.counts.failures + 1
    said = seen.status.ended.last.strip().rpartition("\n")[2]
    why = f"it ended with {quantities.describe_exit_code(found.exit.code)}{f': {said}' if said else ''}"
    reason, hint = "Exited", f"plan logs {seen.resource.address}"
    if found.exit.is_out_of_memory:
        reason, why, hint = "OutOfMemory", "it used more memory than it may", _MORE_MEMORY
    elif found.exit.error:
        reason, hint = str(EngineErrorReason.NO_COMMAND), "look at `cmd` and `entrypoint`"
        why = f"its command cannot be run: {found.exit.error}"
    elif _may_be_out_of_memory(seen, found):
        hint = f"if it was for memory, {_MORE_MEMORY}; else {hint}"
    elif _FORBIDDEN.search(seen.status.ended.last) and (
        lacking := missing_capabilities_line(seen.resource.address, seen.spec)
    ):
        hint = f"{lacking}; {hint}"
    is_final = seen.spec.restart == "no" or reason == EngineErrorReason.NO_COMMAND
    retry_at = None if is_final else seen.now + container_backoff_s(failures)
    failed = _Failed(seen.of, seen.token, reason, why, hint, retry_at).merge
    return failed | {"failures": failures, "tries": None, "losses": None, "counted": found.end, "done_of": None}


def _may_be_out_of_memory(seen: ObservedContainer, found: SeenContainer) -> bool:
    """Whether it was killed, not by us, and had a bound of memory: Docker under load loses that this was why."""
    is_ours = found.started_at == seen.status.ended.stopping
    return found.exit.code == _KILLED and found.bound.memory_bytes is not None and not is_ours


def engine_error_merge(of: str, fault: EngineFailed, token: str, now: float) -> StatusMerge:
    """The merge that says that the engine did not do what was asked of it for `of`."""

    def merge(status: ContainerStatus) -> JsonObject:
        tries = status.counts.tries + 1
        retry_at = now + container_backoff_s(tries) if fault.reason in _AGAIN else None
        failed = _Failed(of, token, str(fault.reason), str(fault), fault.hint, retry_at)
        return failed.merge | {"tries": tries}

    return merge


def lost_merge(status: ContainerStatus, found: SeenContainer, token: str, now: float) -> JsonObject:
    """The merge that says that the running container `found` was removed, and not by us.

    It says nothing of the program. Another is made, after a pause that grows while somebody goes on removing them.
    """
    was_steady = now - found.started_at >= limits.CONTAINER_STEADY_S
    losses = 1 if was_steady else status.counts.losses + 1
    failed = _Failed(
        found.tag.digest, token, VANISHED, _VANISHED_WORDS, _VANISHED_HINT, now + container_backoff_s(losses)
    )
    return failed.merge | {"losses": losses}


@frozen
class _Failed:
    """What was wrong the last time with what runs as `of`, for the owner of this `token`: see `ContainerStatus`."""

    of: str
    token: str
    reason: str
    why: str
    hint: str
    retry_at: float | None

    @property
    def merge(self) -> JsonObject:
        says = {"reason": self.reason, "why": self.why, "hint": self.hint or None, "retry_at": self.retry_at}
        return {"failed_of": self.of, "failed_by": self.token, **says}


def stuck_merge(fault: EngineFailed, now: float) -> StatusMerge:
    """The merge that says that what is to go does not."""

    def merge(status: ContainerStatus) -> JsonObject:
        failures = 1 if status.stuck is None else status.stuck.failures + 1
        trouble = EngineTrouble(
            failures, str(fault.reason), str(fault), fault.hint, now + container_backoff_s(failures)
        )
        return {"stuck": trouble.to_json()}

    return merge


def container_draft(resource: Resource, merge: JsonObject, data: JsonObject | None = None) -> RecordDraft:
    """A record of what was seen or done."""
    return RecordDraft("container.observed", ACTOR, resource.address, (_set(resource, merge),), data or {})


def release_draft(resource: Resource) -> RecordDraft:
    """Nothing of it is left."""
    left = tuple(name for name in resource.finalizers if name != "container")
    change = Mark(resource.address, resource.uid, finalizers=left)
    return RecordDraft("object.updated", ACTOR, resource.address, (change,), {"released": "container"})


def _set(resource: Resource, merge: JsonObject) -> SetStatus:
    return SetStatus(resource.address, resource.uid, merge)


def seen_merge(found: SeenContainer | None) -> JsonObject:
    """The merge that says what the engine has."""
    return {"seen": None if found is None else found.to_json()}


@frozen
class ContainerStatusWriter:
    """The status of the container of this uid, written by its jobs and the watcher at once."""

    yard: ContainerContext
    address: str
    uid: str

    @property
    def resource(self) -> Resource | None:
        """The newest there is of it; None when it is no more."""
        found = self.yard.store.view.get(self.address)
        return found if found is not None and found.uid == self.uid else None

    async def write(self, merge: StatusMerge) -> bool:
        """Merges what `merge` makes of the newest status; False when it is no more.

        Nothing is written where that changes nothing.
        """
        for _ in range(_TRIES):
            resource = self.resource
            if resource is None:
                return False
            wanted = merge(read_container_status(resource.status))
            if json_patch.merge_values(resource.status, wanted) == resource.status:
                return True
            try:
                await self.yard.store.append(container_draft(resource, wanted), {self.address: resource.rev})
                return True
            except WriteConflict:
                continue
        raise WriteConflict(self.address, None, None)

    async def look(self, ref: str, also: JsonObject | None = None) -> SeenContainer | None:
        """Writes what the engine has under `ref`, unless that is another's, and `also`. Raises EngineFailed."""
        async with self.yard.looking[self.address]:
            made = await self.yard.engine.container(ref)
            resource = None if made is None else self.yard.whose(made)
            is_its = resource is not None and (resource.address, resource.uid) == (self.address, self.uid)
            found = seen_container(made) if made is not None and is_its else None
            token, now = self.yard.look_token, self.yard.clock.now()
            await self.write(lambda status: seen_ref_merge(ref, found, status, token, now) | (also or {}))
        return found


def seen_ref_merge(
    ref: str, found: SeenContainer | None, status: ContainerStatus, token: str, now: float
) -> JsonObject:
    """The merge that says what there is under `ref`: that there is nothing tells nothing of another one."""
    before = status.seen
    if found is not None or before is None:
        return seen_merge(found)
    if before.id != ref:
        return {}
    return seen_merge(None) | (lost_merge(status, before, token, now) if _was_wanted(status, before) else {})


def _was_wanted(status: ContainerStatus, gone: SeenContainer) -> bool:
    """Whether one that is gone was in the middle of its run, which we had not begun to end."""
    is_cut_off = gone.is_up or (gone.run == "removing" and status.ended.counted != gone.end)
    return is_cut_off and gone.started_at != status.ended.stopping
