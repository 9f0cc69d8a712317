"""`contest`: an agent that others' locks keep off files opens a conflict. `resolve`: one above both rules on it."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from planloop.controllers import leases
from planloop.controllers.agent.calling.holding import named
from planloop.controllers.agent.conflicts import opening, resolving, routing, waits
from planloop.controllers.agent.conflicts.opening import Opened
from planloop.controllers.agent.conflicts.resolving import Ruled, Unruled, Wish
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.locking import called
from planloop.controllers.agent.tools.patching import document, settlement_of
from planloop.controllers.agent.tools.tool import Context, Settlement, ok
from planloop.schemas import limits
from planloop.schemas.conflict import PERSON, How, Party, name
from planloop.schemas.lock import LockMode
from planloop.schemas.patch import Accepted, Patch

WRITE: Final[LockMode] = "write"


def contest(
    context: Context,
    paths: Annotated[
        list[str],
        Field(min_length=1, max_length=limits.CONFLICT_PATHS_MAX, description="Files or globs that you need."),
    ],
    intent: Annotated[
        str, Field(min_length=1, max_length=limits.CONFLICT_WORDS_MAX, description="What you want to do there.")
    ],
    proposal: Annotated[
        str, Field(max_length=limits.CONFLICT_WORDS_MAX, description="How you would settle it: who does what, when.")
    ] = "",
) -> Settlement:
    """Opens a conflict with whoever holds files that you need. The agent above both of you says how it goes on.

    You may write to each other until it is over. Meanwhile do something else, wait with `lock`, or sleep.
    """
    view, wanted = context.world.store.view, tuple(sorted({called(context, each) for each in paths}))
    owner, wants = leases.owner_of(context.seen.resource), dict.fromkeys(wanted, WRITE)
    others = tuple(waits.against(view, owner, wants))
    if not others:
        raise ToolFailed("NoConflict", f"nobody keeps you off {named(wanted)}: take it with `lock`, or write")
    seen = context.seen
    party = Party(context.agent, seen.resource.uid, seen.status.incarnation, intent, proposal)
    made = opening.opened_with(view, party, others, wanted, "contest", seen.now)
    if not made:
        raise ToolFailed("TooMany", f"{limits.CONFLICTS_OPEN_MAX} conflicts stand already: wait until some are over")
    words = ". ".join(_stands(context, one) for one in made)
    found = [one.address for one in made]
    changes = tuple(change for one in made for change in one.changes)
    return Settlement(ok(f"{words}. You are told the ruling", {"conflicts": found}), changes)


def _stands(context: Context, made: Opened) -> str:
    """A conflict in words: between whom it is, and who is to rule."""
    above = routing.lowest_above(context.agent, made.against)
    before = routing.first_able(context.world.store.view, above)
    where = "a person" if before == PERSON else before
    stands = "stands" if made.is_new else "stands already"
    return f"{made.address} {stands} between you and {name(made.against)}; it comes before {where}"


async def resolve(
    context: Context,
    conflict: Annotated[str, Field(min_length=1, description="Its name, as in `conflict/3`.")],
    how: Annotated[
        How,
        Field(
            description="The holder lets go; one goes first; one does both; one works in a branch; one is cancelled."
        ),
    ],
    for_agent: Annotated[str, Field(description="Whom it is about; the message of the conflict says.")] = "",
    plan: Annotated[str, Field(max_length=limits.CONFLICT_PLAN_MAX, description="What the parties are told.")] = "",
) -> Settlement:
    """Says how a conflict between two agents below you goes on. It takes effect at once, as a change of the plan."""
    world = context.world
    try:
        made = resolving.ruled(
            world.store.view, document(context), Wish(conflict, how, for_agent, plan), context.author, world.clock.now()
        )
    except Unruled as fault:
        raise ToolFailed(fault.reason, str(fault)) from None
    words = words_of(made)
    if made.is_again:
        return Settlement(ok(words))
    patch = Patch(context.author, made.ops, world.store.view.rev, words)
    verdict = await world.gate.rule(patch, made.changes, made.also)
    settlement = settlement_of(verdict, words)
    return settlement if not isinstance(verdict, Accepted) else Settlement(ok("\n".join((words, *verdict.notes))))


def words_of(made: Ruled) -> str:
    """The ruling in a line."""
    return f"ruled `{made.ruling.how}` for {name(made.ruling.for_agent)}"
