"""Models of containers, suites, runs and cases."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.server.api.base_model import Address, ApiModel, Seconds
from planloop.server.api.presenter_models import Item

Share = Annotated[float, Field(ge=0, le=1)]
Ends = Annotated[tuple[float, float], Field(strict=False)]  # In JSON it is a list, as every tuple.
Interval = Annotated[Ends | None, Field(description="The 95 % confidence interval, from and to; null if unknown.")]
Verdict = Literal["pass", "fail", "error", "invalid", "running", "missing"]
Bytes = Annotated[str, Field(description="Not JSON: the bytes, with their detected content type.")]


class OlderLog(ApiModel):
    """A page of output, in whole lines. It starts at the byte `start`."""

    log: str
    start: int
    text: str


class LogFrame(ApiModel):
    """New output. If `log` is set, another output starts here; `left` bytes before it are not sent."""

    text: str
    log: str | None = None
    start: int = 0
    left: int = 0


class ChatAnswered(ApiModel):
    """The answer to a message."""

    question: str
    text: str
    error: str


class ChatEnded(ApiModel):
    """The container has ended, and with it the conversation."""

    container: str
    state: str
    why: str


class ChatSent(ApiModel):
    """The message was sent to the agent, which is in `state`. `id` is the id that the client gave."""

    id: str
    message: str
    state: str


class ChatRefused(ApiModel):
    """The message was not sent."""

    id: str
    summary: str
    hint: str


class ChatSaid(ApiModel):
    """Text that the agent's model has just written. Another `reply` is another request, possibly in the same turn."""

    agent: Address
    turn: int
    reply: str
    text: str


class ChatFrame(ApiModel):
    """A frame of a chat. The first one has `agent`, `right`, `items` and `earlier`; each later one has one other field.

    To send a message, send `{"text", "id", "delivery"}`. `id` and `delivery` are optional.
    """

    agent: str | None = None
    right: Literal["read", "change"] | None = None
    items: list[Item] | None = None
    earlier: bool | None = None
    answered: ChatAnswered | None = None
    ended: ChatEnded | None = None
    sent: ChatSent | None = None
    refused: ChatRefused | None = None
    said: ChatSaid | None = None


class SuiteLine(ApiModel):
    """A suite. `file` is empty for a built-in suite; `valid` is null if the suite was not validated."""

    key: str
    file: str
    faults: list[str]
    suite: str
    about: str
    cases: int
    valid: bool | None
    validation: bool


class Suites(ApiModel):
    """All suites."""

    suites: list[SuiteLine]


class SuiteCheck(ApiModel):
    """A check and its kind."""

    check: str
    kind: str


class Proofs(ApiModel):
    """The scripted solutions that test the checks of a case."""

    oracle: list[str]
    mutant: list[str]
    cheat: list[str] | Literal["standard"]


class SuiteCase(ApiModel):
    """A case of a suite."""

    case: str
    about: str
    prompts: list[str]
    language: str
    tags: dict[str, Any]
    image: str
    checks: list[SuiteCheck]
    soft: list[str]
    proofs: Proofs
    valid: bool | None


class SuiteTold(SuiteLine):
    """A suite with its cases."""

    members: list[SuiteCase]


class ModelLine(ApiModel):
    """The result of a model. `rate` is the share of decided trials that passed, with its `interval`."""

    model: str
    kind: Literal["oracle", "nop", "cheat", "mutant", "tested"]
    rate: Share | None
    interval: Interval
    words: str
    passed: str


class RunState(ApiModel):
    """The progress of a run. Times are null before its first event."""

    suite: str
    run: str
    state: Literal["live", "complete", "incomplete", "not begun", "broken"]
    words: str
    first_ts: Seconds | None
    last_ts: Seconds | None
    done: int
    total: int
    usd: str


class RunLine(RunState):
    """A run in a list."""

    models: list[ModelLine]


class Runs(ApiModel):
    """The newest runs. `left` is the number of runs that are not listed."""

    runs: list[RunLine]
    left: int


class ApiSheet(ApiModel):
    """A table of texts. The first `names` columns are names, the others numbers."""

    title: str
    head: list[str]
    rows: list[list[str]]
    names: int
    note: str


class ApiColumn(ModelLine):
    """A model in a run."""

    label: str
    run: str
    median_usd: float | None
    median_tokens: float | None
    usd_words: str
    tokens_words: str


class PairTold(ApiModel):
    """A comparison of two models on their common cases: the difference of the pass rates, with its interval."""

    a: str
    b: str
    cases: int
    words: str
    sentence: str
    difference: float | None
    interval: Interval
    is_distinguishable: bool


class Suspicion(ApiModel):
    """Cases whose checks may be wrong, and why."""

    what: str
    cases: list[str]


class Believed(ApiModel):
    """Whether a run's results are reliable."""

    run: str
    seed: int | str | None
    plan: str
    complete: bool
    validated: bool | None
    troubles: list[str]


class ApiSection(ApiModel):
    """The report on the runs of one suite. `cases` has, for each case, one map per column: verdict by trial."""

    suite: str
    scale: str
    runs: list[Believed]
    sheets: list[ApiSheet]
    columns: list[ApiColumn]
    nop: Share | None
    oracle: Share | None
    pairs: list[PairTold]
    suspicions: list[Suspicion]
    cases: dict[str, list[dict[str, Verdict]]]


class ApiReport(ApiModel):
    """A report: one section per suite, and an overview if there are several suites."""

    glance: list[ApiSheet]
    sections: list[ApiSection]


class Commands(ApiModel):
    """Commands that resume a run, report on it, and show its plan (empty if it has none)."""

    resume: str
    report: str
    plan: str


class RunTold(RunState):
    """A run, as of its event `seq`. `report` is null before the first event."""

    seq: int
    commands: Commands
    report: ApiReport | None


class ApiComparison(ApiModel):
    """The report on several runs."""

    runs: list[str]
    report: ApiReport


class RunEvent(ApiModel):
    """An event of a run. `words` is a short text."""

    seq: int
    ts: Seconds
    type: str
    case: str | None
    model: str | None
    trial: int | None
    attempt: int | None
    words: str


class RunFrame(ApiModel):
    """The newest events of a run, up to the event `seq`."""

    seq: int
    state: Literal["live", "ended", "broken"]
    words: str = ""
    events: list[RunEvent]


class Stronger(ApiModel):
    """What a stronger model used after it took over an entry."""

    count: int
    tokens: int
    usd: float


class ApiUsed(ApiModel):
    """What an entry used. `escalated` is null if no stronger model took over."""

    tokens_in: int
    tokens_out: int
    usd: float
    usd_words: str
    calls: int
    turns: int
    escalated: Stronger | None = None


class EntryLine(ApiModel):
    """The result of a case with one model in one trial. `touched`: a person intervened."""

    model: str
    trial: int
    variant: int
    verdict: Verdict
    why: str
    touched: bool
    seconds: str
    usage: ApiUsed | None


class WrittenCheck(ApiModel):
    """A check of the suite, with its arguments."""

    check: str
    kind: str
    arguments: dict[str, Any]


class CaseAbout(ApiModel):
    """The parameters of a case."""

    language: str
    tags: dict[str, Any]
    image: str
    tools: list[str] | None
    files: dict[str, str]
    budget: dict[str, Any]
    within_s: float


class CaseTold(ApiModel):
    """A case of a run, and its results."""

    suite: str
    run: str
    case: str
    about: CaseAbout
    prompts: list[str]
    checks: list[WrittenCheck]
    entries: list[EntryLine]


class ApiSeen(ApiModel):
    """A file that a check recorded. `getRunBlob` returns it."""

    name: str
    digest: str
    media: str
    size: int


class ApiChecked(ApiModel):
    """The result of a check."""

    check: str
    kind: str
    result: str
    message: str
    probes: int
    seconds: str
    blobs: list[ApiSeen]


class BenchCall(ApiModel):
    """A call of an agent and its result, from the run's events."""

    call: int
    tool: str
    arguments: Any
    fault: str
    state: str
    text: str


class Figure(ApiModel):
    """A soft figure: a measured value that does not decide the verdict."""

    figure: str
    value: str


class AgentsLife(ApiModel):
    """The conversation of an agent of an entry."""

    agent: Address
    items: list[Item]


class EntryTold(EntryLine):
    """One entry with everything that happened in it."""

    case: str
    prompt: str
    task: Address
    attempts: int
    checks: list[ApiChecked]
    calls: list[BenchCall]
    figures: list[Figure]
    transcripts: list[AgentsLife]


CaseAnswer = Annotated[CaseTold | EntryTold, Field(description="The entry of the requested model, or the case.")]
