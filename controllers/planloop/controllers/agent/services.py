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
    """Takes patches of the plan document: `planloop.reconciler.admission.gate`."""

    async def submit(self, patch: Patch) -> PatchVerdict: ...

    async def rule(self, patch: Patch, changes: Sequence[Change], also: Sequence[SubRecord]) -> PatchVerdict:
        """The same, with `changes` and `also` in the record if it is accepted."""
        ...

    async def approve(
        self, address: str, by: Author, reason: str = "", content: JsonObject | None = None
    ) -> PatchVerdict:
        """Approve what waits at `address`. Raises errors.Terminal when nothing waits there."""
        ...

    async def reject(self, address: str, by: Author, reason: str = "") -> int:
        """Reject it and return the revision. Raises errors.Terminal when nothing waits there."""
        ...


class ToolServers(Protocol):
    """The tool servers of a plan as an agent uses them; what they offer is in the status of `mcp/<name>` objects.

    `planloop.controllers.mcp` has the real one. Cancelling a method cancels the request at the server. `by` is the
    agent that asks. All raise `ServerFailed` (`planloop.schemas.objects.mcp`).
    """

    async def call(
        self, server: str, tool: str, arguments: JsonObject, *, by: str, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        """One tool call; `op` is passed on as the idempotency key.

        `AwaitingInput` is a state of the result too: the server asks for something, which is in its `value`.
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
    return ServerFailed("NoServer", f"there is no server `{name}`")


class HookReplay(Protocol):
    """Answers in place of hooks that are rules, programs and functions, as in a replay. `key` is the question's."""

    def at_once(self, agent: str, turn: int, key: str) -> HookVerdict:
        """The verdict of a rule. Raises `Conflict` when it is not its place yet."""
        ...

    def first(self, agent: str, turn: int, key: str) -> tuple[HookVerdict, bool]:
        """What the rule before an agent said, and whether the agent was asked. Raises `Conflict` like `at_once`."""
        ...

    async def verdict(self, agent: str, turn: int, key: str) -> HookVerdict:
        """The verdict of a program or a function."""
        ...


TOOL_POOL: Final = "tools"
DECIDER_POOL: Final = "minds"
"""The pools of the work plane in which calls run and deciders other than models are asked."""


@frozen
class ProgramSettings:
    """How programs are run. `env` is the clean environment of commands; a task's own `env` is added to it.

    `python` is the interpreter for Python functions. Of `owner_env`, the owner's own environment, only the variables
    that the plan names by `env:NAME` are read.
    """

    processes: Processes
    env: Mapping[str, str]
    python: str
    owner_env: Mapping[str, str] = field(default_factory=dict)


@frozen
class DeciderServices:
    """What decides for agents: the models and, in a replay, the recorded replies and verdicts instead of programs."""

    models: ModelClient = NoModelClient()
    replayed_replies: Callable[[ObservedAgent], Awaitable[DeciderReply]] | None = None
    replayed_verdicts: HookReplay | None = None


@frozen
class Connections:
    """What tools reach: tool servers, the containers of the plan (None: it has none), and simulated worlds."""

    servers: ToolServers = NoToolServers()
    containers: ContainerCommands | None = None
    worlds: Worlds = NoWorlds()


@frozen
class AgentServices:
    """What the controller of a plan's agents works with.

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
