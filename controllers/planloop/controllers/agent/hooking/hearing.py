"""The rulings on the calls of a reply after what their hooks say to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planloop.controllers.agent import turn
from planloop.controllers.agent.calling import calls
from planloop.controllers.agent.calling.calls import Allowed, NeedsYes, Refused, Ruling, Tools
from planloop.controllers.agent.hooking import moments, recording
from planloop.controllers.agent.hooking.moments import Standing
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import OpenTurn, boxed
from planloop.schemas.agent import STUCK
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.record import Change, Put, SetStatus
from planloop.schemas.resource import Resource


@frozen
class Heard:
    """One ruling for each call. `others` are the calls to which hooks gave other arguments, `changes` what does so."""

    rulings: Sequence[Ruling]
    changes: tuple[Change, ...] = ()
    others: Mapping[str, Resource] | None = None

    def made(self, seen: Observed, address: str) -> Resource:
        """The call object as it is to be started."""
        return (self.others or {}).get(address) or seen.calls[address]


def heard(seen: Observed, tools: Tools, approve: Sequence[str], rulings: Sequence[Ruling]) -> Heard:
    """The rulings with the verdicts of the hooks: a denial of either holds, and other arguments are ruled on."""
    opened = seen.status.open
    assert opened is not None, "hooks are heard inside a turn"
    out: list[Ruling] = []
    others: dict[str, Resource] = {}
    changes: list[Change] = []
    deferred = False
    for index, (call, ruled) in enumerate(zip(opened.calls, rulings, strict=True)):
        if isinstance(ruled, Refused):
            out.append(ruled)
            continue
        standing = moments.standing(seen, index, tools)
        given = recording.given_to(standing, call.arguments)
        now = ruled if given is None else calls.ruling(standing.call, seen.spec, tools, approve)
        out.append(_with(seen, now, standing) if not standing.refused else Refused(recording.forbidden(standing)))
        deferred = deferred or _is_deferred(out[-1])
        if given is not None:
            made, done = _rewritten(seen, opened, index, given, tools)
            others[call.address] = made
            changes += done
    if deferred or (moments.is_final(seen, opened) and moments.sent_back(seen, opened).decision != "allow"):
        # Told to wait, it will ask again for the same, as it should.
        changes.append(turn.change(seen, {"same": ["", 0], "conditions": {STUCK: None}}))
    return Heard(out, tuple(changes), others)


def _is_deferred(ruled: Ruling) -> bool:
    return isinstance(ruled, Refused) and ruled.result.error == recording.DEFERRED


def _with(seen: Observed, ruled: Ruling, standing: Standing) -> Ruling:
    if isinstance(ruled, Refused):
        return ruled
    refusal = recording.refusal(seen, standing)
    if refusal is not None:
        return Refused(refusal)
    if standing.merged.decision != "ask":
        return ruled
    words = standing.merged.words
    if isinstance(ruled, NeedsYes):
        return NeedsYes(ruled.pattern, f"the plan asks for a person's yes to `{ruled.pattern}`; {words}")
    assert isinstance(ruled, Allowed)
    return NeedsYes("", f"asks for a person's yes: {words}")


def _rewritten(
    seen: Observed, opened: OpenTurn, index: int, arguments: JsonObject, tools: Tools
) -> tuple[Resource, tuple[Change, ...]]:
    """The call object with other arguments. What the agent wrote stays in its reply, and with the call."""
    call = opened.calls[index]
    made = seen.calls[call.address]
    wanted = turn.call_spec(seen, opened.turn, index, remade(call, arguments=arguments), tools).to_json()
    changes: tuple[Change, ...] = (
        Put(made.address, made.uid, wanted, made.refs, made.owner, made.finalizers),
        SetStatus(made.address, made.uid, {"original": boxed(made.spec["arguments"])}),
        turn.change(seen, {"open": {"rewritten": {call.address: boxed(arguments)}}}),
    )
    return replace(made, spec=wanted), changes
