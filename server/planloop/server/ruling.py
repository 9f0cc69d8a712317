"""A person rules on a conflict: a patch in their name, with what takes effect with it. Loaded only for that."""

from __future__ import annotations

from planloop.app.core import Core
from planloop.app.exits import Exit, Halt
from planloop.controllers.agent.conflicts import resolving
from planloop.controllers.agent.conflicts.resolving import Unruled, Wish
from planloop.schemas.encoding import JsonObject
from planloop.schemas.patch import Accepted, Patch
from planloop.server.authors import author_of
from planloop.server.forms import verdict_to_json

CODES = {"NotFound": Exit.NOT_FOUND, "Resolved": Exit.CONFLICT, "BadArguments": Exit.USAGE}


async def rule(core: Core, body: JsonObject) -> JsonObject:
    """Makes the ruling that `body` asks for: `conflict`, `how`, and where given `for` and `plan`. Raises Halt."""
    view, plan = core.store.view, core.plan
    wish = Wish(str(body["conflict"]), str(body["how"]), str(body.get("for") or ""), str(body.get("plan") or ""))
    try:
        made = resolving.ruled(view, {} if plan is None else plan.spec, wish, author_of(body), core.clock.now())
    except Unruled as fault:
        raise Halt(
            CODES.get(fault.reason, Exit.REFUSED), str(fault), "plan get conflicts lists what there is"
        ) from None
    said = f"ruled `{made.ruling.how}` for {made.ruling.for_agent.partition('/')[2]}"
    if made.is_again:
        return verdict_to_json(Accepted(view.rev, (f"{said} already",)), (), is_changed=False)
    patch = Patch(author_of(body), made.ops, view.rev, f"{wish.conflict}: {said}", is_approved=True)
    verdict = await core.gate.rule(patch, made.changes, made.also)
    return verdict_to_json(verdict, ()) | {"said": said}
