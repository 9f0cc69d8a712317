"""A person moves the session: who is talked with from now on by whoever names nobody."""

from __future__ import annotations

from planloop.app.core import Core
from planloop.app.exits import Exit, Halt
from planloop.controllers.agent import session
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Draft
from planloop.schemas.session import primary_of
from planloop.server.authors import author_of

WHERE = "plan get agents lists whom one can talk with"


async def move(core: Core, body: JsonObject) -> JsonObject:
    """Makes the agent at `to`, or behind the hook there, the primary one; `was` is the one before, empty for none.

    Raises Halt: NOT_FOUND, also for a hook without an agent.
    """
    view, to = core.store.view, str(body["to"])
    hook = view.get(to) if to.startswith("hook/") else None
    if hook is not None:
        to = str(hook.spec["mind"].get("address", to))
    agent, plan = view.get(to), view.get(f"plan/{core.place.name}")
    if agent is None or agent.deleting or plan is None:
        raise Halt(Exit.NOT_FOUND, f"there is no {to} to talk with", WHERE)
    was = primary_of(plan.status)
    changes = session.moved(view, plan.address, to, str(author_of(body)))
    rev = view.rev
    if changes:
        rev = core.store.propose(Draft("session.moved", str(author_of(body)), to, changes, {"was": was}))
    await core.store.flush(rev)
    return {"rev": rev, "primary": to, "was": was}
