"""What hooks leave when a turn ends: answers sent back, and comments that become messages. Pure.

Pure. What wakes an agent by a hook's word is bounded, so that no agent and hook talk to each other for ever: an answer
is sent back so often and then taken, and comments wake a sleeping agent so often and then wait for its next turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from planloop.controllers.agent.hooks import agent_hooks, questions, verdicts
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.mail.message_policy import DeliveryRefused
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import OpenTurn, TurnCall, TurnVerdict
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop
from planloop.schemas.objects.call import arguments_as_map
from planloop.schemas.objects.hook import ABOUT_CALLS, HookPoint
from planloop.schemas.objects.message import Message

HOOK_SENDER: Final = "hook:"
"""Before a hook's name, where a comment is a message."""
OPENING_POINTS: Final[tuple[HookPoint, ...]] = ("on-wake", "on-input", "on-child", "on-budget", "on-conflict")
LAST_POINTS: Final[tuple[HookPoint, ...]] = ("before-reply", "on-sleep", "on-end")
COMMENT_PLACES: Final = {point: place for place, point in enumerate((*OPENING_POINTS, *ABOUT_CALLS, *LAST_POINTS))}
_SPEAKING: Final = frozenset({"send", "discuss", "answer", "task", "restore"})


@frozen
class HookOutcome:
    """`merge` goes into the agent's status and `changes` into the record of the turn's end.

    `is_sent_back`: its answer does not count, and it goes on.
    """

    merge: JsonObject
    changes: tuple[Change, ...] = ()
    is_sent_back: bool = False


NO_OUTCOME: Final = HookOutcome({})


def outcome_of_turn(seen: ObservedAgent, view: View, opened: OpenTurn) -> HookOutcome:
    """What the hooks of the agent leave of the turn that ends."""
    if not seen.hooks.watching and not opened.hooks.fired:
        return NO_OUTCOME
    merge: JsonObject = {}
    back = questions.verdict_on_answer(seen, opened)
    is_sent_back = back.decision != "allow"
    if is_sent_back:
        merge["sent_back"] = seen.status.progress.sent_back + 1
    elif seen.status.progress.sent_back and (
        opened.claim is not None or (not opened.reply.calls and questions.is_final_reply(seen, opened))
    ):
        merge["sent_back"] = 0
    told = list(_messages(seen, opened, back))
    changes: tuple[Change, ...] = ()
    for message in told:
        delivered = message_policy.delivery_changes(view, message, is_counted=False)
        changes += () if isinstance(delivered, DeliveryRefused) else delivered
    if any(one.wakes for one in told) and not is_sent_back:
        merge["nudges"] = seen.status.progress.nudges + 1
    if (spoken := _spoken(seen, opened)) != seen.status.mail.spoken:
        gone: dict[str, None] = dict.fromkeys(name for name in seen.status.mail.spoken if name not in spoken)
        merge["spoken"] = {**spoken, **gone}
    return HookOutcome(merge, (*changes, *withdraw_questions_changes(seen, view, opened)), is_sent_back)


def _messages(seen: ObservedAgent, opened: OpenTurn, back: verdicts.MergedVerdict) -> Iterator[Message]:
    """What the agent is told of the end of its turn. Where a call of its has the answer as its result, not again."""
    is_shown = opened.claim is None and any(not call.is_implied for call in opened.reply.calls)
    if back.decision != "allow" and not is_shown:
        yield _message(seen, opened, "reply", f"Your answer was sent back, go on. {back.words}", wakes=True)
    may_wake = seen.status.progress.nudges < limits.HOOK_NUDGES_MAX
    for hook, point, words in comments_at(opened, ("before-reply", "on-sleep", "on-end")):
        wakes = may_wake and point == "on-sleep"
        yield _message(seen, opened, hook, words, wakes=wakes, point=point)


def _message(seen: ObservedAgent, opened: OpenTurn, hook: str, body: str, *, wakes: bool, point: str = "") -> Message:
    name = f"{seen.resource.uid}.{seen.status.incarnation}.{opened.turn}.{point}{hook}"
    address = seen.resource.address
    return Message(name, "control", f"{HOOK_SENDER}{hook}", address, body, seen.now, wakes=wakes)


def comments_at(opened: OpenTurn, points: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Hook, point and words of each comment of the turn at these points, in a fixed order."""
    wanted = frozenset(points)
    for one in verdicts_in_order(opened):
        if one.point in wanted and (words := verdicts.describe_verdict(one.verdict, one.point)):
            yield one.hook, one.point, words


def opening_comments(opened: OpenTurn) -> tuple[str, ...]:
    """What hooks say to the beginning of the turn, each labelled with its hook."""
    found = comments_at(opened, OPENING_POINTS)
    return tuple(f"[comment of hook {hook}, {point}]\n{words}" for hook, point, words in found)


def comments_by_call(opened: OpenTurn) -> dict[int, tuple[str, ...]]:
    """What hooks say to each call of the turn, by its index: before it started, and after it ended."""
    out: dict[int, tuple[str, ...]] = {}
    for one in verdicts_in_order(opened):
        if one.point not in ABOUT_CALLS:
            continue
        words = verdicts.describe_verdict(one.verdict, one.point)
        call = opened.reply.calls[one.index] if one.index < len(opened.reply.calls) else None
        if call is not None and one.verdict.arguments is not None and call.address in opened.hooks.rewritten:
            changed = f"made the arguments {encode_text(one.verdict.arguments)}"
            reason = f": {one.verdict.reason}" if one.verdict.reason else ""
            words = "\n".join(part for part in (f"{changed}{reason}", words) if part)
        if words:
            out[one.index] = (*out.get(one.index, ()), f"[comment of hook {one.hook}]\n{words}")
    return out


def verdicts_in_order(opened: OpenTurn) -> list[TurnVerdict]:
    """The verdicts of the turn in an order that is the same whenever and wherever it is asked for."""
    return sorted(
        opened.hooks.fired.values(), key=lambda one: (one.index, one.rewrites, COMMENT_PLACES[one.point], one.hook)
    )


def is_only_comment(message: Message) -> bool:
    """Whether nothing but a hook's comment is in it."""
    return message.sender.startswith(HOOK_SENDER)


def withdraw_questions_changes(seen: ObservedAgent, view: View, opened: OpenTurn) -> tuple[Change, ...]:
    """The changes that take back what agents were asked as hooks and is waited for no more."""
    out: list[Change] = []
    for key, name in opened.hooks.consulted.items():
        if key in opened.hooks.fired:
            continue
        asked, hook = hook_question_id(seen, opened, key), seen.hooks.watching.get(name)
        if hook is not None:
            out += agent_hooks.withdraw_question_changes(view, hook[0], asked)
        elif (thread := view.get(f"thread/{asked}")) is not None:
            out.append(Drop(thread.address, thread.uid))
    return tuple(out)


def hook_question_id(seen: ObservedAgent, opened: OpenTurn, key: str) -> str:
    """The id of the question `key` of the open turn, unique in the plan, and the same after a crash."""
    return f"{seen.resource.uid}-{seen.status.incarnation}-{opened.turn}-{key.replace('.', '-')}"


def _spoken(seen: ObservedAgent, opened: OpenTurn) -> dict[str, int]:
    """The turn in which the agent last spoke with each child, or first saw it."""
    heard = {message.sender for message in opened.news.messages}
    named = {name for call in opened.reply.calls if call.tool in _SPEAKING for name in _names(call)}
    out: dict[str, int] = {}
    for child in seen.context.children:
        agent = child.address.replace("task/", "agent/", 1)
        known = {agent, child.address, agent.partition("/")[2], agent.rpartition("/")[2], "children"}
        is_now = agent in heard or bool(known & named)
        out[agent] = opened.turn if is_now else seen.status.mail.spoken.get(agent, opened.turn)
    return out


def _names(call: TurnCall) -> Iterator[str]:
    """Every name in the arguments of a call that speaks to others."""
    given: list[Json] = [
        value for key, value in arguments_as_map(call.arguments).items() if key not in ("prompt", "message")
    ]
    for value in given:
        yield from (str(one) for one in (value if isinstance(value, list) else [value]))
