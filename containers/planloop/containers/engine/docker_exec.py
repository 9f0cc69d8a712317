"""Run a command inside a container with the engine's exec, and kill it with its children if it exceeds a limit.

The engine has no call that ends an exec, and an exec continues when its client disconnects. So each has a mark in its
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

START_FAILED: Final = frozenset({125, 126, 127, 255})  # Exit codes of an exec that may never have had a process.
NOT_STARTED: Final = b"OCI "  # In the error text of an engine: `OCI runtime exec failed`, `OCI permission denied` …
GONE: Final = re.compile(
    rb"(task [0-9a-f]{64} not found: not found|cannot exec in a (stopped|deleted) state: [a-z ]+)\s*"
)
"""The output of an exec whose container ended before containerd could start it: an error of the shim."""
KILLED: Final = 137
BEGIN_S: Final = 5.0  # After this time, a requested start has happened or never will.
GOES_S: Final = 0.5  # An engine reports the end of a container at most this long after the end of its commands.
CONTAINER_STOPPING: Final = (b"init-p", b"setns", b"stopped", b"no such process", b"connection reset")
"""Parts of the errors of runc and crun if a container ended while they entered it."""
REST_S: Final = 1.0  # Time to read output that was written before the kill.


class DockerExecs:
    """Implements `ContainerEngine.run` and `ContainerEngine.end`."""

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
        """End the command, and read its output meanwhile: with unread output, an engine starts no other exec."""
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
        """Return how the command ended, and its last state, if the engine reported it."""
        with anyio.move_on_after(inside.timeout_s):
            async with engine_task_group() as group:
                if inside.stdin:
                    group.start_soon(stream.write, inside.stdin)
                await output.fill(stream)
                group.cancel_scope.cancel()  # The command ended without reading all its input.
            if output.is_too_much():
                return ExitCause.TOO_MUCH_OUTPUT, None
            # A command may close its outputs long before it ends.
            return ExitCause.EXITED, await self._until_over(identity)
        return ExitCause.TIMED_OUT, None

    async def _until_over(self, identity: str) -> dict[str, Any] | None:
        """Return the state after the end of the command; None if the engine fails, which the next call reports."""
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
        """Return the end of a command whose output has ended."""
        try:
            state = await self._state(identity) if state is None else state
        except EngineFailed as failed:
            if failed.reason is EngineErrorReason.NOT_FOUND:
                return ExecEnd(ExitCause.LOST, None, output)
            raise
        code = state["ExitCode"]
        # After the end, Podman reports no process. Engines that could not start a process report that here.
        is_gone = GONE.fullmatch(output) is not None
        if not state.get("Pid") and (is_gone or (code in START_FAILED and NOT_STARTED in output)):
            is_told = is_gone or any(words in output for words in CONTAINER_STOPPING)
            # The engine may report the end of the container a little later. Treat it as if it had done so already.
            if await self._goes(ref, BEGIN_S if is_told else GOES_S):
                raise EngineFailed(EngineErrorReason.NOT_RUNNING, "the container ended before the command started")
            return ExecEnd(ExitCause.NOT_STARTED, None, output.strip())
        if code in (None, KILLED) and await self._goes(ref, GOES_S):
            return ExecEnd(ExitCause.LOST, None, output)
        return ExecEnd(ExitCause.EXITED, code, output)

    async def _goes(self, ref: str, within_s: float) -> bool:
        """Whether the container has ended. Engines report that a little after the end of its commands."""

        async def is_gone() -> bool:
            return await self._main(ref) is None

        with anyio.move_on_after(within_s):
            await poll_until(is_gone)
            return True
        return False

    async def end_one(self, ref: str, identity: str, inside: ExecCommand) -> None:
        """End the command once it has started: an abandoned request to start it may still be processed."""

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
        # Without capabilities, a process can neither see nor kill processes of other users.
        for user in sorted(set(users)):
            await self._kill_inside(ref, mark, user)

    async def _kill_inside(self, ref: str, mark: str, user: str) -> None:
        # This command has no mark, or it would kill itself.
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
            await self._client.call(lambda api: api.kill(ref))  # The container is so full that no other way works.
            return
        raise EngineFailed(
            EngineErrorReason.REFUSED,
            f"cannot kill a command in {ref} from inside: {said or 'it does not end'}",
            "use an image with a /bin/sh, or restart the container",
        )

    async def _main(self, ref: str) -> tuple[str, int] | None:
        """The id of the container, and the process id of its first process on the engine's machine; None if not
        running."""
        try:
            raw = await self._client.call(lambda api: api.inspect_container(ref))
        except EngineFailed as failed:
            if failed.reason is EngineErrorReason.NOT_FOUND:
                return None
            raise
        return (raw["Id"], raw["State"]["Pid"]) if raw["State"].get("Pid") else None

    async def _users(self, ref: str) -> set[str]:
        """Users that may have processes inside: of the container, root, and those of running commands."""
        users = {""}
        with suppress(EngineFailed):  # The container or one of the commands ended.
            raw = await self._client.call(lambda api: api.inspect_container(ref))
            if raw["Config"].get("User") not in ("", "0", "root"):
                users.add("0")
            for identity in raw.get("ExecIDs") or ():
                process = (await self._state(identity)).get("ProcessConfig") or {}
                users.add(process.get("user") or "")
        return users


class _Output:
    """The output of a command, up to a limit."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept = bytearray()
        self._frames = FrameDecoder()
        self._is_too_much = False

    async def fill(self, stream: DockerStream) -> None:
        """Read until the output ends or exceeds the limit."""
        while not self._is_too_much and (piece := await stream.read(self._frames.feed)):
            self._take(piece)

    async def drain(self, stream: DockerStream) -> None:
        """Read until the output ends, and drop the excess."""
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
    """Start the command, on a connection that becomes its input and output."""
    return lambda api: api._post_json(
        api._url("/exec/{0}/start", identity),
        headers={"Connection": "Upgrade", "Upgrade": "tcp"},
        data={"Tty": False, "Detach": False},
        stream=True,
        timeout=NO_DEADLINE,
    )


def _has_begun(state: dict[str, Any]) -> bool:
    """Whether the exec has started. Engines report it as running earlier, but its pid only once it runs."""
    return bool(state.get("Pid")) or (not state["Running"] and state["ExitCode"] is not None)
