"""What the caller of a command reads of its end: the same words wherever it ran."""

from __future__ import annotations

from typing import Protocol, assert_never

from planloop.controllers.agent.tools.tool import Context
from planloop.reconciler.effects.clamping import clamped
from planloop.reconciler.effects.processes import Ending
from planloop.schemas.call import CallResult, CallState


class Ended(Protocol):
    """A command that has ended, here or in a container."""

    @property
    def ending(self) -> Ending: ...

    @property
    def code(self) -> int | None: ...

    @property
    def output(self) -> bytes: ...


def result_of(context: Context, ended: Ended, *, late: str, lost: str) -> CallResult:
    """The result of a call that ran `ended`, its whole output kept; `late` and `lost` say what these endings mean."""
    blob = context.world.store.put_blob(ended.output) if ended.output else None
    shown = clamped(ended.output)
    match ended.ending:
        case Ending.EXITED if ended.code == 0:
            return CallResult(CallState.SUCCEEDED, shown, "", 0, blob)
        case Ending.EXITED:
            text = f"exit {ended.code}\n{shown}" if shown else f"exit {ended.code}"
            return CallResult(CallState.FAILED, text, "Exit", ended.code, blob)
        case Ending.TIMED_OUT:
            return _stopped("TimedOut", late, shown, blob)
        case Ending.TOO_MUCH_OUTPUT:
            return _stopped("TooMuchOutput", "it wrote too much and was stopped", shown, blob)
        case Ending.NOT_STARTED:
            return _stopped("NotStarted", "it could not be started", shown, blob)
        case Ending.LOST:
            return CallResult(CallState.UNKNOWN, f"{lost}: it may have happened\n{shown}", "Unknown", None, blob)
        case _:
            assert_never(ended.ending)


def _stopped(reason: str, words: str, shown: str, blob: str | None) -> CallResult:
    return CallResult(CallState.FAILED, f"{words}\n{shown}".rstrip(), reason, None, blob)
