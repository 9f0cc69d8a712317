"""Models of containers, suites, runs and cases."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planloop.server.api.base_model import Address, ApiModel, Seconds
from planloop.server.api.presenter_models import Item

Share = Annotated[float, Field(ge=0, le=1)]
Ends = Annotated[tuple[float, float], Field(strict=False)]  # In JSON it is a list, as every tuple.
Interval = Annotated[Ends | None, Field(description="From and to, at 95 %; null where nothing is known.")]
Verdict = Literal["pass", "fail", "error", "invalid", "running", "missing"]
Bytes = Annotated[str, Field(description="Not JSON: the bytes themselves, of the type that they turn out to be.")]


class OlderLog(ApiModel):
    """A page of output in whole lines; it begins at the byte `start`."""

    log: str
    start: int
    text: str


class LogFrame(ApiModel):
    """What came. With `log` another output begins, `left` bytes of which are not here."""

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
    """The container is over, and so is the conversation."""

    container: str
    state: str
    why: str


class ChatSent(ApiModel):
    """What was said is with its agent, in that state; `id` is the one that it was said with."""

    id: str
    message: str
    state: str


class ChatRefused(ApiModel):
    """What was said was not sent."""

    id: str
    summary: str
    hint: str


class ChatSaid(ApiModel):
    """A stretch of what its model writes. Another `reply` begins anew: a model may be asked again in the same turn."""

    agent: Address
    turn: int
    reply: str
    text: str


class ChatFrame(ApiModel):
    """The first has `agent`, `right`, `items` and `earlier`; each other one of the rest.

    To say something, send `{"text", "id", "delivery"}`; all but the text may be left out.
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
    """A suite: `file` is empty for one that is shipped, `valid` null while it is not known."""

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
    """Who proves the checks right."""

    oracle: list[str]
    mutant: list[str]
    cheat: list[str] | Literal["standard"]


class SuiteCase(ApiModel):
    """A case as the suite has it."""

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
    """How a model stands: `interval` is that of the rate, which counts what passed of what is decided."""

    model: str
    kind: Literal["oracle", "nop", "cheat", "mutant", "tested"]
    rate: Share | None
    interval: Interval
    words: str
    passed: str


class RunState(ApiModel):
    """How far a run is. Times are null before its first event."""

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
    """A run in a line."""

    models: list[ModelLine]


class Runs(ApiModel):
    """The newest runs; `left` counts those that are left out."""

    runs: list[RunLine]
    left: int


class ApiSheet(ApiModel):
    """A table in words: of its columns so many are names, the others figures."""

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
    """Two models on the cases that both were given: how much more the first passes, of 1, with its interval."""

    a: str
    b: str
    cases: int
    words: str
    sentence: str
    difference: float | None
    interval: Interval
    is_distinguishable: bool


class Suspicion(ApiModel):
    """Cases whose checks are to be looked at, and why."""

    what: str
    cases: list[str]


class Believed(ApiModel):
    """Whether a run can be believed."""

    run: str
    seed: int | str | None
    plan: str
    complete: bool
    validated: bool | None
    troubles: list[str]


class ApiSection(ApiModel):
    """The report over the runs of one suite. `cases` has for each a map a column: verdict by trial."""

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
    """A report: a section a suite, and all of them at a glance where there are several."""

    glance: list[ApiSheet]
    sections: list[ApiSection]


class Commands(ApiModel):
    """What a person types: to go on with a run, to report on it, to look into its plan (empty: there is none)."""

    resume: str
    report: str
    plan: str


class RunTold(RunState):
    """One run, as of its event `seq`; no report before the first."""

    seq: int
    commands: Commands
    report: ApiReport | None


class ApiComparison(ApiModel):
    """The report over several runs."""

    runs: list[str]
    report: ApiReport


class RunEvent(ApiModel):
    """Something that happened in a run, in some words."""

    seq: int
    ts: Seconds
    type: str
    case: str | None
    model: str | None
    trial: int | None
    attempt: int | None
    words: str


class RunFrame(ApiModel):
    """What happened up to the event `seq`, the newest of it."""

    seq: int
    state: Literal["live", "ended", "broken"]
    words: str = ""
    events: list[RunEvent]


class Stronger(ApiModel):
    """What the stronger model used that continued an entry."""

    count: int
    tokens: int
    usd: float


class ApiUsed(ApiModel):
    """What an entry used. `escalated`: null if no stronger model continued it."""

    tokens_in: int
    tokens_out: int
    usd: float
    usd_words: str
    calls: int
    turns: int
    escalated: Stronger | None = None


class EntryLine(ApiModel):
    """How a case went with one model in one trial. `touched`: a person had a hand in it."""

    model: str
    trial: int
    variant: int
    verdict: Verdict
    why: str
    touched: bool
    seconds: str
    usage: ApiUsed | None


class WrittenCheck(ApiModel):
    """A check as the suite has it."""

    check: str
    kind: str
    arguments: dict[str, Any]


class CaseAbout(ApiModel):
    """What a case is made of."""

    language: str
    tags: dict[str, Any]
    image: str
    tools: list[str] | None
    files: dict[str, str]
    budget: dict[str, Any]
    within_s: float


class CaseTold(ApiModel):
    """A case of a run, and how it went."""

    suite: str
    run: str
    case: str
    about: CaseAbout
    prompts: list[str]
    checks: list[WrittenCheck]
    entries: list[EntryLine]


class ApiSeen(ApiModel):
    """What a check saw: to be had as a blob of the run."""

    name: str
    digest: str
    media: str
    size: int


class ApiChecked(ApiModel):
    """What came of a check."""

    check: str
    kind: str
    result: str
    message: str
    probes: int
    seconds: str
    blobs: list[ApiSeen]


class BenchCall(ApiModel):
    """A call of an agent and its result, as the run's events have them."""

    call: int
    tool: str
    arguments: Any
    fault: str
    state: str
    text: str


class Figure(ApiModel):
    """A soft figure."""

    figure: str
    value: str


class AgentsLife(ApiModel):
    """What an agent of an entry lived through."""

    agent: Address
    items: list[Item]


class EntryTold(EntryLine):
    """One entry with all that it did."""

    case: str
    prompt: str
    task: Address
    attempts: int
    checks: list[ApiChecked]
    calls: list[BenchCall]
    figures: list[Figure]
    transcripts: list[AgentsLife]


CaseAnswer = Annotated[CaseTold | EntryTold, Field(description="An entry where a model is named, else the case.")]
