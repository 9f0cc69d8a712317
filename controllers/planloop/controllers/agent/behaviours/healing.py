"""When a failed call may be made again: the failure may heal, and a second try can do no harm. Pure."""

from __future__ import annotations

from typing import Final

from planloop.controllers.agent.behaviours.steps import Step
from planloop.schemas import limits
from planloop.schemas.call import CallResult, CallState, EffectClass

MAY_HEAL: Final = frozenset(
    {"TimedOut", "Disconnected", "NoServer", "ServerError", "Unreachable", "Overloaded", "RateLimited", "NotStarted"}
)
"""Reasons of failures that another moment may not have."""

BEFORE_EFFECT: Final = frozenset({"NotStarted", "NoServer", "Unreachable"})
"""Reasons that say that nothing had happened yet, so that any class of call may be made again."""


def may_try_again(step: Step, result: CallResult, effect: EffectClass) -> bool:
    """Whether a call that ended like this may be tried again under `step`, however often it was."""
    if result.state is not CallState.FAILED:
        return False  # A denial stands, a success needs no more, and what is unknown must never be made twice.
    named = step.table.get("errors")
    if result.error not in (MAY_HEAL if not named else frozenset(named)):
        return False
    return effect.may_run_again or result.error in BEFORE_EFFECT


def tries_max(step: Step) -> int:
    """Tries after the first."""
    return int(step.table.get("max", 2))


def pause_s(step: Step, tries: int) -> float:
    """Seconds before the try after `tries` tries: doubles from the step's own back-off, and stops at the cap."""
    base = float(step.table.get("backoff", limits.BACKOFF_BASE_S))
    return min(limits.BACKOFF_CAP_S, base * 2.0 ** min(max(0, tries - 1), 30))
