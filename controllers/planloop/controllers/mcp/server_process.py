"""The process of a tool server: in its own session, and ended when its owner ends.

The shim before the server leaves a watcher in the server's process group. It waits on a pipe of which this process has
the other end; when the owner closes it or is killed, the whole group gets a signal to stop and
then killed. So no server outlives its owner, whatever it does with its own input. What left the group is found by its
label, as with commands (`planloop.reconciler.effects.local_processes`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from planloop.schemas import limits
from planloop.schemas.frozen import frozen

SHELL: Final = "/bin/sh"
# dash knows only file descriptors of one digit by number, hence the path.
_SHIM: Final = (
    "(read -r _ </dev/fd/$1;trap '' TERM;kill -TERM 0;sleep 2;kill -KILL 0) </dev/null >/dev/null 2>&1 & "
    'shift;exec "$@"'
)


@frozen
class ToolServerLaunch:
    """What to start: the whole environment, labels included; `cwd` is absolute."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


class ToolServerPipes(Protocol):
    """The owner's ends of the three pipes of a server."""

    @property
    def stdin(self) -> ByteSendStream | None: ...
    @property
    def stdout(self) -> ByteReceiveStream | None: ...
    @property
    def stderr(self) -> ByteReceiveStream | None: ...


OnServerExit: TypeAlias = Callable[[int], Awaitable[None]]
"""Waits until the process with this id ends, and stops it and its children after a while. Its input is closed."""
StartServer: TypeAlias = Callable[[ToolServerLaunch, OnServerExit], AbstractAsyncContextManager[ToolServerPipes]]
"""Starts a server for the time of a block; nothing of it runs afterwards. Raises OSError."""


@asynccontextmanager
async def launch_server(launch: ToolServerLaunch, ended: OnServerExit) -> AsyncIterator[Process]:
    """The server's process, with pipes to all three of its streams. Its group does not outlive the block.

    Raises OSError when it cannot be spawned.
    """
    near, life = os.pipe()
    try:
        try:
            process = await anyio.open_process(
                [SHELL, "-c", _SHIM, "sh", str(near), *launch.argv],
                cwd=launch.cwd,
                env=dict(launch.env),
                start_new_session=True,
                pass_fds=(near,),
            )
        finally:
            os.close(near)
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await ended(process.pid)
                with anyio.move_on_after(limits.SERVER_STOP_S):
                    await process.aclose()
    finally:
        os.close(life)
