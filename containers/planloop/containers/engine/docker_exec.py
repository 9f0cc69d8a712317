"""Run a command inside a container through the engine's exec, and kill it with its children when it exceeds a bound.

The engine has no call that ends an exec, and an exec runs on when its client disconnects. So each has a mark in its
environment, by which this process or a later one finds and ends it (`planloop.containers.engine.exec_kill`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import anyio

from planloop.containers.engine import exec_kill
from planloop.containers.engine.docker_client import (
    NO_DEADLINE,
    DockerClient,
    DockerStream,
    engine_task_group,
    poll_until,
)
from planloop.containers.engine.docker_frames import FrameDecoder
from planloop.containers.engine.engine import EngineErrorReason, EngineFailed, ExecCommand, ExecEnd
from planloop.reconciler.effects.processes import ExitCause
from planloop.schemas import limits

START_FAILED: Final = frozenset({125, 126, 127, 255})  # The code of an exec that no process ever had.
NOT_STARTED: Final = b"OCI "  # In the error text of an engine: `OCI runtime exec failed`, `OCI permission denied` …
GONE: Final = re.compile(
    rb"(task [0-9a-f]{64} not found: not found|cannot exec in a (stopped|deleted) state: [a-z ]+)\s*"
)
"""The whole output of an exec whose container ended before containerd could start it: the shim's own error."""
KILLED: Final = 137
BEGIN_S: Final = 5.0  # After this long, a requested start has happened or never will.
GOES_S: Final = 0.5  # By then, an engine reports the death of a container after that of its commands.
CONTAINER_STOPPING: Final = (b"init-p", b"setns", b"stopped", b"no such process", b"connection reset")
"""Part of the error of runc and crun when a container ended while they entered it."""
REST_S: Final = 1.0  # Time to read the output that was written before the kill.


class DockerExecs:
    """See `ContainerEngine.run` and `ContainerEngine.end`."""

    def __init__(self, client: DockerClient, *, sees_host: bool) -> None:
        self._client = client
        self._sees_host = sees_host and client.address.startswith("unix:")

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        identity = await self._create(ref, inside)
        output = _Output(limits.OUTPUT_KEPT_BYTES_MAX if inside.output_bytes_max is None else inside.output_bytes_max)
        try:
            async with self._client.stream(_start(identity)) as stream:
                ending, state = await self._follow(stream, identity, inside, output)
                if ending in (ExitCause.TIMED_OUT, ExitCause.TOO_MUCH_OUTPUT):
                    with anyio.CancelScope(shield=True):
                        await self._end_while_reading(ref, identity, inside, stream, output)
                    return ExecEnd(ending, None, output.kept())
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(EngineFailed):
                await self.end_one(ref, identity, inside)
            raise
        return await self._ended(ref, identity, state, output.kept())

    async def _end_while_reading(
        self, ref: str, identity: str, inside: ExecCommand, stream: DockerStream, output: _Output
    ) -> None:
        """End it, and read its output meanwhile: an engine with unread output starts nothing else in the container."""
        async with engine_task_group() as group:
            group.start_soon(output.drain, stream)
            await self.end_one(ref, identity, inside)
            group.cancel_scope.deadline = anyio.current_time() + REST_S

    async def _create(self, ref: str, inside: ExecCommand) -> str:
        env = {**inside.env, exec_kill.VARIABLE: exec_kill.mark_value(inside.mark)}
        made = await self._client.call(
            lambda api: api.exec_create(
                ref,
                list(inside.argv),
                stdin=bool(inside.stdin),
                environment=env,
                workdir=inside.workdir or None,
                user=inside.user,
            )
        )
        return str(made["Id"])

    async def _follow(
        self, stream: DockerStream, identity: str, inside: ExecCommand, output: _Output
    ) -> tuple[ExitCause, dict[str, Any] | None]:
        """How it ended, and its last state, if the engine said it."""
        with anyio.move_on_after(inside.timeout_s):
            async with engine_task_group() as group:
                if inside.stdin:
                    group.start_soon(stream.write, inside.stdin)
                await output.fill(stream)
                group.cancel_scope.cancel()  # It ended without reading all of its input.
            if output.is_too_much():
                return ExitCause.TOO_MUCH_OUTPUT, None
            # It may have closed its outputs long before its end.
            return ExitCause.EXITED, await self._until_over(identity)
        return ExitCause.TIMED_OUT, None

    async def _until_over(self, identity: str) -> dict[str, Any] | None:
        """Its state once it is over; None if the engine cannot be asked: the next call reports why."""
        state: dict[str, Any] | None = None

        async def is_over() -> bool:
            nonlocal state
            state = await self._state(identity)
            return not state["Running"]

        with suppress(EngineFailed):
            await poll_until(is_over)
            return state
        return None

    async def _state(self, identity: str) -> dict[str, Any]:
        return dict(await self._client.call(lambda api: api.exec_inspect(identity)))

    async def _ended(self, ref: str, identity: str, state: dict[str, Any] | None, output: bytes) -> ExecEnd:
        """How a command whose output has ended came to its end."""
        try:
            state = await self._state(identity) if state is None else state
        except EngineFailed as failed:
            if failed.reason is EngineErrorReason.NOT_FOUND:
                return ExecEnd(ExitCause.LOST, None, output)
            raise
        code = state["ExitCode"]
        # Podman reports no process once it has ended; engines that could not start one report that here.
        is_gone = GONE.fullmatch(output) is not None
        if not state.get("Pid") and (is_gone or (code in START_FAILED and NOT_STARTED in output)):
            is_told = is_gone or any(words in output for words in CONTAINER_STOPPING)
            # An engine reports a little later that the container ended: treat it as if asked after that.
            if await self._goes(ref, BEGIN_S if is_told else GOES_S):
                raise EngineFailed(EngineErrorReason.NOT_RUNNING, "it went away before the command began")
            return ExecEnd(ExitCause.NOT_STARTED, None, output.strip())
        if code in (None, KILLED) and await self._goes(ref, GOES_S):
            return ExecEnd(ExitCause.LOST, None, output)
        return ExecEnd(ExitCause.EXITED, code, output)

    async def _goes(self, ref: str, within_s: float) -> bool:
        """Whether the container is not running; engines report its death a little after that of its commands."""

        async def is_gone() -> bool:
            return await self._main(ref) is None

        with anyio.move_on_after(within_s):
            await poll_until(is_gone)
            return True
        return False

    async def end_one(self, ref: str, identity: str, inside: ExecCommand) -> None:
        """Ends it when it has begun: a request to start it that was given up may still be on its way."""

        async def has_begun() -> bool:
            return _has_begun(await self._state(identity))

        with suppress(EngineFailed), anyio.move_on_after(BEGIN_S):
            await poll_until(has_begun)
        await self._kill(ref, inside.mark, [inside.user])

    async def end(self, ref: str, mark: str) -> None:
        await self._kill(ref, mark, await self._users(ref))

    async def _kill(self, ref: str, mark: str, users: Iterable[str]) -> None:
        main = await self._main(ref)
        if main is None or (
            self._sees_host and await self._client.work(lambda: exec_kill.kill_from_outside(*main, mark))
        ):
            return
        # Without capabilities a process may neither see nor end what another user runs.
        for user in sorted(set(users)):
            await self._kill_inside(ref, mark, user)

    async def _kill_inside(self, ref: str, mark: str, user: str) -> None:
        # It has no mark, or it would end itself.
        made = await self._client.call(lambda api: api.exec_create(ref, list(exec_kill.kill_argv(mark)), user=user))
        output = _Output(limits.OUTPUT_SHOWN_BYTES)
        with self._client.deadline(limits.ENGINE_CALL_S):
            async with self._client.stream(_start(made["Id"])) as stream:
                await output.fill(stream)
            await self._until_over(made["Id"])
        state = await self._state(made["Id"])
        if state["ExitCode"] == 0 or await self._main(ref) is None:
            return
        said = output.kept().decode(errors="replace").strip()
        if "temporarily unavailable" in said or "cannot allocate memory" in said:
            await self._client.call(lambda api: api.kill(ref))  # It is so full that nothing else ends it.
            return
        raise EngineFailed(
            EngineErrorReason.REFUSED,
            f"a command inside {ref} cannot be ended from inside: {said or 'it does not die'}",
            "take an image with a /bin/sh, or restart the container",
        )

    async def _main(self, ref: str) -> tuple[str, int] | None:
        """The id of the container and its first process as the engine's machine counts it; None unless it runs."""
        try:
            raw = await self._client.call(lambda api: api.inspect_container(ref))
        except EngineFailed as failed:
            if failed.reason is EngineErrorReason.NOT_FOUND:
                return None
            raise
        return (raw["Id"], raw["State"]["Pid"]) if raw["State"].get("Pid") else None

    async def _users(self, ref: str) -> set[str]:
        """Users that may have processes inside: the container's, its root, and that of the current command."""
        users = {""}
        with suppress(EngineFailed):  # It went away, or one of them ended.
            raw = await self._client.call(lambda api: api.inspect_container(ref))
            if raw["Config"].get("User") not in ("", "0", "root"):
                users.add("0")
            for identity in raw.get("ExecIDs") or ():
                process = (await self._state(identity)).get("ProcessConfig") or {}
                users.add(process.get("user") or "")
        return users


class _Output:
    """The output of a command, up to a bound."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept = bytearray()
        self._frames = FrameDecoder()
        self._is_too_much = False

    async def fill(self, stream: DockerStream) -> None:
        """Until it ends or is too much."""
        while not self._is_too_much and (piece := await stream.read(self._frames.feed)):
            self._take(piece)

    async def drain(self, stream: DockerStream) -> None:
        """Read until it ends, and drop the excess."""
        while piece := await stream.read(self._frames.feed):
            self._take(piece)

    def _take(self, out: bytes) -> None:
        self._is_too_much = self._is_too_much or len(self._kept) + len(out) > self._bytes_max
        self._kept += out[: self._bytes_max - len(self._kept)]

    def is_too_much(self) -> bool:
        return self._is_too_much

    def kept(self) -> bytes:
        return bytes(self._kept)


def _start(identity: str) -> Any:
    """Asks for a connection that is the command's input and output from then on."""
    return lambda api: api._post_json(
        api._url("/exec/{0}/start", identity),
        headers={"Connection": "Upgrade", "Upgrade": "tcp"},
        data={"Tty": False, "Detach": False},
        stream=True,
        timeout=NO_DEADLINE,
    )


def _has_begun(state: dict[str, Any]) -> bool:
    """Engines report an exec as running before it runs, and give its pid once it does."""
    return bool(state.get("Pid")) or (not state["Running"] and state["ExitCode"] is not None)
