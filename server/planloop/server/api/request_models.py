"""Models of request bodies, of the CLI, the page and `plan mcp`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.reconciler.diff.differences import EditAction
from planloop.schemas import limits
from planloop.server.api.base_model import Address, ApiModel, Digest, Reason, Rev
from planloop.server.api.operations import POINTER, TEXT_CHARS_MAX

Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
Document = Annotated[dict[str, Any], Field(description="A plan document: every map keyed by id.")]


Pointer = Annotated[str, Field(pattern=POINTER, max_length=TEXT_CHARS_MAX, examples=["/tasks/build/goal"])]


class OpPut(ApiModel):
    """An operation of RFC 6902 that says what is, or is to be, somewhere in the plan document."""

    op: Literal["add", "replace", "test"]
    path: Pointer
    value: Any


class OpMove(ApiModel):
    """An operation of RFC 6902 that brings something from elsewhere in the document."""

    op: Literal["move", "copy"]
    path: Pointer
    from_: Annotated[Pointer, Field(alias="from")]


class OpRemove(ApiModel):
    """An operation of RFC 6902 that takes something away."""

    op: Literal["remove"]
    path: Pointer


Op = Annotated[OpPut | OpMove | OpRemove, Field(discriminator="op")]


class ApiPatch(ApiModel):
    """All operations are made, or none. `base_rev` is the revision that the author had read, the present one if 0.

    With `document_rev` nothing is done when the live document is at another one.
    """

    ops: Annotated[list[Op], Field(max_length=limits.PLAN_NODES_MAX)]
    reason: Reason = ""
    base_rev: Rev = 0
    document_rev: Rev | None = None
    dry_run: Annotated[bool, Field(description="Only say what it would do.")] = False
    is_approved: Annotated[bool, Field(description="Let it pass where it would be held for a yes.")] = False


class Save(ApiModel):
    """A plan file as it was saved: its text with the document that the compiler made of it."""

    path: Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX, description="The file's name.")]
    content: Annotated[str, Field(max_length=limits.SUITE_BYTES_MAX)]
    document: Document
    targets: Annotated[list[Address], Field(max_length=limits.PLAN_NODES_MAX, description="Only these tasks.")] = []
    excludes: Annotated[list[Address], Field(max_length=limits.PLAN_NODES_MAX, description="Not these.")] = []
    is_approved: bool = False
    reason: Reason = ""


class ApiStake(ApiModel):
    """What there is to lose: the state, since when (null: never begun), and what was spent."""

    state: str
    started_at: float | None
    spent: dict[str, Any]


class ApiDifference(ApiModel):
    """One object's change, and what it does to work that runs."""

    action: EditAction
    address: str
    reason: str
    words: str
    fields: list[str]
    stake: ApiStake | None = None
    was: str = ""


class ApiSource(ApiModel):
    """The file that a preview is of: its name, and the digests of its text and of the document in it."""

    path: Text
    blob: Digest
    document: Digest


class SavedPatch(ApiModel):
    """The patch of a preview, which is a file's."""

    author: Literal["human:file"]
    ops: list[Op]
    base_rev: Rev
    reason: str
    source: ApiSource


class ApiSavedPreview(ApiModel):
    """A preview that `saved` applies later, as it is."""

    version: Literal[1]
    plan: str
    uid: str | None
    document_rev: Rev
    patch: SavedPatch
    differences: list[ApiDifference]
    blobs: list[str]


class ApiSaved(ApiModel):
    """What `preview` answered, to be applied as it was shown."""

    preview: ApiSavedPreview
    is_approved: bool = False


class Approve(ApiModel):
    """Yes to an approval, or to the end of a hook. `content` answers a question, by its fields."""

    address: Address
    reason: Reason = ""
    content: dict[str, Any] | None = None


class Reject(ApiModel):
    """No to an approval."""

    address: Address
    reason: Reason = ""


class ApiRule(ApiModel):
    """How a conflict goes on. `for` is whom the ruling is about, the usual one if empty; `plan` what both are told."""

    conflict: Address
    how: Literal["release", "sequence", "merge", "fork", "cancel"]
    for_: Annotated[str, Field(alias="for", max_length=TEXT_CHARS_MAX)] = ""
    plan: Text = ""


class Unlock(ApiModel):
    """A lock that is taken from whoever holds it."""

    lock: Address
    reason: Reason = ""


class ApiSettle(ApiModel):
    """A call in doubt: whether it happened."""

    address: Address
    happened: bool
    reason: Reason = ""


class Rollback(ApiModel):
    """The revision to go back to."""

    rev: Rev
    reason: Reason = ""
    dry_run: Annotated[bool, Field(description="Only say what it would do.")] = False
    is_approved: bool = False


class Steer(ApiModel):
    """Tasks that are to be paused, resumed or cancelled; containers that failed can be resumed, too."""

    do: Literal["pause", "resume", "cancel"]
    what: Annotated[list[Address], Field(min_length=1, max_length=limits.CHILDREN_MAX)]
    reason: Reason = ""
    dry_run: Annotated[bool, Field(description="Only say what it would do.")] = False


class ApiSend(ApiModel):
    """A message to one agent or several; nobody gets it when one of them cannot.

    `delivery` is when it is read: when the agent would sleep, at its next step, or stopping the step in flight. `asks`
    waits for an answer, `key` makes sending again change nothing, `untrusted` says that it only passes on what came
    from outside, `expires_s` drops it if it is not read by then.
    """

    to: Address | Annotated[list[Address], Field(min_length=1, max_length=limits.CHILDREN_MAX)]
    text: Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_BYTES_MAX)]
    delivery: Literal["queue", "steer", "interrupt"] = "queue"
    asks: bool = False
    key: Text = ""
    untrusted: bool = False
    expires_s: Annotated[float, Field(gt=0, le=10**9)] | None = None


class MoveSession(ApiModel):
    """The agent that is talked with from now on."""

    to: Address


class Restore(ApiModel):
    """A file that `dump` gave, as a child of the agent `under`. `name` is the child's id, empty for the one it had."""

    under: Address
    text: Annotated[str, Field(max_length=limits.DUMP_BYTES_MAX)]
    name: Text = ""


class ApiPrompt(ApiModel):
    """A prompt of a tool server, for `agent`."""

    server: Text
    name: Text
    arguments: dict[str, str] = {}
    agent: Address


class ApiStop(ApiModel):
    """How the owner ends: `leave` leaves processes and containers running, `volumes` takes containers' volumes too."""

    leave: bool = False
    volumes: bool = False


# Requests that `plan mcp` sends to the owner.

NonEmptyText = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]
Seat = Annotated[int, Field(ge=1, description="Its number, which rises with every taking.")]


class TakeSeat(ApiModel):
    """Plays the outside agent from now on. `key` is the client's secret, `client` what it calls itself."""

    agent: Address
    key: NonEmptyText
    client: NonEmptyText


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
    key: NonEmptyText
    id: NonEmptyText
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
    key: NonEmptyText


class LeaveSeat(ApiModel):
    """The client plays the agent no longer."""

    agent: Address
    seat: Seat
    key: NonEmptyText
    why: Reason = ""


class SeatKept(ApiModel):
    """It stands in the log."""

    rev: Rev
    is_run: bool


class Withdraw(ApiModel):
    """Takes back the call `id`: it is not made, or stopped."""

    agent: Address
    seat: Seat
    key: NonEmptyText
    id: NonEmptyText


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
