"""The `plan` command as a process of its own: forked from a server that has it loaded, or started by Python.

Use `start` and `run` like `subprocess.Popen` and `subprocess.run`. A forked process has the arguments, folder,
environment, streams, signals and exit code of `python -m planloop`; `test_command.py` runs the same scenarios both
ways. In `/proc`, its `cmdline` and `environ` are those of the server, and its parent is the server.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from planloop.client import process
from tests import sets
from tests.e2e.fork_server import LENGTH, NUMBER

PLAN: Final = (sys.executable, "-m", "planloop")
FRESH: Final = "PLANLOOP_FRESH"
"""The environment variable that makes every start a start of Python."""
SERVER: Final = Path(__file__).with_name("fork_server.py")
LABELS: Final = ("PLANLOOP_PLAN", "PLANLOOP_OP")
"""planloop looks for these in `/proc/<pid>/environ`."""
AT_START: Final = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "OTEL_", "PYDANTIC_", "AIOHTTP_", "MULTIDICT_", "SSL_")
"""Beginnings of the names that Python or a library reads once, when it starts or is imported."""
FOR_SERVER: Final = (*AT_START, "PATH", "HOME")

Stream = int | IO[Any] | None


class Forked(subprocess.Popen[Any]):
    """A `plan` command that the fork server has forked. The server reaps it and reports how it ended."""

    _pidfd = -1

    # The signature of the standard library's own method, by position: this is its seam between pipes and processes.
    def _execute_child(self, args: list[str], *rest: Any) -> None:
        assert len(rest) == 22, "this Python passes other arguments; adapt the positions"
        cwd, env, pipes, is_session = rest[4], rest[5], rest[9:15], rest[20]
        streams = [number if pipe == -1 else pipe for number, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        asked = {"words": args[len(PLAN) :], "folder": cwd, "environment": env, "is_session": is_session}
        try:
            self._connection = server(os.getpid()).begin(asked, streams)
            content, handles, _, _ = socket.recv_fds(self._connection, NUMBER.size, 1)
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        if not content:
            self._connection.close()
            raise RuntimeError("the fork server has ended; see its stderr")
        (self.pid,), (self._pidfd,) = NUMBER.unpack(content), handles
        self._child_created = True

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        self._hear(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if not self._hear(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode

    def _hear(self, timeout_s: float | None) -> bool:
        """Wait for the process to exit, unlimited if `timeout_s` is omitted. Return whether it has exited.

        Several threads may wait. Each polls a descriptor of its own: the number of one that another thread has closed
        may belong to the next command by now.
        """
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is not None:
                return True
            own = self._connection.dup()
        with own:
            poll = select.poll()
            poll.register(own, select.POLLIN)
            if not poll.poll(None if timeout_s is None else max(0, math.ceil(timeout_s * 1000))):
                return False
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                content = self._connection.recv(NUMBER.size)
                assert content, "the fork server has ended before the command"
                self.returncode = os.waitstatus_to_exitcode(NUMBER.unpack(content)[0])
                self._connection.shutdown(socket.SHUT_RD)  # The other waiting threads see the end, too.
                self._connection.close()
                os.close(self._pidfd)
        return True

    def send_signal(self, sig: int) -> None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                with suppress(ProcessLookupError):  # It has ended, and the server has reaped it.
                    signal.pidfd_send_signal(self._pidfd, sig)


class Server:
    """The fork server of this process; it ends with this process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        given = {name: value for name, value in process.environment().items() if name.startswith(FOR_SERVER)}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, SERVER, str(theirs.fileno())],
                env=given,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self.settings = _at_start(given)
        atexit.register(self.close)

    def begin(self, asked: Mapping[str, object], streams: list[int]) -> socket.socket:
        """The connection over which the server reports on a new child."""
        request = json.dumps(asked).encode()
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"."], [theirs.fileno()])
        socket.send_fds(ours, [LENGTH.pack(len(request))], streams)
        ours.sendall(request)
        return ours

    def close(self) -> None:
        self._control.close()
        self.process.wait()


@cache
def server(pid: int) -> Server:
    """The server of the process `pid`, which is this one: a child of a test may not use that of its parent."""
    assert pid == os.getpid()
    return Server()


def prepare() -> None:
    """Starts the server, so that no test pays for it."""
    if not is_fresh():
        start("version", cwd=Path.cwd(), stdout=subprocess.DEVNULL).wait()


def is_fresh() -> bool:
    """Whether each start in this run is a start of Python: in nightly, if `PLANLOOP_FRESH` is 1, or without pidfds."""
    return sets.is_nightly() or process.environment().get(FRESH) == "1" or not hasattr(os, "pidfd_open")


def start(
    *words: str,
    cwd: Path,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    env: Mapping[str, str] | None = None,
    text: bool = True,
    bufsize: int = -1,
    start_new_session: bool = False,
    fresh: bool = False,
) -> subprocess.Popen[Any]:
    """`plan` with `words`, running. `fresh` starts Python: for tests of starts, of `/proc`, and of the environment."""
    environment = dict(process.environment() if env is None else env)
    is_true = fresh or is_fresh() or not _fits(environment)
    kind: type[subprocess.Popen[Any]] = subprocess.Popen if is_true else Forked
    return kind(
        [*PLAN, *words],
        bufsize,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=str(cwd),
        env=environment,
        text=text,
        start_new_session=start_new_session,
    )


def run(
    *words: str,
    cwd: Path,
    input: Any = None,  # noqa: A002 - as in subprocess.run
    env: Mapping[str, str] | None = None,
    text: bool = True,
    timeout_s: float | None = None,
    fresh: bool = False,
) -> subprocess.CompletedProcess[Any]:
    """`plan` with `words` to its end, with what it printed. Raises subprocess.TimeoutExpired, and kills it then."""
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    pipe = subprocess.PIPE
    with start(*words, cwd=cwd, stdin=stdin, stdout=pipe, stderr=pipe, env=env, text=text, fresh=fresh) as process:
        try:
            out, err = process.communicate(input, timeout_s)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _fits(environment: Mapping[str, str]) -> bool:
    """Whether a fork behaves as a start of Python does in `environment`, and no program looks for its labels."""
    if any(name in environment for name in LABELS):
        return False
    return _at_start(environment) == server(os.getpid()).settings


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}
