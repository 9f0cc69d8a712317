"""A call: one tool call or command as an object, with its state, effect class and result.

`Started` is durable before the effect (law 5). After a crash, the next owner adopts a Started call whose process runs
or has ended. One that left no trace runs again or becomes Unknown, by its effect class.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from planloop.schemas import codec
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen


class CallState(StrEnum):
    """Where a call is. `FINAL_STATES` are final; an operator settles an Unknown call."""

    PROPOSED = "Proposed"
    AUTHORIZED = "Authorized"
    DENIED = "Denied"
    AWAITING_APPROVAL = "AwaitingApproval"
    AWAITING_LOCK = "AwaitingLock"
    AWAITING_CHILD = "AwaitingChild"
    AWAITING_INPUT = "AwaitingInput"
    STARTED = "Started"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    UNKNOWN = "Unknown"

    @property
    def is_final(self) -> bool:
        return self in FINAL_STATES


FINAL_STATES = frozenset({CallState.DENIED, CallState.SUCCEEDED, CallState.FAILED, CallState.CANCELLED})
NO_SUCH_TOOL: Final = "there is no tool"
NOT_GRANTED: Final = "you may not use"
"""How the result of a call begins that was turned down for the name of its tool alone, which follows in backticks: the
log has no other word for why a call was not ruled in."""


class EffectClass(StrEnum):
    """What may be done when the outcome is unknown: a read or idempotent call runs again, a `once` call never does.

    This version treats a reconcilable call like a `once` call.
    """

    READ = "read"
    IDEMPOTENT = "idempotent"
    RECONCILABLE = "reconcilable"
    ONCE = "once"

    @property
    def may_run_again(self) -> bool:
        """Return whether a call with an unknown outcome may run again."""
        return self in (EffectClass.READ, EffectClass.IDEMPOTENT)

    @property
    def is_read(self) -> bool:
        """Whether such a call leaves everything as it was."""
        return self is EffectClass.READ


@frozen
class CallSpec:
    """A call and its agent. `op` is its operation id; `turn` and `index` are its position in the transcript.

    `is_process` says that the effect runs through `Processes` under `op`, so that after a crash its files tell what
    became of it; a call that runs inside the owner leaves no trace and counts as lost.
    """

    owner: str
    owner_uid: str
    incarnation: int
    op: str
    tool: str
    arguments: JsonObject
    effect: EffectClass = EffectClass.ONCE
    turn: int = 0
    index: int = 0
    is_process: bool = False

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "is_process")


def arguments_as_map(arguments: Json) -> JsonObject:
    """The arguments as a call object holds them, and as a model is shown them again: a map, whatever the mind gave."""
    given = given_arguments(arguments)
    return given if isinstance(given, dict) else {"given": given}


def given_arguments(arguments: Json) -> Json:
    """Arguments as they are meant: null, its text, no text and an empty list are no arguments."""
    if isinstance(arguments, str):
        return {} if arguments.strip() in ("", "null") else arguments
    return {} if arguments is None or arguments == [] else arguments


def call_from_json(raw: JsonObject) -> CallSpec:
    """Inverse of `CallSpec.to_json`."""
    return codec.from_json(CallSpec, raw)


@frozen
class CallResult:
    """How a call ended. `text` is what the caller reads (clamped); `blob` the digest of the whole output, if any.

    `exit_code` is set for processes; `error` is one CamelCase word for a failure, empty on success.
    """

    state: CallState
    text: str = ""
    error: str = ""
    exit_code: int | None = None
    blob: str | None = None
    value: Json = None

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "error", "exit_code", "blob", "value")


def result_from_json(raw: JsonObject) -> CallResult:
    """Inverse of `CallResult.to_json`."""
    return codec.from_json(CallResult, raw)
