"""What `get`, `describe`, `wait` and others mean by `tasks`, `task/frontend` or `frontend`."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.app import going_on, pointing
from planloop.app.access import Access
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED


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
    kind = pointing.kind_of(word)
    if kind is not None:
        return access.objects(kind)
    return [access.object(pointing.address_of(word))]


def by_now(access: Access, items: Sequence[Resource]) -> list[Resource]:
    """`items` for people: what they wait for is said as it is at this moment."""
    from planloop.cli.rendering import by_now

    return by_now.reasons(items, access.objects("lock")) if by_now.has_reasons(items) else list(items)


def headline(access: Access, found: Sequence[Resource]) -> str:
    """`webchat  rev 41  2 of 5 tasks done, 1 running   not running: plan apply webchat.plan.yaml`."""
    status = access.get("status")
    states = [one.state for one in found if one.kind == "task" and one.address != "task/."]
    parts = [f"{states.count('done')} of {len(states)} tasks done"] if states else []
    parts += [f"{states.count(state)} {state}" for state in ("running", "blocked", "failed") if state in states]
    containers = [one for one in found if one.kind == "container"]
    if containers:
        from planloop.cli.rendering.containers import headline  # For those who have some.

        parts.append(headline(containers))
    owner = "" if status["pid"] else f"   not running: {going_on.command(access.place)}"
    return f"{status['plan']}  rev {status['rev']}{'  ' if parts else ''}{', '.join(parts)}{owner}"


def nobody_runs(access: Access, known: Sequence[Resource] = ()) -> str:
    """That no process runs a plan that is not over, and the command that goes on; empty when there is nothing to say.

    What is listed stands still then: nobody lets go of a lock, and no time limit passes.
    """
    if access.is_owned():
        return ""
    root = next((one for one in known or access.objects("task") if one.address == "task/."), None)
    if root is None or root.state in ENDED:
        return ""
    return f"nobody runs {access.place.name}: {going_on.command(access.place)} goes on from here"
