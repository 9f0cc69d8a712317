"""`abstain`: no tool was called, and something was said: that nothing fits, or what must be known first.

A malformed or invented call is a call, and so is one that was written into the text. Who says nothing has not abstained
but done nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from planloop.benchmarks.checks import fitting, spoken
from planloop.benchmarks.checks.classing import classed, is_everybodys
from planloop.benchmarks.checks.contract import Evidence, Judged
from planloop.benchmarks.checks.figures import figures
from planloop.benchmarks.checks.rules import BadCheck, Rules, members, shapes, usable
from planloop.schemas.encoding import Json, JsonObject


def judge(arguments: JsonObject, evidence: Evidence) -> Judged:
    """Whether `asks-or-says` matches what was said, and nothing was called but what is `free` or every agent has."""
    try:
        rules, wanted = read(arguments)
    except BadCheck as error:
        return Judged("error", str(error), probes=0)
    faults = [*_called(rules, evidence), *_said(wanted, evidence)]
    return Judged(
        "fail" if faults else "pass",
        "; ".join(faults) or "no tool was called, and it was said why",
        probes=2,
        figures=figures(rules, evidence, classed(rules, evidence)),
    )


def read(arguments: Json) -> tuple[Rules, Json]:
    """The calls that may be made all the same, and the matcher of what is said (None: anything). Raises BadCheck."""
    given = members(arguments, ("asks-or-says", "free"), "`abstain`")
    wanted = given.get("asks-or-says")
    if wanted is not None:
        usable(wanted, ("asks-or-says",))
    return Rules((), "any", (), shapes(given.get("free", []), "free"), "deny"), wanted


def _called(rules: Rules, seen: Evidence) -> Iterator[str]:
    for call in seen.calls:
        is_none = not call.fault and is_everybodys(call, seen)
        if not is_none and not any(shape.covers(call, seen) for shape in rules.free):
            yield f"`{call.tool}` was called" + (", though in a way that nobody can read" if call.fault else "")
    if spoken.is_call(seen.said, seen.offered):
        yield "a call was written into the answer"


def _said(wanted: Json, seen: Evidence) -> Iterator[str]:
    if not seen.said.strip():
        yield "nothing was said"
    elif wanted is not None and (why := fitting.fault(wanted, seen.said)):
        yield f"what was said {why}"
