"""Run one tool server: start it, serve its link until it ends, and mask its own secrets in everything that it sends."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from planloop.controllers.mcp import decide, records, results
from planloop.controllers.mcp.decide import ToolServerRunStatus, read_server_status
from planloop.controllers.mcp.json_rpc import UnreadableMessage
from planloop.controllers.mcp.live_servers import LiveServers
from planloop.controllers.mcp.server_process import StartServer, ToolServerLaunch, launch_server
from planloop.controllers.shared.simulated_worlds import NoWorlds, Worlds
from planloop.reconciler.clock import Clock
from planloop.reconciler.effects import process_table as table
from planloop.reconciler.effects import secrets
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.effects.rolling_file import RollingFile
from planloop.reconciler.effects.secret_masks import MaskedStream, SecretMasks
from planloop.reconciler.engine.reconcile import Bug, attempt
from planloop.reconciler.store.store import Store
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.log.record import RecordDraft
from planloop.schemas.objects.mcp import McpSpec, ServedPrompt, ServerFailed, ServerState, mcp_from_json
from planloop.schemas.resource import Resource
from planloop.schemas.secret import REFERENCES

# Secrets. Each message is masked text by text after it was parsed, so numbers stay numbers.

_PARTS: Final = ("result", "params", "error")


def server_masks(spec: McpSpec, environment: Mapping[str, str], folder: Path) -> SecretMasks:
    """What stands in the way of what its variables and headers point at, as far as that is there."""
    values = []
    for written in (*spec.env.values(), *spec.headers.values()):
        if str(written).startswith(REFERENCES):
            try:
                value = secrets.resolve_secret(str(written), environment, folder)
            except secrets.SecretMissing:
                continue
            values += [value, value.rpartition(" ")[2]]  # As in `Bearer …`, which nobody says with it.
    return SecretMasks(values)


@asynccontextmanager
async def masked_transport(transport: AbstractAsyncContextManager[Any], masks: SecretMasks) -> AsyncIterator[Any]:
    """`transport`, with what comes in masked."""
    async with transport as (incoming, outgoing), anyio.create_task_group() as group:
        said, heard = anyio.create_memory_object_stream[Any](0)
        group.start_soon(_relay, incoming, said, masks)
        try:
            yield heard, outgoing
        finally:
            heard.close()
            group.cancel_scope.cancel()


async def _relay(incoming: Any, said: Any, masks: SecretMasks) -> None:
    try:
        async with incoming, said:
            async for each in incoming:
                await said.send(_masked(each, masks))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # The end of its output, or ours.


def _masked(each: Any, masks: SecretMasks) -> Any:
    """A message, or what was wrong with one. Its texts are masked in place: it was made for us."""
    if isinstance(each, UnreadableMessage):
        return UnreadableMessage(masks.mask_text(each.text), masks.mask_text(each.why), each.id)
    message = getattr(each, "message", None)
    for part in _PARTS:
        value = getattr(message, part, None)
        if isinstance(value, dict):
            setattr(message, part, _said(value, masks))
        elif value is not None:  # What is wrong, with a text of its own.
            value.message = masks.mask_text(value.message)
            value.data = _said(value.data, masks)
    return each


def _said(value: Json, masks: SecretMasks) -> Json:
    match value:
        case str():
            return masks.mask_text(value)
        case dict():
            return {_said(key, masks): _said(item, masks) for key, item in value.items()}
        case list():
            return [_said(item, masks) for item in value]
        case _:
            return value


# What a server prints about itself, in a file of bounded size that `plan logs mcp/<name>` shows.

RUN_HEADER: Final = "--- "
"""How a line of ours begins: each run has one before its words."""
_LINE_CHARS: Final = 200


def last_stderr_line(grumbles: RollingFile) -> str:
    """The last line of the newest run, for telling why a server ended; empty when it said nothing."""
    lines = grumbles.end().decode(errors="replace").splitlines()
    said = next((line.strip()[:_LINE_CHARS] for line in reversed(lines) if line.strip()), "")
    return "" if said.startswith(RUN_HEADER) else said


# One run of a server, from its start to its end: the job that starts it, serves its link and stops it.
#
# The SDK's client must be left by the task that entered it, and this job is that task. It writes down what it observes:
# started, ready with what it offers, offering something else, ended and why.

CLEANUP_S: Final = 10.0  # For writing down that a run ended.
REFERENCE: Final = "env:"
RESERVED: Final = "PLANLOOP_"
KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "LOGNAME")
"""What a server inherits of the owner's environment; whatever else it is to see stands in its `env`."""


@frozen
class ToolServerHome:
    """Where servers run: `folder` is the plan's, `run_folder` where their words are kept, `label` marks them as ours.

    `environment` is the owner's, of which KEPT is inherited and `env:NAME` values are read.
    """

    label: str
    epoch: int
    folder: Path
    run_folder: Path
    environment: Mapping[str, str]


@frozen
class ToolServerContext:
    """What all runs share. `start` starts the servers that speak over their pipes."""

    store: Store
    clock: Clock
    processes: Processes
    servers: LiveServers
    home: ToolServerHome
    mint: Callable[[], str]
    worlds: Worlds = NoWorlds()
    start: StartServer = launch_server


@mutable
class ToolServerRun:
    """One run of the server at `address`, as the job of its controller."""

    yard: ToolServerContext
    address: str
    uid: str
    name: str
    _fault: ServerFailed | None = None
    _is_remote: bool = False
    _link: Any = None  # planloop.controllers.mcp.link.ToolServerLink
    _ready: anyio.Event = field(default_factory=anyio.Event)
    _served: anyio.Event = field(default_factory=anyio.Event)
    _masks: SecretMasks = field(default_factory=SecretMasks)
    _words: MaskedStream = field(default_factory=lambda: SecretMasks().stream())

    async def __call__(self) -> None:
        """Returns when the run has ended, by itself or because it was cancelled, and nothing of it is left."""
        resource = self._resource()
        if resource is None:
            return
        op = self.yard.mint()
        before = read_server_status(resource.status).runs.get(self.name) or ToolServerRunStatus()
        run = replace(
            ToolServerRunStatus(ServerState.STARTING, op, self.yard.clock.now()),
            failures=before.failures,
            failing_since=before.failing_since,
            restarts=before.restarts,
        )
        await self._write(run, "server.started")
        is_wanted = False
        try:
            await self._live(mcp_from_json(resource.spec), op)
            is_wanted = True
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_S):
                await self._end(is_wanted)

    async def _live(self, spec: McpSpec, op: str) -> None:
        """Until the server ends, or cannot be used."""
        self._grumbles.add(f"{RUN_HEADER}{self.address} {self.name} {op}\n".encode())
        # In a thread: the SDK takes a second to import, and the loop serves everybody else.
        linking = await anyio.to_thread.run_sync(importlib.import_module, "planloop.controllers.mcp.link")
        masks = server_masks(spec, self.yard.home.environment, self.yard.home.folder)
        self._masks, self._words = masks, masks.stream()
        self._link = linking.ToolServerLink(self._heard)
        self._is_remote = bool(spec.url)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._until_gone, group.cancel_scope)
                group.start_soon(self._until_late, group.cancel_scope)
                outcome = await attempt(lambda: self._serve(linking, spec, op))
                if isinstance(outcome, Bug):
                    self._say(self._known(self._link.explained(outcome.error)))
                self._served.set()
                group.cancel_scope.cancel()
        finally:
            self._link.close()

    def _heard(self, said: bytes) -> None:
        """Keeps what it says about itself, without its secrets."""
        self._grumbles.add(self._words.feed(said))

    def _say(self, fault: ServerFailed) -> None:
        """Why it ends; what was said first stands."""
        self._fault = self._fault or fault

    def _known(self, fault: ServerFailed) -> ServerFailed:
        """`fault`, or the last words of a process that ended, which say more than that its pipes are closed."""
        return self._ended() if fault.reason == "Disconnected" and not self._is_remote else fault

    def _ended(self) -> ServerFailed:
        self._grumbles.add(self._words.flush())
        said = last_stderr_line(self._grumbles)
        return ServerFailed("Disconnected", f"it ended: {said}" if said else "it ended, and said nothing")

    async def _until_gone(self, scope: anyio.CancelScope) -> None:
        await self._link.gone.wait()
        if not self._ready.is_set():
            # If an answer ends the link, the server is stopped before the answer arrives here.
            with anyio.move_on_after(limits.SERVER_SETTLE_S):
                await self._served.wait()
        elif not self._link.is_hung:
            await self._link.until_idle()
        hung = ServerFailed("Hung", "it does not answer any more") if self._link.is_hung else None
        self._say(hung or (self._known(self._link.fault) if self._link.fault else self._ended()))
        scope.cancel()

    async def _until_late(self, scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(limits.SERVER_START_S):
            await self._ready.wait()
            return
        self._say(ServerFailed("TimedOut", f"it did not say what it offers within {limits.SERVER_START_S:g} s"))
        scope.cancel()

    async def _serve(self, linking: Any, spec: McpSpec, op: str) -> None:
        async with self._link.opened(self._way(linking, spec, op)) as link:
            found = await self._found(link)
            resource = self._resource()
            if resource is None:
                return
            run = replace(
                read_server_status(resource.status).runs[self.name],
                state=ServerState.READY,
                ready_at=self.yard.clock.now(),
            )
            draft = records.ready_draft(resource, self.name, run, found)
            await self.yard.store.append(draft, {self.address: resource.rev})
            self._ready.set()
            server = self.address.partition("/")[2]
            self.yard.servers.add(server, self.name, link)
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._follow, link)
                    await link.serve()
            finally:
                self.yard.servers.remove(server, self.name)

    def _way(self, linking: Any, spec: McpSpec, op: str) -> Any:
        """The transport. Raises ServerFailed when the plan points at what is not there."""
        if spec.url:
            way = linking.http_transport(spec.url, self._headers(spec), self._link.gone.set)
        else:
            server = self.yard.start(self._launch(spec, op), lambda pid: self._stopped(op, pid))
            way = linking.stdio_transport(server, self._heard, self._link.gone)
        return masked_transport(way, self._masks) if self._masks else way

    def _headers(self, spec: McpSpec) -> dict[str, str]:
        home = self.yard.home
        try:
            return {
                name: secrets.resolve_value(value, home.environment, home.folder)
                for name, value in spec.headers.items()
            }
        except secrets.SecretMissing as fault:
            raise ServerFailed("NoSecret", str(fault)) from None

    async def _follow(self, link: Any) -> None:
        """Lists again whenever the server says that something changed, but not all the time."""
        while True:
            await link.changed.wait()
            link.changed = anyio.Event()
            found = await self._found(link)
            resource = self._resource()
            draft = None if resource is None else records.relisted_draft(resource, found, self.yard.clock.now())
            if resource is not None and draft is not None:
                await self.yard.store.append(draft, {self.address: resource.rev})
            await self.yard.clock.sleep(limits.SERVER_LISTED_EVERY_S)

    async def _found(self, link: Any) -> records.ToolServerLists:
        """What the server says now. Raises what the SDK raises."""
        offer, resource = await link.offered(), self._resource()
        names = () if resource is None else mcp_from_json(resource.spec).prompts
        texts = {name: await self._text(link, name) for name in names}
        return records.ToolServerLists(offer, texts, link.server())

    async def _text(self, link: Any, name: str) -> ServedPrompt:
        asked: Any = await attempt(lambda: link.prompt(name, {}))
        if isinstance(asked, Bug):
            return ServedPrompt(fault=str(link.explained(asked.error)))
        text = results.prompt_text(asked, self.yard.store.put_blob)
        if len(text) > limits.SERVER_OFFER_BYTES_MAX:
            return ServedPrompt(fault=f"{len(text)} characters; the most is {limits.SERVER_OFFER_BYTES_MAX}")
        return ServedPrompt(text)

    def _launch(self, spec: McpSpec, op: str) -> ToolServerLaunch:
        """Raises ServerFailed when there is no such program, or no such variable."""
        home = self.yard.home
        env = {name: home.environment[name] for name in KEPT_VARIABLES if name in home.environment}
        for name, value in spec.env.items():
            if not name.startswith(RESERVED):
                env[name] = self._value(name, str(value))
        program = spec.command[0]
        found = shutil.which(str(home.folder / program) if "/" in program else program, path=env.get("PATH"))
        if found is None:
            raise ServerFailed("NoProgram", f"{program}: there is no such program")
        labels = {table.PLAN_LABEL: home.label, table.OP_LABEL: op, table.EPOCH_LABEL: str(home.epoch)}
        return ToolServerLaunch((found, *spec.command[1:]), str(home.folder), {**env, **labels})

    def _value(self, name: str, value: str) -> str:
        if not value.startswith(REFERENCE):
            return value
        wanted = value.removeprefix(REFERENCE)
        if wanted not in self.yard.home.environment:
            raise ServerFailed("NoVariable", f"`{name}` is to be `{wanted}` of the environment, which is not set")
        return self.yard.home.environment[wanted]

    async def _stopped(self, op: str, leader: int) -> None:
        """Its input is closed; what has not gone by itself soon is stopped, by its label."""
        with anyio.move_on_after(limits.SERVER_STOP_S):
            await table.wait_for_exit(leader)
        await self.yard.processes.stop(op)
        self.yard.processes.forget([op])

    async def _end(self, is_wanted: bool) -> None:
        """Writes how it ended; `is_wanted` says that nobody asked it to."""
        resource = self._resource()
        if resource is None:
            return
        now = self.yard.clock.now()
        before = read_server_status(resource.status).runs.get(self.name) or ToolServerRunStatus()
        if not is_wanted:
            await self._write(ToolServerRunStatus(restarts=before.restarts), "server.ended")
            return
        fault = self._fault or ServerFailed("Disconnected", "it ended")
        await self._write(replace(decide.ended_run(before, now, fault.reason), why=str(fault)), "server.ended")

    async def _write(self, run: ToolServerRunStatus, type_: str) -> None:
        resource = self._resource()
        if resource is not None:
            draft: RecordDraft = records.run_draft(resource, self.name, run, self.yard.clock.now(), type_)
            await self.yard.store.append(draft, {self.address: resource.rev})
            self.yard.servers.moved()

    def _resource(self) -> Resource | None:
        found = self.yard.store.view.get(self.address)
        return found if found is not None and found.uid == self.uid else None

    @property
    def _grumbles(self) -> RollingFile:
        return RollingFile(server_log_path(self.yard.home.run_folder, self.address), limits.SERVER_LOG_BYTES_MAX)


def server_log_path(run_folder: Path, address: str) -> Path:
    """The file with what a server prints about itself."""
    return run_folder / f"{address.replace('/', '-')}.out"
