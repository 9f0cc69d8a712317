"""What the container controller writes: records of what it saw and did, none where nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from planloop.containers.engine import HEALS, EngineFailed, Reason
from planloop.controllers.container.deciding import backoff_s
from planloop.controllers.container.observing import Observed
from planloop.controllers.container.standing import Standing
from planloop.controllers.container.status import ContainerStatus, Seen, Trouble, read, seen_of
from planloop.controllers.container.yard import Yard
from planloop.reconciler.errors import Conflict
from planloop.schemas import condition, exit_codes, limits, patching
from planloop.schemas.condition import Condition
from planloop.schemas.container import UP, VANISHED, ContainerState, lacking_of
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Draft, Mark, SetStatus
from planloop.schemas.resource import Resource

ACTOR: Final = "controller:container"
_TRIES: Final = 64  # Of a write that others come before; the watcher and a job are two.
_AGAIN: Final = HEALS | {Reason.NOT_FOUND, Reason.NOT_RUNNING}
"""Reasons to try again: what heals, and what went away under our hands and is made anew."""

_KILLED: Final = 137
_FORBIDDEN: Final = re.compile("not permitted|permission denied|EPERM|EACCES", re.IGNORECASE)
_MORE_MEMORY: Final = "give it more under `limits: {memory: …}`"
_VANISHED_WORDS: Final = "it was removed while it ran, and not by this plan"
_VANISHED_HINT: Final = "plan delete takes it out of the plan, plan down takes all of them down"

Merge: TypeAlias = Callable[[ContainerStatus], JsonObject]
"""From the newest status, what is merged into it."""

WELL: Final[JsonObject] = dict.fromkeys(("failed_of", "failed_by", "reason", "why", "hint", "retry_at"))
"""The merge that takes back what was wrong; how often it was so is still counted."""

CLEARED: Final[JsonObject] = {
    **WELL,
    **dict.fromkeys(("failures", "tries", "losses", "done_of", "is_expired", "is_spent", "counted", "stuck")),
    **dict.fromkeys(("bound_of", "bound_why")),
}
"""The merge that forgets how it has ended."""


def standing_draft(seen: Observed, now: Standing) -> Draft | None:
    """The record of how far it is; None when the status says so already."""
    resource = seen.resource
    merge = standing_merge(resource, now, seen.now)
    if patching.merge(resource.status, merge) == resource.status:
        return None
    data: JsonObject = {"state": str(now.state), "reason": now.reason, "why": now.why}
    return Draft("container.observed", ACTOR, resource.address, (_set(resource, merge),), data)


def standing_merge(resource: Resource, now: Standing, at: float) -> JsonObject:
    """The merge that says how far it is, since `at` if that is news."""
    is_ready = now.state in (*UP, ContainerState.COMPLETED)
    old = condition.of_status(resource.status).get("Ready")
    truth: condition.Truth = "True" if is_ready else "False"
    new = Condition("Ready", truth, now.reason, now.why, at, resource.generation, now.unblocks)
    return {"state": str(now.state), "conditions": {"Ready": condition.updated(old, new).to_json()}}


def counted(seen: Observed, found: Seen) -> JsonObject:
    """The merge that says what follows from the end of a run."""
    if found.exit_code == 0 and not found.error and seen.spec.restart != "always":
        return {**CLEARED, "done_of": seen.of, "counted": found.end}
    was_steady = found.ended_at - found.started_at >= limits.CONTAINER_STEADY_S
    failures = 1 if was_steady else seen.status.failures + 1
    said = seen.status.last.strip().rpartition("\n")[2]
    why = f"it ended with {exit_codes.words(found.exit_code)}{f': {said}' if said else ''}"
    reason, hint = "Exited", f"plan logs {seen.resource.address}"
    if found.is_out_of_memory:
        reason, why, hint = "OutOfMemory", "it used more memory than it may", _MORE_MEMORY
    elif found.error:
        reason, hint = str(Reason.NO_COMMAND), "look at `cmd` and `entrypoint`"
        why = f"its command cannot be run: {found.error}"
    elif _may_be_out_of_memory(seen, found):
        hint = f"if it was for memory, {_MORE_MEMORY}; else {hint}"
    elif _FORBIDDEN.search(seen.status.last) and (lacking := lacking_of(seen.resource.address, seen.spec)):
        hint = f"{lacking}; {hint}"
    is_final = seen.spec.restart == "no" or reason == Reason.NO_COMMAND
    retry_at = None if is_final else seen.now + backoff_s(failures)
    failed = _Failed(seen.of, seen.token, reason, why, hint, retry_at).merge
    return failed | {"failures": failures, "tries": None, "losses": None, "counted": found.end, "done_of": None}


def _may_be_out_of_memory(seen: Observed, found: Seen) -> bool:
    """Whether it was killed, not by us, and had a bound of memory: Docker under load loses that this was why."""
    is_ours = found.started_at == seen.status.stopping
    return found.exit_code == _KILLED and found.memory_bytes is not None and not is_ours


def failing(of: str, fault: EngineFailed, token: str, now: float) -> Merge:
    """The merge that says that the engine did not do what was asked of it for `of`."""

    def merge(status: ContainerStatus) -> JsonObject:
        tries = status.tries + 1
        retry_at = now + backoff_s(tries) if fault.reason in _AGAIN else None
        failed = _Failed(of, token, str(fault.reason), str(fault), fault.hint, retry_at)
        return failed.merge | {"tries": tries}

    return merge


def lost(status: ContainerStatus, found: Seen, token: str, now: float) -> JsonObject:
    """The merge that says that the running container `found` was removed, and not by us.

    It says nothing of the program. Another is made, after a pause that grows while somebody goes on removing them.
    """
    was_steady = now - found.started_at >= limits.CONTAINER_STEADY_S
    losses = 1 if was_steady else status.losses + 1
    failed = _Failed(found.of, token, VANISHED, _VANISHED_WORDS, _VANISHED_HINT, now + backoff_s(losses))
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


def stuck(fault: EngineFailed, now: float) -> Merge:
    """The merge that says that what is to go does not."""

    def merge(status: ContainerStatus) -> JsonObject:
        failures = 1 if status.stuck is None else status.stuck.failures + 1
        trouble = Trouble(failures, str(fault.reason), str(fault), fault.hint, now + backoff_s(failures))
        return {"stuck": trouble.to_json()}

    return merge


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


@frozen
class Page:
    """The status of the container of this uid, written by its jobs and the watcher at once."""

    yard: Yard
    address: str
    uid: str

    @property
    def resource(self) -> Resource | None:
        """The newest there is of it; None when it is no more."""
        found = self.yard.store.view.get(self.address)
        return found if found is not None and found.uid == self.uid else None

    async def write(self, merge: Merge) -> bool:
        """Merges what `merge` makes of the newest status; False when it is no more.

        Nothing is written where that changes nothing.
        """
        for _ in range(_TRIES):
            resource = self.resource
            if resource is None:
                return False
            wanted = merge(read(resource.status))
            if patching.merge(resource.status, wanted) == resource.status:
                return True
            try:
                await self.yard.store.append(observed(resource, wanted), {self.address: resource.rev})
                return True
            except Conflict:
                continue
        raise Conflict(self.address, None, None)

    async def look(self, ref: str, also: JsonObject | None = None) -> Seen | None:
        """Writes what the engine has under `ref`, unless that is another's, and `also`. Raises EngineFailed."""
        async with self.yard.looking[self.address]:
            made = await self.yard.engine.container(ref)
            resource = None if made is None else self.yard.whose(made)
            is_its = resource is not None and (resource.address, resource.uid) == (self.address, self.uid)
            found = seen_of(made) if made is not None and is_its else None
            token, now = self.yard.look_token, self.yard.clock.now()
            await self.write(lambda status: seen_under(ref, found, status, token, now) | (also or {}))
        return found


def seen_under(ref: str, found: Seen | None, status: ContainerStatus, token: str, now: float) -> JsonObject:
    """The merge that says what there is under `ref`: that there is nothing tells nothing of another one."""
    before = status.seen
    if found is not None or before is None:
        return seen_merge(found)
    if before.id != ref:
        return {}
    return seen_merge(None) | (lost(status, before, token, now) if _was_wanted(status, before) else {})


def _was_wanted(status: ContainerStatus, gone: Seen) -> bool:
    """Whether one that is gone was in the middle of its run, which we had not begun to end."""
    is_cut_off = gone.is_up or (gone.run == "removing" and status.counted != gone.end)
    return is_cut_off and gone.started_at != status.stopping
