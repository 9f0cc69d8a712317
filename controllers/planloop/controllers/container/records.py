"""Records of the container controller: what it saw and did. It writes none if nothing changed."""

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
_TRIES: Final = 64  # For a write that conflicts with others: the watcher and a job write the same status.
_AGAIN: Final = HEALS | {EngineErrorReason.NOT_FOUND, EngineErrorReason.NOT_RUNNING}
"""Reasons to try again: temporary ones, and a container that was removed during the job and is recreated."""

_KILLED: Final = 137
_FORBIDDEN: Final = re.compile("not permitted|permission denied|EPERM|EACCES", re.IGNORECASE)
_MORE_MEMORY: Final = "give it more under `limits: {memory: …}`"
_VANISHED_WORDS: Final = "something other than this plan removed it while it was running"
_VANISHED_HINT: Final = "to remove it from the plan, run plan delete; to remove all containers, run plan down"

StatusMerge: TypeAlias = Callable[[ContainerStatus], JsonObject]
"""Returns the merge into the newest status, which it is called with."""

HEALTHY_MERGE: Final[JsonObject] = dict.fromkeys(("failed_of", "failed_by", "reason", "why", "hint", "retry_at"))
"""The merge that clears the last failure; the counts of failures stay."""

CLEARED_MERGE: Final[JsonObject] = {
    **HEALTHY_MERGE,
    **dict.fromkeys(("failures", "tries", "losses", "done_of", "is_expired", "is_spent", "counted", "stuck")),
    **dict.fromkeys(("bound_of", "bound_why")),
}
"""The merge that clears how the container ended, and all counts."""


def readiness_draft(seen: ObservedContainer, now: ContainerReadiness) -> RecordDraft | None:
    """Return the record with the state of the container; None if the status has it already."""
    resource = seen.resource
    merge = readiness_merge(resource, now, seen.now)
    if json_patch.merge_values(resource.status, merge) == resource.status:
        return None
    data: JsonObject = {"state": str(now.state), "reason": now.reason, "why": now.why}
    return RecordDraft("container.observed", ACTOR, resource.address, (_set(resource, merge),), data)


def readiness_merge(resource: Resource, now: ContainerReadiness, at: float) -> JsonObject:
    """Return the merge with the state of the container, since `at` if it is new."""
    is_ready = now.state in (*UP, ContainerState.COMPLETED)
    old = schemas_resource.conditions_of_status(resource.status).get("Ready")
    truth: schemas_resource.Truth = "True" if is_ready else "False"
    new = Condition("Ready", truth, now.reason, now.why, at, resource.generation, now.unblocks)
    return {"state": str(now.state), "conditions": {"Ready": schemas_resource.update_condition(old, new).to_json()}}


def end_merge(seen: ObservedContainer, found: SeenContainer) -> JsonObject:
    """Return the merge that follows from the end of a run: completed or failed."""
    if found.exit.code == 0 and not found.exit.error and seen.spec.restart != "always":
        return {**CLEARED_MERGE, "done_of": seen.of, "counted": found.end}
    was_steady = found.ended_at - found.started_at >= limits.CONTAINER_STEADY_S
    failures = 1 if was_steady else seen.status.counts.failures + 1
    line = seen.status.ended.last.strip().rpartition("\n")[2]
    why = f"it ended with {quantities.describe_exit_code(found.exit.code)}{f': {line}' if line else ''}"
    reason, hint = "Exited", f"plan logs {seen.resource.address}"
    if found.exit.is_out_of_memory:
        reason, why, hint = "OutOfMemory", "it used more memory than its limit", _MORE_MEMORY
    elif found.exit.error:
        reason, hint = str(EngineErrorReason.NO_COMMAND), "correct `cmd` or `entrypoint`"
        why = f"its command cannot be run: {found.exit.error}"
    elif _may_be_out_of_memory(seen, found):
        hint = f"if it ran out of memory, {_MORE_MEMORY}; else {hint}"
    elif _FORBIDDEN.search(seen.status.ended.last) and (
        lacking := missing_capabilities_line(seen.resource.address, seen.spec)
    ):
        hint = f"{lacking}; {hint}"
    is_final = seen.spec.restart == "no" or reason == EngineErrorReason.NO_COMMAND
    retry_at = None if is_final else seen.now + container_backoff_s(failures)
    failed = _Failed(seen.of, seen.token, reason, why, hint, retry_at).merge
    return failed | {"failures": failures, "tries": None, "losses": None, "counted": found.end, "done_of": None}


def _may_be_out_of_memory(seen: ObservedContainer, found: SeenContainer) -> bool:
    """Whether a container with a memory limit was killed, and not by planloop. Under load, Docker loses the reason."""
    is_ours = found.started_at == seen.status.ended.stopping
    return found.exit.code == _KILLED and found.bound.memory_bytes is not None and not is_ours


def engine_error_merge(of: str, fault: EngineFailed, token: str, now: float) -> StatusMerge:
    """Return the merge for a failed request to the engine about the container version `of`."""

    def merge(status: ContainerStatus) -> JsonObject:
        tries = status.counts.tries + 1
        retry_at = now + container_backoff_s(tries) if fault.reason in _AGAIN else None
        failed = _Failed(of, token, str(fault.reason), str(fault), fault.hint, retry_at)
        return failed.merge | {"tries": tries}

    return merge


def lost_merge(status: ContainerStatus, found: SeenContainer, token: str, now: float) -> JsonObject:
    """Return the merge for a running container that something other than planloop removed.

    This says nothing about the program. The container is recreated, after a delay that grows with each removal.
    """
    was_steady = now - found.started_at >= limits.CONTAINER_STEADY_S
    losses = 1 if was_steady else status.counts.losses + 1
    failed = _Failed(
        found.tag.digest, token, VANISHED, _VANISHED_WORDS, _VANISHED_HINT, now + container_backoff_s(losses)
    )
    return failed.merge | {"losses": losses}


@frozen
class _Failed:
    """The last failure of the container version `of`, seen by the owner `token`: see `ContainerFailure`."""

    of: str
    token: str
    reason: str
    why: str
    hint: str
    retry_at: float | None

    @property
    def merge(self) -> JsonObject:
        failure = {"reason": self.reason, "why": self.why, "hint": self.hint or None, "retry_at": self.retry_at}
        return {"failed_of": self.of, "failed_by": self.token, **failure}


def stuck_merge(fault: EngineFailed, now: float) -> StatusMerge:
    """Return the merge for a container that could not be stopped or removed."""

    def merge(status: ContainerStatus) -> JsonObject:
        failures = 1 if status.stuck is None else status.stuck.failures + 1
        trouble = EngineTrouble(
            failures, str(fault.reason), str(fault), fault.hint, now + container_backoff_s(failures)
        )
        return {"stuck": trouble.to_json()}

    return merge


def container_draft(resource: Resource, merge: JsonObject, data: JsonObject | None = None) -> RecordDraft:
    """Return a record of what was seen or done."""
    return RecordDraft("container.observed", ACTOR, resource.address, (_set(resource, merge),), data or {})


def release_draft(resource: Resource) -> RecordDraft:
    """Nothing of it is left."""
    left = tuple(name for name in resource.finalizers if name != "container")
    change = Mark(resource.address, resource.uid, finalizers=left)
    return RecordDraft("object.updated", ACTOR, resource.address, (change,), {"released": "container"})


def _set(resource: Resource, merge: JsonObject) -> SetStatus:
    return SetStatus(resource.address, resource.uid, merge)


def seen_merge(found: SeenContainer | None) -> JsonObject:
    """Return the merge with what the engine has."""
    return {"seen": None if found is None else found.to_json()}


@frozen
class ContainerStatusWriter:
    """Writes the status of the container with this uid. Its jobs and the watcher write concurrently."""

    context: ContainerContext
    address: str
    uid: str

    @property
    def resource(self) -> Resource | None:
        """Return the newest version of the object; None if it is gone."""
        found = self.context.store.view.get(self.address)
        return found if found is not None and found.uid == self.uid else None

    async def write(self, merge: StatusMerge) -> bool:
        """Apply `merge` to the newest status; return False if the object is gone. Writes nothing if nothing changes.

        Raises:
            WriteConflict: other writers came first in all tries.
        """
        for _ in range(_TRIES):
            resource = self.resource
            if resource is None:
                return False
            wanted = merge(read_container_status(resource.status))
            if json_patch.merge_values(resource.status, wanted) == resource.status:
                return True
            try:
                await self.context.store.append(container_draft(resource, wanted), {self.address: resource.rev})
                return True
            except WriteConflict:
                continue
        raise WriteConflict(self.address, None, None)

    async def look(self, ref: str, also: JsonObject | None = None) -> SeenContainer | None:
        """Write what the engine has under `ref`, unless it belongs to another object, and the merge `also`.

        Raises:
            EngineFailed: the engine does not answer.
        """
        async with self.context.looking[self.address]:
            reported = await self.context.engine.container(ref)
            resource = None if reported is None else self.context.object_of(reported)
            is_its = resource is not None and (resource.address, resource.uid) == (self.address, self.uid)
            found = seen_container(reported) if reported is not None and is_its else None
            token, now = self.context.look_token, self.context.clock.now()
            await self.write(lambda status: seen_ref_merge(ref, found, status, token, now) | (also or {}))
        return found


def seen_ref_merge(
    ref: str, found: SeenContainer | None, status: ContainerStatus, token: str, now: float
) -> JsonObject:
    """Return the merge for what the engine has under `ref`. A missing `ref` says nothing about another container."""
    before = status.seen
    if found is not None or before is None:
        return seen_merge(found)
    if before.id != ref:
        return {}
    return seen_merge(None) | (lost_merge(status, before, token, now) if _was_wanted(status, before) else {})


def _was_wanted(status: ContainerStatus, gone: SeenContainer) -> bool:
    """Whether a container that is gone was running, and planloop had not begun to stop it."""
    is_cut_off = gone.is_up or (gone.run == "removing" and status.ended.counted != gone.end)
    return is_cut_off and gone.started_at != status.ended.stopping
