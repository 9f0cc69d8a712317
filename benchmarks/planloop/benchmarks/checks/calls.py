"""`calls`: the right tools were called, with the right arguments, in the right order, and none that must not be.

The state of a world says more than calls do: where a case has a world, its end is checked by `state`, and this only
says what the calls had to be whatever the world looks like after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from planloop.benchmarks.checks import rules as reading
from planloop.benchmarks.checks.assigning import TooManyWays
from planloop.benchmarks.checks.classing import CallClass, Classed, classed, wrong_arguments
from planloop.benchmarks.checks.contract import Evidence, Judged
from planloop.benchmarks.checks.figures import figures
from planloop.benchmarks.checks.rules import BadCheck, Need, Rules
from planloop.schemas.encoding import JsonObject, encode

FINE = (CallClass.RIGHT, CallClass.FREE)


def judge(arguments: JsonObject, evidence: Evidence) -> Judged:
    """Whether the calls of an attempt are what the check asks for; every call with its class is in the evidence."""
    try:
        rules = reading.read(arguments)
        found = classed(rules, evidence)
    except BadCheck as error:
        return Judged("error", str(error), probes=0)
    except TooManyWays:
        return Judged("error", "there are too many ways to serve what is needed: give the needed calls more arguments")
    faults = [*_unserved(rules, evidence, found), *_forbidden(rules, evidence), *_extras(rules, evidence, found)]
    return Judged(
        "fail" if faults else "pass",
        "; ".join(faults) if faults else _summed_up(found),
        rules.probes,
        figures(rules, evidence, found),
        {"calls.json": _told(rules, evidence, found)},
    )


def _unserved(rules: Rules, seen: Evidence, found: Classed) -> Iterator[str]:
    for need, at in zip(rules.needs, found.serving, strict=True):
        if at is None:
            yield f"`{need.id}`: {_why_unserved(need, seen)}"
    if not found.in_order:
        what = "in the order in which they are listed" if rules.order == "exact" else _orders(rules)
        yield f"all needed calls were made, but not {what}"


def _why_unserved(need: Need, seen: Evidence) -> str:
    """What was wrong with the call that came closest."""
    tries = [call for call in seen.calls if call.tool in need.tools]
    if not tries:
        return f"{need.shown} was never called"
    readable = [call for call in tries if not call.fault]
    if not readable:
        return f"{need.shown} was only called in ways that nobody can read: {tries[0].fault}"
    best = min(readable, key=lambda call: (len(wrong_arguments(call, need)), call.has_failed))
    wrong = [f"{name} {why}" for name, why in sorted(wrong_arguments(best, need).items())]
    if wrong:
        return f"{need.shown} was called with other arguments: {', '.join(wrong)}"
    if best.has_failed:
        return f"{need.shown} was called, and it failed: {best.result[:200]}"
    return f"{need.shown} was called fewer times than needed"


def _orders(rules: Rules) -> str:
    rows = (f"`{need.id}` after `{rules.needs[other].id}`" for need in rules.needs for other in sorted(need.after))
    return ", ".join(rows)


def _forbidden(rules: Rules, seen: Evidence) -> Iterator[str]:
    for shape in rules.forbid:
        hits = [call.tool for call in seen.calls if shape.covers(call, seen)]
        if hits:
            yield f"`{hits[0]}` was called, which is forbidden ({shape.shown})"


def _extras(rules: Rules, seen: Evidence, found: Classed) -> Iterator[str]:
    if rules.extra == "deny":
        for call, kind in zip(seen.calls, found.classes, strict=True):
            if kind not in FINE:
                yield f"`{call.tool}` was called and is not needed ({kind})"


def _summed_up(found: Classed) -> str:
    counts = Counter(str(kind) for kind in found.classes)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "no calls"


def _told(rules: Rules, seen: Evidence, found: Classed) -> bytes:
    """Each call with its class and the need that it serves, as JSON."""
    serves = {place: need.id for need, place in zip(rules.needs, found.serving, strict=True) if place is not None}
    rows = [
        {"tool": call.tool, "class": str(kind)} | ({"serves": serves[place]} if place in serves else {})
        for place, (call, kind) in enumerate(zip(seen.calls, found.classes, strict=True))
    ]
    return encode(rows)
