"""Resolve `needs` from names to addresses, and find dependency cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from planloop.compiler.names import nearest_name
from planloop.compiler.problems import Problems
from planloop.schemas import json_pointer
from planloop.schemas.frozen import mutable

TaskPath = tuple[str, ...]


@mutable
class NeedsResolver:
    """Resolves references over all tasks of a plan."""

    paths: Mapping[TaskPath, object]
    faults: Problems
    _by_name: dict[str, list[TaskPath]] | None = field(default=None)

    def resolved(self, path: TaskPath, written: Sequence[str]) -> tuple[TaskPath, ...]:
        """The tasks that the task at `path` needs, each once. Report unknown ones."""
        found = []
        for index, reference in enumerate(written):
            target = self._target(path, reference, index)
            if target is not None and target not in found:
                found.append(target)
        return tuple(found)

    def _target(self, path: TaskPath, reference: str, index: int) -> TaskPath | None:
        to = (*json_pointer.task_pointer(path), "needs", str(index))
        parts = tuple(reference.removeprefix("task/").split("/"))
        sibling = (*path[:-1], *parts)
        if path and sibling in self.paths:
            return sibling
        if parts in self.paths:
            return parts
        named = self.by_name.get(reference, []) if len(parts) == 1 else []
        if len(named) == 1:
            return named[0]
        if named:
            choices = " or ".join(f"`{'/'.join(each)}`" for each in named[:6])
            self.faults.add("P0205", f"ambiguous task `{reference}`", f"write the path: {choices}", to=to)
            return None
        self.faults.add("P0204", f"unknown task `{reference}`", self._hint(path, reference), to=to)
        return None

    @property
    def by_name(self) -> dict[str, list[TaskPath]]:
        """The paths that end in each id."""
        if self._by_name is None:
            self._by_name = {}
            for path in self.paths:
                if path:
                    self._by_name.setdefault(path[-1], []).append(path)
        return self._by_name

    def _hint(self, path: TaskPath, reference: str) -> str:
        root = self.paths.get(())
        name = reference.removeprefix("container/")
        if isinstance(root, Mapping) and name in root.get("containers", {}):
            return f"`{name}` is a container: write `containers: [{name}]` in this task"
        if not self.faults.are_many and (near := self._nearest(path, reference.rpartition("/")[2])):
            return f"did you mean `{near[-1] if len(self.by_name[near[-1]]) == 1 else '/'.join(near)}`?"
        return "name another task of this plan, by id or by path"

    def _nearest(self, path: TaskPath, name: str) -> TaskPath | None:
        """The task with the nearest id that the one at `path` could need: not itself, nor one above or below it."""
        others = {
            each: [one for one in paths if one[: len(path)] != path[: len(one)]] for each, paths in self.by_name.items()
        }
        near = nearest_name(name, (each for each, paths in others.items() if paths))
        return None if near is None else others[near][0]


def find_cycles(needs: Mapping[TaskPath, Sequence[TaskPath]], paths: Sequence[TaskPath]) -> Iterator[list[TaskPath]]:
    """The rings of tasks that wait for each other, each once, as a walk whose last step leads back to its first.

    A task ends after its needs and its children have; a child starts only when its parents may. So a task that needs
    its own parent or child waits for itself as well.
    """
    if not needs:
        return
    children: dict[TaskPath, list[TaskPath]] = {}
    for path in paths:
        if path:
            children.setdefault(path[:-1], []).append(path)
    seen: set[tuple[TaskPath, bool]] = set()
    for path in needs:
        ring = _ring_from((path, False), needs, children, seen)
        if ring:
            yield ring


Node = tuple[TaskPath, bool]
"""A task's start (False) or end (True)."""


def _ring_from(
    start: Node,
    needs: Mapping[TaskPath, Sequence[TaskPath]],
    children: Mapping[TaskPath, list[TaskPath]],
    seen: set[Node],
) -> list[TaskPath] | None:
    """The first ring met on the way from `start` through nodes not `seen` before."""
    walk: list[Node] = []
    on_walk: dict[Node, int] = {}
    stack: list[tuple[Node, Iterator[Node]]] = []
    if start in seen:
        return None
    seen.add(start)
    stack.append((start, _before(start, needs, children)))
    walk.append(start)
    on_walk[start] = 0
    while stack:
        _, waits = stack[-1]
        for node in waits:
            if node in on_walk:
                return _shortened([path for path, _ in walk[on_walk[node] :]])
            if node not in seen:
                seen.add(node)
                on_walk[node] = len(walk)
                walk.append(node)
                stack.append((node, _before(node, needs, children)))
                break
        else:
            stack.pop()
            del on_walk[walk.pop()]
    return None


def _before(
    node: Node, needs: Mapping[TaskPath, Sequence[TaskPath]], children: Mapping[TaskPath, list[TaskPath]]
) -> Iterator[Node]:
    """What must have happened before `node` can."""
    path, is_end = node
    if is_end:
        yield (path, False)
        yield from ((child, True) for child in children.get(path, ()))
        return
    yield from ((need, True) for need in needs.get(path, ()))
    if path:
        yield (path[:-1], False)


def _shortened(walk: list[TaskPath]) -> list[TaskPath]:
    """The ring with each task once, from the task that comes first by path."""
    out: list[TaskPath] = []
    for path in walk:
        if path not in out:
            out.append(path)
    first = out.index(min(out))
    return [*out[first:], *out[:first]]
