"""The parts of a plan that go with an agent into a file: its fields, its children with theirs, its hooks. Pure.

A child that is done by a command goes along while that has not ended: restored, it would be run again. What only people
set or gave (`open`, `protect`, `approve`, `granted`) stays behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from planloop.controllers.agent.copying.dumping import LEFT_BEHIND, Dump
from planloop.controllers.agent.copying.origins import carried_of
from planloop.schemas import address as addresses
from planloop.schemas import pointer
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED

Path: TypeAlias = tuple[str, ...]
IsShown: TypeAlias = Callable[[Path], bool]
"""Whether the hook at this place of the document may be in the file."""


class Objects(Protocol):
    """The objects of a plan as of now."""

    def get(self, address: str) -> Resource | None: ...


def gathered(objects: Objects, document: JsonObject, agent: Resource, is_shown: IsShown = lambda _: True) -> Dump:
    """The file of `agent`, still without the blobs of its transcripts.

    Where hooks are not all shown, neither are those that agents name.
    """
    path = addresses.parse(agent.address).path
    tokens = pointer.of_task(path)
    node = pointer.get(document, tokens) if pointer.has(document, tokens) else {}
    task = objects.get(str(agent.spec["task"]))
    found = _Gathering(objects, is_shown, path, {})
    written = found.without_hidden(_without_source(node.get("agent")), tokens)
    goal = "" if task is None else str(task.spec["goal"])
    tasks = found.children(node, path, written)
    return Dump(
        agent.address, goal, written, carried_of(agent.status), {}, found.hooks(node, tokens), tasks, found.members
    )


@mutable
class _Gathering:
    """`top` is the path of the agent that is written; `members` fills on the way."""

    objects: Objects
    is_shown: IsShown
    top: Path
    members: JsonObject

    def children(self, node: JsonObject, path: Path, above: Json) -> JsonObject:
        """The children of the task `node` at `path`; the agent `above` does those that name none."""
        found: JsonObject = {}
        for name, child in (node.get("tasks") or {}).items():
            made = self._child(child, (*path, name), above)
            if made is not None:
                found[name] = made
        for child in found.values():
            if "needs" in child:
                child["needs"] = [each for each in child["needs"] if each in found]
        return found

    def _child(self, node: JsonObject, path: Path, above: Json) -> JsonObject | None:
        task, agent = (self.objects.get(str(make(*path))) for make in (addresses.task, addresses.agent))
        if "run" in node and task is not None and task.state in ENDED:
            return None
        tokens = pointer.of_task(path)
        made = {key: value for key, value in node.items() if key not in LEFT_BEHIND | {"tasks", "hooks", "agent"}}
        written = self.without_hidden(_without_source(node["agent"]), tokens) if "agent" in node else above
        if agent is not None and "run" not in node:
            self.members["/".join(path[len(self.top) :])] = carried_of(agent.status)
            made["agent"] = written
        elif "agent" in node:
            made["agent"] = written
        below = self.children(node, path, written)
        hooks = self.hooks(node, tokens)
        return made | ({"tasks": below} if below else {}) | ({"hooks": hooks} if hooks else {})

    def hooks(self, node: JsonObject, tokens: Path) -> JsonObject:
        """The hooks of a task that may be in the file."""
        return {name: one for name, one in (node.get("hooks") or {}).items() if self.is_shown((*tokens, "hooks", name))}

    def without_hidden(self, written: Json, tokens: Path) -> Json:
        """An agent without the hooks that it names, where these may not be in the file."""
        at = (*tokens, "agent", "hooks")
        if isinstance(written, dict) and "hooks" in written and not self.is_shown(at):
            return {key: value for key, value in written.items() if key != "hooks"}
        return written


def without_inherited(dump: Dump, document: JsonObject, under: Path) -> JsonObject:
    """The hooks of the file, without those that a child of the task at `under` is watched by anyway."""
    above = [document, *(pointer.get(document, pointer.of_task(under[:depth])) for depth in range(1, len(under) + 1))]
    known: list[JsonObject] = [task.get("hooks") or {} for task in above]
    return {name: one for name, one in dump.hooks.items() if not any(each.get(name) == one for each in known)}


def words_of(dump: Dump) -> Iterator[str]:
    """What there is in a file beside the agent itself, for people, as in `2 agents below it` and `1 hook`."""
    commands, hooks = _counts(dump.tasks), len(dump.hooks)
    for count, one, many in (
        (len(dump.members), "agent below it", "agents below it"),
        (commands[0], "command", "commands"),
        (hooks + commands[1], "hook", "hooks"),
    ):
        if count:
            yield f"{count} {one if count == 1 else many}"


def _counts(tasks: JsonObject) -> tuple[int, int]:
    """The commands and the hooks among these tasks and those below."""
    commands = hooks = 0
    waiting = [*tasks.values()]
    while waiting:
        node = waiting.pop()
        commands += "run" in node
        hooks += len(node.get("hooks") or {})
        waiting += (node.get("tasks") or {}).values()
    return commands, hooks


def _without_source(written: Json) -> Json:
    """The agent of a task as the plan has it, without where it was itself copied from."""
    return {key: value for key, value in written.items() if key != "from"} if isinstance(written, dict) else written
