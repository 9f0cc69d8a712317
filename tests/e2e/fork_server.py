"""A process that has the modules of planloop loaded and forks a child for each `plan` command.

A fork costs a few milliseconds of processor time; a start of Python with these modules costs 0.1 to 1 s.
`tests/e2e/command.py` starts this file and sends it requests.

Protocol: file descriptor `argv[1]` is a stream socket. Each byte on it carries a connection. On a connection the
client sends the length of the request as eight bytes together with the child's stdin, stdout and stderr, then the
request as JSON. The server answers with the child's pid as four bytes and a pidfd, and with its wait status as
four bytes when it has ended. The server ends when its socket is closed, and kills the children that still run.

The server runs no thread and no event loop, and opens no file, so a child begins as a new process does.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import planloop

RUN_AS_PROGRAMS: Final = (
    "planloop.__main__",
    "planloop.benchmarks.speed",
    "planloop.controllers.task.checks.web.browser",
)
"""Modules that only processes of their own load."""
LOADED_LATE: Final = (
    "anyio._backends._asyncio",
    "anyio.abc",
    "anyio.streams.stapled",
    "anyio.streams.tls",
    "docker",
    "rich.live",
)
"""Modules of other packages that commands load while they run."""
STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
LENGTH: Final = struct.Struct("!Q")
NUMBER: Final = struct.Struct("!i")


@dataclass(frozen=True)
class Start:
    """What a child runs, and where."""

    words: list[str]
    folder: str
    environment: dict[str, str]
    is_session: bool
    streams: list[int]


def main() -> None:
    """Serve until the socket closes. In a child, `serve` returns, and the child becomes the command."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # A child unblocks it once it is the command.
    del sys.path[0]  # The folder of this file.
    load()
    start = serve(socket.socket(fileno=int(sys.argv[1])))
    if start is not None:
        become(start)
        runpy.run_module("planloop", run_name="__main__", alter_sys=True)


def load() -> None:
    """Import what commands import. No import may start a thread: it would not exist in a child."""
    gc.disable()
    for module in pkgutil.walk_packages(planloop.__path__, "planloop."):
        if not module.name.startswith(RUN_AS_PROGRAMS):
            importlib.import_module(module.name)
    for name in LOADED_LATE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # A child then leaves these objects, and the pages that they are on, alone.
    gc.enable()
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208
    assert threads == 1, f"importing planloop started {threads - 1} threads, which a fork would lose"


def serve(control: socket.socket) -> Start | None:
    """Fork a child for each request and report its end.

    Return None once the client has closed the socket; in a child, return its request.
    """
    poll = select.poll()
    poll.register(control, select.POLLIN)
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready, _ in poll.poll():
            if ready in running:
                poll.unregister(ready)
                _report(ready, *running.pop(ready))
                continue
            content, handles, _, _ = socket.recv_fds(control, 1, 1)
            if not content:
                for pidfd in running:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                return None
            connection = socket.socket(fileno=handles[0])
            start = _request(connection)
            pid = os.fork()
            if pid == 0:
                for one in (control, connection, *(known for _, known in running.values())):
                    one.detach()  # `become` closes them all. Closed later on, they would close files of the command.
                return start
            for handle in start.streams:
                os.close(handle)
            pidfd = os.pidfd_open(pid)
            with suppress(BrokenPipeError):
                socket.send_fds(connection, [NUMBER.pack(pid)], [pidfd])
            running[pidfd] = (pid, connection)
            poll.register(pidfd, select.POLLIN)


def _request(connection: socket.socket) -> Start:
    content, streams, _, _ = socket.recv_fds(connection, LENGTH.size, len(STREAMS))
    (length,) = LENGTH.unpack(content)
    with connection.makefile("rb") as file:
        asked = json.loads(file.read(length))
    return Start(**asked, streams=streams)


def _report(pidfd: int, pid: int, connection: socket.socket) -> None:
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        connection.sendall(NUMBER.pack(status))
    connection.close()


def become(start: Start) -> None:
    """Give this process what a new one would have: files, session, folder, environment, arguments and streams."""
    for number, handle in enumerate(start.streams):
        os.dup2(handle, number)
    os.closerange(len(STREAMS), os.sysconf("SC_OPEN_MAX"))
    if start.is_session:
        os.setsid()
    os.chdir(start.folder)
    os.environ.clear()  # noqa: TID251 - this is the start of a process
    os.environ.update(start.environment)  # noqa: TID251
    sys.argv[1:] = start.words
    sys.path.insert(0, str(Path.cwd()))  # As `python -m` does.
    for number, (name, mode) in enumerate(STREAMS):
        stream = _stream(number, name, mode, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _stream(number: int, name: str, mode: str, like: Any) -> io.TextIOWrapper:
    """Return a standard stream as Python creates it when it starts (`create_stdio` in pylifecycle.c)."""
    is_unbuffered = mode == "w" and like.write_through
    file = open(number, f"{mode}b", 0 if is_unbuffered else -1, closefd=False)  # noqa: SIM115
    raw: Any = file if is_unbuffered else file.raw  # type: ignore[attr-defined]
    raw.name = f"<{name}>"
    is_by_line = not is_unbuffered and (raw.isatty() or name == "stderr")
    stream = io.TextIOWrapper(file, like.encoding, like.errors, "\n", is_by_line, is_unbuffered)
    stream.mode = mode  # type: ignore[misc]
    return stream


if __name__ == "__main__":
    main()
