"""The services that the agent controller uses, and the ports among them. `planloop.owner.build` builds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from planloop.controllers.agent.deciders.port import DeciderReply
from planloop.controllers.agent.models.port import ModelClient, NoModelClient
from planloop.controllers.shared.container_exec import ContainerCommands
from planloop.controllers.shared.simulated_worlds import NoWorlds, Worlds
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import Author, Patch, PatchVerdict
from planloop.schemas.log.record import Change, SubRecord
from planloop.schemas.objects.call import CallResult
from planloop.schemas.objects.hook import HookVerdict
from planloop.schemas.objects.mcp import ServerFailed

if TYPE_CHECKING:
    from planloop.controllers.agent.observe import ObservedAgent


class PatchGate(Protocol):
    """Accepts or rejects patches of the plan document: `planloop.reconciler.admission.gate`."""

    async def submit(self, patch: Patch) -> PatchVerdict: ...

    async def rule(self, patch: Patch, changes: Sequence[Change], also: Sequence[SubRecord]) -> PatchVerdict:
        """The same, with `changes` and `also` in the record if it is accepted."""
        ...

    async def approve(
        self, address: str, by: Author, reason: str = "", content: JsonObject | None = None
    ) -> PatchVerdict:
        """Approve what waits at `address`. Raises `reconciler.errors.Terminal` if nothing waits there."""
        ...

    async def reject(self, address: str, by: Author, reason: str = "") -> int:
        """Reject it and return the revision. Raises `reconciler.errors.Terminal` if nothing waits there."""
        ...


class ToolServers(Protocol):
    """The tool servers of a plan as an agent uses them; what they offer is in the status of `mcp/<name>` objects.

    `planloop.controllers.mcp` has the real one. Cancelling a method cancels the request at the server. `by` is the
    agent that asks. All raise `ServerFailed` (`planloop.schemas.objects.mcp`).
    """

    async def call(
        self, server: str, tool: str, arguments: JsonObject, *, by: str, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        """Call a tool; `op` is sent as the idempotency key.

        A result in state `AwaitingInput` has the question of the server in its `value`.
        """
        ...

    async def answer(
        self, asked: JsonObject, content: JsonObject | None, *, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        """Continue a call that waits for input, under `op`; `asked` is the `value` of its result. None declines."""
        ...

    async def prompt(self, server: str, name: str, arguments: JsonObject, *, by: str) -> str: ...

    async def resource(self, server: str, uri: str, *, by: str) -> str: ...


class NoToolServers:
    """`ToolServers` of a plan that has none."""

    async def call(
        self, server: str, tool: str, arguments: JsonObject, *, by: str, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        del tool, arguments, by, op, on_progress
        raise _no_server(server)

    async def answer(
        self, asked: JsonObject, content: JsonObject | None, *, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        del content, op, on_progress
        raise _no_server(asked["call"]["server"])

    async def prompt(self, server: str, name: str, arguments: JsonObject, *, by: str) -> str:
        del name, arguments, by
        raise _no_server(server)

    async def resource(self, server: str, uri: str, *, by: str) -> str:
        del uri, by
        raise _no_server(server)


def _no_server(name: str) -> ServerFailed:
    return ServerFailed("NoServer", f"the plan has no tool server `{name}`")


class HookReplay(Protocol):
    """The recorded verdicts of hooks that are rules, programs and functions, for a replay.

    `key` is `planloop.controllers.agent.status.TurnVerdict.key` of the question.
    """

    def at_once(self, agent: str, turn: int, key: str) -> HookVerdict:
        """The verdict of a rule. Raises `reconciler.errors.Conflict` if the replay has not come to it yet."""
        ...

    def first(self, agent: str, turn: int, key: str) -> tuple[HookVerdict, bool]:
        """The verdict of the rule before an agent, and whether the agent was asked. Raises like `at_once`."""
        ...

    async def verdict(self, agent: str, turn: int, key: str) -> HookVerdict:
        """The verdict of a program or a function."""
        ...


TOOL_POOL: Final = "tools"
DECIDER_POOL: Final = "minds"
"""The pools of the work plane for calls, and for requests to deciders that are not models."""


@frozen
class ProgramSettings:
    """How programs are run. `env` is the clean environment of commands; a task's own `env` is added to it.

    `python` is the interpreter for Python functions. `owner_env` is the environment of the owner; only variables that
    the plan names as `env:NAME` are read from it.
    """

    processes: Processes
    env: Mapping[str, str]
    python: str
    owner_env: Mapping[str, str] = field(default_factory=dict)


@frozen
class DeciderServices:
    """The models of the plan and, in a replay, the recorded replies and verdicts that take the place of programs."""

    models: ModelClient = NoModelClient()
    replayed_replies: Callable[[ObservedAgent], Awaitable[DeciderReply]] | None = None
    replayed_verdicts: HookReplay | None = None


@frozen
class Connections:
    """What tools connect to: tool servers, the containers of the plan (None: it has none), and simulated worlds."""

    servers: ToolServers = NoToolServers()
    containers: ContainerCommands | None = None
    worlds: Worlds = NoWorlds()


@frozen
class AgentServices:
    """The services of one plan's agent controller.

    `plan` is the address of the plan, `folder` the absolute folder of its file.
    """

    store: Store
    clock: Clock
    ids: Ids
    work: WorkPlane
    gate: PatchGate
    plan: str
    folder: Path
    programs: ProgramSettings
    deciders: DeciderServices = DeciderServices()
    connections: Connections = Connections()

    def start_job(self, agent: ObservedAgent, key: str, job: Callable[[], Awaitable[None]], pool: str) -> None:
        """Start a job for the agent with the priority of its task."""
        priority = 0 if agent.task_spec is None else agent.task_spec.priority
        self.work.start(key, agent.resource.address, job, pool=pool, priority=priority)
