"""What the end of a command means for its task and for its call object."""

from __future__ import annotations

from planloop.reconciler.effects.clamping import clamped, last_line
from planloop.reconciler.effects.processes import Ending, Exit
from planloop.schemas import exit_codes, limits
from planloop.schemas.call import CallResult, CallState, EffectClass
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.task import Run

STATUS_TEXT_BYTES = 1 << 10  # Of an output, in the task's status; the rest is in the blob.


@frozen
class Outcome:
    """`result` goes into the status (None: nobody saw the end, so there is none); `call` settles the call object."""

    call: CallResult
    result: JsonObject | None


def of_exit(exit_: Exit, work: Run, blob: str | None) -> Outcome:
    """The outcome of a command that came to an end or was lost."""
    if exit_.ending is Ending.LOST:
        return lost(work)
    reason, why = _trouble(exit_, work)
    shown = clamped(exit_.output, STATUS_TEXT_BYTES)
    text = shown if not reason else why
    state = CallState.FAILED if reason else CallState.SUCCEEDED
    call = CallResult(state, clamped(exit_.output), reason, exit_.code, blob)
    return Outcome(call, result(ok=not reason, reason=reason, text=text, exit_code=exit_.code, blob=blob))


def result(
    *, ok: bool, reason: str = "", text: str = "", exit_code: int | None = None, blob: str | None = None
) -> JsonObject:
    """A result for the status. Every member is named, so that a merge leaves nothing of an older one."""
    return {"ok": ok, "reason": reason or None, "text": text, "exit_code": exit_code, "blob": blob}


def cancelled() -> Outcome:
    """The command was stopped before its end, by us."""
    return Outcome(CallResult(CallState.CANCELLED, "stopped before its end", "Cancelled"), None)


def lost(work: Run) -> Outcome:
    """Nobody saw how far the command got: its effect class decides whether it may run again."""
    if EffectClass(work.effect).may_run_again:
        return Outcome(CallResult(CallState.CANCELLED, "lost, and may run again", "Lost"), None)
    return Outcome(CallResult(CallState.UNKNOWN, "nobody saw how it ended", "Lost"), None)


def _trouble(exit_: Exit, work: Run) -> tuple[str, str]:
    """A reason and a sentence for a command that did not end well; empty when it did."""
    name = work.shell or " ".join(work.argv)
    line = last_line(exit_.output)
    said = f": {line}" if line else ""
    match exit_.ending:
        case Ending.TIMED_OUT:
            return "TimedOut", f"`{name}` was stopped at its time limit{said}"
        case Ending.TOO_MUCH_OUTPUT:
            return "TooMuchOutput", f"`{name}` printed more than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB"
        case Ending.NOT_STARTED:
            return "CannotStart", f"`{name}` could not be started{said}"
        case _ if exit_.code == 0:
            return "", ""
        case _:
            return "CommandFailed", f"`{name}` ended with {exit_codes.words(exit_.code)}{said}"
