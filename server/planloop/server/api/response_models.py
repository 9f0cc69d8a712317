"""Models of answers: objects, records, verdicts, previews.

They only describe the answers. Tests check real answers against them; the servers do not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.server.api.base_model import ApiModel, Rev, Seconds
from planloop.server.api.request_models import ApiDifference, Op


class Error(ApiModel):
    """Why a request was refused: the exit code that a command would have, what is wrong, and how to fix it."""

    exit: int
    summary: str
    hint: str


class ApiRefusal(ApiModel):
    """The answer to a request that was refused. Nothing was changed."""

    error: Error


class Who(ApiModel):
    """The served plan, and the right that the token of the request gives."""

    plan: str
    right: Literal["read", "change"]


Description = Annotated[dict[str, Any], Field(description="OpenAPI 3.1.")]
LogId = Annotated[
    str, Field(description="Identifies the log that `rev` belongs to. Only the gateway sets it, not the owner.")
]


class Status(ApiModel):
    """The plan's name, the revision of its log, and its owner process. `pid` is null if no owner is running."""

    plan: str
    pid: int | None
    version: str
    file: str | None
    rev: Rev
    epoch: int
    log: LogId = ""


class ApiResource(ApiModel):
    """An object: its desired state (`spec`) and its observed state (`status`). Their fields depend on the kind."""

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
    """Objects at the revision `rev`. For the next page, send `next` as `from` and `rev` as `at` (`next` null: none)."""

    rev: Rev
    objects: list[ApiResource]
    next: str | None
    log: LogId = ""


class ApiPut(ApiModel):
    """Creates an object or replaces its spec. A new uid means a new object. `with` is merged into its status."""

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
    """Merges into an object's status (RFC 7386). Dropped if the uid is that of an earlier object."""

    status: str
    uid: str
    merge: dict[str, Any]


class ApiMark(ApiModel):
    """Marks an object for deletion, or sets its remaining finalizers."""

    mark: str
    uid: str
    deleting: bool = False
    finalizers: list[str] = []


class ApiDrop(ApiModel):
    """Removes an object."""

    drop: str
    uid: str


class ApiMove(ApiModel):
    """Moves an object to another address."""

    move: str
    uid: str
    to: str


class ApiStep(ApiModel):
    """A further step of a record."""

    type: str
    subject: str
    data: dict[str, Any]


class LogRecord(ApiModel):
    """A record of the log: one revision, with its actor, its type and its changes of objects."""

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
    """Records in order. `rev` is the newest revision of the log.

    For the next page in the same direction, send `next` as `after` or `before`; null on the last page.
    """

    rev: Rev
    records: list[LogRecord]
    next: Rev | None


class ApiFrame(ApiModel):
    """A frame of the tail: the records since the previous frame, up to `rev`."""

    rev: Rev
    records: list[LogRecord]


class ApiMessage(ApiModel):
    """A message. `rev` is the revision of its record."""

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
    """Messages in order. For the previous page, send `next` as `before`; null on the first page."""

    rev: Rev
    messages: list[ApiMessage]
    next: Rev | None


class ApiOver(ApiModel):
    """The author and revision of the replaced value."""

    rev: Rev
    by: str


class ApiWhy(ApiModel):
    """Who set a value, when and why, and which value it replaced. `open` says whether agents may change it."""

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
    """A page of a blob as text. `size` is the blob's size in bytes, `next` the offset of the next page (null: none)."""

    text: str
    size: int
    next: int | None


class Output(ApiModel):
    """A page of a command's output. `next` is the offset of the next page."""

    text: str
    next: int


class ApiPrinted(ApiModel):
    """A page of the output of a task's command, at most 64 KiB, from the byte `start` to the byte before `next`.

    `log` identifies the run. If `log` has changed or `start` is not the requested offset, the earlier output is gone,
    and this is the newest page of another run.
    """

    log: str
    start: int
    text: str
    next: int
    is_over: Annotated[bool, Field(description="Nothing will be added: the command has ended.")]


class ApiDump(ApiModel):
    """An agent as the text of a file, and the number of turns in it."""

    agent: str
    text: str
    turns: int
    parts: Annotated[list[str], Field(description="Its other content: `1 agent below it`, `2 hooks`.")] = []


class ApiFault(ApiModel):
    """A reason for a refusal, with the place in the document and a fix."""

    rule: str
    message: str
    path: list[str]
    hint: str
    code: str = ""


class ApiAccepted(ApiModel):
    """The change is in the log at `rev`. `changed` says whether the document changed; `notes` say what it overrode.

    After the approval of a held edit, `differences` may be only the first ones; `differences_left` counts the others.
    """

    verdict: Literal["accepted"]
    format: int
    rev: Rev
    differences: list[ApiDifference]
    differences_left: int = 0
    notes: list[str]
    changed: bool
    said: Annotated[str, Field(description="For `rule`: the resolution, as text.")] = ""
    agent: Annotated[str, Field(description="For `restore`: the new agent's address.")] = ""
    was: Annotated[str, Field(description="For `restore`: the name of the dumped agent.")] = ""
    parts: Annotated[list[str], Field(description="For `restore`: what was restored with the agent, as text.")] = []


class ApiHeld(ApiModel):
    """The change waits for approval as the object at `approval`; `why` says why."""

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
    """Nothing was changed. The refusal is recorded at `rev`, with all its reasons."""

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
    """The effect of an edit on an object: the parts of a line of `plan diff`."""

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
    """What a change would do. Nothing was written. If `verdict` is `refused`, `faults` say why.

    `hold` says why the change would wait for approval; empty if it would not. `stops` are reasons for which it would be
    refused if it were submitted unchanged. `does` and `summary` are the effects as text; not every operation sets them.
    """

    does: list[ApiDoing] = []
    summary: str = ""


class ApiMoved(ApiModel):
    """Nothing was changed, because the document has changed since the revision that the patch was made for."""

    verdict: Literal["moved"]
    rev: Rev
    document_rev: Rev


PatchAnswer = Annotated[ApiAccepted | ApiHeld | ApiRefused | ApiPreview | ApiMoved, Field()]
RollbackAnswer = Annotated[ApiAccepted | ApiHeld | ApiRefused | ApiPreview, Field()]
SteerAnswer = Annotated[ApiAccepted | ApiHeld | ApiRefused | ApiPreview, Field()]


class Foreign(ApiModel):
    """A place where the live plan stays different from the file."""

    op: Literal["add", "remove", "replace"]
    path: str
    by: str = ""
    rev: Rev = 0


class FilePreview(PreviewFields):
    """What applying the file would do. `foreign` are changes of others that stay; `document` is the new document."""

    foreign: list[Foreign]
    document: dict[str, Any]


class ApiWritten(ApiModel):
    """The revision of the change's record."""

    rev: Rev


class Unlocked(ApiModel):
    """The holders that lost the lock. `commands` are holders that are commands: locks do not restrict their writes."""

    rev: Rev
    owners: list[str]
    commands: list[str]


class Delivered(ApiModel):
    """A receiver: the message's id, the agent's state, and whether the message is new (no earlier one had its key)."""

    to: str
    id: str
    state: str
    is_new: bool


class Sent(ApiModel):
    """The receivers of a message. `state` is the state of the first one."""

    rev: Rev
    state: str
    sent: list[Delivered]


class Session(ApiModel):
    """The agent that chats talk with, and the previous one, empty if there was none."""

    rev: Rev
    primary: str
    was: str


class PromptText(ApiModel):
    """The text of a prompt."""

    text: str


class Stopping(ApiModel):
    """The owner is stopping."""

    stopping: bool
