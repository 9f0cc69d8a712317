"""Decide the next step of one hook: it begins with its agent, restarts with each incarnation, and ends. Pure."""

from __future__ import annotations

from typing import TypeAlias

from planloop.reconciler.store.store import View
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.hook import (
    ACTIVE,
    FIRST_RUN,
    OVER,
    HookAgent,
    HookSpec,
    expiry_reason,
    hook_from_json,
    is_hook_agent,
)
from planloop.schemas.resource import Resource


@frozen
class HookLife:
    """The part of a hook's status about its lifetime. `since` is in seconds since 1970, None before the first write;
    `since_turn` and `incarnation` are the agent's; `approved_by` is the person who approved its end.
    """

    is_over: bool = False
    why: str = ""
    since: float | None = None
    since_turn: int = 0
    incarnation: int = FIRST_RUN
    approved_by: str = ""
    is_used: bool = False


@frozen
class ObservedHook:
    """A hook and what affects it. `turns` (ended ones) and `incarnation` are the watched agent's.

    `since_turn` is the turn after which the hook was added, 0 if it is older than the agent. `original` is the hook
    that it is a copy of, None if it is not a copy or the original was removed. `is_agent_there`: the agent that
    was created for the hook still exists.
    """

    hook: Resource
    spec: HookSpec
    life: HookLife
    turns: int
    incarnation: int
    now: float
    since_turn: int = 0
    original: Resource | None = None
    is_agent_there: bool = False


def observe_hook(view: View, address: str, now: float) -> ObservedHook | None:
    """Return the observation of the hook at `address`; None if it is gone."""
    hook = view.get(address)
    if hook is None:
        return None
    spec = hook_from_json(hook.spec)
    agent = view.get(spec.watches)
    status = {} if agent is None else agent.status
    turns = int(status.get("turn", 0)) - bool(status.get("open"))
    return ObservedHook(
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


def _life(hook: Resource) -> HookLife:
    status = hook.status
    return HookLife(
        is_over=status.get("state") == OVER,
        why=str(status.get("why", "")),
        since=status.get("since"),
        since_turn=int(status.get("since_turn", 0)),
        incarnation=int(status.get("incarnation", FIRST_RUN)),
        approved_by=str(status.get("approved_by", "")),
        is_used=bool(status.get("memory") or status.get("fired") or status.get("state") not in (None, ACTIVE)),
    )


def _is_there(view: View, hook: Resource, spec: HookSpec) -> bool:
    """Whether the agent that was created for this hook still exists. An agent of the plan does not count."""
    if not isinstance(spec.mind, HookAgent) or not is_hook_agent(spec.mind.address):
        return False
    agent = view.get(spec.mind.address)
    return agent is not None and agent.owner == hook.address


@frozen
class HookRest:
    """Nothing to do now; decide again after `after_s` seconds, if set."""

    after_s: float | None = None


@frozen
class BeginHook:
    """Count its time from now on, and its turns after `turn`. `is_restart`: also clear the memory of an earlier run."""

    incarnation: int
    turn: int
    is_restart: bool = True


@frozen
class StopHook:
    """End the hook; `why` is the reason for people."""

    why: str


@frozen
class ReleaseHook:
    """Nothing is left of the hook: the object may be removed."""


HookStep: TypeAlias = HookRest | BeginHook | StopHook | ReleaseHook


def decide_hook(seen: ObservedHook) -> HookStep:
    """Return the next step of a hook. A decision on the state after it gives no further step."""
    if seen.hook.deleting:
        # The agent that was created for it is removed by its own controller, which wakes this one.
        return HookRest() if seen.is_agent_there or not seen.hook.finalizers else ReleaseHook()
    life = seen.life
    if life.approved_by and seen.spec.expires.is_by_approval:
        return HookRest() if life.is_over else StopHook(f"approved by {life.approved_by}")
    if seen.spec.is_read_only:
        return _following(seen)
    if seen.incarnation > life.incarnation and (life.is_used or _is_timed(seen)):
        return BeginHook(seen.incarnation, 0)
    if life.is_over:
        return HookRest()
    if life.since is None and not life.is_used and _is_late(seen):
        return StopHook("the hook that it copies ended before it began")
    if life.since is None and _is_timed(seen):
        return BeginHook(seen.incarnation, max(life.since_turn, seen.since_turn), is_restart=False)
    return _timed(seen)


def _following(seen: ObservedHook) -> HookStep:
    """Decide for a read-only copy, which ends and begins with its original."""
    if _is_over(seen) == seen.life.is_over:
        return HookRest()
    if not seen.life.is_over:
        return StopHook("the hook that it copies has ended")
    return BeginHook(seen.incarnation, seen.since_turn)


def _is_over(seen: ObservedHook) -> bool:
    return seen.original is not None and seen.original.state == OVER


def _is_late(seen: ObservedHook) -> bool:
    """Whether the original had already ended when this copy was created."""
    return _is_over(seen) and seen.original is not None and seen.hook.created_rev > seen.original.rev


def _is_timed(seen: ObservedHook) -> bool:
    """Whether it expires after a number of turns or a time."""
    return seen.spec.expires.turns is not None or seen.spec.expires.time_s is not None


def _timed(seen: ObservedHook) -> HookStep:
    why = expiry_reason(seen.spec.expires, seen.hook.status, seen.turns, seen.now)
    if why:
        return StopHook(why)
    if seen.spec.expires.time_s is None or seen.life.since is None:
        return HookRest()
    return HookRest(seen.life.since + seen.spec.expires.time_s - seen.now)
