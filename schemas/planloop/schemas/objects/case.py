"""A case of a benchmark run as its controller reads it: the graded task and the verdict.

What graders need is in `plan.json` in the folder of the run. Agents could read it in the plan.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen

CASE_KIND: Final = "case"


CASE_S: Final = 3600.0
"""How long an entry may take that says nothing else, in seconds."""


class CaseState(StrEnum):
    """`status.state` of a case."""

    WAITING = "waiting"  # Its task is not over.
    CLOSING = "closing"  # Its task would not come to an end, and is cancelled; `cut` says why.
    ENDED = "ended"


class CaseVerdict(StrEnum):
    """How a case ended. ERROR: the world failed, so nothing is known; INVALID: a check passed without looking."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    INVALID = "invalid"

    @property
    def is_decided(self) -> bool:
        """Whether it says something of who was tested."""
        return self in (CaseVerdict.PASS, CaseVerdict.FAIL)

    @property
    def is_unknown(self) -> bool:
        """Return whether this verdict leaves a run incomplete. INVALID does not: the check is known to be wrong."""
        return self is CaseVerdict.ERROR


class CaseStopReason(StrEnum):
    """Why a task was ended that did not end by itself."""

    LIMIT = "limit"  # A budget or the time is used up. The workspace is graded as it is.
    WORLD = "world"  # Something that the case needs is not available.


@frozen
class CaseSpec:
    """`task` is the address of what is graded, `entry` its name in `plan.json`, `key` the digest of what decides.

    `within_s` is how long the task may take by the clock, waiting counted.
    """

    task: str
    entry: str
    key: str
    attempt: int = 1
    within_s: float = CASE_S

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


def case_from_json(raw: JsonObject) -> CaseSpec:
    """Inverse of `CaseSpec.to_json`."""
    return codec.from_json(CaseSpec, raw)
