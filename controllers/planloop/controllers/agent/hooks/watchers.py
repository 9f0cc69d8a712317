"""Agents that work for a hook: their life cycle, and which messages they read. Pure.

Such an agent runs as long as the agent that it watches, and starts from nothing in each incarnation of that agent. Only
questions and messages wake it, one question per turn. Each of its turns is an answer and none a claim, because it has
no task of its own. It ends when its hook quits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from planloop.reconciler.store.store import View
from planloop.schemas.objects import hook as hooks
from planloop.schemas.objects.agent import AgentSpec
from planloop.schemas.objects.hook import hook_address
from planloop.schemas.objects.message import Message
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.controllers.agent.status import OpenTurn

QUESTION_KEY: Final = "hook"
"""The kind of a message that is a question to a hook."""


def hook_of(view: View, agent: str, spec: AgentSpec) -> Resource | None:
    """The hook that the agent was created for; None for other agents, and if the hook was removed or is over."""
    found = view.get(hook_address(spec.watches, agent.rpartition("/~")[2])) if spec.watches else None
    return None if found is None or is_hook_over(view, found) else found


def is_hook_over(view: View, hook: Resource) -> bool:
    """Whether the hook is over in the present incarnation of the agent that it watches.

    A read-only copy is over when its original is, even before its controller has run.
    """
    if hook.deleting:
        return True
    original = view.get(hook.spec["original"]) if hook.spec["is_read_only"] else None
    if original is not None:
        return is_hook_over(view, original)
    return hooks.has_hook_ended(hook.spec, hook.status, watched_incarnation(view, hook))


def watched_incarnation(view: View, hook: Resource) -> int:
    """The incarnation of the agent that the hook watches."""
    agent = view.get(str(hook.spec["watches"]))
    return hooks.FIRST_RUN if agent is None else int(agent.status.get("incarnation", hooks.FIRST_RUN))


def hooks_served(view: View, agent: str) -> tuple[Resource, ...]:
    """The live hooks that the agent at `agent` decides for."""
    found = (each for each in view.list("hook") if each.spec["mind"].get("address") == agent)
    return tuple(each for each in found if not is_hook_over(view, each))


def is_listening(view: View, agent: str, other: str) -> bool:
    """Whether the agent, which has its own task, is a hook of the agent at `other`."""
    watched = view.get(other)
    about = () if watched is None else (view.get(str(each)) for each in watched.spec["hooks"])
    return any(
        one is not None and one.spec["mind"].get("address") == agent and not is_hook_over(view, one) for one in about
    )


def readable_messages(messages: Sequence[Message], asked: Iterable[Message]) -> tuple[Message, ...]:
    """Which of the unread `messages` the next turn may contain; `asked` are questions that were read and not answered.

    A question to a hook is answered first and alone, because a call waits for it: no other question is read with it.
    """
    if any(each.kind == QUESTION_KEY for each in asked):
        return tuple(each for each in messages if not each.asks)
    first = next((each for each in messages if each.kind == QUESTION_KEY), None)
    if first is None:
        return tuple(messages)
    return tuple(each for each in messages if not each.asks or each is first)


def has_more_to_do(opened: OpenTurn, asked: Mapping[str, Message], now: Sequence[Message]) -> bool:
    """Whether an agent that has answered the questions `now` has other work or another question left.

    A question to a hook interrupts other work, so its answer does not end that.
    """
    if not any(each.kind == QUESTION_KEY for each in now):
        return False
    is_between = set(opened.news.reasons) != {"message"} or any(
        each.kind != QUESTION_KEY for each in opened.news.messages
    )
    return is_between or len(now) < len(asked)


def is_asked_by_hook(asked: Mapping[str, Message]) -> bool:
    """Whether the next reply answers a question to a hook."""
    return any(each.kind == QUESTION_KEY for each in asked.values())


def questions_answered(asked: Iterable[Message]) -> tuple[Message, ...]:
    """The questions that the reply of a turn answers: the one to a hook, or else all of them."""
    found = tuple(asked)
    return tuple(each for each in found if each.kind == QUESTION_KEY)[:1] or found


def is_answer_awaited(opened: OpenTurn, asked: Mapping[str, Message]) -> bool:
    """Whether the result of a turn is still needed: one of its questions is open, or it had none."""
    questions = [each for each in opened.news.messages if each.kind == QUESTION_KEY]
    is_alone = all(each.kind == QUESTION_KEY for each in opened.news.messages)
    return not questions or not is_alone or any(each.id in asked for each in questions)
