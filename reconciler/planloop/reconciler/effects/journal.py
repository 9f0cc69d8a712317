"""The journal of calls (law 5): changes before and after an effect, and `recover_calls` after a crash.

Before the effect, one flushed append puts a call object as Started, with its operation id; the append with the result
drops it. `recover_calls` runs before the first reconcile of a new owner and settles calls with an unknown end.
Controllers start and adopt processes; this module computes the changes that they write.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from planloop.reconciler.effects.processes import OperationTrace, Processes
from planloop.reconciler.store.store import Store
from planloop.schemas import address as addresses
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Put, RecordDraft, SetStatus
from planloop.schemas.objects.call import CallResult, CallSpec, CallState, EffectClass, call_from_json
from planloop.schemas.resource import Resource, Uid

ACTOR: Final = "controller:journal"
OUTCOME_UNKNOWN: Final = "the owner stopped while it ran, so its outcome is unknown"
"""Why the outcome of a call is unknown. One text for all finders: a model reads it, and a replay compares it."""


def call_address(call_id: str) -> str:
    """`call/<id>`."""
    return str(addresses.Address("call", (call_id,)))


def start_changes(call: CallSpec, call_id: str) -> tuple[Change, ...]:
    """Return the changes that start `call`, for an append that is flushed before the effect.

    Putting an existing call (Authorized again after a crash) gives it the new operation id under the same address.
    """
    address, uid = call_address(call_id), Uid(call_id)
    return (
        Put(address, uid, call.to_json(), owner=call.owner),
        SetStatus(address, uid, {"state": str(CallState.STARTED), "result": None, "why": None}),
    )


def settle_changes(address: str, uid: Uid, result: CallResult) -> tuple[Change, ...]:
    """Return the changes that end a call: it is dropped, or kept as Unknown until a person settles it.

    The call's owner stores what it needs of `result` in its status; the record's `data` stores the rest for readers.
    """
    if result.state is CallState.UNKNOWN:
        return (SetStatus(address, uid, {"state": str(CallState.UNKNOWN), "why": result.text}),)
    return (Drop(address, uid),)


def settle_unknown(call: Resource, *, happened: bool) -> tuple[Change, ...]:
    """Return the changes of `plan approve call/x --happened|--did-not` for an Unknown call.

    Happened: the call becomes Succeeded and is kept for its owner to read and drop. Did not: it becomes Authorized, so
    its owner starts it again with a new operation id. Raises ValueError if the call is not Unknown.
    """
    if call_state(call) is not CallState.UNKNOWN:
        raise ValueError(f"{call.address} is {call.state}, not Unknown: there is nothing to settle")
    if not happened:
        return (_back_to_authorized(call, "a person says that it did not happen"),)
    result = CallResult(CallState.SUCCEEDED, text="a person says that it happened", exit_code=0)
    status: JsonObject = {"state": str(result.state), "result": result.to_json(), "why": result.text}
    return (SetStatus(call.address, call.uid, status),)


def call_state(call: Resource) -> CallState:
    """The state of a call object. Raises ValueError if it has none."""
    return CallState(call.state)


def _back_to_authorized(call: Resource, why: str) -> Change:
    return SetStatus(call.address, call.uid, {"state": str(CallState.AUTHORIZED), "why": why})


CallFate: TypeAlias = Literal["adopt", "again", "doubt"]
"""The next owner adopts the process, starts the call again, or reports an unknown outcome."""


@frozen
class Recovery:
    """The result of `recover_calls`: the operations to keep alive (for `Processes.sweep`), and calls by fate."""

    keep: frozenset[str] = frozenset()
    adoptable: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    in_doubt: tuple[str, ...] = ()


async def recover_calls(store: Store, processes: Processes) -> Recovery:
    """Settle each Started call of the last owner as far as its end is known, before the first reconcile.

    RUNNING and ENDED are left Started: their owners adopt them. NEVER_BEGAN goes back to Authorized, to be started
    with a new operation id. LOST is decided by the effect class: read and idempotent go back to Authorized, others
    become Unknown. One flushed append per call, so a crash in the middle is recovered by the next owner.
    """
    keep: set[str] = set()
    found: dict[str, list[str]] = {"adopt": [], "again": [], "doubt": []}
    for call in list(store.view.list("call")):
        if call_state(call) is not CallState.STARTED:
            continue
        spec = call_from_json(call.spec)
        fate, change = await _recover(call, spec, processes)
        found[fate].append(call.address)
        if change is None:
            keep.add(spec.op)
        else:
            data: JsonObject = {"op": spec.op, "effect": str(spec.effect), "fate": fate}
            await store.append(
                RecordDraft("call.reconciled", ACTOR, call.address, (change,), data), {call.address: call.rev}
            )
    return Recovery(frozenset(keep), tuple(found["adopt"]), tuple(found["again"]), tuple(found["doubt"]))


async def trace_call(spec: CallSpec, processes: Processes) -> OperationTrace:
    """Find out what happened to a Started call of an earlier owner. A call inside the owner leaves no trace."""
    return await processes.trace(spec.op) if spec.is_process else OperationTrace.LOST


def call_fate(trace: OperationTrace, effect: EffectClass) -> CallFate:
    """Decide what to do with a Started call after a crash."""
    match trace:
        case OperationTrace.RUNNING | OperationTrace.ENDED:
            return "adopt"
        case OperationTrace.NEVER_BEGAN:
            return "again"
        case OperationTrace.LOST:
            return "again" if effect.may_run_again else "doubt"


async def _recover(call: Resource, spec: CallSpec, processes: Processes) -> tuple[CallFate, Change | None]:
    trace = await trace_call(spec, processes)
    fate = call_fate(trace, spec.effect)
    match fate:
        case "adopt":
            return fate, None
        case "again" if trace is OperationTrace.NEVER_BEGAN:
            return fate, _back_to_authorized(call, "the owner stopped before it began")
        case "again":
            return fate, _back_to_authorized(call, "the owner stopped before it ended; it may safely run again")
        case "doubt":
            return fate, SetStatus(call.address, call.uid, {"state": str(CallState.UNKNOWN), "why": OUTCOME_UNKNOWN})
