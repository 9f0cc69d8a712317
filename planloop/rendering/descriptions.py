"""One object in words: what it is for, its conditions, why it is not further, what would change that, what happened."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.rendering import conflicts, containers, forks, hooks, locks, questions, records, servers
from planloop.rendering import objects as cells
from planloop.rendering.budgets import Costs
from schemas import amounts, widths
from schemas.condition import Condition, of_status
from schemas.encoding import Json
from schemas.record import Record
from schemas.resource import Resource
from schemas.sandbox import wish_of

LABEL_WIDTH = 10


def text(item: Resource, related: Sequence[Resource], *, costs: Costs, now: float) -> str:
    """The lines of `plan describe`. `related` are objects that it owns or that do its work.

    As wide as they get: a line may end with the command that helps, which a terminal wraps so that it can be copied.
    """
    lines = [_head(item), *_conditions(item, now), *_why(item), *_facts(item, now)]
    for label, said in (("budget", costs.line(item)), ("of this", costs.rest(item))):
        lines += [labelled(label, said)] if said else []
    if item.kind == "approval":
        lines += [labelled(label, said) for label, said in questions.facts(item)]
    if item.kind == "hook":
        lines += [labelled(label, said) for label, said in hooks.facts(item, now)]
    if item.kind == "conflict":
        lines += [labelled(label, said) for label, said in conflicts.facts(item)]
    if item.kind == "lock":
        lines += [labelled(label, said) for label, said in locks.facts(item, now)]
    if item.kind == "fork":
        lines += [labelled(label, said) for label, said in forks.facts(item)]
    if item.kind == "container":
        lines += [labelled(label, said) for label, said in containers.facts(item, now)]
    if item.kind == "mcp":
        lines += [labelled(label, said) for label, said in servers.facts(item)]
    for one in related:
        lines += [labelled(*fact) for fact in _facts_of_other(one, item, now)]
    lines += _checks(item)
    return "\n".join(lines)


def recent(found: Sequence[Record], width: int | None) -> list[str]:
    """What happened last, a line each, cut to `width`: `plan events` has the whole of it."""
    labels = ["recent", *("" for _ in found[1:])]
    lines = [labelled(label, records.line(record)) for label, record in zip(labels, found, strict=False)]
    return lines if width is None else [widths.cut(line, width) for line in lines]


def _head(item: Resource) -> str:
    goal = cells.one_line(str(item.spec.get("goal") or ""))
    state = cells.state_of(item)
    return f"{item.address}   {state}" + (f"   goal: {goal}" if goal else "")


def _conditions(item: Resource, now: float) -> list[str]:
    found = list(of_status(item.status).values())
    if not found:
        return []
    name = max(len(one.type) for one in found)
    reason = max(len(one.reason) for one in found)
    return [
        f"  {one.type:<{name}}  {one.status:<7}  {one.reason:<{reason}}  {_said(one, now)}".rstrip() for one in found
    ]


def _said(condition: Condition, now: float) -> str:
    since = f"for {amounts.duration(now - condition.since)}" if condition.since else ""
    return " · ".join(part for part in (cells.one_line(condition.message), since) if part)


def _why(item: Resource) -> list[str]:
    lines = []
    why = item.status.get("why")
    if why:
        lines.append(labelled("why", str(why)))
    exits = [line for one in of_status(item.status).values() if cells.is_bad(one) for line in one.unblocks]
    if exits:
        lines.append(labelled("unblocks", " · or: ".join(dict.fromkeys(exits))))
    return lines


def _facts(item: Resource, now: float) -> list[str]:
    status, lines = item.status, []
    needs = item.spec.get("needs") or ()
    if needs and item.kind != "container":
        lines.append(labelled("needs", ", ".join(map(str, needs))))
    fork = item.spec.get("fork") if item.kind == "task" else None
    if fork and fork.partition("/")[2] != item.address.partition("/")[2]:
        lines.append(labelled("fork", f"{fork}: it works in that"))
    if item.kind == "agent" and item.spec.get("hooks"):
        lines.append(labelled("hooks", ", ".join(map(str, item.spec["hooks"]))))
    if status.get("incarnation") and item.kind != "container":
        worked = cells.age_of(item, now)
        lines.append(labelled("run", f"number {status['incarnation']}" + (f", {worked}" if worked else "")))
    if status.get("sandbox") and item.kind in ("task", "agent"):
        lines.append(labelled("sandbox", wish_of(status["sandbox"]).words))
    result = cells.one_line(cells.value_text(status.get("result")))
    if result and result != status.get("why"):
        lines.append(labelled("result", result))
    if item.deleting:
        lines.append(labelled("leaving", "its work is stopped first" if item.finalizers else "now"))
    lines.append(labelled("changed", f"rev {item.rev}"))
    return lines


def _facts_of_other(one: Resource, item: Resource, now: float) -> list[tuple[str, str]]:
    if one.kind == "lock":
        return locks.of_other(one, item, now)
    if item.kind == "container" or (one.kind == "container" and item.kind == "task"):
        return containers.of_other(one, item)
    return [(one.kind, forks.words(one) if one.kind == "fork" else _related(one, now))]


def _related(item: Resource, now: float) -> str:
    parts = [item.address, cells.state_of(item), cells.age_of(item, now), cells.what_of(item)]
    return ", ".join(part for part in parts if part)


def _checks(item: Resource) -> list[str]:
    results = item.status.get("checks") or {}
    lines = []
    for check in item.spec.get("acceptance") or ():
        found = results.get(check["key"]) or {}
        said = cells.one_line(str(found.get("message", "")))
        what = _check_words(check["kind"], check["arguments"])
        line = f"{check['key']}: {found.get('result', 'not run'):<7}  {what}" + (f"  {said}" if said else "")
        lines.append(labelled("check", line))
    return lines


def _check_words(kind: str, arguments: dict[str, Json]) -> str:
    values = [
        str(value)
        for value in arguments.values()
        if isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    ]
    return widths.cut(f"{kind} {' '.join(values)}", 60)


def labelled(label: str, said: str) -> str:
    """A line of a description."""
    return f"{label:<{LABEL_WIDTH}}{said}"
