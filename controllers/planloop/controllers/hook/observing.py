"""What decides over the life of a hook: the agent that it watches, the hook that it is a copy of, and the clock."""

from __future__ import annotations

from planloop.reconciler.storing.store import View
from planloop.schemas.frozen import frozen
from planloop.schemas.hook import ACTIVE, FIRST_RUN, OVER, HookAgent, HookSpec, hook_from_json, is_hook_agent
from planloop.schemas.resource import Resource


@frozen
class Life:
    """What the status of a hook says of its life. `since` is in seconds since 1970, None before anything was written;
    `since_turn` and `incarnation` are the agent's; `approved_by` is the person who said that it may end.
    """

    is_over: bool = False
    why: str = ""
    since: float | None = None
    since_turn: int = 0
    incarnation: int = FIRST_RUN
    approved_by: str = ""
    is_used: bool = False


@frozen
class Observed:
    """A hook and what bears on it. `turns`, those that have ended, and `incarnation` are the watched agent's.

    `since_turn` is the turn after which the hook came: none of the agent's for one that was there before it.

    `original` is what it is a copy of, None for others and where that is gone; `is_agent_there` whether the agent that
    was made for it is still to be torn down.
    """

    hook: Resource
    spec: HookSpec
    life: Life
    turns: int
    incarnation: int
    now: float
    since_turn: int = 0
    original: Resource | None = None
    is_agent_there: bool = False


def observe(view: View, address: str, now: float) -> Observed | None:
    """The hook at `address`; None when it is gone."""
    hook = view.get(address)
    if hook is None:
        return None
    spec = hook_from_json(hook.spec)
    agent = view.get(spec.watches)
    status = {} if agent is None else agent.status
    turns = int(status.get("turn", 0)) - bool(status.get("open"))
    return Observed(
        hook=hook,
        spec=spec,
        life=_life(hook),
        turns=turns,
        incarnation=max(FIRST_RUN, int(status.get("incarnation", FIRST_RUN))),
        now=now,
        since_turn=0 if agent is None or hook.created_rev <= agent.created_rev else turns,
        original=view.get(spec.original) if spec.original else None,
        is_agent_there=_is_there(view, hook, spec),
    )


def _life(hook: Resource) -> Life:
    status = hook.status
    return Life(
        is_over=status.get("state") == OVER,
        why=str(status.get("why", "")),
        since=status.get("since"),
        since_turn=int(status.get("since_turn", 0)),
        incarnation=int(status.get("incarnation", FIRST_RUN)),
        approved_by=str(status.get("approved_by", "")),
        is_used=bool(status.get("memory") or status.get("fired") or status.get("state") not in (None, ACTIVE)),
    )


def _is_there(view: View, hook: Resource, spec: HookSpec) -> bool:
    """Only the agent that was made for this hook goes with it, not one of the plan that it asks."""
    if not isinstance(spec.mind, HookAgent) or not is_hook_agent(spec.mind.address):
        return False
    agent = view.get(spec.mind.address)
    return agent is not None and agent.owner == hook.address
