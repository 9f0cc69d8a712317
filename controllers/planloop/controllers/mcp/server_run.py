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
    """Return the masks for the secrets in the variables and headers of a server, as far as they exist."""
    values = []
    for written in (*spec.env.values(), *spec.headers.values()):
        if str(written).startswith(REFERENCES):
            try:
                value = secrets.resolve_secret(str(written), environment, folder)
            except secrets.SecretMissing:
                continue
            values += [value, value.rpartition(" ")[2]]  # Also without a prefix such as `Bearer `.
    return SecretMasks(values)


@asynccontextmanager
async def masked_transport(transport: AbstractAsyncContextManager[Any], masks: SecretMasks) -> AsyncIterator[Any]:
    """Yield `transport` with all incoming messages masked."""
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
    """Mask the texts of a message, or of an error about one, in place."""
    if isinstance(each, UnreadableMessage):
        return UnreadableMessage(masks.mask_text(each.text), masks.mask_text(each.why), each.id)
    message = getattr(each, "message", None)
    for part in _PARTS:
        value = getattr(message, part, None)
        if isinstance(value, dict):
            setattr(message, part, _mask_texts(value, masks))
        elif value is not None:  # An error, with its own message.
            value.message = masks.mask_text(value.message)
            value.data = _mask_texts(value.data, masks)
    return each


def _mask_texts(value: Json, masks: SecretMasks) -> Json:
    match value:
        case str():
            return masks.mask_text(value)
        case dict():
            return {_mask_texts(key, masks): _mask_texts(item, masks) for key, item in value.items()}
        case list():
            return [_mask_texts(item, masks) for item in value]
        case _:
            return value


# The stderr output of a server, in a file of limited size that `plan logs mcp/<name>` shows.

RUN_HEADER: Final = "--- "
"""Prefix of the line that planloop writes before the output of each run."""
_LINE_CHARS: Final = 200


def last_stderr_line(log: RollingFile) -> str:
    """Return the last line of the newest run, to explain why a server ended; empty if it printed nothing."""
    lines = log.end().decode(errors="replace").splitlines()
    last = next((line.strip()[:_LINE_CHARS] for line in reversed(lines) if line.strip()), "")
    return "" if last.startswith(RUN_HEADER) else last


# One run of a server: the job that starts it, serves its link and stops it.
#
# The task that enters the SDK's client must also leave it: this job is that task. It records what it observes: started,
# ready with its offer, a changed offer, and why it ended.

CLEANUP_S: Final = 10.0  # For the record that a run ended.
REFERENCE: Final = "env:"
RESERVED: Final = "PLANLOOP_"
KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "LOGNAME")
"""Variables that a server inherits from the owner; `env` adds others."""


@frozen
class ToolServerHome:
    """Where servers run: `folder` is the plan's folder, `run_folder` holds their output, `label` marks their processes.

    `environment` is the owner's: KEPT_VARIABLES are inherited, and `env:NAME` values are read from it.
    """

    label: str
    epoch: int
    folder: Path
    run_folder: Path
    environment: Mapping[str, str]


@frozen
class ToolServerContext:
    """Services that all runs share. `start` starts servers that communicate over pipes."""

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
    """One run of the server at `address`; a job of its controller."""

    services: ToolServerContext
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
        """Return when the run has ended, by itself or cancelled, and nothing of it is left."""
        resource = self._resource()
        if resource is None:
            return
        op = self.services.mint()
        before = read_server_status(resource.status).runs.get(self.name) or ToolServerRunStatus()
        run = replace(
            ToolServerRunStatus(ServerState.STARTING, op, self.services.clock.now()),
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
        """Serve until the server ends or cannot be used."""
        self._log.add(f"{RUN_HEADER}{self.address} {self.name} {op}\n".encode())
        # In a thread: the SDK takes a second to import, which would block the event loop.
        linking = await anyio.to_thread.run_sync(importlib.import_module, "planloop.controllers.mcp.link")
        masks = server_masks(spec, self.services.home.environment, self.services.home.folder)
        self._masks, self._words = masks, masks.stream()
        self._link = linking.ToolServerLink(self._heard)
        self._is_remote = bool(spec.url)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._until_gone, group.cancel_scope)
                group.start_soon(self._until_late, group.cancel_scope)
                outcome = await attempt(lambda: self._serve(linking, spec, op))
                if isinstance(outcome, Bug):
                    self._note_end(self._end_reason(self._link.explained(outcome.error)))
                self._served.set()
                group.cancel_scope.cancel()
        finally:
            self._link.close()

    def _heard(self, said: bytes) -> None:
        """Keep the stderr output, without secrets."""
        self._log.add(self._words.feed(said))

    def _note_end(self, fault: ServerFailed) -> None:
        """Note why the run ends; the first reason stays."""
        self._fault = self._fault or fault

    def _end_reason(self, fault: ServerFailed) -> ServerFailed:
        """Return `fault`, or for a process that ended its last line of output, which says more than a closed pipe."""
        return self._ended() if fault.reason == "Disconnected" and not self._is_remote else fault

    def _ended(self) -> ServerFailed:
        self._log.add(self._words.flush())
        said = last_stderr_line(self._log)
        return ServerFailed("Disconnected", f"it ended: {said}" if said else "it ended without any output")

    async def _until_gone(self, scope: anyio.CancelScope) -> None:
        await self._link.gone.wait()
        if not self._ready.is_set():
            # If an answer ends the link, the server is stopped before the answer arrives here.
            with anyio.move_on_after(limits.SERVER_SETTLE_S):
                await self._served.wait()
        elif not self._link.is_hung:
            await self._link.until_idle()
        hung = ServerFailed("Hung", "it does not answer") if self._link.is_hung else None
        self._note_end(hung or (self._end_reason(self._link.fault) if self._link.fault else self._ended()))
        scope.cancel()

    async def _until_late(self, scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(limits.SERVER_START_S):
            await self._ready.wait()
            return
        self._note_end(ServerFailed("TimedOut", f"it did not list its tools within {limits.SERVER_START_S:g} s"))
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
                ready_at=self.services.clock.now(),
            )
            draft = records.ready_draft(resource, self.name, run, found)
            await self.services.store.append(draft, {self.address: resource.rev})
            self._ready.set()
            server = self.address.partition("/")[2]
            self.services.servers.add(server, self.name, link)
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._follow, link)
                    await link.serve()
            finally:
                self.services.servers.remove(server, self.name)

    def _way(self, linking: Any, spec: McpSpec, op: str) -> Any:
        """Return the transport. Raises ServerFailed if a program, variable or secret is missing."""
        if spec.url:
            way = linking.http_transport(spec.url, self._headers(spec), self._link.gone.set)
        else:
            server = self.services.start(self._launch(spec, op), lambda pid: self._stopped(op, pid))
            way = linking.stdio_transport(server, self._heard, self._link.gone)
        return masked_transport(way, self._masks) if self._masks else way

    def _headers(self, spec: McpSpec) -> dict[str, str]:
        home = self.services.home
        try:
            return {
                name: secrets.resolve_value(value, home.environment, home.folder)
                for name, value in spec.headers.items()
            }
        except secrets.SecretMissing as fault:
            raise ServerFailed("NoSecret", str(fault)) from None

    async def _follow(self, link: Any) -> None:
        """List the offer again when the server says that it changed, at most once per interval."""
        while True:
            await link.changed.wait()
            link.changed = anyio.Event()
            found = await self._found(link)
            resource = self._resource()
            draft = None if resource is None else records.relisted_draft(resource, found, self.services.clock.now())
            if resource is not None and draft is not None:
                await self.services.store.append(draft, {self.address: resource.rev})
            await self.services.clock.sleep(limits.SERVER_LISTED_EVERY_S)

    async def _found(self, link: Any) -> records.ToolServerLists:
        """Return the current lists of the server. Raises the SDK's exceptions."""
        offer, resource = await link.offered(), self._resource()
        names = () if resource is None else mcp_from_json(resource.spec).prompts
        texts = {name: await self._text(link, name) for name in names}
        return records.ToolServerLists(offer, texts, link.server())

    async def _text(self, link: Any, name: str) -> ServedPrompt:
        asked: Any = await attempt(lambda: link.prompt(name, {}))
        if isinstance(asked, Bug):
            return ServedPrompt(fault=str(link.explained(asked.error)))
        text = results.prompt_text(asked, self.services.store.put_blob)
        if len(text) > limits.SERVER_OFFER_BYTES_MAX:
            return ServedPrompt(fault=f"{len(text)} characters; the most is {limits.SERVER_OFFER_BYTES_MAX}")
        return ServedPrompt(text)

    def _launch(self, spec: McpSpec, op: str) -> ToolServerLaunch:
        """Return what to start. Raises ServerFailed if the program or a variable is missing."""
        home = self.services.home
        env = {name: home.environment[name] for name in KEPT_VARIABLES if name in home.environment}
        for name, value in spec.env.items():
            if not name.startswith(RESERVED):
                env[name] = self._value(name, str(value))
        program = spec.command[0]
        found = shutil.which(str(home.folder / program) if "/" in program else program, path=env.get("PATH"))
        if found is None:
            raise ServerFailed("NoProgram", f"{program}: program not found")
        labels = {table.PLAN_LABEL: home.label, table.OP_LABEL: op, table.EPOCH_LABEL: str(home.epoch)}
        return ToolServerLaunch((found, *spec.command[1:]), str(home.folder), {**env, **labels})

    def _value(self, name: str, value: str) -> str:
        if not value.startswith(REFERENCE):
            return value
        wanted = value.removeprefix(REFERENCE)
        if wanted not in self.services.home.environment:
            raise ServerFailed(
                "NoVariable", f"`{name}` refers to the environment variable `{wanted}`, which is not set"
            )
        return self.services.home.environment[wanted]

    async def _stopped(self, op: str, leader: int) -> None:
        """Wait until the process ends after its input was closed; after a time limit, stop it by its label."""
        with anyio.move_on_after(limits.SERVER_STOP_S):
            await table.wait_for_exit(leader)
        await self.services.processes.stop(op)
        self.services.processes.forget([op])

    async def _end(self, is_wanted: bool) -> None:
        """Record the end of the run; with `is_wanted` it ended by itself, otherwise it was cancelled."""
        resource = self._resource()
        if resource is None:
            return
        now = self.services.clock.now()
        before = read_server_status(resource.status).runs.get(self.name) or ToolServerRunStatus()
        if not is_wanted:
            await self._write(ToolServerRunStatus(restarts=before.restarts), "server.ended")
            return
        fault = self._fault or ServerFailed("Disconnected", "it ended")
        await self._write(replace(decide.ended_run(before, now, fault.reason), why=str(fault)), "server.ended")

    async def _write(self, run: ToolServerRunStatus, type_: str) -> None:
        resource = self._resource()
        if resource is not None:
            draft: RecordDraft = records.run_draft(resource, self.name, run, self.services.clock.now(), type_)
            await self.services.store.append(draft, {self.address: resource.rev})
            self.services.servers.moved()

    def _resource(self) -> Resource | None:
        found = self.services.store.view.get(self.address)
        return found if found is not None and found.uid == self.uid else None

    @property
    def _log(self) -> RollingFile:
        return RollingFile(server_log_path(self.services.home.run_folder, self.address), limits.SERVER_LOG_BYTES_MAX)


def server_log_path(run_folder: Path, address: str) -> Path:
    """Return the file with the stderr output of a server."""
    return run_folder / f"{address.replace('/', '-')}.out"
