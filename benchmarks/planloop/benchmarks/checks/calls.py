"""The `calls` check: classify every call, and require the right tools, arguments and order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from planloop.benchmarks.checks import call_rules
from planloop.benchmarks.checks import call_rules as reading
from planloop.benchmarks.checks.call_rules import BadCheck, CallRules, NeededCall, TooManyWays
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.controllers.task.checks.run import CheckFinding
from planloop.schemas.canonical_json import JsonObject, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.tools import CORE_TOOLS

# A call gets the first class below that applies. A failed call is still right, but serves no need, if a need asks for
# it and no earlier call served that need.


class CallClass(StrEnum):
    """Classification of one call. The first class that applies wins."""

    MALFORMED = "malformed"  # It cannot be parsed.
    INVENTED = "invented"  # The tool does not exist.
    RIGHT = "right"  # It serves a need, or tried to.
    DUPLICATE = "duplicate"  # It repeats a right call.
    FREE = "free"  # The check allows it at any time, or every agent has the tool.
    DECOY = "decoy"
    ARGS_WRONG = "right-args-wrong"  # The tool is needed, with other arguments.
    WRONG_TOOL = "wrong-known-tool"  # It was offered, is not a decoy, and is not needed.


@frozen
class ClassifiedCalls:
    """The classes of all calls of an attempt, and for each need the index of the call that serves it, None if none
    does.

    `in_order`: whether the serving calls came in the required order; True if a need is not served at all.
    """

    classes: tuple[CallClass, ...]
    serving: tuple[int | None, ...]
    in_order: bool


def classify_calls(rules: CallRules, seen: Evidence) -> ClassifiedCalls:
    """Classify all calls in `seen`. Raises TooManyWays."""
    fits = [
        [
            place
            for place, call in enumerate(seen.calls)
            if call_serves(call, need) and (need.is_tried or not call.has_failed)
        ]
        for need in rules.needs
    ]
    unordered = call_rules.assign_calls(fits)
    serving: Sequence[int | None] | None = unordered
    if None not in unordered and rules.order != "any":
        is_row = rules.order == "exact"
        after = call_rules.chain_order(len(fits)) if is_row else [need.after for need in rules.needs]
        serving = call_rules.assign_in_order(fits, after)
    held = tuple(unordered if serving is None else serving)
    classes = tuple(_class(place, rules, seen, held) for place in range(len(seen.calls)))
    return ClassifiedCalls(classes, held, in_order=serving is not None)


def call_serves(call: EmittedCall, need: NeededCall) -> bool:
    """Whether `call` serves `need`, whatever its result. A malformed call never does."""
    return not call.fault and call.tool in need.tools and not wrong_arguments(call, need)


def is_builtin_tool(call: EmittedCall, seen: Evidence) -> bool:
    """Whether the tool is one that every agent has and that the case does not mention: its calls do not count."""
    return call.tool in CORE_TOOLS and call.tool not in seen.offered


def wrong_arguments(call: EmittedCall, need: NeededCall) -> Mapping[str, str]:
    """Return the problem of each argument of a call for the need: missing, wrong, or not allowed.

    Null counts as missing: some models write null for every argument that they omit.
    """
    given = {name: value for name, value in call.arguments.items() if value is not None or name in need.args}
    known = {**need.args, **{name: matcher for name, matcher in need.may.items() if name in given}}
    wrong = call_rules.argument_problems(given, known, is_exact=need.is_exact)
    if need.is_exact:
        wrong |= {name: "is not allowed" for name in given if name not in known}
    return wrong


def _class(place: int, rules: CallRules, seen: Evidence, serving: Sequence[int | None]) -> CallClass:
    call = seen.calls[place]
    wanted = [(serving[at], need) for at, need in enumerate(rules.needs)]
    known = seen.offered.union(*(need.tools for need in rules.needs))
    if call.fault:
        return CallClass.MALFORMED
    if call.tool not in known:
        return CallClass.FREE if is_builtin_tool(call, seen) else CallClass.INVENTED
    if asked := [at for at, need in wanted if call_serves(call, need)]:
        is_try = call.has_failed and any(at is None or place < at for at in asked)
        return CallClass.RIGHT if place in asked or is_try else CallClass.DUPLICATE
    if any(shape.covers(call, seen) for shape in rules.free):
        return CallClass.FREE
    if call.tool in seen.decoys:
        return CallClass.DECOY
    if any(call.tool in need.tools for _, need in wanted):
        return CallClass.ARGS_WRONG
    return CallClass.WRONG_TOOL


# Figures of conduct are soft: shown next to a verdict, never part of it. A figure that cannot be measured (no calls,
# nothing needed, no decoys offered) is left out: a default would flatter the model.


def conduct_figures(calls: Sequence[EmittedCall]) -> dict[str, float]:
    """Figures that every case has, whatever its checks.

    A `calls` check measures more, with its own classes; its figures replace those of the same name.
    """
    return {
        "invented": float(sum(call.is_invented for call in calls)),
        "malformed": float(sum(bool(call.fault) for call in calls)),
        "retries-after-error": float(_retries(calls)),
    }


def call_figures(rules: CallRules, seen: Evidence, found: ClassifiedCalls) -> dict[str, float]:
    """Figures of a `calls` check: shares from 0 to 1, and counts."""
    counted = {kind: found.classes.count(kind) for kind in CallClass}
    judged = len(seen.calls) - counted[CallClass.FREE]
    out = conduct_figures(seen.calls) | {
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


def _extra_arguments(rules: CallRules, seen: Evidence, found: ClassifiedCalls) -> int:
    """Count the arguments of serving calls that their need does not mention."""
    pairs = [(need, at) for need, at in zip(rules.needs, found.serving, strict=True) if at is not None]
    return sum(len(seen.calls[at].arguments.keys() - need.args.keys() - need.may.keys()) for need, at in pairs)


def _retries(calls: Sequence[EmittedCall]) -> int:
    """Count calls of a tool after a failed call of the same tool."""
    failing: set[str] = set()
    retries = 0
    for call in calls:
        retries += call.tool in failing
        failing = failing | {call.tool} if call.has_failed else failing - {call.tool}
    return retries


def _argument_accuracy(rules: CallRules, seen: Evidence, found: ClassifiedCalls) -> float | None:
    """The share of needed arguments that are right in the serving call, or else in the best call of the tool.

    None if no needed tool was called, or no need has arguments.
    """
    right, known = 0, 0
    for need, at in zip(rules.needs, found.serving, strict=True):
        tries = [call for call in seen.calls if call.tool in need.tools and not call.fault]
        if need.args and tries:
            known += len(need.args)
            right += len(need.args) if at is not None else max(_right(need, call) for call in tries)
    return right / known if known else None


def _right(need: NeededCall, call: EmittedCall) -> int:
    return len(need.args.keys() - wrong_arguments(call, need).keys())


# The final state of a world says more than the calls do: a case with a world checks it with `state`, and this check
# only covers requirements on the calls themselves.

FINE = (CallClass.RIGHT, CallClass.FREE)


def judge_calls(arguments: JsonObject, evidence: Evidence) -> CheckFinding:
    """Judge whether the calls of an attempt meet the check. The finding's evidence lists every call with its class."""
    try:
        rules = reading.parse_call_rules(arguments)
        found = classify_calls(rules, evidence)
    except BadCheck as error:
        return CheckFinding("error", str(error), probes=0)
    except TooManyWays:
        return CheckFinding("error", "too many calls match the needed calls: add `args` to the needed calls")
    problems = [*_unserved(rules, evidence, found), *_forbidden(rules, evidence), *_extras(rules, evidence, found)]
    return CheckFinding(
        "fail" if problems else "pass",
        "; ".join(problems) if problems else _summed_up(found),
        probes=rules.probes,
        figures=call_figures(rules, evidence, found),
        evidence={"calls.json": _calls_json(rules, evidence, found)},
    )


def _unserved(rules: CallRules, seen: Evidence, found: ClassifiedCalls) -> Iterator[str]:
    for need, at in zip(rules.needs, found.serving, strict=True):
        if at is None:
            yield f"`{need.id}`: {_why_unserved(need, seen)}"
    if not found.in_order:
        what = "in the listed order" if rules.order == "exact" else _orders(rules)
        yield f"all needed calls were made, but not {what}"


def _why_unserved(need: NeededCall, seen: Evidence) -> str:
    """What was wrong with the closest call."""
    tries = [call for call in seen.calls if call.tool in need.tools]
    if not tries:
        return f"{need.shown} was never called"
    readable = [call for call in tries if not call.fault]
    if not readable:
        return f"{need.shown} was called, but every call is malformed: {tries[0].fault}"
    best = min(readable, key=lambda call: (len(wrong_arguments(call, need)), call.has_failed))
    wrong = [f"{name} {why}" for name, why in sorted(wrong_arguments(best, need).items())]
    if wrong:
        return f"{need.shown} was called with wrong arguments: {', '.join(wrong)}"
    if best.has_failed:
        return f"{need.shown} was called, but failed: {best.result[:200]}"
    return f"{need.shown} was called fewer times than needed"


def _orders(rules: CallRules) -> str:
    rows = (f"`{need.id}` after `{rules.needs[other].id}`" for need in rules.needs for other in sorted(need.after))
    return ", ".join(rows)


def _forbidden(rules: CallRules, seen: Evidence) -> Iterator[str]:
    for shape in rules.forbid:
        hits = [call.tool for call in seen.calls if shape.covers(call, seen)]
        if hits:
            yield f"`{hits[0]}` was called, but is forbidden ({shape.shown})"


def _extras(rules: CallRules, seen: Evidence, found: ClassifiedCalls) -> Iterator[str]:
    if rules.extra == "deny":
        for call, kind in zip(seen.calls, found.classes, strict=True):
            if kind not in FINE:
                yield f"`{call.tool}` was called, but is not needed ({kind})"


def _summed_up(found: ClassifiedCalls) -> str:
    counts = Counter(str(kind) for kind in found.classes)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "no calls"


def _calls_json(rules: CallRules, seen: Evidence, found: ClassifiedCalls) -> bytes:
    """Every call with its class and the need that it serves, as JSON."""
    serves = {place: need.id for need, place in zip(rules.needs, found.serving, strict=True) if place is not None}
    rows = [
        {"tool": call.tool, "class": str(kind)} | ({"serves": serves[place]} if place in serves else {})
        for place, (call, kind) in enumerate(zip(seen.calls, found.classes, strict=True))
    ]
    return encode(rows)
