"""The status of an agent as typed values, and its JSON.

Memory of deciders, arguments and results are wrapped in one-item lists. Statuses are merged key by key (RFC 7386),
which would drop nulls in them and mix old keys with new ones; a list is replaced as a whole. Three members have other
names in JSON: `lease` is `seat`, `leases` is `seats`, and `own` is `memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.objects.call import CallResult, CallState, result_from_json
from planloop.schemas.objects.hook import HookPoint, HookVerdict, hook_verdict_from_json
from planloop.schemas.objects.message import Message, message_from_json

WAITING_STATES: Final = frozenset({CallState.AWAITING_CHILD, CallState.AWAITING_INPUT, CallState.AWAITING_LOCK})
"""States of a call that waits without a job. `Tool.resolve` computes whether the wait is over."""

AGENT_ACTOR: Final = "controller:agent"
"""The author of records of the agent controller, and the sender of its messages."""


@frozen
class TurnCall:
    """A call of the open turn, in call order. `address` is that of its call object, which exists until it is settled.

    `key` is the decider's own id for it. `fault` says why it could not be parsed. `is_implied`: the decider did not
    write it; it is the `done` that a final answer implies. `extra` are fields that the provider of the model requires
    back with the call.
    """

    address: str
    tool: str
    arguments: Json
    key: str = ""
    fault: str = ""
    is_parallel: bool = False
    is_implied: bool = False
    extra: JsonObject = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        out: JsonObject = {"address": self.address, "tool": self.tool, "arguments": self.arguments}
        if self.key:
            out["key"] = self.key
        if self.fault:
            out["fault"] = self.fault
        if self.is_parallel:
            out["is_parallel"] = True
        if self.is_implied:
            out["is_implied"] = True
        if self.extra:
            out["extra"] = self.extra
        return out


@frozen
class RequestFailure:
    """A request to a model that gave no reply. It is repeated at `retry_at`, `wait_s` seconds after it failed.

    `retry_at` None: it is repeated after something has changed. `life` names the owner that made it; `basis` is the
    `failure_basis` of the request (`planloop.controllers.agent.turn.model_request`).
    """

    reason: str
    message: str
    tries: int
    life: str
    basis: str
    retry_at: float | None = None
    wait_s: float = 0.0


@frozen
class TurnVerdict:
    """A verdict of the hook `hook` in the open turn, after its policy for errors was applied.

    `index` is that of the call, or the number of messages read; `rewrites` counts how often the arguments of the call
    had been rewritten. `version` is that of the hook when it was asked; earlier logs have none.
    """

    hook: str
    point: HookPoint
    index: int
    rewrites: int
    verdict: HookVerdict
    version: str = ""

    @property
    def key(self) -> str:
        """Names the question within its turn."""
        return verdict_key(self.hook, self.point, self.index, self.rewrites)

    def to_json(self) -> JsonObject:
        place: JsonObject = {"hook": self.hook, "point": self.point, "index": self.index, "rewrites": self.rewrites}
        return place | {"verdict": self.verdict.to_json(), "version": self.version}


def verdict_key(hook: str, point: HookPoint, index: int, rewrites: int) -> str:
    """The name of a question within its turn; names sort in the order of the questions."""
    return f"{point}.{index}.{rewrites}.{hook}"


@frozen
class ExternalLease:
    """The lease of an MCP client on an external agent.

    `number` counts the leases of the agent and never decreases. `key` is the digest of the client's secret; the secret
    is never logged. `heard_at` is the time of the last request, in seconds since 1970. `leaving` says why the lease
    ends; empty while it lasts. `said` are the ids of its last calls.
    """

    number: int
    key: str
    client: str
    since: float
    heard_at: float
    leaving: str = ""
    said: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        at: JsonObject = {"since": self.since, "heard_at": self.heard_at, "leaving": self.leaving}
        return {"number": self.number, "key": self.key, "client": self.client, **at, "said": list(self.said)}


@frozen
class ClientCall:
    """A call of the MCP client of an external agent. An empty `tool` only asks for news."""

    id: str
    tool: str
    arguments: Json
    at: float

    def to_json(self) -> JsonObject:
        return {"id": self.id, "tool": self.tool, "arguments": wrap_value(self.arguments), "at": self.at}


@frozen
class TurnNews:
    """Why a turn was started, the messages that it contains, and the revision of the plan that it was started at."""

    reasons: tuple[str, ...]
    messages: tuple[Message, ...]
    base_rev: int


@frozen
class TurnTimes:
    """When a turn started, in seconds since 1970; how long its calls have only waited, and since when they wait now."""

    started_at: float
    waited_s: float = 0.0
    waiting_since: float | None = None


@frozen
class TurnRequest:
    """The request to the decider. `asked` counts the requests of the turn that were made in jobs.

    `op` is the operation id of the last one. `failure` says why it gave no reply; `tries` counts failures in a row.
    """

    op: str
    asked: int = 0
    failure: RequestFailure | None = None
    tries: int = 0


@frozen
class TurnReply:
    """The reply of the decider. `note` is a note to the decider about it; `extra` are fields that the provider of the
    model requires back.
    """

    text: str = ""
    then: str = "sleep"
    sleep_s: float | None = None
    calls: tuple[TurnCall, ...] = ()
    note: str = ""
    extra: JsonObject = field(default_factory=dict)


@frozen
class TurnVerdicts:
    """What hooks did in a turn.

    `fired` are their verdicts by `TurnVerdict.key`. `consulted` are the hooks whose agents were asked, by that key.
    `rewritten` are the arguments from hooks, by the addresses of the calls.
    """

    fired: dict[str, TurnVerdict] = field(default_factory=dict)
    consulted: dict[str, str] = field(default_factory=dict)
    rewritten: dict[str, JsonObject] = field(default_factory=dict)


@frozen
class TurnClient:
    """The call of an MCP client that started the turn of an external agent. `is_withdrawn`: the client cancelled it."""

    said: ClientCall | None = None
    is_withdrawn: bool = False


@frozen
class OpenTurn:
    """A turn that was started and has not ended. The record of the reply sets `is_replied`.

    `claim` is that of `done` or `fail` in this turn. `is_answer`: the task was over when the turn started, and the turn
    answers a question. `is_last`: the budget is used up, and the agent hands its work over.
    """

    turn: int
    news: TurnNews
    times: TurnTimes
    request: TurnRequest
    reply: TurnReply = TurnReply()
    is_replied: bool = False
    results: dict[str, CallResult] = field(default_factory=dict)
    claim: JsonObject | None = None
    is_answer: bool = False
    is_last: bool = False
    hooks: TurnVerdicts = TurnVerdicts()
    client: TurnClient = TurnClient()

    def standing(self, call: TurnCall) -> TurnCall:
        """The call with the arguments that it starts with, which may come from a hook."""
        given = self.hooks.rewritten.get(call.address)
        return call if given is None else remade(call, arguments=given)


@frozen
class TranscriptChunk:
    """One ended turn in a model's transcript: the blob with its messages, and their estimated tokens.

    `origin` is the blob of the turn before it was compacted; for a summary, the blob of the index of its turns. `by`
    names the model of the turn if that was not the agent's own.
    """

    blob: str
    tokens: int
    origin: str = ""
    by: str = ""

    def to_json(self) -> JsonObject:
        own: JsonObject = {name: value for name in ("origin", "by") if (value := getattr(self, name))}
        return {"blob": self.blob, "tokens": self.tokens} | own


def chunks_of(
    raw: JsonObject, before: tuple[JsonObject, dict[str, TranscriptChunk]] | None = None
) -> dict[str, TranscriptChunk]:
    """The chunks of `status.transcript`, oldest turn first.

    `before` is an earlier transcript with its chunks; unchanged ones are reused.
    """
    if before is None:
        return {key: TranscriptChunk(**raw[key]) for key in sorted(raw)}
    old, made = before
    return {key: made[key] if old.get(key) is raw[key] else TranscriptChunk(**raw[key]) for key in sorted(raw)}


@frozen
class PastCall:
    """A call of the turn that ended last, with its result and comments of hooks: input of the next turn."""

    address: str
    tool: str
    arguments: Json
    result: CallResult
    comments: tuple[str, ...] = ()

    def to_json(self, *, is_told: bool) -> JsonObject:
        """The call as JSON. Without `is_told`, only the state of the result: the model's transcript has the text."""
        result = self.result if is_told else CallResult(self.result.state, error=self.result.error)
        out: JsonObject = {"address": self.address, "tool": self.tool, "arguments": self.arguments}
        comments: JsonObject = {"comments": list(self.comments)} if is_told and self.comments else {}
        return out | {"result": result.to_json()} | comments


@frozen
class AgentClaim:
    """The claim of an agent that it is done or has failed. `seq` counts claims and never decreases."""

    seq: int
    kind: str
    result: Json
    incarnation: int


@frozen
class AgentUsage:
    """What the agent has used in all its incarnations. `time_s` is active time, `usd` an exact amount as text.

    Tokens and money are counted where a request is settled (`budget.py`), the rest where a turn ends.
    """

    turns: int = 0
    calls: int = 0
    time_s: float = 0.0
    tokens: int = 0
    usd: str = "0"

    def to_json(self) -> JsonObject:
        """The members that the end of a turn writes."""
        return {"turns": self.turns, "calls": self.calls, "time_s": round(self.time_s, 6)}


@frozen
class ToldFacts:
    """What the decider already knows, so that each fact is news exactly once."""

    goal: str = ""
    notes: str = ""
    verdict: int = 0
    children: dict[str, str] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    budget: bool = False


@frozen
class AgentMemory:
    """What the decider remembers between turns. `own` is what it keeps itself; a model has a `transcript` instead.

    `system` is the blob of the system message that the model was asked with last; `past` are the calls of the turn that
    ended last; `files` are digests of the files that the agent has read.
    """

    own: Json = None
    transcript: dict[str, TranscriptChunk] = field(default_factory=dict)
    system: str = ""
    past: tuple[PastCall, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


@frozen
class WakeState:
    """What may start the next turn. `again`: it starts even if nothing outside changed.

    `had_last`: the agent has taken its last turn since its budget was used up.
    """

    told: ToldFacts = ToldFacts()
    again: bool = False
    wake_at: float | None = None
    ended_at: float | None = None
    had_last: bool = False


@frozen
class AgentMail:
    """The messages of an agent. `asked` are questions that it has read and not answered, by id.

    `is_answering`: its last turn was started to answer one. `interlocutors` are the `speakers` and `listeners` of its
    next discussion unless it names others. `requests` counts its requests in all incarnations. `spoken` is the turn in
    which it last exchanged messages with a child, by the child's agent.
    """

    inbox: dict[str, Message] = field(default_factory=dict)
    asked: dict[str, Message] = field(default_factory=dict)
    is_answering: bool = False
    interlocutors: dict[str, list[str]] = field(default_factory=dict)
    requests: int = 0
    spoken: dict[str, int] = field(default_factory=dict)


@frozen
class AgentProgress:
    """What shows whether an agent is stuck. `claims` counts its claims and never decreases.

    `same` is the digest of its last call and how often in a row it was made. `sent_back` counts how often hooks have
    sent back its answer, `nudges` how often in a row only a hook's comment woke it. `escalated` is set once a stronger
    model continues; `tried` are the last failed attempts (`planloop.controllers.agent.escalation`).
    """

    claims: int = 0
    same: tuple[str, int] = ("", 0)
    idle_turns: int = 0
    sent_back: int = 0
    nudges: int = 0
    escalated: JsonObject | None = None
    tried: tuple[JsonObject, ...] = ()


@frozen
class ClientState:
    """The MCP client of an external agent: its lease, the count of leases, and its calls that wait for a turn."""

    lease: ExternalLease | None = None
    leases: int = 0
    said: dict[str, ClientCall] = field(default_factory=dict)


@frozen
class AgentStatus:
    """The status of an agent. `incarnation` 0 means that it has never run.

    In JSON, the members of `memory`, `wake`, `mail`, `progress` and `client` are members of the status itself.
    """

    state: str = ""
    incarnation: int = 0
    turn: int = 0
    open: OpenTurn | None = None
    claim: AgentClaim | None = None
    used: AgentUsage = AgentUsage()
    memory: AgentMemory = AgentMemory()
    wake: WakeState = WakeState()
    mail: AgentMail = AgentMail()
    progress: AgentProgress = AgentProgress()
    client: ClientState = ClientState()
    conditions: dict[str, JsonObject] = field(default_factory=dict)


def read_agent_status(raw: JsonObject, before: tuple[JsonObject, AgentStatus] | None = None) -> AgentStatus:
    """The typed form of an agent's `status`; a fresh object's empty status gives the defaults.

    `before` is an earlier status with its typed form: only members that are other objects now are parsed.
    """
    old, status = before or ({}, AgentStatus())
    parts: dict[str, dict[str, Any]] = {}
    for name, value in raw.items():
        if old.get(name) is value or name not in _MEMBERS:
            continue
        part, member, _ = _MEMBERS[name]
        if name == "transcript":
            made: Any = chunks_of(value, (old.get(name, {}), status.memory.transcript))
        else:
            made = _READERS[name](value) if name in _READERS else value
        parts.setdefault(part, {})[member] = made
    for name in old.keys() - raw.keys():
        if name in _MEMBERS:
            part, member, default = _MEMBERS[name]
            parts.setdefault(part, {})[member] = default
    if not parts:
        return status
    own = parts.pop("", {})
    return remade(status, **own, **{part: remade(getattr(status, part), **new) for part, new in parts.items()})


def wrap_value(value: Json) -> list[Json]:
    """`value` in a list, which a merge replaces as a whole."""
    return [value]


def unwrap_value(value: Json) -> Json:
    """Inverse of `wrap_value`; None without a value."""
    return value[0] if value else None


def _open(raw: JsonObject | None) -> OpenTurn | None:
    if raw is None:
        return None
    reply = raw.get("reply")
    failure = RequestFailure(**raw["failure"][0]) if raw.get("failure") else None
    return OpenTurn(
        turn=raw["turn"],
        news=TurnNews(tuple(raw["reasons"]), tuple(map(message_from_json, raw["messages"])), raw["base_rev"]),
        times=TurnTimes(raw["started_at"], raw.get("waited_s", 0.0), raw.get("waiting_since")),
        request=TurnRequest(raw["op"], raw.get("asked", 0), failure, raw.get("tries", 0)),
        reply=_reply(reply[0]) if reply else TurnReply(),
        is_replied=bool(reply),
        results={key: result_from_json(value[0]) for key, value in raw.get("results", {}).items()},
        claim=unwrap_value(raw.get("claim")),
        is_answer=raw.get("is_answer", False),
        is_last=raw.get("is_last", False),
        hooks=TurnVerdicts(
            {key: _turn_verdict(value[0]) for key, value in raw.get("fired", {}).items()},
            raw.get("consulted", {}),
            {key: value[0] for key, value in raw.get("rewritten", {}).items()},
        ),
        client=TurnClient(_client_call(raw["said"]) if raw.get("said") else None, raw.get("is_withdrawn", False)),
    )


def _reply(raw: JsonObject) -> TurnReply:
    return TurnReply(
        raw.get("text", ""),
        raw.get("then", "sleep"),
        raw.get("sleep_s"),
        tuple(TurnCall(**call) for call in raw.get("calls", ())),
        raw.get("note", ""),
        raw.get("extra", {}),
    )


def _client_call(raw: JsonObject) -> ClientCall:
    return ClientCall(raw["id"], raw["tool"], unwrap_value(raw["arguments"]), raw["at"])


def _lease(raw: JsonObject | None) -> ExternalLease | None:
    return None if raw is None else ExternalLease(**(raw | {"said": tuple(raw.get("said", ()))}))


def _turn_verdict(raw: JsonObject) -> TurnVerdict:
    verdict, version = hook_verdict_from_json(raw["verdict"]), raw.get("version", "")
    return TurnVerdict(raw["hook"], raw["point"], raw["index"], raw["rewrites"], verdict, version)


def _messages(raw: JsonObject) -> dict[str, Message]:
    return {key: message_from_json(value) for key, value in raw.items()}


def _past(raw: JsonObject) -> PastCall:
    result, comments = result_from_json(raw["result"]), tuple(raw.get("comments", ()))
    return PastCall(raw["address"], raw["tool"], raw["arguments"], result, comments)


def _claim(raw: JsonObject) -> AgentClaim | None:
    return AgentClaim(raw["seq"], raw["kind"], unwrap_value(raw.get("result")), raw["incarnation"])


def _members() -> Iterator[tuple[str, tuple[str, str, Any]]]:
    json_names = {"own": "memory", "lease": "seat", "leases": "seats"}
    status = AgentStatus()
    for part in AgentStatus.__match_args__:
        value = getattr(status, part)
        if part not in ("memory", "wake", "mail", "progress", "client"):
            yield part, ("", part, value)
            continue
        for name in type(value).__match_args__:
            yield json_names.get(name, name), (part, name, getattr(value, name))


_MEMBERS: Final[Mapping[str, tuple[str, str, Any]]] = dict(_members())
"""By its name in JSON: the part of the typed status that a member belongs to, its name there, and its default."""
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "open": _open,
    "memory": unwrap_value,
    "inbox": _messages,
    "claim": _claim,
    "told": lambda raw: ToldFacts(**raw),
    "past": lambda raw: tuple(map(_past, raw)),
    "used": lambda raw: AgentUsage(**raw),
    "same": tuple,
    "tried": tuple,
    "asked": _messages,
    "seat": _lease,
    "said": lambda raw: {key: _client_call(value) for key, value in raw.items()},
}
"""Parsers of the members that have another form in JSON."""
