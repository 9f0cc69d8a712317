"""Models of answers: objects, records, verdicts, previews.

They describe; nothing is checked against them while a plan runs. Tests hold real answers to them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.server.api.base_model import ApiModel, Rev, Seconds
from planloop.server.api.request_models import ApiDifference, Op


class Error(ApiModel):
    """Why a request was turned away: `exit` as a command would end, what is wrong, and a cure that works."""

    exit: int
    summary: str
    hint: str


class ApiRefusal(ApiModel):
    """The answer to a request that was turned away. Nothing was changed."""

    error: Error


class Who(ApiModel):
    """Who asks: the plan that is served, and what the token allows."""

    plan: str
    right: Literal["read", "change"]


Description = Annotated[dict[str, Any], Field(description="OpenAPI 3.1.")]


class Status(ApiModel):
    """Which plan, how far its log is, and who runs it (`pid` null: nobody, or it is not said at this door)."""

    plan: str
    pid: int | None
    version: str
    file: str | None
    rev: Rev
    epoch: int
    log: Annotated[str, Field(description="Which log `rev` is of; said over TCP.")] = ""


class ApiResource(ApiModel):
    """An object: what is wanted (`spec`) and what is observed (`status`), whose members depend on its kind."""

    kind: str
    address: str
    uid: str
    generation: int
    spec: dict[str, Any]
    status: dict[str, Any]
    refs: list[str]
    owner: str | None
    finalizers: list[str]
    deleting: bool
    created_rev: Rev
    rev: Rev


class ApiObjects(ApiModel):
    """Objects as of `rev`. `next` is null on the last page, else what to give as `from`, with `rev` as `at`."""

    rev: Rev
    objects: list[ApiResource]
    next: str | None
    log: Annotated[str, Field(description="Which log `rev` is of; said over TCP.")] = ""


class ApiPut(ApiModel):
    """Creates the object, or replaces its spec. A new uid means a new object; `with` is merged into its status."""

    put: str
    uid: str
    spec: dict[str, Any]
    refs: list[str] = []
    owner: str = ""
    finalizers: list[str] = []
    with_: Annotated[dict[str, Any], Field(alias="with")] = {}


class ApiPatchSpec(ApiModel):
    """Changes part of the plan document."""

    patch: str
    ops: list[Op]


class ApiSetStatus(ApiModel):
    """An RFC 7386 merge into a status. One that names an old uid is dropped."""

    status: str
    uid: str
    merge: dict[str, Any]


class ApiMark(ApiModel):
    """Says that the object is to go, or which finalizers are left."""

    mark: str
    uid: str
    deleting: bool = False
    finalizers: list[str] = []


class ApiDrop(ApiModel):
    """Removes the object."""

    drop: str
    uid: str


class ApiMove(ApiModel):
    """Takes the object to another address."""

    move: str
    uid: str
    to: str


class ApiStep(ApiModel):
    """One thing that a record says."""

    type: str
    subject: str
    data: dict[str, Any]


class LogRecord(ApiModel):
    """One revision: who did what, and the changes that it makes. The objects are the fold of these."""

    v: int
    rev: Rev
    at: Seconds
    type: str
    actor: str
    epoch: int
    subject: str
    changes: list[ApiPut | ApiPatchSpec | ApiSetStatus | ApiMark | ApiDrop | ApiMove]
    data: dict[str, Any]
    cause: int = 0
    blobs: list[str] = []
    also: Annotated[list[ApiStep], Field(description="Further steps that the same changes contain.")] = []


class LogPage(ApiModel):
    """Records in their order; `rev` is how far the log is. `next` goes on in the same direction, null at its end.

    Forwards it is the next `after`, backwards the next `before`.
    """

    rev: Rev
    records: list[LogRecord]
    next: Rev | None


class ApiFrame(ApiModel):
    """One frame of the tail: the records after the frame before, up to `rev`."""

    rev: Rev
    records: list[LogRecord]


class ApiMessage(ApiModel):
    """What one told another; `rev` is the record that tells of it."""

    rev: Rev
    id: str
    kind: Literal["chat", "state", "control", "conflict", "approval", "hook"]
    sender: str
    receiver: str
    body: Annotated[Any, Field(description="Text or facts.")]
    sent_at: Seconds
    thread: str
    seq: int
    delivery: Literal["queue", "steer", "interrupt"]
    cause: int | None
    asks: bool = False
    from_incarnation: int | None = None
    to_incarnation: int | None = None
    expires_at: float | None = None
    idempotency: str = ""
    trust: Literal["trusted", "untrusted"] = "trusted"
    wakes: bool = True


class Messages(ApiModel):
    """Messages in their order. `next` is the `before` of the page before this one, null at the start."""

    rev: Rev
    messages: list[ApiMessage]
    next: Rev | None


class ApiOver(ApiModel):
    """Whose value was replaced."""

    rev: Rev
    by: str


class ApiWhy(ApiModel):
    """Who set a value, when, why and over what. `open` says whether agents may change it."""

    path: str
    value: Any
    rev: Rev
    by: str
    at: Seconds
    reason: str
    before: Any
    had_before: bool
    over: ApiOver | None
    open: bool
    file: str | None


class ApiText(ApiModel):
    """A blob as text, at most a page: `size` is all of it in bytes, `next` where to go on, null at the end."""

    text: str
    size: int
    next: int | None


class Output(ApiModel):
    """What a command printed from a byte on, at most a page; `next` is where to go on."""

    text: str
    next: int


class ApiPrinted(ApiModel):
    """A page of what the command of a task printed, at most 64 KiB.

    It begins at the byte `start` and ends before the byte `next`. `log` is another for another run; when that or
    `start` is not what was asked for, what one has of it is over, and this is the newest page.
    """

    log: str
    start: int
    text: str
    next: int
    is_over: Annotated[bool, Field(description="Nothing will be added: the command has ended.")]


class ApiDump(ApiModel):
    """An agent as a file's text, and how many turns are in it."""

    agent: str
    text: str
    turns: int
    parts: Annotated[list[str], Field(description="What else is in it, in words: `1 agent below it`, `2 hooks`.")] = []


class ApiFault(ApiModel):
    """One ground for a refusal, with where in the document and what to do about it."""

    rule: str
    message: str
    path: list[str]
    hint: str
    code: str = ""


class ApiAccepted(ApiModel):
    """It is in the log at `rev`. `changed` says whether the document is another now, `notes` what it overrode.

    Of a held edit that was approved, `differences` are the first, and `differences_left` is how many more there are.
    """

    verdict: Literal["accepted"]
    format: int
    rev: Rev
    differences: list[ApiDifference]
    differences_left: int = 0
    notes: list[str]
    changed: bool
    said: Annotated[str, Field(description="Of a ruling: what was ruled.")] = ""
    agent: Annotated[str, Field(description="Of a restored agent: its address.")] = ""
    was: Annotated[str, Field(description="Of a restored agent: which it was.")] = ""
    parts: Annotated[list[str], Field(description="Of a restored agent: what came with it, in words.")] = []


class ApiHeld(ApiModel):
    """It waits as the object at `approval`; `why` says for what."""

    verdict: Literal["held"]
    format: int
    rev: Rev
    differences: list[ApiDifference]
    differences_left: int = 0
    approval: str
    why: str
    agent: str = ""
    was: str = ""


class ApiRefused(ApiModel):
    """Nothing changed. All grounds at once; the refusal is recorded at `rev`."""

    verdict: Literal["refused"]
    format: int
    rev: Rev
    differences: list[ApiDifference]
    differences_left: int = 0
    faults: list[ApiFault]
    said: str = ""
    agent: str = ""
    was: str = ""


Verdict = Annotated[ApiAccepted | ApiHeld | ApiRefused, Field(discriminator="verdict")]


class ApiDoing(ApiModel):
    """What an edit does to an object: a line of `plan diff` in its parts."""

    sign: str
    name: str
    does: str
    words: str


class PreviewFields(ApiModel):
    """The fields of every preview."""

    verdict: Literal["preview", "refused"]
    format: int
    rev: Rev
    document_rev: Rev
    differences: list[ApiDifference]
    ops: list[Op]
    faults: list[ApiFault]
    stops: list[ApiFault]
    hold: str
    notes: list[str]


class ApiPreview(PreviewFields):
    """What it would do; nothing was written. `refused`: nothing, for `faults`.

    `hold` says why it would wait for a yes, empty when it would not; `stops` refuse it when it is submitted as it is.
    `does` and `summary` say it in words, where that is asked for.
    """

    does: list[ApiDoing] = []
    summary: str = ""


class ApiMoved(ApiModel):
    """Nothing was done: the document is at another revision than the one that the patch was made for."""

    verdict: Literal["moved"]
    rev: Rev
    document_rev: Rev


PatchAnswer = Annotated[ApiAccepted | ApiHeld | ApiRefused | ApiPreview | ApiMoved, Field()]
RollbackAnswer = Annotated[ApiAccepted | ApiHeld | ApiRefused | ApiPreview, Field()]
SteerAnswer = Annotated[ApiAccepted | ApiHeld | ApiRefused | ApiPreview, Field()]


class Foreign(ApiModel):
    """Where the live plan stays other than the file says."""

    op: Literal["add", "remove", "replace"]
    path: str
    by: str = ""
    rev: Rev = 0


class FilePreview(PreviewFields):
    """What applying the file would do. `foreign` is what others changed and stays, `document` what would be live."""

    foreign: list[Foreign]
    document: dict[str, Any]


class ApiWritten(ApiModel):
    """The record that tells of it."""

    rev: Rev


class Unlocked(ApiModel):
    """From whom the lock was taken; `commands` are those that write what they like all the same."""

    rev: Rev
    owners: list[str]
    commands: list[str]


class Delivered(ApiModel):
    """One receiver: the message's id, the state of the agent, and whether it is new (no message had its key)."""

    to: str
    id: str
    state: str
    is_new: bool


class Sent(ApiModel):
    """What became of a message."""

    rev: Rev
    state: str
    sent: list[Delivered]


class Session(ApiModel):
    """Who is talked with now, and who was, empty for nobody."""

    rev: Rev
    primary: str
    was: str


class PromptText(ApiModel):
    """The text of a prompt."""

    text: str


class Stopping(ApiModel):
    """The owner ends now."""

    stopping: bool
