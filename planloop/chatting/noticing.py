"""What comes up while a person sits at the prompt: heard in a thread of its own, since reading a line blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from planloop.access import Access
from planloop.chatting import listening
from planloop.chatting.listening import Asks, Moved
from planloop.client import OwnerGone
from planloop.exits import Halt
from schemas.record import record_from_json


def notice(access: Access, agent: str, tell: Callable[[Asks | Moved], None]) -> None:
    """Has `tell` called, in another thread, with everything that from now on waits for a person, or moves the session.

    It ends with the owner, or with this process.
    """
    after = int(access.get("status")["rev"])

    def follow() -> None:
        try:
            for raw in access.stream("watch", after=after):
                for event in listening.events(record_from_json(raw), agent):
                    if isinstance(event, Asks | Moved):
                        tell(event)
        except (OwnerGone, Halt):
            return  # Whoever talks is told by what they do next.

    threading.Thread(target=follow, name="noticing", daemon=True).start()
