"""What becomes of a hook, decided: from status and surroundings to one step, and none after it."""

from __future__ import annotations

from dataclasses import replace

from planloop.controllers.hook.decide import (
    BeginHook,
    HookLife,
    HookRest,
    ObservedHook,
    ReleaseHook,
    StopHook,
    decide_hook,
)
from planloop.schemas.objects.hook import Expiry, HookRule, HookSpec, has_hook_ended
from tests.product import JsonObject, Resource, Uid

SPEC = HookSpec("guard", "agent/a", ("before-call",), HookRule(({"deny": "x"},)))


def _hook(status: JsonObject | None = None, *, rev: int = 5, deleting: bool = False) -> Resource:
    return Resource(
        "hook/a/guard", Uid("u"), 1, {}, status or {}, finalizers=("hook",), deleting=deleting, created_rev=rev
    )


def _seen(life: HookLife = HookLife(), **more: object) -> ObservedHook:  # noqa: B008 - frozen
    known = ObservedHook(_hook(), SPEC, life, turns=0, incarnation=1, now=100.0)
    return replace(known, **more)  # type: ignore[arg-type]


def _timed(expires: Expiry, status: JsonObject, turns: int = 0, now: float = 100.0) -> ObservedHook:
    life = HookLife(since=status.get("since"), since_turn=status.get("since_turn", 0))
    return _seen(life, spec=replace(SPEC, expires=expires), hook=_hook(status), turns=turns, now=now)


def _original(state: str, rev: int) -> Resource:
    return Resource("hook/guard", Uid("o"), 1, {}, {"state": state}, rev=rev)


def test_a_plain_hook_needs_nothing_written() -> None:
    assert decide_hook(_seen()) == HookRest()


def test_hook_with_memory_restarts_with_a_new_run_of_its_agent() -> None:
    assert decide_hook(_seen(HookLife(is_used=True), incarnation=2)) == BeginHook(2, 0)
    assert decide_hook(_seen(incarnation=2)) == HookRest()


def test_hook_that_quit_is_back_in_the_next_run() -> None:
    over = HookLife(is_over=True, is_used=True)
    assert decide_hook(_seen(over)) == HookRest()
    assert decide_hook(_seen(over, incarnation=2)) == BeginHook(2, 0)


def test_turns_count_when_they_have_ended() -> None:
    expires = Expiry(turns=3)
    assert decide_hook(_timed(expires, {})) == BeginHook(1, 0, is_restart=False)
    begun: JsonObject = {"since": 90.0, "since_turn": 2}
    assert decide_hook(_timed(expires, begun, turns=4)) == HookRest()
    assert decide_hook(_timed(expires, begun, turns=5)) == StopHook("it was there for 3 turns")


def test_hook_ends_at_its_time() -> None:
    expires = Expiry(time_s=60)
    assert decide_hook(_timed(expires, {"since": 90.0})) == HookRest(50.0)
    assert decide_hook(_timed(expires, {"since": 40.0})) == StopHook("it was there for 60 s")


def test_approval_by_an_operator_ends_it_for_good() -> None:
    spec = replace(SPEC, expires=Expiry(is_by_approval=True))
    assert decide_hook(_seen(HookLife(approved_by="human:cli"), spec=spec)) == StopHook("approved by human:cli")
    done = HookLife(is_over=True, is_used=True, approved_by="human:cli")
    assert decide_hook(_seen(done, spec=spec, incarnation=2)) == HookRest()


def test_hooks_end_holds_for_its_run_unless_an_operator_or_the_original_ended_it() -> None:
    over: JsonObject = {"state": "over", "incarnation": 2}
    assert [has_hook_ended(SPEC.to_json(), over, run) for run in (1, 2, 3)] == [True, True, False]
    assert [has_hook_ended(SPEC.to_json(), {"state": "over"}, run) for run in (1, 2)] == [True, False]
    assert not has_hook_ended(SPEC.to_json(), {"state": "active", "incarnation": 2}, 2)
    by_yes = replace(SPEC, expires=Expiry(is_by_approval=True)).to_json()
    assert has_hook_ended(by_yes, {**over, "approved_by": "human:cli"}, 3)
    assert not has_hook_ended(by_yes, over, 3)
    assert has_hook_ended(replace(SPEC, is_read_only=True).to_json(), over, 3)


def test_a_read_only_copy_follows_its_original() -> None:
    spec = replace(SPEC, is_read_only=True, original="hook/guard")
    assert decide_hook(_seen(spec=spec, original=_original("over", 9))) == StopHook("the hook that it copies has ended")
    over = HookLife(is_over=True, is_used=True)
    assert decide_hook(_seen(over, spec=spec, original=_original("over", 9))) == HookRest()
    assert decide_hook(_seen(over, spec=spec, original=_original("active", 9))) == BeginHook(1, 0)


def test_copy_has_ended_only_when_its_original_ended_before_it_began() -> None:
    spec = replace(SPEC, original="hook/guard")
    late = _seen(spec=spec, original=_original("over", 4))
    assert decide_hook(late) == StopHook("the hook that it copies ended before it began")
    assert decide_hook(_seen(spec=spec, original=_original("over", 6))) == HookRest()


def test_deleted_hook_waits_for_its_agent() -> None:
    assert decide_hook(_seen(hook=_hook(deleting=True), is_agent_there=True)) == HookRest()
    assert decide_hook(_seen(hook=_hook(deleting=True))) == ReleaseHook()
