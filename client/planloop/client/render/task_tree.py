"""The tree of tasks and their containers as lines of text.

`plan tree` prints them, the live tree of `plan apply` paints them. Signs only repeat the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planloop.client.render import object_tables, tables
from planloop.schemas import quantities
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseVerdict
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.client.render.budgets import Costs

SIGNS: Final = {
    "running": "●", "checking": "●", "done": "✔", "asleep": "◐", "blocked": "◼", "waiting": "○", "new": "○",
    "failed": "✖", "cancelled": "⊘", "paused": "‖", "stopping": "◌", "deleting": "◌", "parked": "◼", "claimed": "●",
    "preparing": "◐", "starting": "◐", "healthy": "●", "unhealthy": "◼", "restarting": "◐", "completed": "✔",
    "removed": "○", "kept": "◌",
}  # fmt: skip
PLAIN_SIGNS: Final = {
    "running": "*", "checking": "*", "done": "+", "asleep": "~", "blocked": "#", "waiting": ".", "new": ".",
    "failed": "x", "cancelled": "-", "paused": "=", "stopping": "-", "deleting": "-", "parked": "#", "claimed": "*",
    "preparing": "~", "starting": "~", "healthy": "*", "unhealthy": "#", "restarting": "~", "completed": "+",
    "removed": ".", "kept": "-",
}  # fmt: skip

STUCK: Final = ("blocked", "failed", "paused", "cancelled")


@frozen
class TreeRow:
    """One task or container of the tree. `branch` is the drawing before its sign, already as wide as its depth.

    `mark` is the state whose sign is shown, if it differs from its own.
    """

    branch: str
    name: str
    state: str
    checks: str
    age: str
    what: str
    cost: str = ""
    address: str = ""
    mark: str = ""

    @property
    def is_task(self) -> bool:
        return self.address.startswith("task/")


def tree_rows(
    tasks: Mapping[str, Resource],
    *,
    now: float,
    costs: Costs | None = None,
    top: str = "task/.",
    depth: int | None = None,
) -> list[TreeRow]:
    """Return the rows of the tasks below `top`, in the plan's order; with `costs`, with their cost.

    `tasks` may have the containers in it, too: each stands below the task that it is for; and the cases of a run of a
    benchmark: each tells how its task was judged. `top` itself is left out,
    unless nothing else tells how it stands: it works alone, or itself and is stuck.
    """
    family = _Family(tasks)
    out: list[TreeRow] = [_row(tasks[top], "", now)] if top in tasks and _is_told_of(tasks[top], family) else []
    out += _below(tasks, family, top, "", now, depth)
    out = _judged(out, {str(one.spec["task"]): one for one in tasks.values() if one.kind == "case"})
    if costs is None:
        return out
    return [replace(row, cost=costs.short(tasks[row.address])) if row.is_task else row for row in out]


def _judged(found: list[TreeRow], cases: Mapping[str, Resource]) -> list[TreeRow]:
    """The rows of tasks that were judged with their verdict: a task may be done and what it made be wrong."""
    if not cases:
        return found
    verdicts = {task: verdict for task, case in cases.items() if (verdict := object_tables.verdict_of(case))}
    return [_with(row, verdicts[row.address], cases[row.address]) if row.address in verdicts else row for row in found]


def _with(row: TreeRow, verdict: str, case: Resource) -> TreeRow:
    if verdict == CaseVerdict.PASS:
        return replace(row, what=f"{verdict}  {row.what}".rstrip())
    return replace(row, mark="failed", what=f"{verdict}: {object_tables.state_reason(case)}")


class _Family:
    """Index of the tasks and containers below each task, built once for a tree, so that its cost is linear."""

    def __init__(self, tasks: Mapping[str, Resource]) -> None:
        self._tasks = tasks
        self._with_parent: dict[str, list[str]] = {}
        self._containers: dict[str, list[str]] = {}
        for one in tasks.values():
            if one.kind == "task":
                self._with_parent.setdefault(str(one.spec.get("parent")), []).append(one.address)
            elif one.kind == "container":
                self._containers.setdefault(str(one.spec["task"]), []).append(one.address)

    def children(self, address: str) -> list[str]:
        """The addresses of the child tasks in the plan's order, then of those being removed."""
        listed = dict.fromkeys(str(child) for child in self._tasks[address].spec.get("children", ()))
        leaving = (child for child in self._with_parent.get(address, ()) if child not in listed)
        return [child for child in (*listed, *leaving) if child in self._tasks]

    def containers(self, address: str) -> Sequence[str]:
        """The containers of the task at `address`; for the root, the containers of the whole plan."""
        return self._containers.get(address.partition("/")[2].removeprefix("."), ())


def _is_told_of(top: Resource, family: _Family) -> bool:
    is_group = (top.spec.get("work") or {}).get("kind") == "group"
    return not is_group and (top.state in STUCK or not family.children(top.address))


def _below(
    tasks: Mapping[str, Resource],
    family: _Family,
    address: str,
    branch: str,
    now: float,
    depth: int | None,
) -> Iterator[TreeRow]:
    if depth == 0 or address not in tasks:
        return
    children = [*family.containers(address), *family.children(address)]
    for index, child in enumerate(children):
        is_last = index == len(children) - 1
        row = _row(tasks[child], branch + ("└─ " if is_last else "├─ "), now)
        yield row
        if row.is_task:
            deeper = None if depth is None else depth - 1
            yield from _below(tasks, family, child, branch + ("   " if is_last else "│  "), now, deeper)


def _row(task: Resource, branch: str, now: float) -> TreeRow:
    if task.kind == "container":
        age, what = object_tables.age_of(task, now), object_tables.state_reason(task)
        return TreeRow(branch, task.address, object_tables.state_of(task), "", age, what, address=task.address)
    name = task.address.rpartition("/")[2]
    # The row is that of the agent's own task: who waits need not be said once more.
    what = object_tables.state_reason(task).removeprefix(f"agent/{object_tables.path_of(task)}: ")
    checks = object_tables.checks_of(task)
    return TreeRow(
        branch, name, object_tables.state_of(task), checks, object_tables.age_of(task, now), what, address=task.address
    )


def tree_lines(found: Sequence[TreeRow], *, width: int | None = None, plain: bool = False) -> list[str]:
    """The rows as aligned text. `plain` draws with ASCII, for terminals that have no more."""
    signs = PLAIN_SIGNS if plain else SIGNS
    heads = [f"{row.branch}{signs.get(row.mark or row.state, '?')} {row.name}" for row in found]
    if plain:
        heads = [head.translate({ord("├"): "|", ord("└"): "`", ord("─"): "-", ord("│"): "|"}) for head in heads]
    name_width = tables.name_width(max((quantities.cell_width(head) for head in heads), default=0), width)
    heads = [quantities.truncate_cells(head, name_width) for head in heads]
    state_width = max((len(row.state) for row in found), default=0)
    checks_width = max((len(row.checks) for row in found), default=0)
    age_width = max((len(row.age) for row in found), default=0)
    cost_width = max((len(row.cost) for row in found), default=0)
    out = []
    for head, row in zip(heads, found, strict=True):
        line = f"{quantities.pad_cells(head, name_width)}  {row.state:<{state_width}}  {row.checks:<{checks_width}}"
        line = f"{line.rstrip() if not checks_width else line}  {row.age:>{age_width}}"
        line = f"{line}  {row.cost:<{cost_width}}" if cost_width else line
        line = f"{line}  {row.what}".rstrip()
        out.append(line if width is None else quantities.truncate_cells(line, width))
    return out
