"""What the container controller writes: how far a container is in one word and in conditions, and its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from containers.engine import HEALS, EngineFailed
from controllers.container.deciding import LOWER, RAISE, STOP, backoff_s
from controllers.container.observing import Observed
from controllers.container.status import ContainerStatus, Seen, read
from reconciler.errors import Conflict
from reconciler.storing.store import Store
from schemas import condition, limits, patching
from schemas.condition import Condition
from schemas.container import UP, ContainerState
from schemas.encoding import JsonObject
from schemas.frozen import frozen
from schemas.record import Draft, Mark, SetStatus
from schemas.resource import Resource

ACTOR: Final = "controller:container"
_TRIES: Final = 64  # Of a write that others come before; the watcher and a job are two.

Merge: TypeAlias = Callable[[ContainerStatus], JsonObject]
"""From the newest status, what is merged into it."""

CLEARED: Final[JsonObject] = dict.fromkeys(
    ("failures", "failed_of", "reason", "why", "hint", "retry_at", "done_of", "counted")
)
"""The merge that forgets how it has ended."""


@frozen
class Standing:
    """How far it is. `unblocks` are what would get it further."""

    state: ContainerState
    reason: str = ""
    why: str = ""
    unblocks: tuple[str, ...] = ()


def standing(seen: Observed) -> Standing:
    """How far the container is, from everything that is known of it."""
    status = seen.status
    if seen.jobs & {STOP, LOWER}:
        return Standing(ContainerState.STOPPING, "Stopping", seen.unwanted or "another one is to take its place")
    if RAISE in seen.jobs:
        state = ContainerState.PREPARING if status.doing == "image" else ContainerState.STARTING
        return Standing(state, state.title(), status.why if status.doing == "image" else "")
    if status.seen is not None and status.seen.run == "running":
        return _of_running(seen, status.seen)
    if status.done_of == seen.of:
        return Standing(ContainerState.COMPLETED, "Completed", "it ended with exit code 0")
    if status.failed_of == seen.of:
        return _of_failed(status)
    if not seen.is_wanted:
        state = ContainerState.KEPT if status.seen is not None else ContainerState.REMOVED
        return Standing(state, state.title(), seen.unwanted)
    return _of_waiting(seen)


def _of_running(seen: Observed, found: Seen) -> Standing:
    if seen.spec.health is None:
        return Standing(ContainerState.RUNNING, "Running")
    probed = seen.status.probed
    if probed.started_at != found.started_at or probed.is_well is None:
        return Standing(ContainerState.STARTING, "Probing", "its health is not known yet")
    if probed.is_well:
        return Standing(ContainerState.HEALTHY, "Healthy")
    name = seen.resource.address
    return Standing(
        ContainerState.UNHEALTHY, "Unhealthy", f"its health check fails: {probed.said}", (f"plan logs {name}",)
    )


def _of_failed(status: ContainerStatus) -> Standing:
    cures = (status.hint,) if status.hint else ()
    if status.retry_at is None:
        return Standing(ContainerState.FAILED, status.reason, status.why, cures)
    has_run = status.seen is not None and status.seen.started_at > 0
    state = ContainerState.RESTARTING if has_run else ContainerState.WAITING
    return Standing(state, status.reason, f"{status.why}; tried {status.failures} times", cures)


def _of_waiting(seen: Observed) -> Standing:
    hopeless = next((need for need in seen.needs if need.is_hopeless), None)
    if hopeless is not None:
        said = f": {hopeless.last}" if hopeless.last else ""
        why = f"{hopeless.address} is not {hopeless.how} and will not be{said}"
        return Standing(ContainerState.FAILED, "NeedFailed", why, (f"plan describe {hopeless.address}",))
    lacking = [need for need in seen.needs if not need.is_met]
    if lacking:
        why = ", ".join(f"{need.address} is not {need.how} yet" for need in lacking)
        return Standing(ContainerState.WAITING, "AwaitingNeeds", why)
    return Standing(ContainerState.STARTING, "Starting")


def unlooked_draft(seen: Observed) -> Draft | None:
    """The record that nobody knows what the engine has; None when there is nothing to say yet, or it is said."""
    status = seen.status
    if not status.reason:
        return None
    cures = (status.hint,) if status.hint else ()
    return _draft(seen, Standing(ContainerState.WAITING, status.reason, status.why, cures))


def standing_draft(seen: Observed) -> Draft | None:
    """The record of how far it is; None when the status says so already."""
    return _draft(seen, standing(seen))


def _draft(seen: Observed, now: Standing) -> Draft | None:
    resource = seen.resource
    is_ready = now.state in (*UP, ContainerState.COMPLETED)
    old = condition.of_status(resource.status).get("Ready")
    ready = condition.updated(
        old,
        Condition(
            "Ready",
            "True" if is_ready else "False",
            now.reason,
            now.why,
            seen.now,
            resource.generation,
            now.unblocks,
        ),
    )
    merge: JsonObject = {"state": str(now.state), "conditions": {"Ready": ready.to_json()}}
    if patching.merge(resource.status, merge) == resource.status:
        return None
    data: JsonObject = {"state": str(now.state), "reason": now.reason, "why": now.why}
    return Draft("container.observed", ACTOR, resource.address, (_set(resource, merge),), data)


def counted(seen: Observed, found: Seen) -> JsonObject:
    """The merge that says what follows from the end of a run."""
    at = found.ended_at or found.started_at
    if found.exit_code == 0 and seen.spec.restart != "always":
        return {**CLEARED, "done_of": seen.of, "counted": at}
    was_steady = found.ended_at - found.started_at >= limits.CONTAINER_STEADY_S
    failures = 1 if was_steady else seen.status.failures + 1
    said = seen.status.last.strip().rpartition("\n")[2]
    why = f"it ended with exit code {found.exit_code}{f': {said}' if said else ''}"
    reason, hint = "Exited", f"plan logs {seen.resource.address}"
    if found.is_out_of_memory:
        reason, why, hint = "OutOfMemory", "it used more memory than it may", "give it more under `limits: {memory: …}`"
    retry_at = None if seen.spec.restart == "no" else seen.now + backoff_s(failures)
    return _failed(seen.of, failures, (reason, why, hint), retry_at) | {"counted": at, "done_of": None}


def failing(of: str, fault: EngineFailed, now: float) -> Merge:
    """The merge that says that the engine did not do what was asked of it for `of`."""

    def merge(status: ContainerStatus) -> JsonObject:
        failures = status.failures + 1
        retry_at = now + backoff_s(failures) if fault.reason in HEALS else None
        return _failed(of, failures, (str(fault.reason), str(fault), fault.hint), retry_at)

    return merge


def _failed(of: str, failures: int, said: tuple[str, str, str], retry_at: float | None) -> JsonObject:
    reason, why, hint = said
    return {
        "failures": failures,
        "failed_of": of,
        "reason": reason,
        "why": why,
        "hint": hint or None,
        "retry_at": retry_at,
    }


def observed(resource: Resource, merge: JsonObject, data: JsonObject | None = None) -> Draft:
    """A record of what was seen or done."""
    return Draft("container.observed", ACTOR, resource.address, (_set(resource, merge),), data or {})


def released(resource: Resource) -> Draft:
    """Nothing of it is left."""
    left = tuple(name for name in resource.finalizers if name != "container")
    change = Mark(resource.address, resource.uid, finalizers=left)
    return Draft("object.updated", ACTOR, resource.address, (change,), {"released": "container"})


def _set(resource: Resource, merge: JsonObject) -> SetStatus:
    return SetStatus(resource.address, resource.uid, merge)


def seen_merge(found: Seen | None) -> JsonObject:
    """The merge that says what the engine has."""
    return {"seen": None if found is None else found.to_json()}


async def write(store: Store, address: str, uid: str, merge: Merge) -> bool:
    """Merges what `merge` makes of the newest status; False when the container of that uid is no more.

    Nothing is written where that changes nothing.
    """
    for _ in range(_TRIES):
        resource = store.view.get(address)
        if resource is None or resource.uid != uid:
            return False
        wanted = merge(read(resource.status))
        if patching.merge(resource.status, wanted) == resource.status:
            return True
        try:
            await store.append(observed(resource, wanted), {address: resource.rev})
            return True
        except Conflict:
            continue
    raise Conflict(address, None, None)
