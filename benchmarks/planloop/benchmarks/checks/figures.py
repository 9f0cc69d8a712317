"""Numbers about how somebody calls tools: soft, shown beside a verdict, never part of one.

What could not be measured (no calls, nothing needed, no decoys offered) has no figure rather than a flattering one.
"""

from __future__ import annotations

from collections.abc import Sequence

from planloop.benchmarks.checks.classing import CallClass, Classed, wrong_arguments
from planloop.benchmarks.checks.contract import Emitted, Evidence
from planloop.benchmarks.checks.rules import Need, Rules


def conduct(calls: Sequence[Emitted]) -> dict[str, float]:
    """What is counted in every case, whatever its checks ask for.

    A check of calls counts more, and by its own classes: those of its figures that have a name from here come instead.
    """
    return {
        "invented": float(sum(call.is_invented for call in calls)),
        "malformed": float(sum(bool(call.fault) for call in calls)),
        "retries-after-error": float(_retries(calls)),
    }


def figures(rules: Rules, seen: Evidence, found: Classed) -> dict[str, float]:
    """Shares are of 1; the rest are counts."""
    counted = {kind: found.classes.count(kind) for kind in CallClass}
    judged = len(seen.calls) - counted[CallClass.FREE]
    out = conduct(seen.calls) | {
        "calls": float(len(seen.calls)),
        "duplicates": float(counted[CallClass.DUPLICATE]),
        "invented": float(counted[CallClass.INVENTED]),
        "extra-arguments": float(_extra_arguments(rules, seen, found)),
        "failed-calls": float(sum(call.has_failed for call in seen.calls)),
    }
    if judged:
        out["precision"] = counted[CallClass.RIGHT] / judged
    if rules.needs:
        out["recall"] = sum(place is not None for place in found.serving) / len(rules.needs)
    if (accuracy := _argument_accuracy(rules, seen, found)) is not None:
        out["argument-accuracy"] = accuracy
    if seen.calls:
        out["invented-rate"] = counted[CallClass.INVENTED] / len(seen.calls)
        for name, decoys in (("near", seen.near), ("far", seen.far)):
            if decoys:
                out[f"decoy-rate-{name}"] = sum(call.tool in decoys for call in seen.calls) / len(seen.calls)
    return out


def _extra_arguments(rules: Rules, seen: Evidence, found: Classed) -> int:
    """Of the calls that serve: arguments that their need says nothing of."""
    pairs = [(need, at) for need, at in zip(rules.needs, found.serving, strict=True) if at is not None]
    return sum(len(seen.calls[at].arguments.keys() - need.args.keys() - need.may.keys()) for need, at in pairs)


def _retries(calls: Sequence[Emitted]) -> int:
    """Calls of a tool whose last call had failed."""
    failing: set[str] = set()
    retries = 0
    for call in calls:
        retries += call.tool in failing
        failing = failing | {call.tool} if call.has_failed else failing - {call.tool}
    return retries


def _argument_accuracy(rules: Rules, seen: Evidence, found: Classed) -> float | None:
    """The share of needed arguments that the call that serves has right, or else the best call of the tool.

    None where no call of a needed tool was made, or none needs arguments.
    """
    right, known = 0, 0
    for need, at in zip(rules.needs, found.serving, strict=True):
        tries = [call for call in seen.calls if call.tool in need.tools and not call.fault]
        if need.args and tries:
            known += len(need.args)
            right += len(need.args) if at is not None else max(_right(need, call) for call in tries)
    return right / known if known else None


def _right(need: Need, call: Emitted) -> int:
    return len(need.args.keys() - wrong_arguments(call, need).keys())
