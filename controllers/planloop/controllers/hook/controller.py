"""Hook controller: begin, restart and end hooks. Agents themselves run their hooks."""

from __future__ import annotations

from typing import Final, assert_never

from planloop.controllers.hook.decide import (
    BeginHook,
    HookRest,
    ObservedHook,
    ReleaseHook,
    StopHook,
    decide_hook,
    observe_hook,
)
from planloop.reconciler.clock import Clock
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.store.store import Store
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import Change, Mark, RecordDraft, SetStatus
from planloop.schemas.objects.hook import ACTIVE, OVER

ACTOR: Final = "controller:hook"


class HookReconciler:
    """The `Reconciler` of hooks. The agent controller asks hooks and applies their verdicts."""

    kind = "hook"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def reconcile(self, address: Address) -> Outcome:
        """Take one step for the hook at `address`."""
        seen = observe_hook(self._store.view, str(address), self._clock.now())
        if seen is None:
            return Done()
        step = decide_hook(seen)
        if isinstance(step, HookRest):
            return Done() if step.after_s is None else Again(step.after_s)
        await self._store.append(_draft(seen, step), {seen.hook.address: seen.hook.rev})
        return Again(0.0)


def _draft(seen: ObservedHook, step: BeginHook | StopHook | ReleaseHook) -> RecordDraft:
    hook = seen.hook
    change: Change
    match step:
        case BeginHook():
            fresh: JsonObject = {"incarnation": step.incarnation, "since": seen.now, "since_turn": step.turn}
            # Its memory was about the previous run of the work.
            is_restart = step.is_restart
            cleared: JsonObject = {"memory": None, "fired": None, "why": None, "faults": None} if is_restart else {}
            change = SetStatus(hook.address, hook.uid, {"state": ACTIVE} | cleared | fresh)
            return RecordDraft("hook.changed", ACTOR, hook.address, (change,), {"state": ACTIVE, **fresh})
        case StopHook():
            over: JsonObject = {"state": OVER, "why": step.why, "incarnation": seen.incarnation}
            change = SetStatus(hook.address, hook.uid, over)
            return RecordDraft("hook.changed", ACTOR, hook.address, (change,), over)
        case ReleaseHook():
            left = tuple(name for name in hook.finalizers if name != "hook")
            change = Mark(hook.address, hook.uid, finalizers=left)
            return RecordDraft("object.updated", ACTOR, hook.address, (change,), {"released": "hook"})
        case other:
            assert_never(other)
