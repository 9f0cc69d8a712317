"""Where the session goes: which agent a person talks with who names none. Pure.

It stands in the plan object's status, so that every chat follows it and a crash forgets nothing. It moves when a hook
steps forward (`meta`), when an agent hands over to one below it (`endo`), and when a person says so.
"""

from __future__ import annotations

from planloop.reconciler.storing.store import View
from planloop.schemas import session
from planloop.schemas.record import SetStatus


def handed_back(view: View, plan: str, leaving: str, to: str) -> tuple[SetStatus, ...]:
    """The change that gives the session of the agent `leaving` to that at `to`; none when it does not have it."""
    document = view.get(plan)
    is_primary = document is not None and session.primary_of(document.status) == leaving
    return moved(view, plan, to, f"agent:{leaving.partition('/')[2]}") if is_primary else ()


def moved(view: View, plan: str, to: str, by: str) -> tuple[SetStatus, ...]:
    """The change that makes the agent at `to` the primary one, in the name of `by`; none when it is."""
    document = view.get(plan)
    if document is None or session.primary_of(document.status) == to:
        return ()
    return (SetStatus(document.address, document.uid, session.moved(to, by, view.rev)),)
