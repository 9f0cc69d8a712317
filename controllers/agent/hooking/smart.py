"""Hooks whose mind is an agent: how a question is put to it, and how its answer becomes a verdict.

`question`, `answer` and `withdrawn` are pure functions over the view; `firing.py` calls them. The agent that is watched
is woken by what it owns (a thread) or refers to, so the answer has to change one of those.
"""

from __future__ import annotations

from controllers.agent.observing import Observed
from reconciler.storing.store import View
from schemas.encoding import JsonObject
from schemas.hook import Verdict
from schemas.record import Change
from schemas.resource import Resource


def question(
    view: View, seen: Observed, hook: Resource, asked: JsonObject, due_at: float
) -> tuple[Change, ...] | Verdict:
    """The changes that put `asked` (`facts.question`; its `id` is unique in the plan) to the agent of `hook`.

    A verdict, with its `fault`, when it cannot be asked. `due_at`, in seconds since 1970, is when nobody waits any more.
    """
    del view, seen, asked, due_at
    return Verdict(fault=f"there is no agent to ask for {hook.address}")


def answer(view: View, seen: Observed, hook: Resource, question_id: str) -> Verdict | None:
    """What the agent of `hook` answered to the question of that id; None while it has not.

    An agent that cannot answer as things stand (out of budget, gone, ended) is a verdict with a `fault`.
    """
    del view, seen, hook, question_id


def withdrawn(view: View, seen: Observed, hook: Resource, question_id: str) -> tuple[Change, ...]:
    """The changes that take the question away when it was answered, or is waited for no more."""
    del view, seen, hook, question_id
    return ()
