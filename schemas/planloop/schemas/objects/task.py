"""A task as its controller reads it: lowered spec, states, work and checks.

The lowered spec is made by `planloop.compiler.lower.document` from the plan document; references are addresses,
durations are seconds, defaults are filled in.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.budget import Budget, budget_from_json
from planloop.schemas.objects.lock import LockMode, declared_locks


class TaskState(StrEnum):
    """`status.state` of a task; the conditions beside it say why."""

    WAITING = "waiting"  # Its needs are not done.
    BLOCKED = "blocked"  # Something must be granted, answered or mended; the conditions say what unblocks it.
    RUNNING = "running"
    CHECKING = "checking"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPING = "stopping"  # Being cancelled or removed; its work is being torn down.

    @property
    def is_terminal(self) -> bool:
        return self in ENDED


ENDED: Final = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED})
"""States in which nothing more happens unless somebody changes something. Holds their texts as well."""


def is_task_over(status: JsonObject) -> bool:
    """Whether the task's own work has come to its end by itself, though tasks below it may be at work (again)."""
    if status.get("go") is not None:
        return False
    state = status.get("state")
    # New children, or checks that are run once more, take the state from it and not its end.
    has_ended = status.get("stage") in ("done", "failed") and state in (TaskState.RUNNING, TaskState.CHECKING)
    return has_ended or state in (TaskState.DONE, TaskState.FAILED)


@frozen
class GroupWork:
    """Only child tasks: done when they are."""


@frozen
class RunWork:
    """A command. Exactly one of `shell` and `argv` is set. `effect` is an EffectClass's text."""

    shell: str = ""
    argv: tuple[str, ...] = ()
    effect: str = "once"
    timeout_s: float | None = None


@frozen
class AgentWork:
    """Done by the agent at this address."""

    agent: str


Work: TypeAlias = GroupWork | RunWork | AgentWork


@frozen
class CheckSpec:
    """One acceptance check. `key` is its place in the list as text; `arguments` are the check's own, by `kind`.

    sh: `shell` or `argv` · require-file: `path`, `empty` (allowed) · contains: `path`, `text` or `pattern` ·
    json: `path` or `shell`, `subset` · http: `url`, `status`, `contains`, `subset`,
    or `steps`, `repeat` (`http_check.py`) · ws: as it is written (`ws_check.py`) · port: `port`, `host` ·
    container: `name` · run-in: `container`, `shell` or `argv` · web: as written, its `reuse` replaced by the steps.
    """

    key: str
    kind: str
    arguments: JsonObject
    timeout_s: float

    def to_json(self) -> JsonObject:
        return {"key": self.key, "kind": self.kind, "arguments": self.arguments, "timeout_s": self.timeout_s}


def check_from_json(raw: JsonObject) -> CheckSpec:
    """Inverse of `CheckSpec.to_json`."""
    return CheckSpec(raw["key"], raw["kind"], raw["arguments"], raw["timeout_s"])


@frozen
class TaskSpec:
    """`cwd` is relative to the plan file's folder, `.` for that folder itself. `env` is added to the clean one.

    `fork` is the address of the fork that it works in, empty for the plan's own folder. `rulings` are the newest that
    were made about it in conflicts, for its agent to read. `agent_bounds` has each unit of `budget` that its agent
    bounds too: `task` is the bound that the task states (None: none), `lines` are those of the agent by their paths.
    """

    goal: str
    work: Work
    notes: str = ""
    parent: str | None = None
    children: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    cwd: str = "."
    env: JsonObject = field(default_factory=dict)
    acceptance: tuple[CheckSpec, ...] = ()
    when: Literal["after", "before"] = "after"
    heal: bool = False
    heal_every_s: float = 60.0
    locks: dict[str, LockMode] = field(default_factory=dict)
    containers: tuple[str, ...] = ()
    budget: Budget = Budget()
    retries: int = 0
    again: int = 0
    on_change: Literal["message", "restart"] = "message"
    pause: bool = False
    cancel: bool = False
    protect: bool = False
    priority: int = 0
    fork: str = ""
    rulings: tuple[str, ...] = ()
    agent_bounds: JsonObject = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        own: JsonObject = {"fork": self.fork} if self.fork else {}
        if self.rulings:
            own["rulings"] = list(self.rulings)
        if self.agent_bounds:
            own["agent_bounds"] = self.agent_bounds
        return own | {
            "goal": self.goal,
            "work": work_to_json(self.work),
            "notes": self.notes,
            "parent": self.parent,
            "children": list(self.children),
            "needs": list(self.needs),
            "cwd": self.cwd,
            "env": self.env,
            "acceptance": [check.to_json() for check in self.acceptance],
            "when": self.when,
            "heal": self.heal,
            "heal_every_s": self.heal_every_s,
            "locks": self.locks,
            "containers": list(self.containers),
            "budget": self.budget.to_json(),
            "retries": self.retries,
            "again": self.again,
            "on_change": self.on_change,
            "pause": self.pause,
            "cancel": self.cancel,
            "protect": self.protect,
            "priority": self.priority,
        }


def task_from_json(raw: JsonObject) -> TaskSpec:
    """Inverse of `TaskSpec.to_json`."""
    return TaskSpec(
        goal=raw["goal"],
        work=work_from_json(raw["work"]),
        notes=raw["notes"],
        parent=raw["parent"],
        children=tuple(raw["children"]),
        needs=tuple(raw["needs"]),
        cwd=raw["cwd"],
        env=raw["env"],
        acceptance=tuple(check_from_json(check) for check in raw["acceptance"]),
        when=raw["when"],
        heal=raw["heal"],
        heal_every_s=raw["heal_every_s"],
        locks=declared_locks(raw),
        containers=tuple(raw["containers"]),
        budget=budget_from_json(raw["budget"]),
        retries=raw["retries"],
        again=raw.get("again", 0),
        on_change=raw["on_change"],
        pause=raw["pause"],
        cancel=raw["cancel"],
        protect=raw["protect"],
        priority=raw["priority"],
        fork=raw.get("fork", ""),
        rulings=tuple(raw.get("rulings", ())),
        agent_bounds=raw.get("agent_bounds", {}),
    )


def work_to_json(work: Work) -> JsonObject:
    """A map whose `kind` is group, run or agent."""
    match work:
        case GroupWork():
            return {"kind": "group"}
        case RunWork():
            out: JsonObject = {"kind": "run", "effect": work.effect, "timeout_s": work.timeout_s}
            return out | ({"shell": work.shell} if work.shell else {"argv": list(work.argv)})
        case AgentWork():
            return {"kind": "agent", "agent": work.agent}


def work_from_json(raw: JsonObject) -> Work:
    """Inverse of `work_to_json`."""
    match raw["kind"]:
        case "group":
            return GroupWork()
        case "run":
            return RunWork(raw.get("shell", ""), tuple(raw.get("argv", ())), raw["effect"], raw["timeout_s"])
        case _:
            return AgentWork(raw["agent"])
