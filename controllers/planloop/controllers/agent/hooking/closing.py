"""What hooks leave behind when a turn ends: answers sent back, comments that become messages, and who spoke with whom.

Pure. What wakes an agent by a hook's word is bounded, so that no agent and hook talk to each other for ever: an answer
is sent back so often and then taken, and comments wake a sleeping agent so often and then wait for its next turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from planloop.controllers.agent.hooking import lattice, moments, smart
from planloop.controllers.agent.mail import inbox
from planloop.controllers.agent.mail.inbox import Refusal
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import Fired, OpenTurn, TurnCall
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.call import as_map
from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.hook import ABOUT_CALLS, Point
from planloop.schemas.message import Message
from planloop.schemas.record import Change, Drop

SENDER: Final = "hook:"
"""Before a hook's name, where a comment is a message."""
OPENING: Final[tuple[Point, ...]] = ("on-wake", "on-input", "on-child", "on-budget", "on-conflict")
LAST: Final[tuple[Point, ...]] = ("before-reply", "on-sleep", "on-end")
PLACES: Final = {point: place for place, point in enumerate((*OPENING, *ABOUT_CALLS, *LAST))}
_SPEAKING: Final = frozenset({"send", "discuss", "answer", "task", "restore"})


@frozen
class Left:
    """`merge` goes into the agent's status and `changes` into the record of the turn's end.

    `is_sent_back`: its answer does not count, and it goes on.
    """

    merge: JsonObject
    changes: tuple[Change, ...] = ()
    is_sent_back: bool = False


NOTHING: Final = Left({})


def left(seen: Observed, view: View, opened: OpenTurn) -> Left:
    """What the hooks of the agent leave of the turn that ends."""
    if not seen.hooks and not opened.fired:
        return NOTHING
    merge: JsonObject = {}
    back = moments.sent_back(seen, opened)
    is_sent_back = back.decision != "allow"
    if is_sent_back:
        merge["sent_back"] = seen.status.sent_back + 1
    elif seen.status.sent_back and (opened.claim is not None or (not opened.calls and moments.is_final(seen, opened))):
        merge["sent_back"] = 0
    told = list(_messages(seen, opened, back))
    changes: tuple[Change, ...] = ()
    for message in told:
        delivered = inbox.delivery(view, message, is_counted=False)
        changes += () if isinstance(delivered, Refusal) else delivered
    if any(one.wakes for one in told) and not is_sent_back:
        merge["nudges"] = seen.status.nudges + 1
    if (spoken := _spoken(seen, opened)) != seen.status.spoken:
        gone: dict[str, None] = dict.fromkeys(name for name in seen.status.spoken if name not in spoken)
        merge["spoken"] = {**spoken, **gone}
    return Left(merge, (*changes, *withdrawn(seen, view, opened)), is_sent_back)


def _messages(seen: Observed, opened: OpenTurn, back: lattice.Merged) -> Iterator[Message]:
    """What the agent is told of the end of its turn. Where a call of its has the answer as its result, not again."""
    is_shown = opened.claim is None and any(not call.is_implied for call in opened.calls)
    if back.decision != "allow" and not is_shown:
        yield _message(seen, opened, "reply", f"Your answer was sent back, go on. {back.words}", wakes=True)
    may_wake = seen.status.nudges < limits.HOOK_NUDGES_MAX
    for hook, point, words in comments(opened, ("before-reply", "on-sleep", "on-end")):
        wakes = may_wake and point == "on-sleep"
        yield _message(seen, opened, hook, words, wakes=wakes, point=point)


def _message(seen: Observed, opened: OpenTurn, hook: str, body: str, *, wakes: bool, point: str = "") -> Message:
    name = f"{seen.resource.uid}.{seen.status.incarnation}.{opened.turn}.{point}{hook}"
    address = seen.resource.address
    return Message(name, "control", f"{SENDER}{hook}", address, body, seen.now, wakes=wakes)


def comments(opened: OpenTurn, points: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Hook, point and words of each comment of the turn at these points, in a fixed order."""
    wanted = frozenset(points)
    for one in in_order(opened):
        if one.point in wanted and (words := lattice.words_of(one.verdict, one.point)):
            yield one.hook, one.point, words


def opening_comments(opened: OpenTurn) -> tuple[str, ...]:
    """What hooks say to the beginning of the turn, each labelled with its hook."""
    found = comments(opened, OPENING)
    return tuple(f"[comment of hook {hook}, {point}]\n{words}" for hook, point, words in found)


def comments_by_call(opened: OpenTurn) -> dict[int, tuple[str, ...]]:
    """What hooks say to each call of the turn, by its index: before it started, and after it ended."""
    out: dict[int, tuple[str, ...]] = {}
    for one in in_order(opened):
        if one.point not in ABOUT_CALLS:
            continue
        words = lattice.words_of(one.verdict, one.point)
        call = opened.calls[one.index] if one.index < len(opened.calls) else None
        if call is not None and one.verdict.arguments is not None and call.address in opened.rewritten:
            changed = f"made the arguments {encode_text(one.verdict.arguments)}"
            reason = f": {one.verdict.reason}" if one.verdict.reason else ""
            words = "\n".join(part for part in (f"{changed}{reason}", words) if part)
        if words:
            out[one.index] = (*out.get(one.index, ()), f"[comment of hook {one.hook}]\n{words}")
    return out


def in_order(opened: OpenTurn) -> list[Fired]:
    """The verdicts of the turn in an order that is the same whenever and wherever it is asked for."""
    return sorted(opened.fired.values(), key=lambda one: (one.index, one.rewrites, PLACES[one.point], one.hook))


def is_nudge(message: Message) -> bool:
    """Whether nothing but a hook's comment is in it."""
    return message.sender.startswith(SENDER)


def withdrawn(seen: Observed, view: View, opened: OpenTurn) -> tuple[Change, ...]:
    """The changes that take back what agents were asked as hooks and is waited for no more."""
    out: list[Change] = []
    for key, name in opened.consulted.items():
        if key in opened.fired:
            continue
        asked, hook = question_id(seen, opened, key), seen.hooks.get(name)
        if hook is not None:
            out += smart.withdrawn(view, hook[0], asked)
        elif (thread := view.get(f"thread/{asked}")) is not None:
            out.append(Drop(thread.address, thread.uid))
    return tuple(out)


def question_id(seen: Observed, opened: OpenTurn, key: str) -> str:
    """The id of the question `key` of the open turn, unique in the plan, and the same after a crash."""
    return f"{seen.resource.uid}-{seen.status.incarnation}-{opened.turn}-{key.replace('.', '-')}"


def _spoken(seen: Observed, opened: OpenTurn) -> dict[str, int]:
    """The turn in which the agent last spoke with each child, or first saw it."""
    heard = {message.sender for message in opened.messages}
    named = {name for call in opened.calls if call.tool in _SPEAKING for name in _names(call)}
    out: dict[str, int] = {}
    for child in seen.children:
        agent = child.address.replace("task/", "agent/", 1)
        known = {agent, child.address, agent.partition("/")[2], agent.rpartition("/")[2], "children"}
        is_now = agent in heard or bool(known & named)
        out[agent] = opened.turn if is_now else seen.status.spoken.get(agent, opened.turn)
    return out


def _names(call: TurnCall) -> Iterator[str]:
    """Every name in the arguments of a call that speaks to others."""
    given: list[Json] = [value for key, value in as_map(call.arguments).items() if key not in ("prompt", "message")]
    for value in given:
        yield from (str(one) for one in (value if isinstance(value, list) else [value]))
