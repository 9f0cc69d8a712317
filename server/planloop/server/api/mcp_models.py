"""Models of the requests that `plan mcp` sends to the owner."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.schemas import limits
from planloop.server.api.base_model import Address, ApiModel, Reason, Rev
from planloop.server.api.operations import TEXT_CHARS_MAX

Word = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]
Seat = Annotated[int, Field(ge=1, description="Its number, which rises with every taking.")]


class TakeSeat(ApiModel):
    """Plays the outside agent from now on. `key` is the client's secret, `client` what it calls itself."""

    agent: Address
    key: Word
    client: Word


class SeatTaken(ApiModel):
    """Silent for `lease_s`, the client has it no longer. `briefing` says what its task is about."""

    rev: Rev
    seat: Seat
    lease_s: float
    briefing: str


class ApiSay(ApiModel):
    """A call of the agent; without a `tool` it only hears what is new. A second one with the same `id` is the first."""

    agent: Address
    seat: Seat
    key: Word
    id: Word
    tool: Annotated[str, Field(max_length=TEXT_CHARS_MAX)] = ""
    arguments: Any = None


class ApiHeard(ApiModel):
    """It stands in the log. `is_run`: somebody is there to do it now."""

    rev: Rev
    is_new: bool
    is_run: bool


class KeepSeat(ApiModel):
    """The client is still there."""

    agent: Address
    seat: Seat
    key: Word


class LeaveSeat(ApiModel):
    """The client plays the agent no longer."""

    agent: Address
    seat: Seat
    key: Word
    why: Reason = ""


class SeatKept(ApiModel):
    """It stands in the log."""

    rev: Rev
    is_run: bool


class Withdraw(ApiModel):
    """Takes back the call `id`: it is not made, or stopped."""

    agent: Address
    seat: Seat
    key: Word
    id: Word


class Withdrawn(ApiModel):
    """How far the call was."""

    rev: Rev
    was: Literal["waiting", "begun", "over"]
    is_run: bool


class AgentsPatch(ApiModel):
    """What the agent would change; paths without a leading `/` are below its task."""

    agent: Address
    ops: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=limits.PLAN_NODES_MAX)]
    reason: Reason = ""
