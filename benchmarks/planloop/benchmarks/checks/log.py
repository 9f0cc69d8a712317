"""`log`: how an agent planned, as the plan's log shows it. Pure: rules (`planloop.schemas.fields_log`) against its
doings.

It judges what an agent did about its tasks, not whether the work is right: that is for checks of files beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, TypeAlias

from planloop.benchmarks.checks import naming, undoing
from planloop.benchmarks.checks.contract import Evidence, Judged
from planloop.benchmarks.checks.doings import ENDED, MEASURED, Call, Doings, Task, doings
from planloop.benchmarks.checks.naming import BadName, moment, named, shown
from planloop.benchmarks.checks.rules import BadCheck, members
from planloop.schemas import patterns
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.fault_at import FaultAt

TELLING: Final = ("send", "answer", "discuss", "edit_plan", "plan_patch")
"""Tools that let somebody below know something."""

Rule: TypeAlias = Callable[[Json, Doings], Iterator[str]]
"""What is wrong by one rule, in words; nothing when it holds."""


def judge(arguments: JsonObject, evidence: Evidence) -> Judged:
    """Whether the log shows what it must and nothing that it must not."""
    found = doings(evidence.records)
    try:
        rules = members(arguments, tuple(RULES), "`log`")
        faults = [why for name, value in rules.items() for why in RULES[name](value, found)]
    except (BadCheck, BadName) as error:
        return Judged("error", str(error), probes=0)
    probes = sum(len(value) if isinstance(value, list | dict) else 1 for value in rules.values())
    words = "; ".join(faults) or f"the log shows it: {_summed_up(found)}"
    return Judged("fail" if faults else "pass", words, probes if evidence.records else 0, _figures(found))


def faults(arguments: Json) -> Iterator[FaultAt]:
    """What of a check that has the right form cannot be asked all the same: names and patterns."""
    for place, value in naming.asked(arguments):
        why = naming.unusable(value)
        if why:
            yield FaultAt(place, "P0205", why, "write a path with stars, or `/words/`")


def _children(rule: Json, found: Doings) -> Iterator[str]:
    children = found.children()
    yield from _counted(rule, len(children), "tasks added")
    kept = [task for task in children if task.state != "removed"]
    if rule.get("done") and (left := [task for task in kept if task.state != "done"]):
        yield f"`{left[0].name}` is {left[0].state} at the end"
    for member, has in (("budget", "has_budget"), ("checks", "has_checks")):
        lacking = [task.name for task in children if not getattr(task, has)]
        if rule.get(member) and lacking:
            yield f"`{lacking[0]}` was given no {member} of its own"
    needing = sum(1 for task in children if task.needs)
    if needing < rule.get("needs", 0):
        yield f"{needing} of the tasks added need another, and at least {rule['needs']} have to"


def _order(rule: Json, found: Doings) -> Iterator[str]:
    for row in rule:
        for before, after in pairwise(row):
            yield from _before(before, after, found)


def _before(before: Json, after: Json, found: Doings) -> Iterator[str]:
    first = moment({"done": before} if isinstance(before, str) else before, found)
    then = moment({"begun": after} if isinstance(after, str) else after, found)
    if first is None:
        yield f"{shown(before, 'done')} never happened"
    elif then is None:
        yield f"{shown(after, 'begun')} never happened"
    elif then < first:
        yield f"{shown(after, 'begun')} came before {shown(before, 'done')}"


def _never(rule: Json, found: Doings) -> Iterator[str]:
    for each in rule:
        if isinstance(each, str):
            why = undoing.WORDS[each](found)
            if why:
                yield why
        elif moment(each, found) is not None:
            yield f"{shown(each, '')} happened, and must not"


def _ends(rule: Json, found: Doings) -> Iterator[str]:
    for name, wanted in rule.items():
        tasks = named(name, found)
        if not tasks:
            yield f"there never was a task `{name}`"
        elif all(task.state != wanted for task in tasks):
            yield f"`{tasks[-1].name}` is {tasks[-1].state} at the end, not {wanted}"


def _calls(rule: Json, found: Doings) -> Iterator[str]:
    for tool, count in rule.items():
        fits = patterns.starred(tool)
        yield from _counted(
            count, sum(1 for call in found.of(MEASURED) if fits.fullmatch(call.tool)), f"calls of `{tool}`"
        )


def _recovers(rule: Json, found: Doings) -> Iterator[str]:
    name, ways = rule["from"], rule.get("by") or ["again", "another", "itself"]
    failed = [(task, at) for task in named(name, found) if (at := task.first("failed")) is not None]
    if not failed:
        yield f"`{name}` never failed"
    for task, at in failed:
        if not any(_REPAIRS[way](task, at, found) for way in ways):
            yield f"`{task.name}` failed, and nothing made it good ({', '.join(ways)})"


def _is_done_again(task: Task, at: int, found: Doings) -> bool:
    del found
    return task.state == "done" and task.first("done", since=at) is not None


def _is_replaced(task: Task, at: int, found: Doings) -> bool:
    later = (other for other in found.children() if other.made > at and other is not task)
    return any(other.state == "done" for other in later)


def _is_made_up_for(task: Task, at: int, found: Doings) -> bool:
    del task
    return any(call.at > at and call.is_done and call.tool in ("write", "edit", "shell") for call in found.of(MEASURED))


_REPAIRS: Final = {"again": _is_done_again, "another": _is_replaced, "itself": _is_made_up_for}


def _tells(rule: Json, found: Doings) -> Iterator[str]:
    for each in rule:
        tasks = named(each["to"], found)
        told = [call for call in found.of(MEASURED) if call.tool in TELLING and call.is_done]
        if not any(
            _is_to(call, task) and naming.has(call.arguments, each.get("has")) for call in told for task in tasks
        ):
            what = f" what matches {each['has']}" if "has" in each else " anything"
            yield f"`{each['to']}` was never told{what}"


def _is_to(call: Call, task: Task) -> bool:
    """Whether the call names the task: as the receiver, a speaker, or a part of a path of the plan."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    told = [arguments.get(name) for name in ("to", "speakers", "path", "ops")]
    last = task.name.rpartition("/")[2]
    return arguments.get("to") == "children" or any(naming.has_word(one, last) for one in told)


def _counted(rule: Json, count: int, what: str) -> Iterator[str]:
    if count < rule.get("at-least", 0):
        yield f"{count} {what}, and there have to be at least {rule['at-least']}"
    if count > rule.get("at-most", count):
        yield f"{count} {what}, and there may be at most {rule['at-most']}"


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "children": _children,
        "order": _order,
        "never": _never,
        "ends": _ends,
        "calls": _calls,
        "recovers": _recovers,
        "tells": _tells,
    }
)


def _figures(found: Doings) -> dict[str, float]:
    """Soft: how much was delegated, refused and undone."""
    children = found.children()
    refused = [call for call in found.calls if call.is_refused and call.by in found.own()]
    failed = [task for task in children if task.first("failed") is not None]
    return {"children": len(children), "refusals": len(refused) + len(found.refused), "children_failed": len(failed)}


def _summed_up(found: Doings) -> str:
    children = found.children()
    ended = sum(1 for task in children if task.state in ENDED)
    return f"{len(found.of(MEASURED))} calls, {len(children)} tasks added, {ended} of them ended"
