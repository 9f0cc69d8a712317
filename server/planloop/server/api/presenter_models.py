"""Models of answers with words: conversation, revisions, what waits, lock waits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.server.api.base_model import Address, ApiModel, Rev, Seconds
from planloop.server.api.response_models import ApiDoing

Pair = Annotated[list[str], Field(min_length=2, max_length=2, description="A label and what it says.")]


class ApiTold(ApiModel):
    """A message that a turn began with. `form` is its kind; `left` counts characters that are not here."""

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
    left: Annotated[int, Field(description="Characters of the text that are not here.")] = 0


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
    """One thing in an agent's life. What belongs to a call has its address as `call`.

    `turn` has `turn`, `reasons` and `told`; `said` a `text`; `call` its `tool` and `arguments`; `verdict` the `hook`,
    the `point`, a `decision`; `waits` says `why`; `result` has a `state` and a `text`; `ended` is the end of a turn;
    `life` is between turns. Of a task (`plan logs task/x -o json`), `life` has its state as `word`, and `result` is the
    end of its command, or with `check`, the number of an acceptance check, what that found.
    """


class ApiConversation(ApiModel):
    """Whole turns, in order. `earlier` is the `before` of the page before, null at the start; `rev` goes as `after`."""

    rev: Rev
    items: list[Item]
    earlier: Rev | None


class SystemPrompt(ApiModel):
    """The system message of a turn as the model was sent it, made from the plan as it stood then.

    `run`, `turn` and `attempt` say which request it was; `tokens` is about the size of the whole prompt, with the
    transcript and the news. `turns` are those of which there is a prompt. `blob` names the message in the log.
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
    """A field of the plan that an edit touches, with its value on both sides; null where there is none."""

    sign: str
    path: str
    before: str | None
    after: str | None


class ApiChange(ApiModel):
    """A line of `plan history`. `did` is what came of it; `is_document` says that it made the plan another."""

    rev: Rev
    at: Seconds
    author: str
    did: str
    what: str
    reason: str
    cause: Rev | None
    is_document: bool


class ApiHistory(ApiModel):
    """Revisions, the newest first. `earlier` is the `before` of the next page; `authors` are all there are."""

    rev: Rev
    revisions: list[ApiChange]
    earlier: Rev | None
    authors: list[str]


class Complaint(ApiModel):
    """A ground of a refusal, with the cure."""

    text: str
    hint: str


class ChangeDetail(ApiChange):
    """A revision with all that is known of it."""

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
    """A line of a description: its label and what is said under it."""

    label: str
    text: str


class Described(ApiModel):
    """An object in words."""

    rev: Rev
    address: Address
    state: str
    facts: list[Fact]


class WaitingApproval(ApiModel):
    """What waits for a yes: what it is, why, and by its form what it would do or wants to know."""

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
    """A ruling and what it means; `usual` when it is about that party without being said."""

    how: str
    for_: Annotated[str, Field(alias="for")]
    usual: bool
    means: str


class ApiRuled(ApiModel):
    """How a conflict goes on."""

    how: str
    by: str
    means: str
    plan: str


class OpenConflict(ApiModel):
    """Two agents that want the same files, and what may be ruled."""

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
    """A call that began and whose outcome nobody saw."""

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
    """A hook that is there until somebody says that it may go."""

    address: Address
    rev: Rev
    facts: list[Pair]


class ApiWaiting(ApiModel):
    """Everything that waits for a person."""

    rev: Rev
    approvals: list[WaitingApproval]
    conflicts: list[OpenConflict]
    doubts: list[Doubt]
    hooks: list[WaitingHook]


class LockHolder(ApiModel):
    """A grant."""

    owner: str
    mode: Literal["read", "write"]
    since: Seconds
    fence: int
    until: str
    reason: str


class LockWaiter(ApiModel):
    """A wish; `waiting` is the call or task that waits."""

    owner: str
    waiting: str
    mode: Literal["read", "write"]
    since: Seconds
    reason: str


class LockLoss(ApiModel):
    """A grant that was taken away, and was not told yet."""

    owner: str
    how: str
    by: str
    at: Seconds
    reason: str


class LockState(ApiModel):
    """A lock with its holders and its queue, each in the order in which they came."""

    address: Address
    path: str
    place: str
    holders: list[LockHolder]
    waiters: list[LockWaiter]
    lost: list[LockLoss]


class ApiWait(ApiModel):
    """An edge: `from` waits for `to`, which holds or wants the lock, or has to be served before it can let go."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    lock: str
    why: Literal["holds", "waits", "needs"]
    since: Seconds


class Ring(ApiModel):
    """Owners that wait for each other."""

    owners: list[str]
    words: str


class ApiWaits(ApiModel):
    """All locks, and who waits for whom."""

    rev: Rev
    locks: list[LockState]
    waits: list[ApiWait]
    waits_left: int
    rings: list[Ring]
    conflicts: list[OpenConflict]
