"""The hook tools: attach a hook; as a hook give a verdict, read the transcript, quit, or take over the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypedDict, Unpack

from pydantic import BeforeValidator, Field

from planloop.controllers.agent import session
from planloop.controllers.agent import status as statuses
from planloop.controllers.agent.hooks import agent_hooks, watchers
from planloop.controllers.agent.hooks.verdicts import strictness
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.mail.message_policy import NotReachable
from planloop.controllers.agent.mail.wake_reasons import VERDICT_CLAIM
from planloop.controllers.agent.status import wrap_value
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.plan import live_document, patch_as_agent
from planloop.controllers.agent.tools.tool import Settlement, ToolContext, success
from planloop.reconciler.diff.hook_diff import stated_name
from planloop.reconciler.effects.truncate import truncate_output
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer, limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.record import Change, SetStatus
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.hook import ACTIVE, OVER, Decision, HookPoint, hook_address
from planloop.schemas.resource import Resource
from planloop.schemas.rules.language import CONDITIONS, EFFECTS

# `hook` attaches a hook to the agent or to a descendant, by a patch. Like a child, the hook gets its rights from the
# agent that it is attached to, and the gate checks that its program or model is within the rights of the author. A hook
# that uses the tool attaches the new hook to the agent that it watches.

UNCHANGED_HOOK_FIELDS: Final = ("on", "match", "rule", "run", "extends", "settings", "expires", "budget")
"""Fields of a hook that the document has under the same name."""

HOOK_AGENT_FIELDS: Final = ("prompt", "model", "tools")

RULE_HELP: Final = (
    'Clauses, read from the top, for example `[{when: {call: "shell(git push*)"}, deny: Leave pushing to people.}]`. '
    f"Keys of `when`: {', '.join(CONDITIONS)}. "
    f"Keys of a clause: {', '.join(name for name in EFFECTS if name != 'consult')}."
)
"""All that a model knows of the rule language before its first rule; errors explain the values of a key."""


def _listed(value: Json) -> Json:
    """Accept a single point as a list of one: models and scripts write both."""
    return [value] if isinstance(value, str) else value


class HookFields(TypedDict, total=False):
    """Fields of a hook; the gate's schema reports errors."""

    on: Annotated[list[HookPoint] | None, BeforeValidator(_listed)]
    to: Annotated[str | None, Field(description="Child to watch, as a path below you; default: you.")]
    match: Annotated[str | None, Field(description="Only calls like this, for example `write(src/**)`.")]
    prompt: Annotated[str | None, Field(description="What the hook agent should watch for.")]
    model: Annotated[str | None, Field(description="Of the hook agent; default: yours.")]
    tools: Annotated[list[str] | None, Field(description="Of the hook agent; default: none.")]
    rule: Annotated[list[dict[str, Any]] | None, Field(description=RULE_HELP)]
    run: Annotated[Any, Field(description="Program that reads a question and prints a verdict, as JSON.")]
    extends: Annotated[str | None, Field(description="For example `lib:planning`.")]
    settings: Annotated[dict[str, Any] | None, Field(description="For `extends`.")]
    expires: Annotated[dict[str, Any] | None, Field(description="`{turns: 10}` or `{time: 1h}`.")]
    budget: Annotated[dict[str, Any] | None, Field(description="For example `{tokens: 20000}`.")]
    more: Annotated[
        dict[str, Any] | None,
        Field(description="Other fields: `on-fault` (deny, note), `timeout`, `copy`, `contract`, `python`."),
    ]


async def hook(
    context: ToolContext,
    name: Annotated[str, Field(min_length=1)],
    reason: str = "",
    **fields: Unpack[HookFields],
) -> Settlement:
    """Attach a hook to yourself or a child: a rule, a program, or an agent with a prompt and a model.

    It is asked at the points `on` and may comment, allow, deny or rewrite. You cannot read its answers. You cannot
    change hooks from above you.
    """
    path = (*json_pointer.task_pointer(_place(context, fields.get("to") or "")), "hooks")
    node = hook_from_fields({key: value for key, value in fields.items() if value is not None})
    is_first = not json_pointer.has_value(live_document(context), path)
    op = PatchOp("add", path, {name: node}) if is_first else PatchOp("add", (*path, name), node)
    return await patch_as_agent(context, [op], reason or f"attaches the hook {name}")


def hook_from_fields(fields: JsonObject) -> JsonObject:
    """Convert the arguments to a hook of the document. Raises ToolFailed."""
    written: JsonObject = {name: fields[name] for name in UNCHANGED_HOOK_FIELDS if name in fields}
    node = combine_fields(fields.get("more", {}), written)
    own: JsonObject = {name: fields[name] for name in HOOK_AGENT_FIELDS if name in fields}
    if own and "prompt" not in own and "extends" not in fields:
        names = " and ".join(f"`{name}`" for name in own)
        raise ToolFailed("BadArguments", f"{names} without `prompt`: give the prompt of the hook agent")
    return combine_fields(node, {"agent": own} if own else {})


def combine_fields(more: JsonObject, given: JsonObject) -> JsonObject:
    """Return `more` and `given` as one map. Raises ToolFailed if a field has two values."""
    if twice := [name for name in given if name in more and more[name] != given[name]]:
        raise ToolFailed("BadArguments", f"`{twice[0]}` has two values, one in `more` and one outside it")
    return more | given


def _place(context: ToolContext, to: str) -> tuple[str, ...]:
    """Return the path of the task whose agent the hook watches."""
    parts = tuple(part for part in to.removeprefix("agent/").removeprefix("task/").split("/") if part not in ("", "."))
    own = context.task_path
    return parts if parts[: len(own)] == own and len(parts) >= len(own) else (*own, *parts)


# `meta` makes a hook the primary agent of the session and the agent that it watches its subagent. `endo` is the
# opposite: an agent becomes a hook of a descendant, which becomes primary.

ENDO_POINTS: Final = ("on-input", "before-reply")
"""The points of the hook that `endo` attaches: each message to the other agent, and each reply before it is sent."""


def verdict(
    context: ToolContext,
    decision: Annotated[
        Decision, Field(description="`ask` needs a person's approval, `defer` denies for now.")
    ] = "allow",
    reason: Annotated[str, Field(description="For the agent that you watch.")] = "",
    comment: Annotated[str, Field(description="More text for that agent.")] = "",
    updated_input: Annotated[dict[str, Any] | None, Field(description="All arguments for its call, changed.")] = None,
) -> Settlement:
    """Answer the question that you were asked as a hook. This ends your turn."""
    answer: JsonObject = {"decision": decision, "reason": reason, "comment": comment}
    if updated_input is not None and decision in ("deny", "defer"):
        raise ToolFailed("BadArguments", f"`updated_input` is not allowed with `{decision}`, which prevents the call")
    if updated_input is not None:
        answer["updated_input"] = updated_input
    return _given(context, answer)


def leave(context: ToolContext, reason: str = "") -> Settlement:
    """Stop being a hook: you are not asked again. This allows what you were asked just now."""
    if _question(context) is not None:
        return _given(context, {"decision": "allow", "reason": reason, "quit": True})
    served, view = _served(context), context.services.store.view
    own = context.seen.spec.watches
    back = session.session_return_changes(view, context.services.plan, context.agent, own) if own else ()
    return Settlement(
        success("you are no longer a hook"), (*_over(view, served, reason), *back), data={"over": _names(served)}
    )


def transcript(
    context: ToolContext,
    text: Annotated[str, Field(description="Only messages with this text; `*` matches anything.")] = "",
    turns: Annotated[int, Field(ge=1, le=limits.HOOK_TRANSCRIPT_TURNS_MAX)] = agent_hooks.TURNS_DEFAULT,
    turn: Annotated[int | None, Field(description="Only this turn, in full.")] = None,
    agent: Annotated[str, Field(description="If you watch several.")] = "",
) -> Settlement:
    """Read the transcript of the agent that you watch: the newest turns, one turn, or the places of a text."""
    view, known = context.services.store.view, [str(each.spec["watches"]) for each in _served(context)]
    watched = list(dict.fromkeys(one for one in known if agent in ("", one, one.partition("/")[2])))
    found = view.get(watched[0]) if len(watched) == 1 else None
    if found is None:
        raise ToolFailed("NoSuchAgent", f"name one agent that you watch: {', '.join(dict.fromkeys(known))}")
    # A search without a number covers all turns.
    newest = limits.TURNS_SEARCHED_MAX if text and turns == agent_hooks.TURNS_DEFAULT else turns
    chars = limits.HOOK_TRANSCRIPT_CHARS_MAX if turn is not None else agent_hooks.CHARS_DEFAULT
    wanted = agent_hooks.TranscriptExcerpt(newest, text, chars, turn)
    messages = agent_hooks.excerpt_messages(
        statuses.read_agent_status(found.status), wanted, context.services.store.get_blob
    )
    found_text = agent_hooks.excerpt_text(messages) or "no matching messages"
    return Settlement(success(truncate_output(found_text.encode(), limits.RECALL_BYTES)))


def meta(context: ToolContext, reason: str = "") -> Settlement:
    """Take over the conversation with the person. The agent that you watch becomes your subagent."""
    served = _served(context)
    view = context.services.store.view
    moved = session.session_move_changes(view, context.services.plan, context.agent, str(context.author))
    # `meta` reverts `endo`; the agent stays a hook of others.
    handed = [each for each in served if stated_name(each.spec) == _name_by(context)]
    ended = _over(view, handed, reason or "the agent took the session back")
    watched = ", ".join(dict.fromkeys(str(each.spec["watches"]) for each in served))
    return Settlement(success(f"you talk with the person now; {watched} is your subagent"), (*moved, *ended))


async def endo(
    context: ToolContext,
    subagent: Annotated[str, Field(min_length=1)],
    reason: str = "",
) -> Settlement:
    """Hand the conversation with the person over to an agent below you (id or path), and become its hook.

    You are asked about each message to it and each reply before it is sent. `meta` takes the conversation back.
    """
    _check_way_back(context)
    below = _below(context, subagent)
    view = context.services.store.view
    words = f"the person talks with {below} now. You are asked about its messages. `meta` takes the conversation back"
    moved = session.session_move_changes(view, context.services.plan, below, str(context.author))
    if context.seen.spec.watches == below:  # It is its hook already.
        return Settlement(success(words), moved)
    _no_ring(context, below)
    made = await _attached(context, below, reason, moved)
    is_made = made.result.state is CallState.SUCCEEDED and "held" not in (made.result.value or {})
    return replace(made, result=success(words)) if is_made else made


def _check_way_back(context: ToolContext) -> None:
    """Raise ToolFailed if the caller may not use `meta`: it could never take the session back."""
    rights = context.seen.spec.rights
    if denial := patterns.find_denial((*rights.deny, *rights.guarded), "meta", ()):
        raise ToolFailed("NoWayBack", f"`{denial}` denies you `meta`, so you could not take the session back")


async def _attached(context: ToolContext, below: str, reason: str, moved: Sequence[Change]) -> Settlement:
    """Attach the caller as a hook to the agent at `below`, and move the session in the same record.

    With two records, that agent could end its task by an answer between them. An ended hook of the caller is reused.
    """
    name = _name_by(context)
    path = (*json_pointer.task_pointer(addresses.parse_address(below).path), "hooks")
    node: JsonObject = {"on": list(ENDO_POINTS), "agent": {"as": context.agent}, "copy": "none", "on-fault": "note"}
    is_first = not json_pointer.has_value(live_document(context), path)
    op = PatchOp("add", path, {name: node}) if is_first else PatchOp("add", (*path, name), node)
    old = context.services.store.view.get(hook_address(below, name))
    is_over = old is not None and old.state == OVER
    again = (SetStatus(old.address, old.uid, {"state": ACTIVE, "why": None}),) if old is not None and is_over else ()
    return await patch_as_agent(context, [op], reason or f"hands over to {below}", (*moved, *again))


def _name_by(context: ToolContext) -> str:
    """Return the name of the hook that `endo` attaches for the caller."""
    own = "-".join(context.task_path) or "root"
    return f"by-{own[-limits.TASK_ID_CHARS_MAX :].strip('-')}"


def _below(context: ToolContext, name: str) -> str:
    """Resolve the name of a descendant; for the agent of a hook, of the agent that it watches. Raises ToolFailed."""
    watches, mine = context.seen.spec.watches, addresses.parse_address(context.agent)
    if watches:
        if name.removeprefix("agent/") not in (watches.partition("/")[2], addresses.parse_address(watches).name):
            raise ToolFailed("NotBelow", f"you can hand over to {watches} only, the agent that you watch")
        return watches
    try:
        found = message_policy.resolve_names(context.services.store.view, context.seen.resource, name)
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None
    below = [each for each in found if addresses.parse_address(each).is_within(mine) and each != context.agent]
    if len(below) != 1:
        raise ToolFailed("NotBelow", f"`{name}` does not name exactly one agent below you")
    return below[0]


def _no_ring(context: ToolContext, below: str) -> None:
    """Raise ToolFailed if the agent at `below` watches the caller, directly or through other hooks."""
    watching: dict[str, list[str]] = {}
    view = context.services.store.view
    for each in view.list("hook"):
        if not watchers.is_hook_over(view, each):
            watching.setdefault(str(each.spec["mind"].get("address", "")), []).append(str(each.spec["watches"]))
    known, front = {below}, [below]
    while front:
        for watched in watching.get(front.pop(), ()):
            if watched == context.agent:
                raise ToolFailed("Ring", f"{below} is a hook of yours: each of you would wait for the other")
            if watched not in known:
                known.add(watched)
                front.append(watched)


def _served(context: ToolContext) -> Sequence[Resource]:
    """Return the hooks whose agent is the caller. Raises ToolFailed if there are none."""
    found = watchers.hooks_served(context.services.store.view, context.agent)
    if not found:
        raise ToolFailed("NoHook", "you are not a hook, and only a hook can do this")
    return found


def _question(context: ToolContext) -> str | None:
    """Return the id of the hook question that the caller has to answer, or None."""
    asked = watchers.questions_answered(context.seen.status.mail.asked.values())
    return next((each.id for each in asked if each.kind == watchers.QUESTION_KEY), None)


def _given(context: ToolContext, answer: JsonObject) -> Settlement:
    if _question(context) is None:
        raise ToolFailed("NoQuestion", "no question waits for your verdict")
    opened = context.seen.status.open
    before = None if opened is None or opened.claim is None else opened.claim.get("result")
    if isinstance(before, dict) and strictness(before.get("decision")) > strictness(answer["decision"]):
        return Settlement(success("your earlier verdict is stricter and stays in force"))
    return Settlement(success("recorded"), turn={"claim": wrap_value({"kind": VERDICT_CLAIM, "result": answer})})


def _over(view: View, hooks: Sequence[Resource], reason: str) -> tuple[Change, ...]:
    merge: JsonObject = {"state": OVER, "why": reason or "the hook has quit"}
    return tuple(
        SetStatus(each.address, each.uid, {**merge, "incarnation": watchers.watched_incarnation(view, each)})
        for each in hooks
    )


def _names(hooks: Sequence[Resource]) -> list[str]:
    return [each.address for each in hooks]
