"""A simulated container engine in virtual time, for crash simulations from one seed.

A `SimulatedDaemon` survives owners like a real one; each owner gets a `SimulatedEngine` over it. The processes of a
container are a list of timed steps that is played up to "now" at each access, so nothing runs between accesses. It
passes the same contract suite as the real one (`tests/containers/engine_contract.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import anyio
import anyio.lowlevel

from planloop.containers.engine.engine import (
    LISTENING,
    ContainerCreation,
    ContainerLimits,
    ContainerRun,
    EngineErrorReason,
    EngineEvent,
    EngineFacts,
    EngineFailed,
    ExecCommand,
    ExecDefaults,
    ExecEnd,
    FoundContainer,
    ImageBuild,
    ImageFacts,
    RunState,
)
from planloop.reconciler.effects.processes import ExitCause, ProcessCommand
from planloop.schemas import limits
from planloop.schemas.canonical_json import sha256_hex
from planloop.schemas.frozen import frozen, mutable, remade
from tests.simulation.simulated_shell import ShellRun, SimulatedProgram

_TICK_S: Final = 1e-5  # No two things happen at once.
_FREE_PORTS: Final = 40_000
_KILLED: Final = 137
_TERMINATED: Final = 143

Hook: TypeAlias = Callable[[str, str], None]
"""Hears the name of a call that changes something, and `before` or `after`. It may raise: there the owner dies."""


class _Clock(Protocol):
    def now(self) -> float: ...


@frozen
class RegistryImage:
    """An image that a registry has, and how long fetching it takes."""

    image: ImageFacts
    takes_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Exec:
    mark: str
    run: ShellRun
    began_at: float
    is_killed: bool = False


@dataclass(slots=True, eq=False)
class _Container:
    id: str
    creation: ContainerCreation
    created_at: float
    networks: list[str]
    bound: ContainerLimits
    state: RunState = "created"
    run: ShellRun = field(default_factory=ShellRun)
    began_at: float = 0.0  # As `started_at`, but a pause moves it.
    started_at: float = 0.0
    ended_at: float = 0.0
    paused_at: float = 0.0
    exit_code: int = 0
    is_out_of_memory: bool = False
    error: str = ""
    ports: dict[int, int] = field(default_factory=dict)
    written: list[tuple[float, bytes]] = field(default_factory=list)
    execs: list[_Exec] = field(default_factory=list)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.creation.labels

    def next_at(self) -> float:
        """When something happens in it next; infinite when nothing does."""
        if self.state != "running":
            return math.inf
        at = [self.run.ends_after_s, *(step.at_s for step in self.run.steps[:1])]
        return self.began_at + min(at)


@mutable
class SimulatedDaemon:
    """What an engine has. `folder` is where the files stand that commands touch, `registry` what can be pulled.

    `programs` are tried in order for a command; the first answer other than None is what it does. It does not answer
    about what is `stuck`, by name.
    """

    clock: _Clock
    folder: Path
    programs: list[SimulatedProgram] = field(default_factory=list)
    registry: dict[str, RegistryImage] = field(default_factory=dict)
    images: dict[str, ImageFacts] = field(default_factory=dict)
    networks: dict[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    containers: dict[str, _Container] = field(default_factory=dict)
    taken_ports: set[int] = field(default_factory=set)
    is_down: bool = False
    stuck: set[str] = field(default_factory=set)
    told: list[EngineEvent] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    last_at: float = 0.0
    restarts: int = 0
    calls: list[str] = field(default_factory=list)

    def tick(self) -> float:
        """A time that no other thing happened at."""
        self.last_at = max(self.clock.now(), self.last_at + _TICK_S)
        return self.last_at

    def number(self) -> int:
        return next(self.numbers)

    def play(self) -> None:
        """Everything that runs comes up to now."""
        for one in list(self.containers.values()):
            self._play(one)

    def _play(self, one: _Container) -> None:
        now = self.clock.now()
        while one.state == "running" and one.run.steps and one.began_at + one.run.steps[0].at_s <= now:
            step = one.run.steps.pop(0)
            before = len(one.run.output)
            step.act()
            if len(one.run.output) > before:
                at = max(one.began_at + step.at_s, one.started_at)
                one.written.append((at, bytes(one.run.output[before:])))
        if one.state == "running" and one.began_at + one.run.ends_after_s <= now:
            self.end(one, one.run.code)

    def begin(self, one: _Container) -> None:
        """Starts its command, which is there."""
        one.run = ShellRun.of(self.command(one.creation), self.programs)
        one.state, one.error, one.is_out_of_memory = "running", "", False
        one.started_at = one.began_at = self.tick()
        one.ended_at = 0.0
        for port in one.creation.network.ports:
            one.ports[port.inside] = port.host or _FREE_PORTS + self.number()
        self.tell(one, "start")
        self._play(one)

    def command(self, creation: ContainerCreation) -> ProcessCommand:
        words = (*(creation.entrypoint or ()), *(creation.cmd or ("sleep", "infinity")))
        return shell_command(words, self.folder, creation.env)

    def end(self, one: _Container, code: int, *, is_out_of_memory: bool = False) -> None:
        """It ends now."""
        if one.state not in ("running", "paused"):
            return
        one.state, one.ended_at = "exited", self.tick()
        one.exit_code = code if code >= 0 else 128 - code
        one.is_out_of_memory = is_out_of_memory
        one.ports.clear()
        if is_out_of_memory:
            self.tell(one, "oom")
        self.tell(one, "die")

    def drop(self, one: _Container) -> None:
        """It is gone."""
        self.end(one, _KILLED)
        del self.containers[one.id]
        self.tell(one, "destroy")

    def tell(self, one: _Container, action: str) -> None:
        self.told.append(EngineEvent(one.id, action, one.labels))
        self.move()

    def move(self) -> None:
        """Wake all waiters for events."""
        self.changed.set()
        self.changed = anyio.Event()

    async def wait(self, until: float = math.inf) -> None:
        """Returns when something has happened, or at `until`."""
        changed = self.changed
        await anyio.lowlevel.checkpoint()
        due = min(until, *(one.next_at() for one in self.containers.values()), math.inf)
        if due <= self.clock.now():
            self.play()
            return
        with anyio.move_on_after(due - self.clock.now()):
            await changed.wait()
        self.play()

    def find(self, ref: str) -> _Container | None:
        self.play()
        named = (one for one in self.containers.values() if ref in (one.id, one.creation.name))
        return next(named, None)

    # What others do.

    async def pause(self, ref: str) -> None:
        one = self._there(ref)
        one.state, one.paused_at = "paused", self.tick()
        self.tell(one, "pause")

    async def kill(self, ref: str) -> None:
        self.end(self._there(ref), _KILLED)

    def out_of_memory(self, ref: str) -> None:
        self.end(self._there(ref), _KILLED, is_out_of_memory=True)

    def remove(self, ref: str) -> None:
        self.drop(self._there(ref))

    def go_down(self) -> None:
        """The engine stops responding; containers continue to run."""
        self.is_down = True
        self.move()

    def come_back(self) -> None:
        """It answers again. What ran has ended with it, as with a Docker that is restarted."""
        self.is_down = False
        self.restarts += 1
        self.play()
        for one in self.containers.values():
            self.end(one, _KILLED)
        self.move()

    def _there(self, ref: str) -> _Container:
        one = self.find(ref)
        assert one is not None, f"there is no container {ref}"
        return one


def shell_command(words: tuple[str, ...], folder: Path, env: Mapping[str, str]) -> ProcessCommand:
    """What `words` are for a simulated shell."""
    if words[:2] == ("sh", "-c"):
        return ProcessCommand(str(folder), shell=words[2], env=env)
    return ProcessCommand(str(folder), argv=words, env=env)


def _found_of(one: _Container) -> FoundContainer:
    is_up = one.state in ("running", "paused")
    addresses = {name: f"10.0.{index}.{int(one.id)}" for index, name in enumerate(one.networks)}
    return FoundContainer(
        id=one.id,
        name=one.creation.name,
        image=one.creation.image,
        state=one.state,
        labels=dict(one.labels),
        created_at=one.created_at,
        last_run=ContainerRun(one.exit_code, one.is_out_of_memory, one.error, one.started_at, one.ended_at),
        addresses=addresses if is_up else dict.fromkeys(one.networks, ""),
        ports=dict(one.ports),
        bound=one.bound,
        defaults=ExecDefaults(one.creation.env, one.creation.workdir or "/"),
    )


class SimulatedEngine:
    """A `ContainerEngine` for one owner of `daemon`."""

    def __init__(self, daemon: SimulatedDaemon, hook: Hook = lambda _, __: None) -> None:
        self._daemon = daemon
        self._hook = hook

    async def facts(self) -> EngineFacts:
        await self._asked()
        return EngineFacts("simulated", "1", "nowhere", frozenset({"cpu", "memory", "pids"}))

    async def image(self, name: str) -> ImageFacts | None:
        await self._asked()
        by_id = {one.id: one for one in self._daemon.images.values()}
        return self._daemon.images.get(name) or by_id.get(name)

    async def pull(self, name: str, on_progress: Callable[[str], None]) -> ImageFacts:
        await self._change("pull")
        offer = self._daemon.registry.get(name)
        if offer is None:
            raise EngineFailed(EngineErrorReason.NO_IMAGE, f"there is no image {name}", "look at its name")
        ends_at = self._daemon.clock.now() + offer.takes_s
        while (left_s := ends_at - self._daemon.clock.now()) > 0:
            on_progress(f"{left_s:g} s to go")
            await anyio.sleep(min(1.0, left_s))
            await self._asked()
        return self._made("pull", name, offer.image)

    async def load(self, archive: Path) -> ImageFacts:
        await self._change("load")
        content = await anyio.Path(archive).read_bytes()
        return self._made("load", archive.name, ImageFacts(f"sha256:{sha256_hex(content)}", len(content)))

    async def build(self, build: ImageBuild, on_line: Callable[[str], None]) -> ImageFacts:
        await self._change("build")
        file = anyio.Path(build.folder / (build.file or "Dockerfile"))
        if not await file.is_file():
            raise EngineFailed(EngineErrorReason.BUILD_FAILED, f"there is no {file.name}", "write one")
        content = await file.read_bytes()
        for line in content.decode().splitlines():
            on_line(line)
        return self._made("build", str(file), ImageFacts(f"sha256:{sha256_hex(content)}", 1))

    def _made(self, call: str, name: str, image: ImageFacts) -> ImageFacts:
        self._daemon.images[name] = image
        self._hook(call, "after")
        return image

    async def networks(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        await self._asked()
        return _with(self._daemon.networks, labels)

    async def make_network(self, name: str, labels: Mapping[str, str], *, is_internal: bool) -> None:
        del is_internal
        await self._make("make_network", self._daemon.networks, name, labels)

    async def remove_network(self, name: str) -> None:
        await self._change("remove_network")
        if any(name in one.networks and one.state in ("running", "paused") for one in self._all()):
            raise EngineFailed(EngineErrorReason.REFUSED, f"the network {name} has containers in it", "stop them")
        self._daemon.networks.pop(name, None)
        self._hook("remove_network", "after")

    async def volumes(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        await self._asked()
        return _with(self._daemon.volumes, labels)

    async def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        await self._make("make_volume", self._daemon.volumes, name, labels)

    async def remove_volume(self, name: str) -> None:
        await self._change("remove_volume")
        if any(mount.volume == name for one in self._all() for mount in one.creation.mounts):
            raise EngineFailed(EngineErrorReason.REFUSED, f"a container has the volume {name}", "remove it first")
        self._daemon.volumes.pop(name, None)
        self._hook("remove_volume", "after")

    async def _make(self, call: str, there: dict[str, Mapping[str, str]], name: str, labels: Mapping[str, str]) -> None:
        await self._change(call)
        _check_ours(name, there.setdefault(name, dict(labels)), labels)
        self._hook(call, "after")

    async def containers(self, labels: Mapping[str, str]) -> tuple[FoundContainer, ...]:
        await self._asked()
        if self._daemon.stuck:
            await anyio.sleep(limits.ENGINE_LOOK_S)
        return tuple(
            remade(_found_of(one), is_whole=one.creation.name not in self._daemon.stuck)
            for one in self._all()
            if labels and labels.items() <= one.labels.items()
        )

    async def container(self, ref: str) -> FoundContainer | None:
        await self._asked()
        one = self._daemon.find(ref)
        if one is not None and one.creation.name in self._daemon.stuck:
            await anyio.sleep(limits.ENGINE_CALL_S)
            raise EngineFailed(EngineErrorReason.TIMED_OUT, "the engine did not answer in time", "restart it")
        return None if one is None else _found_of(one)

    async def create(self, creation: ContainerCreation) -> str:
        await self._change("create")
        daemon = self._daemon
        one = daemon.find(creation.name)
        if one is not None:
            _check_ours(creation.name, one.labels, creation.labels)
        elif creation.image not in {image.id for image in daemon.images.values()}:
            raise EngineFailed(EngineErrorReason.NO_IMAGE, f"there is no image {creation.image}", "look at its name")
        else:
            identity = str(daemon.number())
            one = _Container(identity, creation, daemon.tick(), list(creation.network.names[:1]), creation.bound)
            daemon.containers[identity] = one
            daemon.tell(one, "create")
        for name in creation.network.names:  # One by one, like the real engine: a crash in between leaves a part of it.
            if name not in one.networks:
                await self._change("connect")
                one.networks.append(name)
        self._hook("create", "after")
        return one.id

    async def start(self, ref: str) -> None:
        await self._change("start")
        one = self._there(ref)
        daemon = self._daemon
        if one.state == "paused":
            one.began_at += daemon.tick() - one.paused_at
            one.state = "running"
            daemon.tell(one, "unpause")
        elif one.state != "running":
            self._check_startable(one)
            daemon.begin(one)
        self._hook("start", "after")

    def _check_startable(self, one: _Container) -> None:
        words = (*(one.creation.entrypoint or ()), *(one.creation.cmd or ()))
        if words and words[0].startswith("no-such"):
            one.error = f"{words[0]}: not found"
            raise EngineFailed(EngineErrorReason.NO_COMMAND, one.error, "look at `cmd`")
        gone = [name for name in one.networks if name not in self._daemon.networks]
        if gone:
            raise EngineFailed(EngineErrorReason.NOT_FOUND, f"there is no network {gone[0]}", "make it")
        taken = self._daemon.taken_ports | {port for other in self._all() for port in other.ports.values()}
        for port in one.creation.network.ports:
            if port.host in taken:
                raise EngineFailed(EngineErrorReason.PORT_TAKEN, f"port {port.host} is taken", "choose another one")

    async def stop(self, ref: str, grace_s: float) -> None:
        await self._change("stop")
        one = self._daemon.find(ref)
        if one is not None:
            ends_at = self._daemon.clock.now() + grace_s
            while one.run.ignores_term and one.state == "running" and self._daemon.clock.now() < ends_at:
                await self._daemon.wait(ends_at)
                await self._asked()
            if one.run.ignores_term:
                self._daemon.end(one, _KILLED)
            answer = one.run.code_at_term
            self._daemon.end(one, _TERMINATED if answer is None else answer)
        self._hook("stop", "after")

    async def remove(self, ref: str) -> None:
        await self._change("remove")
        one = self._daemon.find(ref)
        if one is not None:
            self._daemon.drop(one)
        self._hook("remove", "after")

    async def update(self, ref: str, bound: ContainerLimits) -> None:
        await self._change("update")
        self._there(ref).bound = bound
        self._hook("update", "after")

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        await self._change("run")
        one = self._there(ref)
        if one.state != "running":
            raise EngineFailed(EngineErrorReason.NOT_RUNNING, f"{one.creation.name} does not run", "start it")
        if inside.argv[0].startswith("no-such"):
            return ExecEnd(ExitCause.NOT_STARTED, None, f"{inside.argv[0]}: not found".encode())
        command = remade(shell_command(inside.argv, self._daemon.folder, inside.env), stdin=inside.stdin)
        began = _Exec(inside.mark, ShellRun.of(command, self._daemon.programs), self._daemon.clock.now())
        one.execs.append(began)
        try:
            return await self._watched(one, began, inside)
        finally:
            one.execs.remove(began)
            self._daemon.move()

    async def _watched(self, one: _Container, began: _Exec, inside: ExecCommand) -> ExecEnd:
        run, clock = began.run, self._daemon.clock
        bound = limits.OUTPUT_KEPT_BYTES_MAX if inside.output_bytes_max is None else inside.output_bytes_max
        times_out_at = math.inf if inside.timeout_s is None else began.began_at + inside.timeout_s
        ends_at = began.began_at + run.ends_after_s
        while True:
            await anyio.lowlevel.checkpoint()
            run.play(math.inf if ends_at <= clock.now() else clock.now() - began.began_at)
            if began.is_killed:
                return ExecEnd(ExitCause.EXITED, _KILLED, bytes(run.output))
            if one.state not in ("running", "paused"):
                return ExecEnd(ExitCause.LOST, None, bytes(run.output))
            if len(run.output) > bound:
                return ExecEnd(ExitCause.TOO_MUCH_OUTPUT, None, bytes(run.output[:bound]))
            if ends_at <= clock.now():
                return ExecEnd(ExitCause.EXITED, run.code if run.code >= 0 else 128 - run.code, bytes(run.output))
            if times_out_at <= clock.now():
                return ExecEnd(ExitCause.TIMED_OUT, None, bytes(run.output))
            await self._daemon.wait(min(ends_at, times_out_at))

    def commands(self, ref: str) -> int:
        """How many commands run inside."""
        return len(self._there(ref).execs)

    async def end(self, ref: str, mark: str) -> None:
        await self._change("end")
        one = self._daemon.find(ref)
        for each in () if one is None else one.execs:
            each.is_killed = each.is_killed or mark in ("", each.mark)
        self._daemon.move()
        self._hook("end", "after")

    async def logs(self, ref: str, *, after: float = 0.0, is_following: bool = True) -> AsyncGenerator[bytes, None]:
        await self._asked()
        one = self._there(ref)
        taken = 0
        while True:
            self._daemon.play()
            while taken < len(one.written):
                at, piece = one.written[taken]
                taken += 1
                if at > after:
                    yield piece
            if not is_following or one.state not in ("running", "paused"):
                return
            await self._daemon.wait()
            await self._asked()

    async def events(self, labels: Mapping[str, str]) -> AsyncGenerator[EngineEvent, None]:
        await self._asked()
        taken = len(self._daemon.told)
        yield LISTENING
        while True:
            while taken < len(self._daemon.told):
                event = self._daemon.told[taken]
                taken += 1
                if labels.items() <= event.labels.items():
                    yield event
            await self._daemon.wait()
            await self._asked()

    def _all(self) -> list[_Container]:
        self._daemon.play()
        return list(self._daemon.containers.values())

    def _there(self, ref: str) -> _Container:
        one = self._daemon.find(ref)
        if one is None:
            raise EngineFailed(EngineErrorReason.NOT_FOUND, f"there is no container {ref}", "make it")
        return one

    async def _asked(self) -> None:
        """Start a call of the engine, or fail if it is down. A crashed owner gets no response."""
        self._hook("", "")
        await anyio.lowlevel.checkpoint()
        if self._daemon.is_down:
            raise EngineFailed(EngineErrorReason.ENGINE_DOWN, "no container engine answers", "start it")

    async def _change(self, call: str) -> None:
        await self._asked()
        self._hook(call, "before")
        self._daemon.calls.append(call)


def _with(there: Mapping[str, Mapping[str, str]], labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, own in there.items() if labels and labels.items() <= own.items()))


def _check_ours(name: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    if not wanted.items() <= found.items():
        raise EngineFailed(EngineErrorReason.NAME_TAKEN, f"there is a {name} that is not this plan's", "remove it")
