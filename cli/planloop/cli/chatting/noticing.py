"""What comes up while a person sits at the prompt: heard in a thread of its own, since reading a line blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from planloop.app.client import OwnerGone
from planloop.app.exits import Halt
from planloop.cli.chatting import listening
from planloop.cli.chatting.listening import Asks, Ended, Moved
from planloop.cli.chatting.room import Room
from planloop.schemas.record import record_from_json


def notice(room: Room, tell: Callable[[Asks | Moved | Ended], None]) -> None:
    """Has `tell` called, in another thread, with what from now on waits for a person, moves the session or ends it.

    It ends with the owner, or with this process.
    """
    access, agent, container = room.access, room.agent, room.container
    after = int(access.get("status")["rev"])

    def follow() -> None:
        try:
            for raw in access.stream("watch", after=after):
                for event in listening.events(record_from_json(raw), agent, container):
                    if isinstance(event, Asks | Moved | Ended):
                        tell(event)
        except (OwnerGone, Halt):
            return  # Whoever talks is told by what they do next.

    threading.Thread(target=follow, name="noticing", daemon=True).start()
