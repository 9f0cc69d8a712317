"""Events of an agent and lines from the person, as one ordered stream."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Protocol, TypeVar

from planloop.client import chat_events
from planloop.client.chat_events import ApprovalRequested, ContainerEnded, SessionMoved
from planloop.client.chat_target import ChatTarget
from planloop.client.exit_codes import CommandError
from planloop.client.owner_client import OwnerGone
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import record_from_json

# What comes up while a person sits at the prompt: heard in a thread of its own, since reading a line blocks.


def print_notices(room: ChatTarget, tell: Callable[[ApprovalRequested | SessionMoved | ContainerEnded], None]) -> None:
    """Has `tell` called, in another thread, with what from now on waits for a person, moves the session or ends it.

    It ends with the owner, or with this process.
    """
    access, agent, container = room.access, room.agent, room.container
    after = int(access.get("status")["rev"])

    def follow() -> None:
        try:
            for raw in access.stream("watch", after=after):
                for event in chat_events.chat_events(record_from_json(raw), agent, container):
                    if isinstance(event, ApprovalRequested | SessionMoved | ContainerEnded):
                        tell(event)
        except (OwnerGone, CommandError):
            return  # Whoever talks is told by what they do next.

    threading.Thread(target=follow, name="noticing", daemon=True).start()


# What an agent does and what a person writes meanwhile, as one stream in the order in which both come.
#
# Only one of the two blocks at a time: what an agent does is awaited in a thread of its own, which rings on a
# descriptor that a terminal can wait for beside its keys. Whatever is done about either is done by the thread that
# asks.

StreamItem = TypeVar("StreamItem")
RING: Final = b"\0"


class PersonInput(Protocol):
    """Where a person writes: what can be waited for beside something else."""

    def hears(self, other: int, *, only: bool) -> bool:
        """Waits for a line or for the descriptor `other`, or `only` for that; whether there is a line."""
        ...

    def line(self) -> str | None:
        """The line that was heard; None at the end of input."""
        ...


@frozen
class PersonWrote:
    """A line of the person; None at the end of what they write."""

    text: str | None


@frozen
class _Broken:
    error: Exception


class _Done:
    """There is no more."""


def merged_stream(
    events: Iterator[StreamItem], ears: PersonInput, is_open: Callable[[], bool]
) -> Generator[StreamItem | PersonWrote]:
    """All `events`, and what is written until the last of them while `is_open()`. Raises CommandError as `events` do.

    Close it to stop early: the thread then ends with the next event, at the latest with this process.
    """
    arrived: SimpleQueue[StreamItem | _Broken | _Done] = SimpleQueue()  # Bounded by the rings that the pipe holds.
    rung, bell = os.pipe()
    threading.Thread(target=_fetch, args=(events, arrived, bell), name="asking", daemon=True).start()
    try:
        while True:
            if ears.hears(rung, only=not is_open()):
                yield PersonWrote(ears.line())
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


def _fetch(events: Iterator[StreamItem], arrived: SimpleQueue[StreamItem | _Broken | _Done], bell: int) -> None:
    last: _Broken | _Done = _Broken(RuntimeError("what was followed broke off"))  # Whatever else happens, nobody hangs.
    try:
        for one in events:
            arrived.put(one)
            os.write(bell, RING)
        last = _Done()
    except CommandError as error:  # It is raised where somebody waits for it.
        last = _Broken(error)
    except BrokenPipeError:
        pass  # Nobody waits any more.
    finally:
        arrived.put(last)
        with suppress(BrokenPipeError):
            os.write(bell, RING)
        os.close(bell)
