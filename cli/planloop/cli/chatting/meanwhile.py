"""What an agent does and what a person writes meanwhile, as one stream in the order in which both come.

Only one of the two blocks at a time: what an agent does is awaited in a thread of its own, which rings on a descriptor
that a terminal can wait for beside its keys. Whatever is done about either is done by the thread that asks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Protocol, TypeVar

from planloop.app.exits import Halt
from planloop.schemas.frozen import frozen

One = TypeVar("One")
RING: Final = b"\0"


class Ears(Protocol):
    """Where a person writes: what can be waited for beside something else."""

    def hears(self, other: int, *, only: bool) -> bool:
        """Waits for a line or for the descriptor `other`, or `only` for that; whether there is a line."""
        ...

    def line(self) -> str | None:
        """The line that was heard; None at the end of input."""
        ...


@frozen
class Written:
    """A line of the person; None at the end of what they write."""

    text: str | None


@frozen
class _Broken:
    error: Exception


class _Done:
    """There is no more."""


def beside(events: Iterator[One], ears: Ears, is_open: Callable[[], bool]) -> Generator[One | Written]:
    """All `events`, and what is written until the last of them while `is_open()`. Raises Halt as `events` do.

    Close it to stop early: the thread then ends with the next event, at the latest with this process.
    """
    arrived: SimpleQueue[One | _Broken | _Done] = SimpleQueue()  # Bounded by the rings that the pipe holds.
    rung, bell = os.pipe()
    threading.Thread(target=_fetch, args=(events, arrived, bell), name="asking", daemon=True).start()
    try:
        while True:
            if ears.hears(rung, only=not is_open()):
                yield Written(ears.line())
                continue
            os.read(rung, len(RING))
            match arrived.get():
                case _Broken(error):
                    raise error
                case _Done():
                    return
                case one:
                    yield one
    finally:
        os.close(rung)


def _fetch(events: Iterator[One], arrived: SimpleQueue[One | _Broken | _Done], bell: int) -> None:
    last: _Broken | _Done = _Broken(RuntimeError("what was followed broke off"))  # Whatever else happens, nobody hangs.
    try:
        for one in events:
            arrived.put(one)
            os.write(bell, RING)
        last = _Done()
    except Halt as error:  # It is raised where somebody waits for it.
        last = _Broken(error)
    except BrokenPipeError:
        pass  # Nobody waits any more.
    finally:
        arrived.put(last)
        with suppress(BrokenPipeError):
            os.write(bell, RING)
        os.close(bell)
