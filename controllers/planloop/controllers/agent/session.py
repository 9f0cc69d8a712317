"""The primary agent of the session: which agent an operator talks with by default. Pure.

It is part of the plan object's status, so that every chat follows it and it survives a crash. It moves when a hook
takes over the conversation (`meta`), when an agent hands it to a child agent (`endo`), and when an operator moves it.
"""

from __future__ import annotations

from planloop.reconciler.store.store import View
from planloop.schemas.log.record import SetStatus
from planloop.schemas.objects import plan as objects_plan


def session_return_changes(view: View, plan: str, leaving: str, to: str) -> tuple[SetStatus, ...]:
    """The change that moves the session from the agent `leaving` to `to`; none if `leaving` does not have it."""
    document = view.get(plan)
    is_primary = document is not None and objects_plan.primary_agent(document.status) == leaving
    return session_move_changes(view, plan, to, f"agent:{leaving.partition('/')[2]}") if is_primary else ()


def session_move_changes(view: View, plan: str, to: str, by: str) -> tuple[SetStatus, ...]:
    """The change that makes the agent at `to` the primary one, with the author `by`; none if it already is."""
    document = view.get(plan)
    if document is None or objects_plan.primary_agent(document.status) == to:
        return ()
    return (SetStatus(document.address, document.uid, objects_plan.primary_agent_merge(to, by, view.rev)),)
