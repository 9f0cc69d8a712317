"""What the agent controller keeps in `status`, read into typed records.

Mind memory, arguments and results are kept inside one-item lists: statuses are merged key by key (RFC 7386), which
would drop their nulls and mix old keys with new ones; lists are replaced whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.objects.call import CallResult, result_from_json
from planloop.schemas.objects.hook import HookPoint, HookVerdict, hook_verdict_from_json
from planloop.schemas.objects.message import Message, message_from_json


@frozen
class TurnCall:
    """A call of the open turn, in call order. `address` names its call object while it is not settled.

    `is_implied`: the mind did not write it; it is the `done` that a final answer stands for. `extra` are fields that
    the mind's provider wants back with the call.
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
    """A request to a model that gave no reply. `retry_at`: when it is made again, `wait_s` after it
    failed; None: when something has changed.

    `life` names the owner that made it and `basis` what it was made with.
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
    """A verdict of the hook `hook` in the open turn, as it counts: a fault is what the hook's policy makes of it.

    `index` says which call, or up to which message; `rewrites` how often its arguments had been rewritten before.
    `version` is that of the hook as it was asked; earlier logs have none.
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
    """The name of a question within its turn; in this order they were asked."""
    return f"{point}.{index}.{rewrites}.{hook}"


@frozen
class ExternalLease:
    """Who plays an outside agent: an MCP client, for as long as it says something now and then.

    `number` counts the seats of the agent and never falls; `key` is the digest of what the client shows, which
    is in no log; `heard_at` is when it was
    last heard, in seconds since 1970; `leaving` says why the seat is to be given up. `said` are ids of its last calls.
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
    """A call that the client of an outside agent makes. No `tool`: it only wants to hear what is new."""

    id: str
    tool: str
    arguments: Json
    at: float

    def to_json(self) -> JsonObject:
        return {"id": self.id, "tool": self.tool, "arguments": wrap_value(self.arguments), "at": self.at}


@frozen
class OpenTurn:
    """A turn that was started and has not ended. `is_replied` turns true with the record that holds the reply.

    `asked` counts how often the mind was asked from outside; `claim` is what `done` or `fail` said in this turn.
    `is_answer`: its task was over when it began, and it is there to answer a question. `note` is what the mind is told
    of its own reply. `failure` is why the last request gave none, `tries` how often that was so in a row. `is_last`:
    the budget is used up, and this turn is for handing over. `fired` are the verdicts of hooks by `TurnVerdict.key`,
    `consulted` the hooks whose agents were asked for one, by that key, `rewritten` the arguments that hooks gave to
    calls, by their address. `said` is what the client of an outside agent says in it, `is_withdrawn` that it takes it
    back. `extra` are fields of the reply that the mind's provider wants back.
    """

    turn: int
    started_at: float
    base_rev: int
    op: str
    reasons: tuple[str, ...]
    messages: tuple[Message, ...]
    asked: int = 0
    is_replied: bool = False
    text: str = ""
    then: str = "sleep"
    sleep_s: float | None = None
    calls: tuple[TurnCall, ...] = ()
    results: dict[str, CallResult] = field(default_factory=dict)
    waited_s: float = 0.0
    waiting_since: float | None = None
    claim: JsonObject | None = None
    is_answer: bool = False
    note: str = ""
    failure: RequestFailure | None = None
    tries: int = 0
    is_last: bool = False
    fired: dict[str, TurnVerdict] = field(default_factory=dict)
    consulted: dict[str, str] = field(default_factory=dict)
    rewritten: dict[str, JsonObject] = field(default_factory=dict)
    said: ClientCall | None = None
    is_withdrawn: bool = False
    extra: JsonObject = field(default_factory=dict)

    def standing(self, call: TurnCall) -> TurnCall:
        """The call with the arguments that it is started with, where hooks gave it others."""
        given = self.rewritten.get(call.address)
        return call if given is None else remade(call, arguments=given)


@frozen
class TranscriptChunk:
    """One ended turn in a model's transcript: the digest of its messages, and about how many tokens they are.

    `origin` is the digest of the turn as it was before it was made shorter; of a summary, of the index of its turns.
    `by` names the model that had it, if that was not the agent's own.
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
    """`status.transcript`, oldest turn first. `before`: an earlier one and its chunks, taken where the same."""
    if before is None:
        return {key: TranscriptChunk(**raw[key]) for key in sorted(raw)}
    old, made = before
    return {key: made[key] if old.get(key) is raw[key] else TranscriptChunk(**raw[key]) for key in sorted(raw)}


@frozen
class PastCall:
    """A call of the turn that ended last, with its result and what hooks say to it: shown to the mind in the next."""

    address: str
    tool: str
    arguments: Json
    result: CallResult
    comments: tuple[str, ...] = ()

    def to_json(self, *, is_told: bool) -> JsonObject:
        """Not `is_told`: the mind has a transcript with what came of it, so only how it ended is kept here."""
        result = self.result if is_told else CallResult(self.result.state, error=self.result.error)
        out: JsonObject = {"address": self.address, "tool": self.tool, "arguments": self.arguments}
        said: JsonObject = {"comments": list(self.comments)} if is_told and self.comments else {}
        return out | {"result": result.to_json()} | said


@frozen
class AgentClaim:
    """The agent says that it is done or has failed. `seq` counts claims and never falls."""

    seq: int
    kind: str
    result: Json
    incarnation: int


@frozen
class AgentUsage:
    """What this agent itself has used over all its incarnations. `time_s` is active time, `usd` exact money as text.

    Tokens and money are counted where a request is settled (`budget.py`), the rest where a turn ends.
    """

    turns: int = 0
    calls: int = 0
    time_s: float = 0.0
    tokens: int = 0
    usd: str = "0"

    def to_json(self) -> JsonObject:
        """What the end of a turn writes."""
        return {"turns": self.turns, "calls": self.calls, "time_s": round(self.time_s, 6)}


@frozen
class ToldFacts:
    """Digests and tokens of what the mind has been told, so that each fact is told once and none is missed."""

    goal: str = ""
    notes: str = ""
    verdict: int = 0
    children: dict[str, str] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    budget: bool = False


@frozen
class AgentStatus:
    """`incarnation` 0 means that it has never worked. `again` asks for a turn though nothing outside changed.

    `asked` are questions it has read and not answered, by id; `is_answering` says that its last turn was there to
    answer one; `interlocutors` are the `speakers` and `listeners` of its next discussion unless it names others.
    `requests` counts what it has asked for, over all incarnations. `system` is the blob of the system message that its
    model was asked with last. `sent_back` counts how
    often hooks have sent back the answer that it gives, `nudges` how often in a row nothing but a hook's comment woke
    it, `spoken` the turn in which it last spoke with a child, by the child's agent. `seat` is who plays it, if it is an
    outside one that somebody has taken, `seats` how many have, `said` the calls that wait for their turn. `escalated`
    is set once a stronger model continues (`escalation.py`), `tried` are the last attempts that failed
    (`planloop.controllers.agent.escalation`).
    """

    state: str = ""
    incarnation: int = 0
    turn: int = 0
    ended_at: float | None = None
    open: OpenTurn | None = None
    memory: Json = None
    inbox: dict[str, Message] = field(default_factory=dict)
    claim: AgentClaim | None = None
    claims: int = 0
    told: ToldFacts = ToldFacts()
    past: tuple[PastCall, ...] = ()
    again: bool = False
    wake_at: float | None = None
    used: AgentUsage = AgentUsage()
    files: dict[str, str] = field(default_factory=dict)
    same: tuple[str, int] = ("", 0)
    idle_turns: int = 0
    conditions: dict[str, JsonObject] = field(default_factory=dict)
    asked: dict[str, Message] = field(default_factory=dict)
    is_answering: bool = False
    interlocutors: dict[str, list[str]] = field(default_factory=dict)
    requests: int = 0
    transcript: dict[str, TranscriptChunk] = field(default_factory=dict)
    had_last: bool = False
    last: str = ""
    system: str = ""
    sent_back: int = 0
    nudges: int = 0
    spoken: dict[str, int] = field(default_factory=dict)
    seat: ExternalLease | None = None
    seats: int = 0
    said: dict[str, ClientCall] = field(default_factory=dict)
    escalated: JsonObject | None = None
    tried: tuple[JsonObject, ...] = ()


def read_agent_status(raw: JsonObject, before: tuple[JsonObject, AgentStatus] | None = None) -> AgentStatus:
    """The typed form of an agent's `status`; a fresh object's empty status gives the defaults.

    `before` is an earlier status with its typed form: only the members that are other objects by now are read.
    """
    old, status = before or ({}, AgentStatus())
    members: dict[str, Any] = {}
    for name, value in raw.items():
        if old.get(name) is value or name not in _DEFAULTS:
            continue
        if name == "transcript":
            members[name] = chunks_of(value, (old.get(name, {}), status.transcript))
        else:
            members[name] = _READERS[name](value) if name in _READERS else value
    for name in old.keys() - raw.keys():
        if name in _DEFAULTS:
            members[name] = _DEFAULTS[name]
    return remade(status, **members) if members else status


def wrap_value(value: Json) -> list[Json]:
    """`value` where a merge cannot look into it."""
    return [value]


def unwrap_value(value: Json) -> Json:
    """Inverse of `boxed`; None when nothing is kept."""
    return value[0] if value else None


def _open(raw: JsonObject | None) -> OpenTurn | None:
    if raw is None:
        return None
    reply = raw.get("reply")
    answered: JsonObject = reply[0] if reply else {}
    return OpenTurn(
        turn=raw["turn"],
        started_at=raw["started_at"],
        base_rev=raw["base_rev"],
        op=raw["op"],
        reasons=tuple(raw["reasons"]),
        messages=tuple(message_from_json(message) for message in raw["messages"]),
        asked=raw.get("asked", 0),
        is_replied=bool(reply),
        text=answered.get("text", ""),
        then=answered.get("then", "sleep"),
        sleep_s=answered.get("sleep_s"),
        calls=tuple(TurnCall(**call) for call in answered.get("calls", ())),
        extra=answered.get("extra", {}),
        results={key: result_from_json(value[0]) for key, value in raw.get("results", {}).items()},
        waited_s=raw.get("waited_s", 0.0),
        waiting_since=raw.get("waiting_since"),
        claim=unwrap_value(raw.get("claim")),
        is_answer=raw.get("is_answer", False),
        note=answered.get("note", ""),
        failure=RequestFailure(**raw["failure"][0]) if raw.get("failure") else None,
        tries=raw.get("tries", 0),
        is_last=raw.get("is_last", False),
        fired={key: _fired(value[0]) for key, value in raw.get("fired", {}).items()},
        consulted=raw.get("consulted", {}),
        rewritten={key: value[0] for key, value in raw.get("rewritten", {}).items()},
        said=_said(raw["said"]) if raw.get("said") else None,
        is_withdrawn=raw.get("is_withdrawn", False),
    )


def _said(raw: JsonObject) -> ClientCall:
    return ClientCall(raw["id"], raw["tool"], unwrap_value(raw["arguments"]), raw["at"])


def _all_said(raw: JsonObject) -> dict[str, ClientCall]:
    return {key: _said(value) for key, value in raw.items()}


def _seat(raw: JsonObject | None) -> ExternalLease | None:
    return None if raw is None else ExternalLease(**(raw | {"said": tuple(raw.get("said", ()))}))


def _fired(raw: JsonObject) -> TurnVerdict:
    verdict, version = hook_verdict_from_json(raw["verdict"]), raw.get("version", "")
    return TurnVerdict(raw["hook"], raw["point"], raw["index"], raw["rewrites"], verdict, version)


def _messages(raw: JsonObject) -> dict[str, Message]:
    return {key: message_from_json(value) for key, value in raw.items()}


def _told(raw: JsonObject) -> ToldFacts:
    return ToldFacts(**raw)


def _used(raw: JsonObject) -> AgentUsage:
    return AgentUsage(**raw)


def _pasts(raw: list[JsonObject]) -> tuple[PastCall, ...]:
    return tuple(_past(item) for item in raw)


def _past(raw: JsonObject) -> PastCall:
    result, comments = result_from_json(raw["result"]), tuple(raw.get("comments", ()))
    return PastCall(raw["address"], raw["tool"], raw["arguments"], result, comments)


def _claim(raw: JsonObject) -> AgentClaim | None:
    return AgentClaim(raw["seq"], raw["kind"], unwrap_value(raw.get("result")), raw["incarnation"])


def _same(raw: list[Any]) -> tuple[str, int]:
    return raw[0], raw[1]


_DEFAULTS: Final[Mapping[str, Any]] = {name: getattr(AgentStatus(), name) for name in AgentStatus.__match_args__}
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "open": _open,
    "memory": unwrap_value,
    "inbox": _messages,
    "claim": _claim,
    "told": _told,
    "past": _pasts,
    "used": _used,
    "same": _same,
    "tried": tuple,
    "asked": _messages,
    "seat": _seat,
    "said": _all_said,
}
"""How the members are read that are kept in another form."""
