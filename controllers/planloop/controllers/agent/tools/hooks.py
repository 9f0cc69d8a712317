"""What agents that are hooks do: give a verdict, look back, quit, step into the foreground, and hand it over.

`meta` makes a hook the session's primary agent, and the agent that it watches its subagent; `endo` is the opposite: an
agent becomes a hook of one below it, which becomes primary. `hook`, which attaches one, is in `attaching.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from planloop.controllers.agent import session
from planloop.controllers.agent import status as statuses
from planloop.controllers.agent.hooking import shown_transcript, watchers
from planloop.controllers.agent.hooking.lattice import strictness
from planloop.controllers.agent.mail import topology
from planloop.controllers.agent.mail.answering import VERDICT
from planloop.controllers.agent.mail.topology import NotReachable
from planloop.controllers.agent.status import boxed
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.patching import document, submit
from planloop.controllers.agent.tools.tool import Context, Settlement, ok
from planloop.reconciler.editing.watching import stated_name
from planloop.reconciler.effects.clamping import clamped
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits, patterns, pointer
from planloop.schemas.call import CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.hook import ACTIVE, OVER, Decision, hook_address
from planloop.schemas.patching import Op
from planloop.schemas.record import Change, SetStatus
from planloop.schemas.resource import Resource

ENDO_POINTS: Final = ("on-input", "before-reply")
"""Where an agent that has handed over is asked: what the other is told, and what it is about to say."""


def verdict(
    context: Context,
    decision: Annotated[Decision, Field(description="`ask` wants a person's yes, `defer` is a no for now.")] = "allow",
    reason: Annotated[str, Field(description="Why, for the agent that you watch.")] = "",
    comment: Annotated[str, Field(description="What it is to be told beside that.")] = "",
    updated_input: Annotated[dict[str, Any] | None, Field(description="Other arguments for its call, all.")] = None,
) -> Settlement:
    """Answers what you were asked as a hook. Your turn ends with it."""
    said: JsonObject = {"decision": decision, "reason": reason, "comment": comment}
    if updated_input is not None and decision in ("deny", "defer"):
        raise ToolFailed(
            "BadArguments", f"`updated_input` beside `{decision}`: a call that is not made has no arguments"
        )
    if updated_input is not None:
        said["updated_input"] = updated_input
    return _given(context, said)


def leave(
    context: Context, reason: Annotated[str, Field(description="Why you are of no more use here.")] = ""
) -> Settlement:
    """Ends your being a hook: you are asked no more. What you were asked just now is allowed."""
    if _question(context) is not None:
        return _given(context, {"decision": "allow", "reason": reason, "quit": True})
    served, view = _served(context), context.world.store.view
    own = context.seen.spec.watches
    back = session.handed_back(view, context.world.plan, context.agent, own) if own else ()
    return Settlement(
        ok("you are no hook any more"), (*_over(view, served, reason), *back), data={"over": _names(served)}
    )


def transcript(
    context: Context,
    text: Annotated[str, Field(description="Only what has this in it; `*` is anything.")] = "",
    turns: Annotated[int, Field(ge=1, le=limits.HOOK_TRANSCRIPT_TURNS_MAX)] = shown_transcript.TURNS_DEFAULT,
    turn: Annotated[int | None, Field(description="This one alone, in full.")] = None,
    agent: Annotated[str, Field(description="If you watch several.")] = "",
) -> Settlement:
    """Reads the transcript of the agent that you watch: newest turns, one turn, or where a text occurs."""
    view, known = context.world.store.view, [str(each.spec["watches"]) for each in _served(context)]
    watched = list(dict.fromkeys(one for one in known if agent in ("", one, one.partition("/")[2])))
    found = view.get(watched[0]) if len(watched) == 1 else None
    if found is None:
        raise ToolFailed("NoSuchAgent", f"name one that you watch: {', '.join(dict.fromkeys(known))}")
    # A search goes through all turns unless it is told how many.
    newest = limits.TURNS_SEARCHED_MAX if text and turns == shown_transcript.TURNS_DEFAULT else turns
    chars = limits.HOOK_TRANSCRIPT_CHARS_MAX if turn is not None else shown_transcript.CHARS_DEFAULT
    wanted = shown_transcript.Excerpt(newest, text, chars, turn)
    messages = shown_transcript.shown(statuses.read(found.status), wanted, context.world.store.get_blob)
    said = shown_transcript.text_of(messages) or "nothing of the kind"
    return Settlement(ok(clamped(said.encode(), limits.RECALL_BYTES)))


def meta(context: Context, reason: Annotated[str, Field(description="Why now, for the log.")] = "") -> Settlement:
    """Makes you the one that the person talks with; the agent that you watch becomes your subagent."""
    served = _served(context)
    view = context.world.store.view
    moved = session.moved(view, context.world.plan, context.agent, str(context.author))
    # What it handed over by `endo` it takes back; whatever else it is a hook of it stays.
    handed = [each for each in served if stated_name(each.spec) == _name_by(context)]
    ended = _over(view, handed, reason or "it took the session back")
    watched = ", ".join(dict.fromkeys(str(each.spec["watches"]) for each in served))
    return Settlement(ok(f"the session is with you; {watched} is your subagent"), (*moved, *ended))


async def endo(
    context: Context,
    subagent: Annotated[str, Field(min_length=1, description="An agent below you, by id or path.")],
    reason: Annotated[str, Field(description="Why, for the log.")] = "",
) -> Settlement:
    """Hands the session over: the person talks with that agent, and you become a hook of it.

    You are asked about what it is told and what it is about to say; `meta` takes the session back.
    """
    _check_way_back(context)
    below = _below(context, subagent)
    view = context.world.store.view
    words = f"the person talks with {below} now; you are asked about what it hears and says. `meta` takes it back"
    moved = session.moved(view, context.world.plan, below, str(context.author))
    if context.seen.spec.watches == below:  # It is its hook already.
        return Settlement(ok(words), moved)
    _no_ring(context, below)
    made = await _attached(context, below, reason, moved)
    is_made = made.result.state is CallState.SUCCEEDED and "held" not in (made.result.value or {})
    return replace(made, result=ok(words)) if is_made else made


def _check_way_back(context: Context) -> None:
    """Raises ToolFailed if a denial keeps the caller from `meta`: it could never take the session back."""
    rights = context.seen.spec.rights
    if denial := patterns.denied_by((*rights.deny, *rights.guarded), "meta", ()):
        raise ToolFailed("NoWayBack", f"`{denial}` denies you `meta`: you could not take the session back")


async def _attached(context: Context, below: str, reason: str, moved: Sequence[Change]) -> Settlement:
    """Has the plan say that the caller is a hook of the agent at `below`; in the same record the session moves.

    Else that agent could end its task by an answer between the two. A hook of it that was over is asked again.
    """
    name = _name_by(context)
    path = (*pointer.of_task(addresses.parse(below).path), "hooks")
    node: JsonObject = {"on": list(ENDO_POINTS), "agent": {"as": context.agent}, "copy": "none", "on-fault": "note"}
    is_first = not pointer.has(document(context), path)
    op = Op("add", path, {name: node}) if is_first else Op("add", (*path, name), node)
    old = context.world.store.view.get(hook_address(below, name))
    is_over = old is not None and old.state == OVER
    again = (SetStatus(old.address, old.uid, {"state": ACTIVE, "why": None}),) if old is not None and is_over else ()
    return await submit(context, [op], reason or f"hands over to {below}", (*moved, *again))


def _name_by(context: Context) -> str:
    """What the hooks are called that the caller becomes by `endo`."""
    own = "-".join(context.task_path) or "root"
    return f"by-{own[-limits.TASK_ID_CHARS_MAX :].strip('-')}"


def _below(context: Context, name: str) -> str:
    """The agent below the caller that it means; for one made for a hook, whom it watches. Raises ToolFailed."""
    watches, mine = context.seen.spec.watches, addresses.parse(context.agent)
    if watches:
        if name.removeprefix("agent/") not in (watches.partition("/")[2], addresses.parse(watches).name):
            raise ToolFailed("NotBelow", f"your subagent is {watches}: to that one you hand over")
        return watches
    try:
        found = topology.named(context.world.store.view, context.seen.resource, name)
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None
    below = [each for each in found if addresses.parse(each).is_within(mine) and each != context.agent]
    if len(below) != 1:
        raise ToolFailed("NotBelow", f"`{name}` is no one agent below you: only to such you hand over")
    return below[0]


def _no_ring(context: Context, below: str) -> None:
    """Raises ToolFailed when the agent at `below` watches the caller, directly or through others."""
    watching: dict[str, list[str]] = {}
    view = context.world.store.view
    for each in view.list("hook"):
        if not watchers.is_over(view, each):
            watching.setdefault(str(each.spec["mind"].get("address", "")), []).append(str(each.spec["watches"]))
    known, front = {below}, [below]
    while front:
        for watched in watching.get(front.pop(), ()):
            if watched == context.agent:
                raise ToolFailed("Ring", f"{below} is a hook of yours, so that you would wait for each other")
            if watched not in known:
                known.add(watched)
                front.append(watched)


def _served(context: Context) -> Sequence[Resource]:
    """The hooks that the caller is. Raises ToolFailed when it is none."""
    found = watchers.served(context.world.store.view, context.agent)
    if not found:
        raise ToolFailed("NoHook", "only an agent that is a hook of another can do this")
    return found


def _question(context: Context) -> str | None:
    """The question to a hook that the caller has to answer; None without one."""
    asked = watchers.answered_now(context.seen.status.asked.values())
    return next((each.id for each in asked if each.kind == watchers.QUESTION), None)


def _given(context: Context, said: JsonObject) -> Settlement:
    if _question(context) is None:
        raise ToolFailed("NoQuestion", "nobody waits for your verdict")
    opened = context.seen.status.open
    before = None if opened is None or opened.claim is None else opened.claim.get("result")
    if isinstance(before, dict) and strictness(before.get("decision")) > strictness(said["decision"]):
        return Settlement(ok("what you said before is stricter, and counts"))
    return Settlement(ok("given"), turn={"claim": boxed({"kind": VERDICT, "result": said})})


def _over(view: View, hooks: Sequence[Resource], reason: str) -> tuple[Change, ...]:
    merge: JsonObject = {"state": OVER, "why": reason or "it has quit"}
    return tuple(
        SetStatus(each.address, each.uid, {**merge, "incarnation": watchers.run_of(view, each)}) for each in hooks
    )


def _names(hooks: Sequence[Resource]) -> list[str]:
    return [each.address for each in hooks]
