"""Tasks that have ended, and what makes them begin again: edits, checks that no longer hold, more retries."""

from __future__ import annotations

from planloop.controllers.task import containing, family, finishing, forking, starting, verifying, working
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.status import Stage
from planloop.controllers.task.step import Says, Step, after
from planloop.schemas.condition import condition_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.task import Group, TaskState

AFRESH: JsonObject = {"stage": "", "attempt": 1, "not_before": None, "round_for": None, "call": None, "go": None}
"""What is written when a task is to begin again from nothing."""


_PLAIN = {TaskState.FAILED: "Failed", TaskState.WAITING: "Retrying"}


def begin_again(observed: Observed) -> Step:
    """A new incarnation with all its retries; nothing of the task is in motion."""
    afresh = {**AFRESH, "basis": None, "skipped": None, "result": None}
    return starting.start(after(observed, afresh)).on_top_of(afresh)


def keep_done(observed: Observed) -> Step:
    """Done, and watched: new children, edited checks, and for `heal` the checks at their interval."""
    progress = observed.progress
    if progress.round_for is not None:
        return verifying.advance(observed)
    unfinished = None if progress.is_skipped else family.not_done(observed)
    if unfinished is not None:
        if isinstance(observed.spec.work, Group):
            return working.over(observed)
        return Step(unfinished)
    if (bringing := forking.bring(observed)) is not None:
        return bringing  # Tasks below were done once more, in a fork of their time.
    if verifying.is_edited(observed):
        return verifying.begin_round(observed, "edit")
    return _heal(observed)


def keep_failed(observed: Observed) -> Step:
    """Failed, until retries are raised, its checks are edited, or (for a group) its children or containers change."""
    progress = observed.progress
    if progress.round_for is not None:
        return verifying.advance(observed)
    says = stored(observed)
    if isinstance(observed.spec.work, Group) and family.not_done(observed) is not None:
        return working.over(observed)
    if containing.is_mended(observed):
        return begin_again(observed)
    if finishing.may_retry(observed):
        return finishing.failed(observed, says.reason, says.message)
    if verifying.is_edited(observed) and (progress.result or {}).get("ok"):
        return verifying.begin_round(observed, "edit")
    # Nothing of a group is to be done again: it heals when what its checks look at does.
    return _heal(observed) if isinstance(observed.spec.work, Group) else Step(says)


def stored(observed: Observed) -> Says:
    """What was written about an ended task when it ended."""
    is_failed = observed.progress.stage is Stage.FAILED
    return as_written(observed, TaskState.FAILED if is_failed else TaskState.DONE)


def as_written(observed: Observed, state: TaskState) -> Says:
    """`state` with the words that were written with it, if it is the one that was."""
    raw = observed.me.status.get("conditions", {}).get("Ready")
    if raw is None or observed.progress.state is not state:
        return Says(state, _PLAIN.get(state, "Done"))
    ready = condition_from_json("Ready", raw)
    return Says(state, ready.reason, ready.message, ready.unblocks)


def _heal(observed: Observed) -> Step:
    says = stored(observed)
    if not (observed.spec.heal and observed.spec.acceptance):
        return Step(says)
    due_s = _next_heal_at(observed) - observed.now
    return verifying.begin_round(observed, "heal") if due_s <= 0 else Step(says, again_s=due_s)


def _next_heal_at(observed: Observed) -> float:
    checks = observed.progress.checks or {}
    last = max((result["at"] for result in checks.values()), default=0.0)
    return float(last + observed.spec.heal_every_s)
