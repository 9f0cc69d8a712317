"""Agents that are copies of others (`from`): whom an agent may copy, and what `from` says when the original leaves.

What a copy begins with is kept in its own status, so its original may go. A name that leads nowhere would keep the
plan from compiling, so `from` then says `dump:kept`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planloop.reconciler.admitting.present import Present
from planloop.schemas import address as addresses
from planloop.schemas import pointer
from planloop.schemas.agent import ADDRESS, DUMP, KEPT_ORIGIN, copied_path
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.patch import Fault
from planloop.schemas.patching import Op, apply
from planloop.schemas.resource import Resource, Wanted

FROM = ("agent", "from")


def without_lost(present: Present, document: JsonObject) -> JsonObject:
    """`document` with `dump:kept` in each `from` that it has from before and that names a task that is not there."""
    lost = [
        Op("replace", (*pointer.of_task(path), *FROM), KEPT_ORIGIN)
        for path, name in _sources(document)
        if _is_lost(name, path, document) and _said(present.document, path) == name
    ]
    return apply(document, lost) if lost else document


def is_settling(op: Op, present: Present, document: JsonObject) -> bool:
    """Whether `op` is of `without_lost`, and so not a wish of the author of the patch that makes `document`.

    An author that writes `dump:kept` while the original stays changes another's agent, and is judged for it.
    """
    if op.path[-2:] != FROM or op.value != KEPT_ORIGIN or not pointer.has(present.document, op.path):
        return False
    name = pointer.get(present.document, op.path)
    return isinstance(name, str) and _is_lost(name, op.path[1:-2:2], document)


def _is_lost(name: str, path: tuple[str, ...], document: JsonObject) -> bool:
    """Whether the task at `path` is a copy of an agent, named `name`, that is not in `document`."""
    copied = copied_path(name, path[:-1])
    return copied is not None and not pointer.has(document, pointer.of_task(copied))


def source_faults(old: Resource | None, want: Wanted, author: tuple[str, ...]) -> Iterator[Fault]:
    """Where the agent `want` would begin with what an agent has learnt that is not below the author."""
    source = str(want.spec.get("source") or "")
    if not source.startswith(ADDRESS) or (old is not None and old.spec.get("source") == source):
        return
    path = addresses.parse(source).path
    if path[: len(author)] != author or len(path) == len(author):
        hint = "copy an agent below you, or ask its parent with `request`"
        yield Fault("rights", f"{want.address} would be a copy of {source}, which is not below you", (), hint)


def _sources(document: JsonObject) -> Iterator[tuple[tuple[str, ...], str]]:
    """The path of each task with an agent that is a copy, with what its `from` says."""
    waiting: list[tuple[tuple[str, ...], JsonObject]] = [((), document)]
    while waiting:
        path, task = waiting.pop()
        agent = task.get("agent")
        if isinstance(agent, dict) and isinstance(name := agent.get("from"), str) and not name.startswith(DUMP):
            yield path, name
        children = task.get("tasks")
        if isinstance(children, Mapping):
            waiting += [((*path, name), child) for name, child in children.items() if isinstance(child, dict)]


def _said(document: JsonObject, path: tuple[str, ...]) -> Json:
    at = (*pointer.of_task(path), *FROM)
    return pointer.get(document, at) if pointer.has(document, at) else None
