"""Run a command inside a container on the user's terminal, for `plan exec`.

The process does nothing else, so nothing is async: one loop waits for the terminal and for the engine. Commands of the
plan use `ContainerEngine.run` instead, which stores their output and has deadlines.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TypeVar

import anyio

from planloop.containers.engine import exec_kill
from planloop.containers.engine.docker_client import NO_DEADLINE, DockerClient
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.docker_exec import NOT_STARTED, START_FAILED, DockerExecs
from planloop.containers.engine.docker_frames import FrameDecoder
from planloop.containers.engine.engine import EngineErrorReason, EngineFailed, ExecCommand
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

T = TypeVar("T")
READ_BYTES: Final = 65_536
LOOK_S: Final = 0.02
LOOK_LAST_S: Final = 0.5  # A command may close its outputs and then run for hours.
DETACHING: Final = "ctrl-@,ctrl-\\,ctrl-@"
"""Keys that detach from the engine: an unlikely sequence, because the default starts with ctrl-p."""


class Console(Protocol):
    """The terminal or files that a command is connected to. `input` is None for a command without input.

    `resized` is a descriptor that becomes readable when the window size changes; None without a window.
    """

    @property
    def input(self) -> int | None: ...

    @property
    def resized(self) -> int | None: ...

    def size(self) -> tuple[int, int]:
        """Lines and columns of the window."""
        ...

    def write(self, piece: bytes, *, is_error: bool) -> None: ...


@frozen
class AttachEnd:
    """The end of a command. `code` is None if it did not start; `said` is then the engine's message."""

    code: int | None
    said: str = ""


def attach_exec(env: Mapping[str, str], ref: str, inside: ExecCommand, console: Console) -> AttachEnd:
    """Run `inside` to its end; if the console has a window, the command gets a terminal. Raises EngineFailed.

    If this process ends early, even by KILL, all processes that the command started are killed.
    """
    attached = _Attached(env, ref, inside, console)
    with _watched(lambda: _is_ended(lambda: DockerEngine(env).end(ref, inside.mark))) as over:
        try:
            left = attached.run()
        except BaseException:
            execs = DockerExecs(DockerClient(env), sees_host=True)
            if not attached.identity or _is_ended(lambda: execs.end_one(ref, attached.identity, inside)):
                over()
            raise
        over()
        return left


def _is_ended(end: Callable[[], Awaitable[None]]) -> bool:
    """Whether `end` ended the command in time. After that, the user does not wait any longer."""

    async def ended() -> bool:
        with anyio.move_on_after(limits.ENGINE_CALL_S):
            await end()
            return True
        return False

    try:
        return anyio.run(ended)
    except EngineFailed as failed:
        return failed.reason in (
            EngineErrorReason.NOT_FOUND,
            EngineErrorReason.NOT_RUNNING,
        )  # The container was removed, with all its processes.


@contextmanager
def _woken() -> Iterator[int]:
    """A descriptor that becomes readable after a signal.

    Without it, a signal just before a `select` would not end that.
    """
    heard, said = os.pipe()
    os.set_blocking(said, False)
    before = signal.set_wakeup_fd(said, warn_on_full_buffer=False)
    try:
        yield heard
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(said)


@contextmanager
def _watched(end: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Start a second process that calls `end` unless the block called the yielded function. It works even after KILL.

    Waits for that process only if it has nothing to do, so that a second interrupt releases the user.
    """
    is_over = False

    def over() -> None:
        nonlocal is_over
        is_over = True

    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        _watch(heard, said, end)
    os.close(heard)
    try:
        yield over
    finally:
        if is_over:
            with suppress(BrokenPipeError):
                os.write(said, b".")
        os.close(said)
        if is_over:
            os.waitpid(child, 0)


def _watch(heard: int, said: int, end: Callable[[], object]) -> None:
    try:
        os.setsid()  # A separate session: signals of the terminal are for the other process.
        os.close(said)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        if not os.read(heard, 1):
            end()
    finally:
        os._exit(0)


class _Attached:
    """One command, from its creation to its exit code. `identity` is its id in the engine once it may have started."""

    def __init__(self, env: Mapping[str, str], ref: str, inside: ExecCommand, console: Console) -> None:
        self._env = env
        self._ref = ref
        self._inside = inside
        self._console = console
        self._frames = FrameDecoder()
        self._withheld = b""
        self._is_first = True
        self.identity = ""

    def run(self) -> AttachEnd:
        inside, is_terminal = self._inside, self._console.resized is not None
        env = {**inside.env, exec_kill.VARIABLE: exec_kill.mark_value(inside.mark)}
        made = self._ask(
            lambda api: api.exec_create(
                self._ref,
                list(inside.argv),
                stdin=self._console.input is not None,
                tty=is_terminal,
                environment=env,
                workdir=inside.workdir or None,
                user=inside.user,
                detach_keys=DETACHING,
            )
        )
        self.identity = identity = str(made["Id"])
        answer = self._ask(lambda api: _started(api, identity, is_terminal=is_terminal))
        line = _Line(answer)
        try:
            if is_terminal:
                self._resize(identity)
            self._take(line.early())
            with _woken() as woken:
                self._pump(line, identity, woken)
        finally:
            line.close()
        return self._ended(identity)

    def _ask(self, ask: Callable[[Any], T]) -> T:
        """Call the engine and wait for the result. Raises EngineFailed."""

        async def asked() -> T:
            return await DockerClient(self._env).call(ask)

        return anyio.run(asked)

    def _pump(self, line: _Line, identity: str, woken: int) -> None:
        """Copy input and output until the command closes its outputs, or a signal handler raises."""
        typed, resized = self._console.input, self._console.resized
        while True:
            wanted = [each for each in (line.fileno(), woken, typed, resized) if each is not None]
            ready = [] if line.is_pending() else select.select(wanted, [], [])[0]
            if line.fileno() in ready or not ready:
                piece = line.read()
                if not piece:
                    return
                self._take(piece)
            if woken in ready:
                os.read(woken, READ_BYTES)
            if typed in ready and typed is not None:
                keys = os.read(typed, READ_BYTES)
                if not keys:
                    line.end()
                    typed = None
                else:
                    line.write(keys)
            if resized in ready and resized is not None:
                os.read(resized, READ_BYTES)
                self._resize(identity)

    def _take(self, piece: bytes) -> None:
        is_terminal = self._console.resized is not None
        for out, is_error in [(piece, False)] if is_terminal else self._frames.apart(piece):
            if self._is_first and out.startswith(NOT_STARTED):
                self._withheld += out
            elif out:
                self._is_first = False
                self._console.write(out, is_error=is_error)

    def _resize(self, identity: str) -> None:
        lines, columns = self._console.size()
        with suppress(EngineFailed):  # The command may have ended.
            self._ask(lambda api: api.exec_resize(identity, height=lines, width=columns))

    def _ended(self, identity: str) -> AttachEnd:
        state = self._ask(lambda api: api.exec_inspect(identity))
        pause_s = LOOK_S
        while state["Running"]:  # It closed its outputs before it ended.
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_LAST_S)
            state = self._ask(lambda api: api.exec_inspect(identity))
        code = state["ExitCode"]
        if self._withheld and not state.get("Pid") and code in START_FAILED:
            return AttachEnd(None, self._withheld.decode(errors="replace").strip())
        if self._withheld:
            self._console.write(self._withheld, is_error=False)
        if code is None:
            raise EngineFailed(EngineErrorReason.NOT_RUNNING, "the container ended while the command ran")
        return AttachEnd(int(code))


def _started(api: Any, identity: str, *, is_terminal: bool) -> Any:
    """Start the command. Returns the open response, whose connection is the command's input and output."""
    answer = api._post_json(
        api._url("/exec/{0}/start", identity),
        headers={"Connection": "Upgrade", "Upgrade": "tcp"},
        data={"Tty": is_terminal, "Detach": False},
        stream=True,
        timeout=NO_DEADLINE,
    )
    api._raise_for_status(answer)
    return answer


class _Line:
    """The connection of a response: a socket, a TLS socket, or the two pipes of an ssh process."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer  # Closes the connection when it is garbage collected.
        self._buffer = answer.raw._fp.fp
        below = getattr(self._buffer, "channel", None) or getattr(self._buffer.raw, "_sock", self._buffer.raw)
        self._process = getattr(below, "proc", None)
        self._socket = below

    def early(self) -> bytes:
        """Output bytes that were read together with the head of the response."""
        if self._process is not None:
            return b""
        self._socket.settimeout(0)
        try:
            return bytes(self._buffer.read1(READ_BYTES) or b"")
        except (BlockingIOError, OSError):
            return b""
        finally:
            self._socket.settimeout(None)

    def fileno(self) -> int:
        return int(self._socket.fileno() if self._process is None else self._process.stdout.fileno())

    def is_pending(self) -> bool:
        """Whether there is buffered input that `select` does not report."""
        return bool(hasattr(self._socket, "pending") and self._socket.pending())

    def read(self) -> bytes:
        try:
            if self._process is not None:
                return os.read(self._process.stdout.fileno(), READ_BYTES)
            return bytes(self._socket.recv(READ_BYTES))
        except OSError:
            return b""  # The request for the exit code reports the reason.

    def write(self, data: bytes) -> None:
        with suppress(OSError):  # It ended without reading all input.
            if self._process is not None:
                self._process.stdin.write(data)
                self._process.stdin.flush()
            else:
                self._socket.sendall(data)

    def end(self) -> None:
        with suppress(OSError):
            if self._process is not None:
                self._process.stdin.close()
            else:
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with suppress(OSError):
            self._answer.close()
