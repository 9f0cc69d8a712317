"""Models of the request bodies that the CLI, the page and `plan mcp` send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.reconciler.diff.differences import EditAction
from planloop.schemas import limits
from planloop.server.api.base_model import Address, ApiModel, Digest, Reason, Rev
from planloop.server.api.operations import POINTER, TEXT_CHARS_MAX

Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
Document = Annotated[dict[str, Any], Field(description="A plan document: every map keyed by id.")]
DryRun = Annotated[bool, Field(description="Only preview the change.")]


Pointer = Annotated[str, Field(pattern=POINTER, max_length=TEXT_CHARS_MAX, examples=["/tasks/build/goal"])]


class OpPut(ApiModel):
    """An RFC 6902 operation with a value: it sets or tests the value at a path of the plan document."""

    op: Literal["add", "replace", "test"]
    path: Pointer
    value: Any


class OpMove(ApiModel):
    """An RFC 6902 operation that moves or copies a value within the document."""

    op: Literal["move", "copy"]
    path: Pointer
    from_: Annotated[Pointer, Field(alias="from")]


class OpRemove(ApiModel):
    """An RFC 6902 operation that removes a value."""

    op: Literal["remove"]
    path: Pointer


Op = Annotated[OpPut | OpMove | OpRemove, Field(discriminator="op")]


class ApiPatch(ApiModel):
    """A patch of the plan. Either all its operations are applied or none.

    `base_rev` is the revision that the author read; 0 means the current one. If `document_rev` is set and the live
    document is at another revision, nothing is changed.
    """

    ops: Annotated[list[Op], Field(max_length=limits.PLAN_NODES_MAX)]
    reason: Reason = ""
    base_rev: Rev = 0
    document_rev: Rev | None = None
    dry_run: DryRun = False
    is_approved: Annotated[bool, Field(description="Apply the patch without waiting for approval.")] = False


class Save(ApiModel):
    """A plan file: its text, and the document that it compiles to."""

    path: Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX, description="The file's name.")]
    content: Annotated[str, Field(max_length=limits.SUITE_BYTES_MAX)]
    document: Document
    targets: Annotated[list[Address], Field(max_length=limits.PLAN_NODES_MAX, description="Only these tasks.")] = []
    excludes: Annotated[list[Address], Field(max_length=limits.PLAN_NODES_MAX, description="Not these tasks.")] = []
    is_approved: bool = False
    reason: Reason = ""


class ApiStake(ApiModel):
    """Work that a change would lose: the state, when it started (null: it has not), and what it has spent."""

    state: str
    started_at: float | None
    spent: dict[str, Any]


class ApiDifference(ApiModel):
    """The change of one object, and its effect on running work."""

    action: EditAction
    address: str
    reason: str
    words: str
    fields: list[str]
    stake: ApiStake | None = None
    was: str = ""


class ApiSource(ApiModel):
    """The file of a preview: its name, and the digests of its text and of its document."""

    path: Text
    blob: Digest
    document: Digest


class SavedPatch(ApiModel):
    """The patch of a preview. Its author is always the plan file."""

    author: Literal["human:file"]
    ops: list[Op]
    base_rev: Rev
    reason: str
    source: ApiSource


class ApiSavedPreview(ApiModel):
    """A preview that `saved` can apply unchanged."""

    version: Literal[1]
    plan: str
    uid: str | None
    document_rev: Rev
    patch: SavedPatch
    differences: list[ApiDifference]
    blobs: list[str]


class ApiSaved(ApiModel):
    """The answer of `preview`, to be applied unchanged."""

    preview: ApiSavedPreview
    is_approved: bool = False


class Approve(ApiModel):
    """Approval of a pending action or of the removal of a hook. `content` has the answers to a question, by field."""

    address: Address
    reason: Reason = ""
    content: dict[str, Any] | None = None


class Reject(ApiModel):
    """Rejection of a pending action."""

    address: Address
    reason: Reason = ""


class ApiRule(ApiModel):
    """The resolution of a conflict. `for` is the agent that it concerns, by default the usual one for `how`.

    `plan` is a text for both agents.
    """

    conflict: Address
    how: Literal["release", "sequence", "merge", "fork", "cancel"]
    for_: Annotated[str, Field(alias="for", max_length=TEXT_CHARS_MAX)] = ""
    plan: Text = ""


class Unlock(ApiModel):
    """A lock to take away from its holders."""

    lock: Address
    reason: Reason = ""


class ApiSettle(ApiModel):
    """Whether a call of unknown outcome happened."""

    address: Address
    happened: bool
    reason: Reason = ""


class Rollback(ApiModel):
    """The revision to restore."""

    rev: Rev
    reason: Reason = ""
    dry_run: DryRun = False
    is_approved: bool = False


class Steer(ApiModel):
    """Tasks to pause, resume or cancel. Failed containers can be resumed, too."""

    do: Literal["pause", "resume", "cancel"]
    what: Annotated[list[Address], Field(min_length=1, max_length=limits.CHILDREN_MAX)]
    reason: Reason = ""
    dry_run: DryRun = False


class ApiSend(ApiModel):
    """A message to one or more agents. If one of them cannot receive it, it is sent to none.

    `delivery` says when an agent reads it: `queue` before it would sleep, `steer` at its next step, `interrupt`
    immediately, by stopping the current step. `asks` requests an answer. A second message with the same `key` is not
    sent. `untrusted` marks text from an external source. The message is dropped if it is not read within `expires_s`
    seconds.
    """

    to: Address | Annotated[list[Address], Field(min_length=1, max_length=limits.CHILDREN_MAX)]
    text: Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_BYTES_MAX)]
    delivery: Literal["queue", "steer", "interrupt"] = "queue"
    asks: bool = False
    key: Text = ""
    untrusted: bool = False
    expires_s: Annotated[float, Field(gt=0, le=10**9)] | None = None


class MoveSession(ApiModel):
    """The agent that chats talk with from now on."""

    to: Address


class Restore(ApiModel):
    """A file from `dump`, to be added as a child of the agent `under` with the id `name`, by default its old id."""

    under: Address
    text: Annotated[str, Field(max_length=limits.DUMP_BYTES_MAX)]
    name: Text = ""


class ApiPrompt(ApiModel):
    """A prompt of a tool server, requested for `agent`."""

    server: Text
    name: Text
    arguments: dict[str, str] = {}
    agent: Address


class ApiStop(ApiModel):
    """How the owner stops. `leave` keeps processes and containers running; `volumes` also removes container volumes."""

    leave: bool = False
    volumes: bool = False


# Requests that `plan mcp` sends to the owner.

NonEmptyText = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]
Seat = Annotated[int, Field(ge=1, description="The number of the lease. Each new lease has a higher one.")]


class TakeSeat(ApiModel):
    """Request for the lease of an external agent. `key` is a secret of the client, `client` its name."""

    agent: Address
    key: NonEmptyText
    client: NonEmptyText


class SeatTaken(ApiModel):
    """The lease. It expires `lease_s` seconds after the client's last request. `briefing` describes the task."""

    rev: Rev
    seat: Seat
    lease_s: float
    briefing: str


class ApiSay(ApiModel):
    """A call as the agent. Without a `tool` it only reads news. A second request with the same `id` changes nothing."""

    agent: Address
    seat: Seat
    key: NonEmptyText
    id: NonEmptyText
    tool: Annotated[str, Field(max_length=TEXT_CHARS_MAX)] = ""
    arguments: Any = None


class ApiHeard(ApiModel):
    """The call is in the log. `is_new`: it was not there before. `is_run`: an owner is running to execute it."""

    rev: Rev
    is_new: bool
    is_run: bool


class KeepSeat(ApiModel):
    """Renewal of a lease."""

    agent: Address
    seat: Seat
    key: NonEmptyText


class LeaveSeat(ApiModel):
    """Release of a lease."""

    agent: Address
    seat: Seat
    key: NonEmptyText
    why: Reason = ""


class SeatKept(ApiModel):
    """The request is in the log. `is_run`: an owner is running."""

    rev: Rev
    is_run: bool


class Withdraw(ApiModel):
    """Withdrawal of the call `id`. If it is running, it is stopped."""

    agent: Address
    seat: Seat
    key: NonEmptyText
    id: NonEmptyText


class Withdrawn(ApiModel):
    """The state of the withdrawn call: `waiting`, `begun` or `over`. A call that is over is not undone."""

    rev: Rev
    was: Literal["waiting", "begun", "over"]
    is_run: bool


class AgentsPatch(ApiModel):
    """A patch by an external agent. Paths without a leading `/` are relative to its task."""

    agent: Address
    ops: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=limits.PLAN_NODES_MAX)]
    reason: Reason = ""
