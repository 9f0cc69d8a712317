"""A person breaks a lock: recorded in their name, and told to who held it. Loaded only for that."""

from __future__ import annotations

from planloop.app.core import Core
from planloop.app.exits import Exit, Halt
from planloop.controllers.agent.mail import inbox
from planloop.controllers.leases import broken
from planloop.reconciler.storing.store import View
from planloop.schemas.encoding import JsonObject
from planloop.schemas.message import Message
from planloop.schemas.record import Change, Draft
from planloop.server.authors import author_of


async def unlock(core: Core, body: JsonObject) -> JsonObject:
    """Takes the lock at `lock` from all who hold it, for `reason`. Raises Halt: NOT_FOUND when nobody does."""
    view, address, by = core.store.view, str(body["lock"]), str(author_of(body))
    reason, now = str(body.get("reason", "")), core.clock.now()
    made = broken(view, address.partition("/")[2], by, reason, now)
    if not made.owners:
        what = "nobody holds" if view.get(address) is not None else "there is no lock"
        raise Halt(Exit.NOT_FOUND, f"{what} {address}", "plan get locks lists who holds what")
    told = [change for owner in made.owners for change in _told(core, owner, by, (address, reason, now))]
    data: JsonObject = {"owners": list(made.owners), "why": "broken", "reason": reason}
    rev = await core.store.append(Draft("lock.fenced", by, address, (*made.changes, *told), data))
    return {
        "rev": rev,
        "owners": list(made.owners),
        "commands": [each for each in made.owners if _is_command(view, each)],
    }


def _is_command(view: View, owner: str) -> bool:
    """Whether a task holds it whose command writes what it likes: nothing of it passes a fence."""
    found = view.get(owner)
    return found is not None and found.kind == "task" and found.spec["work"]["kind"] == "run"


def _told(core: Core, owner: str, by: str, broken_lock: tuple[str, str, float]) -> tuple[Change, ...]:
    """The message to the agent that held it, or works for the task that did. It wakes nobody: it matters at a write."""
    lock, reason, now = broken_lock
    agent = f"agent/{owner.partition('/')[2]}"
    why = f": {reason}" if reason else ""
    text = f"A person took {lock} from you{why}. What you write under it is refused until you have locked it again."
    message = Message(core.ids.mint(), "control", by, agent, text, now, delivery="steer", wakes=False)
    found = inbox.delivery(core.store.view, message)
    return () if isinstance(found, inbox.Refusal) else found
