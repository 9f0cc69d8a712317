"""A hook: an agent, program or rule that is asked at stated points of one agent's work.

The object `hook/<path of the agent>/<name>` is one hook of one agent, with a state of its own; a hook that the plan
declares once and that watches ten agents is ten objects. Requests and answers are JSON, version 1:
the same for rules, Python functions, programs and agents.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, Literal, TypeAlias, get_args

from planloop.schemas import codec
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, tagged

HOOK_VERSION: Final = 1

HookPoint: TypeAlias = Literal[
    "on-input",
    "before-call",
    "after-call",
    "before-reply",
    "on-wake",
    "on-sleep",
    "on-child",
    "on-patch",
    "on-conflict",
    "on-budget",
    "on-end",
]
POINTS: Final[tuple[HookPoint, ...]] = get_args(HookPoint)
STARTING: Final[tuple[HookPoint, ...]] = ("before-call", "on-patch")
"""Points before a call starts. A hook there must allow the call; an error of the hook denies it."""
ABOUT_CALLS: Final[tuple[HookPoint, ...]] = (*STARTING, "after-call")
"""The points that are about one call, so that `match` can narrow them."""
DECIDING: Final[tuple[HookPoint, ...]] = (*STARTING, "before-reply")
"""Where a decision counts, for the call, the patch or the answer is still to come; elsewhere hooks only comment."""

Decision: TypeAlias = Literal["allow", "ask", "defer", "deny"]
STRICTNESS: Final[tuple[Decision, ...]] = ("allow", "ask", "defer", "deny")
"""The lattice: of several verdicts the last in this order counts. `ask` wants a person's yes; `defer` is a no for now,
which tells the agent to do something else first; `deny` is a no."""

ACTIVE: Final = "active"
OVER: Final = "over"
"""`status.state` of a hook; one that is over is asked no more."""

FIRST_RUN: Final = 1
"""The incarnation of an agent's first run; of any before there is nothing that a hook could remember."""

OnError: TypeAlias = Literal["deny", "note"]
HookCopyMode: TypeAlias = Literal["same", "read-only", "none"]


@tagged("rule")
class HookRule:
    """Clauses, the first that holds gives the verdict; `planloop.controllers.agent.hooks.rules` has what they may
    say."""

    clauses: tuple[JsonObject, ...]


@tagged("program")
class HookProgram:
    """A program given one JSON value on stdin. `contract` says which: ours, or that of Claude Code's hook scripts."""

    argv: tuple[str, ...]
    contract: Literal["planloop", "claude-code"] = "planloop"


@tagged("python")
class HookFunction:
    """A Python function `file.py:name`, run in a process of its own: a map in, a map out."""

    target: str


@tagged("agent")
class HookAgent:
    """The agent at `address` is asked by a message: one made for this hook (`agent/<path>/~<name>`), or any other."""

    address: str


HookDeciderSpec: TypeAlias = HookRule | HookProgram | HookFunction | HookAgent


@frozen
class Expiry:
    """When a hook ends by itself: after a number of turns or seconds, or when the condition `when` is true.

    `is_by_approval`: a person's yes ends it (`plan approve hook/…`).
    """

    turns: int | None = None
    time_s: float | None = None
    when: JsonObject = field(default_factory=dict)
    is_by_approval: bool = False


@frozen
class HookSpec:
    """`watches` is the agent's address. `original`: the hook that this one is a copy of, empty for none.

    `is_root`: the top of the plan declares it, so agents can neither remove nor see it. `is_read_only`: a copy with its
    original's state and end and changes neither. `match` narrows calls, as in `write(src/**)`. `options` are the
    settings of a hook of the library. `set_at` is the task where the plan states it, or the agent that names it.
    `first` are clauses that are read first; the agent is asked only if one of them consults it. `stated_as`
    is its name in the plan where its agent has another hook of that name, and so calls it otherwise.
    `transcript` is how much it is shown of what the agent has lived through, as the plan has it; None: nothing.
    """

    name: str
    watches: str
    on: tuple[HookPoint, ...]
    mind: HookDeciderSpec
    match: str = ""
    original: str = ""
    is_root: bool = False
    is_read_only: bool = False
    copy: HookCopyMode = "same"
    expires: Expiry = Expiry()
    on_fault: OnError | None = None
    timeout_s: float | None = None
    options: JsonObject = field(default_factory=dict)
    set_at: str = ""
    first: tuple[JsonObject, ...] = ()
    stated_as: str = ""
    transcript: Json = None

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "first", "stated_as", "transcript")


def hook_from_json(raw: JsonObject) -> HookSpec:
    """Inverse of `HookSpec.to_json`."""
    return codec.from_json(HookSpec, raw)


@frozen
class HookVerdict:
    """What a hook answers. `arguments` replaces those of the call; `comment` is shown to the model, labelled with the
    hook's name, next to its subject; `memory` is the hook's new state (None: as before); `is_last`: it quits.

    `fault` is why the hook gave no verdict: an error, a timeout or an invalid answer.
    """

    decision: Decision = "allow"
    reason: str = ""
    arguments: JsonObject | None = None
    comment: str = ""
    memory: Json = None
    is_last: bool = False
    fault: str = ""

    def to_json(self) -> JsonObject:
        """Only what differs from a plain `allow`."""
        return codec.to_json(self, "decision", "reason", "arguments", "comment", "memory", "is_last", "fault")


def hook_verdict_from_json(raw: JsonObject) -> HookVerdict:
    """Inverse of `HookVerdict.to_json`."""
    return codec.from_json(HookVerdict, raw)


def default_on_error(point: HookPoint) -> OnError:
    """Return the default of `on-fault`: hooks that guard calls and patches deny them on an error."""
    return "deny" if point in STARTING else "note"


def hook_address(agent: str, name: str) -> str:
    """The address of the hook `name` of the agent at `agent`: `hook/web/ui/careful`; of the root's `hook/careful`."""
    path = agent.partition("/")[2]
    return f"hook/{name}" if path == "." else f"hook/{path}/{name}"


def hook_agent_address(agent: str, name: str) -> str:
    """The address of the agent made for that hook. No task can have such an id."""
    path = agent.partition("/")[2]
    return f"agent/~{name}" if path == "." else f"agent/{path}/~{name}"


def expiry_reason(expires: Expiry, status: JsonObject, turns: int, now: float) -> str:
    """Why the time of a hook with this status is over, in words; empty while it is not.

    `turns` are those of the watched agent that have ended, `now` is in seconds since 1970. Its own condition and a
    person's yes are looked at elsewhere.
    """
    if expires.turns is not None and turns - int(status.get("since_turn", 0)) >= expires.turns:
        return f"it was there for {expires.turns} turn{'s' if expires.turns > 1 else ''}"
    since = status.get("since")
    if expires.time_s is not None and since is not None and now >= float(since) + expires.time_s:
        return f"it was there for {expires.time_s:g} s"
    return ""


def has_hook_ended(spec: JsonObject, status: JsonObject, incarnation: int) -> bool:
    """Whether a hook is asked no more in the run `incarnation` of its agent, from its spec and status as JSON.

    A hook that ended in an earlier run exists again in the next immediately, before its controller reconciles it; by
    a person's yes it ends for good, and a read-only copy when its original does.
    """
    if status.get("state") != OVER:
        return False
    is_for_good = spec["is_read_only"] or (spec["expires"]["is_by_approval"] and status.get("approved_by"))
    return bool(is_for_good) or int(status.get("incarnation", FIRST_RUN)) >= incarnation


def is_hook_agent(address: str) -> bool:
    """Whether the agent at `address` was made for a hook."""
    return address.rpartition("/")[2].startswith("~")
