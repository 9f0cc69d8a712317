"""What `get`, `describe`, `wait` and others mean by `tasks`, `task/frontend` or `frontend`."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.access import Access
from planloop.exits import Exit, Halt
from schemas.address import KINDS
from schemas.resource import Resource


def kind_of(word: str) -> str | None:
    """The kind that `word` names in singular or plural; None when it names none.

    There are no short names: `a` and `c` are what people call tasks.
    """
    if word in KINDS:
        return word
    if word in ("server", "servers"):
        return "mcp"
    return word[:-1] if word.endswith("s") and word[:-1] in KINDS else None


def selected(access: Access, what: Sequence[str]) -> list[Resource]:
    """The objects that `what` names, each once. Raises Halt for what there is not."""
    out: dict[str, Resource] = {}
    for word in what:
        for item in _of(access, word):
            out[item.address] = item
    return list(out.values())


def _of(access: Access, word: str) -> list[Resource]:
    if word == "all":
        return access.objects()
    kind = kind_of(word)
    if kind is not None:
        return access.objects(kind)
    return [access.object(address_of(word))]


def address_of(word: str, kind: str = "task") -> str:
    """The address meant: `task/a/b` as it is, `a/b` as a task, `.` as the root task. Raises Halt."""
    head, slash, rest = word.partition("/")
    named = kind_of(head)
    if named is not None and slash and rest:
        return f"{named}/{rest}"
    if not word or not all(word.split("/")):
        raise Halt(Exit.USAGE, f"`{word}` names no object", f"write {kind}/NAME, or {kind}/PARENT/NAME")
    return f"{kind}/{word}"


def headline(access: Access, tasks: Sequence[Resource]) -> str:
    """`webchat  rev 41  2 of 5 tasks done, 1 running  (nobody runs it: plan apply webchat.plan.yaml)`."""
    status = access.get("status")
    states = [task.state for task in tasks if task.kind == "task" and task.address != "task/."]
    parts = [f"{states.count('done')} of {len(states)} tasks done"]
    parts += [f"{states.count(state)} {state}" for state in ("running", "blocked", "failed") if state in states]
    owner = "" if status["pid"] else f"   not running: plan apply {_file_name(access)}"
    return f"{status['plan']}  rev {status['rev']}  {', '.join(parts)}{owner}"


def _file_name(access: Access) -> str:
    file = access.place.file
    return file.name if file is not None else "FILE"
