"""Threads for calls that block, of which nobody waits for one that is given up: not even the process at its end.

Not anyio's worker threads, which the process joins when it ends: an engine that hangs would hold it up. They are
kept and used again, and started below `threading`, whose `start` makes the event loop wait until the kernel has let the
new one run: tens of milliseconds on a busy machine.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Generic, TypeAlias, TypeVar
from weakref import finalize

import anyio
import anyio.from_thread
import anyio.lowlevel

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
_Work: TypeAlias = "SimpleQueue[Callable[[], bool] | None]"

IDLE_MAX: Final = 8  # More of them are let go.


class Threads(Generic[E]):
    """`run` from one event loop. What is run may raise `fault` and nothing else."""

    def __init__(self, fault: type[E]) -> None:
        self._fault = fault
        self._idle: list[_Work] = []
        finalize(self, _let_go, self._idle)

    async def run(self, work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
        """What `work` gives, in a thread that is left alone when this is cancelled."""
        token, is_done = anyio.lowlevel.current_token(), anyio.Event()
        given: list[T] = []
        failed: list[E] = []

        def body() -> bool:
            """Whether the thread goes on afterwards."""
            try:
                given.append(work())
            except self._fault as fault:
                failed.append(fault)
            finally:
                is_wanted = False
                with suppress(anyio.RunFinishedError):
                    is_wanted = anyio.from_thread.run_sync(finish, token=token)
            return is_wanted

        def finish() -> bool:
            is_done.set()
            is_wanted = bool(given or failed) and len(self._idle) < IDLE_MAX
            if is_wanted:
                self._idle.append(own)
            return is_wanted

        async with limiter:
            own = self._idle.pop() if self._idle else _started()
            own.put(body)
            await is_done.wait()
        if failed:
            raise failed[0]
        assert given, "a call in a thread failed in a way that nobody foresaw; its thread said how"
        return given[0]


def _started() -> _Work:
    work: _Work = SimpleQueue()
    _thread.start_new_thread(_live, (work,))
    return work


def _live(work: _Work) -> None:
    while (body := work.get()) is not None and body():
        del body  # What it holds is not kept until the next one.


def _let_go(idle: list[_Work]) -> None:
    for work in idle:
        work.put(None)
