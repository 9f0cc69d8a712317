"""Details of one object as `plan describe` prints them: conditions, reasons, relations, recent records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from planloop.client.render import (
    approval_requests,
    containers,
    forks,
    hooks,
    locks,
    mcp_servers,
    object_tables,
    records,
    tables,
)
from planloop.client.render.budgets import Costs
from planloop.reconciler.diff import describe
from planloop.schemas import quantities
from planloop.schemas.canonical_json import Json
from planloop.schemas.log.record import Record
from planloop.schemas.objects.budget import amounts_from_json, format_amount
from planloop.schemas.objects.message import thread_from_json
from planloop.schemas.objects.sandbox import sandbox_request
from planloop.schemas.resource import Condition, Resource, conditions_of_status

LABEL_WIDTH = 10
Fact: TypeAlias = tuple[str, str]  # A label and its text.


def object_text(item: Resource, related: Sequence[Resource], *, costs: Costs, now: float) -> str:
    """The lines of `plan describe`. `related` are objects that it owns or that do its work.

    As wide as they get: a line may end with the command that helps, which a terminal wraps so that it can be copied.
    """
    said = [labelled_lines(*fact) for fact in object_facts(item, related, costs=costs, now=now)]
    return "\n".join([_head(item), *_conditions(item, now), *said])


def object_facts(item: Resource, related: Sequence[Resource], *, costs: Costs, now: float) -> list[Fact]:
    """Return the labelled lines below the conditions."""
    found = [*_why(item), *_facts(item, now)]
    found += [(label, said) for label, said in (("budget", costs.line(item)), ("of this", costs.rest(item))) if said]
    found += _of_kind(item, now)
    for one in related:
        found += _facts_of_other(one, item, now)
    return found + _checks(item)


def _of_kind(item: Resource, now: float) -> Sequence[Fact]:
    told = _OF_KIND.get(item.kind)
    return () if told is None else told(item, now)


def _call(item: Resource, _: float) -> list[Fact]:
    return [("calls", tables.call_words(item.spec)), ("called by", str(item.spec["owner"]))]


def _thread(item: Resource, _: float) -> list[Fact]:
    spec = thread_from_json(item.spec)
    said = [("opened by", spec.owner), ("asks", spec.prompt), ("speak", ", ".join(spec.speakers))]
    said += [("listen", ", ".join(spec.listeners)), ("for", spec.call)]
    return [(label, words) for label, words in said if words]


_OF_KIND: Final[dict[str, Callable[[Resource, float], Sequence[Fact]]]] = {
    "approval": lambda item, _: approval_requests.approval_facts(item),
    "call": _call,
    "conflict": lambda item, _: approval_requests.conflict_facts(item),
    "container": containers.container_facts,
    "fork": lambda item, _: forks.fork_facts(item),
    "hook": hooks.hook_facts,
    "lock": locks.lock_facts,
    "mcp": lambda item, _: mcp_servers.mcp_server_facts(item),
    "thread": _thread,
}


def related_objects(known: Sequence[Resource], item: Resource) -> list[Resource]:
    """The agent that does a task's work, what the object owns, containers, and locks that it has, lost or waits for."""
    owned = [one for one in known if one.owner == item.address and one.kind != "task"]
    concerned = [one for one in known if one.kind == "lock" and _is_concerned(one, item.address)]
    return owned + containers.related_containers(known, item) + concerned


def _is_concerned(lock: Resource, address: str) -> bool:
    status, waiters = lock.status, lock.status.get("waiters", {})
    owners = (*status.get("holders", ()), *status.get("lost", ()), *(one["owner"] for one in waiters.values()))
    return address in (*owners, *waiters)


def recent_records(found: Sequence[Record], width: int | None) -> list[str]:
    """What happened last, a line each, cut to `width`: `plan events` has the whole of it."""
    labels = ["recent", *("" for _ in found[1:])]
    lines = [labelled_lines(label, records.record_line(record)) for label, record in zip(labels, found, strict=False)]
    return lines if width is None else [quantities.truncate_cells(line, width) for line in lines]


def _head(item: Resource) -> str:
    goal = tables.one_line(str(item.spec.get("goal") or ""))
    state = object_tables.state_of(item)
    return f"{item.address}   {state}" + (f"   goal: {goal}" if goal else "")


def _conditions(item: Resource, now: float) -> list[str]:
    found = list(conditions_of_status(item.status).values())
    if not found:
        return []
    name = max(len(one.type) for one in found)
    reason = max(len(one.reason) for one in found)
    return [
        f"  {one.type:<{name}}  {one.status:<7}  {one.reason:<{reason}}  {_said(one, now)}".rstrip() for one in found
    ]


def _said(condition: Condition, now: float) -> str:
    since = f"for {quantities.format_duration(now - condition.since)}" if condition.since else ""
    return " · ".join(part for part in (tables.one_line(condition.message), since) if part)


def _why(item: Resource) -> list[Fact]:
    lines: list[Fact] = []
    why = item.status.get("why")
    if why:
        lines.append(("why", str(why)))
    exits = [
        line for one in conditions_of_status(item.status).values() if object_tables.is_bad(one) for line in one.unblocks
    ]
    if exits:
        lines.append(("unblocks", " · or: ".join(dict.fromkeys(exits))))
    return lines


def _facts(item: Resource, now: float) -> list[Fact]:
    status = item.status
    lines: list[Fact] = []
    needs = item.spec.get("needs") or ()
    if needs and item.kind != "container":
        lines.append(("needs", ", ".join(map(str, needs))))
    fork = item.spec.get("fork") if item.kind == "task" else None
    if fork and fork.partition("/")[2] != item.address.partition("/")[2]:
        lines.append(("fork", f"works in {fork}"))
    if item.kind == "agent" and item.spec.get("hooks"):
        lines.append(("hooks", ", ".join(map(str, item.spec["hooks"]))))
    if item.kind == "agent":
        lines += _models(item)
    if status.get("incarnation") and item.kind != "container":
        worked = object_tables.age_of(item, now)
        lines.append(("run", f"number {status['incarnation']}" + (f", {worked}" if worked else "")))
    if status.get("sandbox") and item.kind in ("task", "agent"):
        lines.append(("sandbox", sandbox_request(status["sandbox"]).words))
    result = tables.one_line(tables.value_text(status.get("result")))
    if result and result != status.get("why"):
        lines.append(("result", result))
    if item.deleting:
        lines.append(("deleting", "after its work has stopped" if item.finalizers else "now"))
    lines.append(("changed", f"rev {item.rev}"))
    return lines


def _models(agent: Resource) -> list[Fact]:
    """The model that a yes gave it, and how far its escalation is."""
    lines: list[Fact] = []
    if granted := agent.spec.get("granted"):
        lines.append(("granted", f"{granted['model']} in place of {agent.spec['mind'].get('model', '')}"))
    if cap := agent.spec.get("cap"):
        bounds = ", ".join(format_amount(unit, amount) for unit, amount in amounts_from_json(cap["budget"]))
        lines.append(("tier", f"at most {bounds} ({cap['at']})"))
    escalate, escalated = agent.spec.get("escalate"), agent.status.get("escalated")
    if escalate and escalated:
        lines.append(("escalated", f"to {escalate['to']['model']} after turn {escalated['turn']}: {escalated['why']}"))
    elif escalate:
        lines.append(("escalates", describe.describe_escalation(escalate)))
    return lines


def _facts_of_other(one: Resource, item: Resource, now: float) -> list[tuple[str, str]]:
    if one.kind == "lock":
        return locks.lock_relation(one, item, now)
    if item.kind == "container" or (one.kind == "container" and item.kind == "task"):
        return containers.container_relation(one, item)
    return [(one.kind, forks.fork_words(one) if one.kind == "fork" else _related(one, now))]


def _related(item: Resource, now: float) -> str:
    parts = [
        item.address,
        object_tables.state_of(item),
        object_tables.age_of(item, now),
        object_tables.state_reason(item),
    ]
    return ", ".join(part for part in parts if part)


def _checks(item: Resource) -> list[Fact]:
    results = item.status.get("checks") or {}
    lines: list[Fact] = []
    for check in item.spec.get("acceptance") or ():
        found = results.get(check["key"]) or {}
        said = tables.one_line(str(found.get("message", "")))
        what = _check_words(check["kind"], check["arguments"])
        line = f"{check['key']}: {found.get('result', 'not run'):<7}  {what}" + (f"  {said}" if said else "")
        lines.append(("check", line))
    return lines


def _check_words(kind: str, arguments: dict[str, Json]) -> str:
    values = [
        str(value)
        for value in arguments.values()
        if isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    ]
    return quantities.truncate_cells(f"{kind} {' '.join(values)}", 60)


def labelled_lines(label: str, said: str) -> str:
    """A line of a description."""
    return f"{label:<{LABEL_WIDTH}}{said}"
