"""What a decision is: a status to merge, other writes of the same append, jobs to start and to cancel.

Values only. `controller.py` carries them out; the rules next door make them.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from planloop.controllers.task.observing import Observed
from planloop.controllers.task.status import progress_of
from planloop.schemas import patching
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.record import Change
from planloop.schemas.sandbox import Wish
from planloop.schemas.task import CheckSpec, TaskState


@frozen
class RunJob:
    """Starts the task's command, or adopts one that runs already."""

    key: str
    priority: int


@frozen
class CheckJob:
    """Runs one check of round `round`; `digest` names the check as it was written."""

    key: str
    priority: int
    check: CheckSpec
    round: int
    digest: str


@frozen
class StopJob:
    """Stops a command of an earlier owner that nobody waits for."""

    key: str
    call: str
    op: str


@frozen
class TryJob:
    """Finds out whether a sandbox is to be had."""

    key: str
    wish: Wish


Job: TypeAlias = RunJob | CheckJob | StopJob | TryJob


@frozen
class Says:
    """The state and why: one CamelCase reason, a sentence, and what would change it.

    `is_stuck` tells those who wait for the task that it will not move by itself.
    """

    state: TaskState
    reason: str
    message: str = ""
    unblocks: tuple[str, ...] = ()
    is_stuck: bool = False


@frozen
class Step:
    """One step for one task. `merge` goes into its status; `again_s` asks for a look after that many seconds.

    `type` is the record's.
    """

    says: Says
    merge: JsonObject = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    start: tuple[Job, ...] = ()
    cancel: tuple[str, ...] = ()
    again_s: float | None = None
    type: str = "task.changed"

    def on_top_of(self, merge: JsonObject) -> Step:
        """The same step with an earlier merge below its own."""
        return remade(self, merge=composed(merge, self.merge))

    def first(self, changes: tuple[Change, ...]) -> Step:
        """The same step with other writes before its own."""
        return remade(self, changes=(*changes, *self.changes)) if changes else self


def composed(first: JsonObject, second: JsonObject) -> JsonObject:
    """One merge patch for two in a row. A map that follows a removal must name every member it may have (RFC 7386)."""
    out = dict(first)
    for key, value in second.items():
        below = out.get(key)
        out[key] = composed(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return out


def after(observed: Observed, merge: JsonObject) -> Observed:
    """What would be observed once `merge` is written: lets one append take several steps."""
    status = patching.merge(observed.me.status, merge)
    call = observed.call if status.get("call") else None
    return remade(observed, me=remade(observed.me, status=status), progress=progress_of(status), call=call)
