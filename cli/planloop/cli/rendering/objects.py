"""Objects as table rows: which columns each kind has, and how a cell reads. Pure; `now` is an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from planloop.cli.rendering import tables
from planloop.schemas import amounts, widths
from planloop.schemas.condition import Condition, of_status
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import author_in_words
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.cli.rendering.budgets import Costs

ARGUMENT_MAX = 60  # Cells: a file's content is not for a line.
KINDS_IN_ORDER = tuple("plan task case agent lock container hook mcp fork call approval conflict thread".split())


@frozen
class Sheet:
    """A table of one kind: its head and its rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sheets(objects: Sequence[Resource], *, now: float, costs: Costs | None = None) -> list[Sheet]:
    """One sheet a kind, in a fixed order; kinds without objects are left out. With `costs` it is the wide form."""
    out = []
    for kind in KINDS_IN_ORDER:
        of_kind = [item for item in objects if item.kind == kind]
        if of_kind:
            out.append(_sheet(kind, of_kind, now, costs))
    return out


def text(objects: Sequence[Resource], *, now: float, costs: Costs | None = None, width: int | None = None) -> str:
    """All sheets, one blank line between them."""
    found = sheets(objects, now=now, costs=costs)
    return "\n\n".join(tables.table(sheet.head, sheet.rows, width=width) for sheet in found)


def _sheet(kind: str, objects: Sequence[Resource], now: float, costs: Costs | None) -> Sheet:
    head: tuple[str, ...]
    row: Callable[[Resource, float], tuple[str, ...]]
    match kind:
        case "task":
            head, row = ("task", "state", "checks", "for", "what"), _task_row
        case "agent":
            head, row = ("agent", "state", "turn", "for", "what"), _agent_row
        case "mcp":
            from planloop.cli.rendering import servers

            head, row = ("server", "state", "tools", "for", "what"), servers.row
        case "hook":
            from planloop.cli.rendering import hooks

            head, row = hooks.HEAD, hooks.row
        case "call":
            head, row = ("call", "state", "for", "owner", "what"), _call_row
        case "conflict":
            from planloop.cli.rendering import conflicts

            head, row = ("conflict", "state", "before", "for", "what"), conflicts.row
        case "lock":
            from planloop.cli.rendering import locks

            head, row = ("lock", "held by", "mode", "for", "waiting", "what"), locks.row
        case "approval":
            head, row = ("approval", "state", "by", "what"), _approval_row
        case _:
            head, row = _of_others(kind)
    rows = [row(item, now) for item in objects]
    if costs is not None:
        more = ("budget",) if kind in ("task", "agent") else ()
        head = (*head[:-1], *more, "uid", "gen", "rev", head[-1])
        rows = [
            (*cells[:-1], *(costs.line(item) for _ in more), item.uid, str(item.generation), str(item.rev), cells[-1])
            for cells, item in zip(rows, objects, strict=True)
        ]
    return Sheet(head, tuple(rows))


def _of_others(kind: str) -> tuple[tuple[str, ...], Callable[[Resource, float], tuple[str, ...]]]:
    if kind == "fork":
        from planloop.cli.rendering import forks

        return forks.HEAD, forks.row
    if kind == "container":
        from planloop.cli.rendering import containers

        return containers.HEAD, containers.row
    if kind == "case":
        return (kind, "state", "verdict", "what"), _case_row
    return (kind, "state", "rev", "for", "what"), _other_row


def _task_row(item: Resource, now: float) -> tuple[str, ...]:
    return (path_of(item), state_of(item), checks_of(item), age_of(item, now), what_of(item))


def _agent_row(item: Resource, now: float) -> tuple[str, ...]:
    return (path_of(item), state_of(item), str(item.status.get("turn", 0)), age_of(item, now), what_of(item))


def _call_row(item: Resource, now: float) -> tuple[str, ...]:
    return (
        path_of(item),
        state_of(item),
        age_of(item, now),
        str(item.spec.get("owner", "")),
        call_text(item),
    )


def _approval_row(item: Resource, now: float) -> tuple[str, ...]:
    del now
    by = author_in_words(str(item.spec.get("by", "")))
    return (path_of(item), state_of(item), by, what_of(item))


def _case_row(item: Resource, now: float) -> tuple[str, ...]:
    del now
    return (path_of(item), state_of(item), verdict_of(item), what_of(item))


def verdict_of(case: Resource) -> str:
    """What a case came to; empty before it is judged."""
    return str(case.status.get("verdict", ""))


def _other_row(item: Resource, now: float) -> tuple[str, ...]:
    return (path_of(item), state_of(item), str(item.rev), age_of(item, now), what_of(item))


def path_of(item: Resource) -> str:
    """The address without its kind: what `plan get tasks` lists under TASK."""
    return item.address.partition("/")[2]


def state_of(item: Resource) -> str:
    """The state in one word; `deleting` when it is on its way out, another one before anything was written of it."""
    return "deleting" if item.deleting else item.state or _UNWRITTEN.get(item.kind, "new")


_UNWRITTEN = {"task": "waiting", "agent": "idle", "hook": "active", "container": "waiting", "case": "waiting"}


def checks_of(item: Resource) -> str:
    """`3 of 5` passing checks, empty when the task has none."""
    wanted = item.spec.get("acceptance") or []
    if not wanted:
        return ""
    results = item.status.get("checks") or {}
    passing = sum(1 for check in wanted if (results.get(check["key"]) or {}).get("result") == "pass")
    return f"{passing} of {len(wanted)}"


def age_of(item: Resource, now: float) -> str:
    """How long it has worked, or did work; empty before it began."""
    if item.kind == "container":
        from planloop.cli.rendering import containers

        return containers.age(item, now)
    started, ended = item.status.get("started_at"), item.status.get("ended_at")
    if started is None:
        return ""
    return amounts.duration((now if ended is None else ended) - started)


def what_of(item: Resource) -> str:
    """The one sentence about it: why it is not further, else its result, else its goal."""
    if item.kind == "container":
        from planloop.cli.rendering import containers

        return containers.what_of(item)
    if item.kind == "approval":
        from planloop.cli.rendering import questions

        return questions.line(item.spec)
    status = item.status
    if not status and item.spec.get("needs"):
        return "after " + ", ".join(str(need).partition("/")[2] for need in item.spec["needs"])
    why = status.get("why") or status.get("message")
    if why:
        return one_line(str(why))
    blocking = worst(of_status(status))
    if blocking is not None:
        return one_line(blocking.message)
    return one_line(value_text(status.get("result")) or str(item.spec.get("goal") or item.spec.get("why") or ""))


def value_text(value: Json) -> str:
    """A result as its author would say it: text as it is, of a map the part meant for readers."""
    match value:
        case None:
            return ""
        case {"text": str(text)} | {"message": str(text)}:
            return text.strip()
        case dict():
            return ", ".join(f"{key} {one}" for key, one in value.items())
        case _:
            return str(value)


def worst(conditions: dict[str, Condition]) -> Condition | None:
    """The condition that a reader must know first; None when all is well."""
    bad = [condition for condition in conditions.values() if is_bad(condition)]
    return max(bad, key=lambda condition: condition.since, default=None)


def way_on(item: Resource) -> str:
    """The first command that would get it further; empty when its conditions name none."""
    ways = (way for one in of_status(item.status).values() if is_bad(one) for way in one.unblocks)
    return next((way for way in ways if way.startswith("plan ")), "")


POSITIVE = frozenset({"Ready", "Accepted", "Progressing", "Done", "Available"})


def is_bad(condition: Condition) -> bool:
    """Whether it stands in the way: a good thing that is False, or a bad one (`FileInvalid`) that is True."""
    return condition.status == ("False" if condition.type in POSITIVE else "True")


def call_text(item: Resource) -> str:
    """`shell("git push origin fix")`."""
    return call_words(item.spec)


def call_words(spec: JsonObject) -> str:
    """The same for a call that is only told of: `tool` and `arguments`."""
    return f"{spec.get('tool', '')}({one_line(_shown_arguments(spec.get('arguments') or {}))})"


def _shown_arguments(arguments: Json) -> str:
    if not isinstance(arguments, dict):  # A model may write anything there.
        arguments = {"given": arguments}
    values = [value for value in arguments.values() if isinstance(value, str | int | list)]
    shown = (repr(value) if isinstance(value, str) else str(value) for value in values[:3])
    return ", ".join(widths.cut(value, ARGUMENT_MAX) for value in shown)


def one_line(text_: str) -> str:
    """The first line, with a mark when there are more."""
    first, _, rest = text_.strip().partition("\n")
    return first + (" …" if rest.strip() else "")
