"""What must hold in a plan beyond the types of its fields: references, ids, rings, contradictions.

Works on the canonical document, from which faulty values were already left out, so that one fault is told once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compiler.faults import Faults
from compiler.needs import Needs, TaskPath, rings
from schemas import pointer
from schemas.encoding import JsonObject
from schemas.fields_checks import KIND_FIELDS


def walk(document: JsonObject) -> Iterator[tuple[TaskPath, JsonObject]]:
    """Every task with its path, in document order, the root first."""
    stack: list[tuple[TaskPath, JsonObject]] = [((), document)]
    while stack:
        path, task = stack.pop()
        yield path, task
        children = task.get("tasks")
        if children:
            stack.extend(((*path, name), child) for name, child in reversed(children.items()))


def resolved_needs(document: JsonObject, faults: Faults) -> Mapping[TaskPath, tuple[TaskPath, ...]]:
    """For each task that needs others, their paths. Rings are told, with the way around."""
    tasks = dict(walk(document))
    needs = Needs(tasks, faults)
    found = {path: needs.resolved(path, task["needs"]) for path, task in tasks.items() if task.get("needs")}
    for ring in rings(found, list(tasks)):
        names = ["/".join(path) or "." for path in ring]
        to = (*pointer.of_task(ring[0]), "needs")
        others = [(f"`{name}`", pointer.of_task(path)) for name, path in zip(names[1:], ring[1:], strict=True)]
        walk_words = " → ".join([*names, names[0]])
        faults.related("P0209", f"tasks wait for each other: {walk_words}", "take one of the needs away", to, others)
    return found


def check_document(document: JsonObject, faults: Faults) -> None:
    """Tells of whatever contradicts itself."""
    for path, task in walk(document):
        if "acceptance" in task:
            _check_acceptance(task["acceptance"], path, faults)


_KINDS = [field.name for field in KIND_FIELDS]


def _check_acceptance(checks: list[JsonObject], path: TaskPath, faults: Faults) -> None:
    for index, check in enumerate(checks):
        kinds = [kind for kind in _KINDS if kind in check]
        if len(kinds) != 1:
            to = (*pointer.of_task(path), "acceptance", str(index))
            said = " and ".join(f"`{kind}`" for kind in kinds) or "nothing"
            faults.add("P0211", f"a check is one thing, this is {said}", "one of " + ", ".join(_KINDS), to=to)
