"""Objects that a command means by `tasks`, `task/frontend` or `frontend`."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.client import plan_paths, references
from planloop.client.plan_client import PlanClient
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource


def selected_objects(access: PlanClient, what: Sequence[str]) -> list[Resource]:
    """The objects that `what` names, each once. Raises CommandError for what there is not."""
    out: dict[str, Resource] = {}
    for word in what:
        for item in _objects_of(access, word):
            out[item.address] = item
    return list(out.values())


def _objects_of(access: PlanClient, word: str) -> list[Resource]:
    if word == "all":
        return access.objects()
    kind = references.parse_kind(word)
    if kind is not None:
        return access.objects(kind)
    return [access.object(references.resolve_address(word))]


def with_current_reasons(access: PlanClient, items: Sequence[Resource]) -> list[Resource]:
    """`items` for people: what they wait for is said as it is at this moment."""
    from planloop.client.render import locks

    return locks.with_current_holders(items, access.objects("lock")) if locks.names_lock_holders(items) else list(items)


def plan_headline(access: PlanClient, found: Sequence[Resource]) -> str:
    """`webchat  rev 41  2 of 5 tasks done, 1 running   not running: plan apply webchat.plan.yaml`."""
    status = access.get("status")
    states = [one.state for one in found if one.kind == "task" and one.address != "task/."]
    parts = [f"{states.count('done')} of {len(states)} tasks done"] if states else []
    parts += [f"{states.count(state)} {state}" for state in ("running", "blocked", "failed") if state in states]
    containers = [one for one in found if one.kind == "container"]
    if containers:
        from planloop.client.render.containers import containers_headline  # For those who have some.

        parts.append(containers_headline(containers))
    owner = "" if status["pid"] else f"   not running: {plan_paths.command_to_resume(access.place)}"
    return f"{status['plan']}  rev {status['rev']}{'  ' if parts else ''}{', '.join(parts)}{owner}"


def not_running_note(access: PlanClient, known: Sequence[Resource] = ()) -> str:
    """That no process runs a plan that is not over, and the command that goes on; empty when there is nothing to say.

    What is listed stands still then: nobody lets go of a lock, and no time limit passes.
    """
    if access.is_owned():
        return ""
    root = next((one for one in known or access.objects("task") if one.address == "task/."), None)
    if root is None or root.state in ENDED:
        return ""
    return f"nobody runs {access.place.name}: {plan_paths.command_to_resume(access.place)} goes on from here"
