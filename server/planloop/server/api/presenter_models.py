"""Models of answers with texts for display: conversations, revisions, pending actions, lock waits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.server.api.base_model import Address, ApiModel, Rev, Seconds
from planloop.server.api.response_models import ApiDoing

Pair = Annotated[list[str], Field(min_length=2, max_length=2, description="A label and its text.")]


class ApiTold(ApiModel):
    """A message at the start of a turn. `form` is its kind; `left` is the number of characters that were cut."""

    sender: str
    form: str
    id: str
    text: str
    left: int = 0
    thread: str = ""
    asks: bool = False
    delivery: Literal["queue", "steer", "interrupt"] = "queue"
    trust: Literal["trusted", "untrusted"] = "trusted"


class ItemHead(ApiModel):
    """The fields of every item."""

    rev: Rev
    at: Seconds
    kind: Literal["turn", "said", "call", "verdict", "waits", "result", "failed", "ended", "life"]
    text: str = ""
    left: Annotated[int, Field(description="The number of characters that were cut from the text.")] = 0


class TurnFields(ApiModel):
    """The fields of a `turn`."""

    turn: int = 0
    reasons: list[str] = []
    told: list[ApiTold] = []


class CallFields(ApiModel):
    """The fields of a `call`."""

    call: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}
    fault: str = ""


class VerdictFields(ApiModel):
    """The fields of a `verdict`."""

    hook: str = ""
    point: str = ""
    decision: str = ""
    reason: str = ""
    comment: str = ""
    is_silent: bool = False
    is_last: bool = False


class OutcomeFields(ApiModel):
    """The fields of `waits`, `result` and `failed`."""

    why: str = ""
    state: str = ""
    error: str = ""
    exit_code: int | None = None
    blob: str = ""
    took_s: float = 0.0
    violation: str = ""
    is_cached: bool = False


class TurnEndFields(ApiModel):
    """The fields of `ended`."""

    active_s: float = 0.0
    calls: int = 0
    called_off: str = ""


class LifeFields(ApiModel):
    """The fields of `life`, and of an acceptance check's `result`."""

    word: str = ""
    check: str = ""


# The bases are in reverse: pydantic takes the fields of the last base first, and the description keeps its order.
class Item(LifeFields, TurnEndFields, OutcomeFields, VerdictFields, CallFields, TurnFields, ItemHead):
    """An item of a conversation. Items about a call have the call's address in `call`.

    `turn` has `turn`, `reasons` and `told`; `said` has `text`; `call` has `tool` and `arguments`; `verdict` has `hook`,
    `point` and `decision`; `waits` has `why`; `result` has `state` and `text`; `ended` is the end of a turn; `life` is
    an event between turns. For a task (`plan logs task/x -o json`), `life` has the task's state in `word`, and `result`
    is the result of its command or, if `check` has the number of an acceptance check, of that check.
    """


class ApiConversation(ApiModel):
    """Whole turns, in order. For the previous page, send `earlier` as `before`; null on the first page.

    For later turns, send `rev` as `after`.
    """

    rev: Rev
    items: list[Item]
    earlier: Rev | None


class SystemPrompt(ApiModel):
    """The system message that a model got in a turn.

    `run`, `turn` and `attempt` identify the request. `tokens` is the approximate size of the whole prompt, including
    transcript and news. `turns` are the turns that have a prompt. `blob` is the message's digest in the log.
    """

    agent: Address
    run: int
    turn: int
    attempt: int
    model: str
    rev: Rev
    at: Seconds
    tokens: int
    blob: str
    text: str
    turns: list[int]


class FieldChange(ApiModel):
    """A field of the plan that an edit changes, with its value before and after; null if the field is not set."""

    sign: str
    path: str
    before: str | None
    after: str | None


class ApiChange(ApiModel):
    """A line of `plan history`. `did` is the outcome. `is_document` says whether the plan document changed."""

    rev: Rev
    at: Seconds
    author: str
    did: str
    what: str
    reason: str
    cause: Rev | None
    is_document: bool


class ApiHistory(ApiModel):
    """Revisions, newest first. For the next page, send `earlier` as `before`. `authors` are all authors of the plan."""

    rev: Rev
    revisions: list[ApiChange]
    earlier: Rev | None
    authors: list[str]


class Complaint(ApiModel):
    """A reason for a refusal, with a fix."""

    text: str
    hint: str


class ChangeDetail(ApiChange):
    """A revision with all details."""

    does: list[ApiDoing]
    does_left: int
    summary: str
    fields: list[FieldChange]
    fields_left: int
    faults: list[Complaint]
    notes: list[str]
    hold: str
    approval: str


class Fact(ApiModel):
    """A line of a description: its label and its text."""

    label: str
    text: str


class Described(ApiModel):
    """The description of an object, as text."""

    rev: Rev
    address: Address
    state: str
    facts: list[Fact]


class WaitingApproval(ApiModel):
    """An action that waits for approval, with its reason. `form` says which of the further fields are set."""

    address: Address
    rev: Rev
    form: Literal["patch", "call", "request", "tool", "input"]
    by: str
    what: str
    why: str
    is_for_person: bool
    facts: list[Pair]
    does: list[ApiDoing]
    does_left: int
    summary: str
    reason: str = ""
    fields: list[FieldChange] = []
    fields_left: int = 0
    tool: str = ""
    arguments: Any = None
    questions: list[dict[str, Any]] = []


class ApiSide(ApiModel):
    """One party of a conflict."""

    agent: str
    intent: str
    proposal: str


class ApiWay(ApiModel):
    """A way to resolve a conflict. `usual`: `for` is the default for this `how`."""

    how: str
    for_: Annotated[str, Field(alias="for")]
    usual: bool
    means: str


class ApiRuled(ApiModel):
    """The resolution of a conflict."""

    how: str
    by: str
    means: str
    plan: str


class OpenConflict(ApiModel):
    """A conflict between two agents over the same files, and the ways to resolve it."""

    address: Address
    state: str
    because: str
    wants: str
    holds: str
    paths: list[str]
    since: Seconds
    raised: int
    before: str
    text: str
    why: str
    parties: list[ApiSide]
    ways: list[ApiWay]
    ruling: ApiRuled | None = None


class Doubt(ApiModel):
    """A call of unknown outcome: it started, and a crash prevented the result from being recorded."""

    address: Address
    rev: Rev
    what: str
    tool: str
    arguments: Any
    owner: str
    effect: str
    started_at: Seconds | None
    why: str


class WaitingHook(ApiModel):
    """A hook that stays until an operator approves its removal."""

    address: Address
    rev: Rev
    facts: list[Pair]


class ApiWaiting(ApiModel):
    """Everything that waits for an operator."""

    rev: Rev
    approvals: list[WaitingApproval]
    conflicts: list[OpenConflict]
    doubts: list[Doubt]
    hooks: list[WaitingHook]


class LockHolder(ApiModel):
    """An owner that has the lock."""

    owner: str
    mode: Literal["read", "write"]
    since: Seconds
    fence: int
    until: str
    reason: str


class LockWaiter(ApiModel):
    """An owner that waits for the lock. `waiting` is its call or task."""

    owner: str
    waiting: str
    mode: Literal["read", "write"]
    since: Seconds
    reason: str


class LockLoss(ApiModel):
    """A holder that lost the lock and has not been notified yet."""

    owner: str
    how: str
    by: str
    at: Seconds
    reason: str


class LockState(ApiModel):
    """A lock, with its holders and waiters in order of arrival."""

    address: Address
    path: str
    place: str
    holders: list[LockHolder]
    waiters: list[LockWaiter]
    lost: list[LockLoss]


class ApiWait(ApiModel):
    """`from` waits for `to`. `why` is `holds` if `to` holds the lock, `waits` if `to` waits for it ahead of `from`.

    It is `needs` if the lock's holder cannot release it before `to` gets another lock.
    """

    from_: Annotated[str, Field(alias="from")]
    to: str
    lock: str
    why: Literal["holds", "waits", "needs"]
    since: Seconds


class Ring(ApiModel):
    """A deadlock: owners that wait for each other."""

    owners: list[str]
    words: str


class ApiWaits(ApiModel):
    """All locks, and the waits between their holders and waiters."""

    rev: Rev
    locks: list[LockState]
    waits: list[ApiWait]
    waits_left: int
    rings: list[Ring]
    conflicts: list[OpenConflict]
