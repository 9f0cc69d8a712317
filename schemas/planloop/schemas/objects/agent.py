"""An agent as its controller reads it: lowered spec, deciders, states.

An agent belongs to one task and shares its path: `agent/frontend/ui` does `task/frontend/ui`. Its goal, notes, cwd and
checks are read from the task object; its own spec says who it is and what it may do.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, tagged
from planloop.schemas.objects.budget import Budget
from planloop.schemas.rights import Rights

DUMP: Final = "dump:"
"""Before the digest of a restored dump, where an agent says what it begins as a copy of."""

KEPT_ORIGIN: Final = f"{DUMP}kept"
"""In place of the name of an agent that was copied and has left the plan: its copies keep what they began with."""

ADDRESS: Final = "agent/"
"""Before the path, from the root, of an agent that is copied to another place of the plan."""


def copied_agent_path(name: str, parent: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path of the task of the agent that a child of the task at `parent` copies, from its `from`.

    A name goes down from `parent`, an address from the root. None: it copies no agent of the plan.
    """
    if not name or name.startswith(DUMP):
        return None
    is_address = name.startswith(ADDRESS)
    parts = tuple(part for part in name.removeprefix(ADDRESS if is_address else "").split("/") if part)
    return () if is_address and parts == (".",) else (*(() if is_address else parent), *parts)


class AgentState(StrEnum):
    """`status.state` of an agent."""

    IDLE = "idle"  # Its task has not started.
    RUNNING = "running"  # In a turn.
    ASLEEP = "asleep"  # No reason to be awake: rows in the store and nothing else.
    BLOCKED = "blocked"  # A call waits for a lock, an approval or an answer.
    CLAIMED = "claimed"  # It says that it is done or has failed; the task controller decides.
    PARKED = "parked"  # Out of budget.
    ENDED = "ended"  # Its task is done, failed or cancelled.


NO_MODEL: Final = "NoModel"
UNPRICED: Final = "UnknownPrice"
WITHOUT_MODEL: Final = frozenset({NO_MODEL, UNPRICED})
"""The conditions of an agent that a change of the plan's models may end."""

STUCK: Final = "Stuck"
"""The condition of an agent that repeats a call, and why a task failed whose agent repeated what had failed."""

NO_MCP_CLIENT: Final = "AwaitingGuest"
"""The condition of an external agent that no MCP client has leased."""

FOR_OTHERS: Final = WITHOUT_MODEL | {"AwaitingApproval", "AwaitingInput", "BudgetSpent", "InDoubt", NO_MCP_CLIENT}
"""The conditions in which an agent and its task wait for a person, a client or another agent."""


@tagged("script")
class ScriptSpec:
    """A deterministic agent: steps (`say call patch expect sleep done fail`), each with an optional `when`."""

    steps: tuple[JsonObject, ...]


@tagged("program")
class ProgramSpec:
    """A program that is given a turn as one JSON line and answers with JSON lines of actions."""

    argv: tuple[str, ...]


@tagged("python")
class PythonFunctionSpec:
    """`file.py:name`, run in a process of its own with the same JSON lines as a program; `lib:name` is one of ours.

    The program receives `options` as the plan has them.
    """

    target: str
    options: JsonObject = field(default_factory=dict)


@tagged("model")
class ModelDeciderSpec:
    """A language model by the name that is asked (`planloop.schemas.objects.model`).

    `stated` is the name that the plan gives it, which is what rights go by; the two differ where the plan's `models`
    table redirects it.
    """

    model: str
    options: JsonObject = field(default_factory=dict)
    stated: str = ""


@tagged("outside")
class CliAgentSpec:
    """Another command-line agent: given a prompt on stdin or as its last argument, it prints text or JSON.

    `pointer` is the JSON pointer of its answer, `session` that of its session id; empty: the usual places of such
    programs. `resume` is its command to continue a session, with `{session}` replaced by the id; empty:
    every turn begins from nothing. `env` are its own variables; `env:NAME` is read from the owner's environment.
    """

    argv: tuple[str, ...]
    prompt: Literal["stdin", "argument"] = "stdin"
    output: Literal["text", "json-lines", "json"] = "text"
    pointer: str = ""
    resume: tuple[str, ...] = ()
    session: str = ""
    env: JsonObject = field(default_factory=dict)
    timeout_s: float | None = None


@tagged("guest")
class McpClientSpec:
    """A program outside the plan that takes the agent's task over MCP and makes its calls.

    A client that makes no call for `lease_s` seconds loses its lease.
    """

    lease_s: float


@frozen
class Escalation:
    """The stronger model that continues a conversation after `after` rejected answers, or when the agent is stuck.

    `budget` bounds what `to` uses for the agent; `at` is where it stands in the plan, as `plan patch .` takes it.
    """

    to: ModelDeciderSpec
    after: int
    budget: Budget = Budget()
    at: str = ""


@frozen
class TierCap:
    """The most that each agent of a tier may use itself. `at` is the place in the plan, as `plan patch .` takes it."""

    budget: Budget
    at: str


NO_TIER_CAP: Final = TierCap(Budget(), "")


DeciderSpec: TypeAlias = ScriptSpec | ProgramSpec | PythonFunctionSpec | ModelDeciderSpec | CliAgentSpec | McpClientSpec


@frozen
class AgentSpec:
    """`tools` are the names after toolsets are opened and rights applied; `prompt` is the resolved text.

    `mixins` are resolved in order with their settings; `hooks` are addresses; `talk_to` is its topology; `wake_every_s`
    is the watchdog while children live (None: no watchdog); `lock` is how long an implicit file lock is kept.
    `served_prompts` are prompts of servers, as `server/name`, placed ahead of `prompt`; `compact` is as the plan
    has it. `source` is what it begins as a copy of: an agent's address, or `dump:` and the digest of what was restored.
    `watches` is the agent that an agent made for a hook is asked about; empty for all others. `granted` is the model
    that a yes gave it in place of its own; `cap` is that of its tier, and no part of its task's budget.
    """

    task: str
    mind: DeciderSpec
    rights: Rights
    parent: str | None = None
    prototype: str = ""
    prompt: str = ""
    served_prompts: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    effects: JsonObject = field(default_factory=dict)
    mixins: tuple[JsonObject, ...] = ()
    hooks: tuple[str, ...] = ()
    talk_to: tuple[str, ...] = ("parent", "children")
    wake_every_s: float | None = None
    lock: Literal["turn", "task", "off"] = "turn"
    compact: JsonObject = field(default_factory=dict)
    sandbox: Json = None
    budget: Budget = Budget()
    source: str = ""
    watches: str = ""
    granted: ModelDeciderSpec | None = None
    cap: TierCap = NO_TIER_CAP
    escalate: Escalation | None = None

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "source", "watches", "granted", "cap", "escalate")


def agent_from_json(raw: JsonObject) -> AgentSpec:
    """Inverse of `AgentSpec.to_json`."""
    return codec.from_json(AgentSpec, raw)


def stated_models(spec: JsonObject) -> list[str]:
    """The models that an agent may be asked by, as the plan names them, from its spec as JSON."""
    granted, escalate = spec.get("granted"), spec.get("escalate") or {}
    minds = [mind for mind in (spec.get("mind"), granted, escalate.get("to")) if mind and mind.get("kind") == "model"]
    named = [str(mind.get("stated") or mind["model"]) for mind in minds]
    summary = (spec.get("compact") or {}).get("model")
    return [*named, str(summary)] if summary else named


def surviving_request(spec: JsonObject, status: JsonObject) -> str | None:
    """The operation of an agent's request that goes on without its owner, to be taken up by the next; None: none."""
    opened = status.get("open") or {}
    is_asking = opened.get("asked") and not opened.get("reply")
    return str(opened["op"]) if is_asking and spec["mind"]["kind"] == "outside" else None
