"""Submitting what an agent wants of the plan to the gate, and its verdict as the call's result."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.controllers.agent.tools.tool import Context, Settlement, failure, ok
from planloop.reconciler.admitting import ownership
from planloop.reconciler.admitting.attaching import HOOKS
from planloop.reconciler.admitting.canonicalising import ALIASES
from planloop.schemas import pointer
from planloop.schemas.call import CallResult, CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.patch import Accepted, Fault, Held, Patch, Refused, Verdict
from planloop.schemas.patching import Op
from planloop.schemas.record import Change


def document(context: Context) -> JsonObject:
    """The plan document as it stands."""
    plan = context.world.store.view.get(context.world.plan)
    return {} if plan is None else plan.spec


async def submit(context: Context, ops: Sequence[Op], reason: str, changes: Sequence[Change] = ()) -> Settlement:
    """Puts `ops` to the gate under the agent's name; a document that says so already is success.

    `changes` take effect in the same record if it is accepted, and with the call when the plan is so already.
    """
    if all(_holds(context, op) for op in ops):
        return Settlement(ok("the plan is so already"), tuple(changes))
    turn = context.seen.status.open
    base_rev = context.seen.plan_rev if turn is None else turn.base_rev
    patch = Patch(context.author, tuple(ops), base_rev, reason)
    gate = context.world.gate
    return settlement_of(await (gate.rule(patch, changes, ()) if changes else gate.submit(patch)))


def settlement_of(verdict: Verdict, words: str = "accepted") -> Settlement:
    """The gate's verdict as a result. Its text names no revision: a model that is replayed must read the same again."""
    match verdict:
        case Accepted(rev=rev, notes=notes):
            return Settlement(ok("\n".join((words, *notes)), {"rev": rev}))
        case Held(approval=approval, why=why):
            text = f"held, a person has to say yes: {why}. You are told the answer"
            return Settlement(CallResult(CallState.SUCCEEDED, text, value={"held": approval}))
        case Refused(faults=faults):
            return Settlement(failure("Refused", "\n".join(_words(fault) for fault in faults)))


def _words(fault: Fault) -> str:
    where = f" at {pointer.render(fault.path)}" if fault.path else ""
    return f"refused ({fault.rule}){where}: {fault.message}" + (f"\n  {fault.hint}" if fault.hint else "")


def _holds(context: Context, op: Op) -> bool:
    """Whether the plan already says what `op` would make it say: so when a call is made again after a crash.

    Of hooks an agent learns this of its own words only, and a path that is spelled in another way is for the gate.
    """
    if not ALIASES.keys().isdisjoint(op.path) or (HOOKS in op.path and not _is_its_word(context, op)):
        return False
    plan = document(context)
    match op.op:
        case "remove":
            return not pointer.has(plan, op.path)
        case "add" | "replace" if op.path and op.path[-1] != "-":
            return pointer.has(plan, op.path) and pointer.get(plan, op.path) == op.value
        case _:
            return False


def _is_its_word(context: Context, op: Op) -> bool:
    """Whether the agent itself was the last to change what `op` is about."""
    plan = context.world.store.view.get(context.world.plan)
    stamp = None if plan is None else ownership.last_change(plan.status.get("stamps", {}), op.path)
    return stamp is not None and stamp.author == context.author
