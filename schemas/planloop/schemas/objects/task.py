"""A task as its controller reads it: lowered spec, states, work and checks.

The lowered spec is made by `planloop.compiler.lower.document` from the plan document; references are addresses,
durations are seconds, defaults are filled in.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, tagged
from planloop.schemas.objects.budget import Budget
from planloop.schemas.objects.lock import LockMode, declared_locks


class TaskState(StrEnum):
    """`status.state` of a task. The conditions give the reason."""

    WAITING = "waiting"  # Its needs are not done.
    BLOCKED = "blocked"  # It waits for an approval, an answer or a fix, which the conditions name.
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
"""Final states: only a change of the plan starts such a task again. Contains their texts as well."""


def is_task_over(status: JsonObject) -> bool:
    """Whether the task's own work has come to its end by itself, though tasks below it may be at work (again)."""
    if status.get("go") is not None:
        return False
    state = status.get("state")
    # New children, or checks that are run once more, take the state from it and not its end.
    has_ended = status.get("stage") in ("done", "failed") and state in (TaskState.RUNNING, TaskState.CHECKING)
    return has_ended or state in (TaskState.DONE, TaskState.FAILED)


@tagged("group")
class GroupWork:
    """Only child tasks: done when they are."""


@tagged("run")
class RunWork:
    """A command. Exactly one of `shell` and `argv` is set. `effect` is an EffectClass's text."""

    shell: str = ""
    argv: tuple[str, ...] = ()
    effect: str = "once"
    timeout_s: float | None = None

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "shell", "argv")


@tagged("agent")
class AgentWork:
    """Done by the agent at this address."""

    agent: str


Work: TypeAlias = GroupWork | RunWork | AgentWork


@frozen
class CheckSpec:
    """One acceptance check. `key` is its place in the list as text.

    `arguments` are those that `CheckKind.arguments` of its `kind` returned (`planloop.schemas.checks.kinds`).
    """

    key: str
    kind: str
    arguments: JsonObject
    timeout_s: float

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


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
        return codec.to_json(self, "fork", "rulings", "agent_bounds")


def task_from_json(raw: JsonObject) -> TaskSpec:
    """Inverse of `TaskSpec.to_json`."""
    return codec.from_json(TaskSpec, {**raw, "locks": declared_locks(raw)})
