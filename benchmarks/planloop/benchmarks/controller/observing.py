"""What decides over a case: its task, the container that was worked in, and whether it is being graded."""

from __future__ import annotations

from typing import Final

from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.storing.store import View
from planloop.schemas.agent import AgentState
from planloop.schemas.case import CaseSpec, CaseState, case_from_json
from planloop.schemas.condition import INTERNAL_ERROR, STALLED, Condition, condition_from_json
from planloop.schemas.container import OVER, ContainerState
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED

READY: Final = "Ready"


@frozen
class Observed:
    """A case and what bears on it. `task` is None when it is gone; `is_closed`: nobody works on it any more.

    `ready` is the task's condition of that name, which says why it does not go on; `now` in seconds since 1970.
    `trouble` is what is the matter with a container of the case, empty when nothing is; `failures` are the reasons why
    models of its agents give no reply. `bug` is what of planloop broke at one of its agents, empty when nothing did.
    """

    case: Resource
    spec: CaseSpec
    task: Resource | None
    ready: Condition | None
    is_closed: bool
    is_graded_now: bool
    now: float
    trouble: str = ""
    failures: frozenset[str] = frozenset()
    bug: str = ""

    @property
    def has_ended(self) -> bool:
        return self.case.state == CaseState.ENDED


def observe(view: View, work: WorkPlane, address: str, now: float) -> Observed | None:
    """The case at `address`; None when it is gone."""
    case = view.get(address)
    if case is None:
        return None
    spec = case_from_json(case.spec)
    task = view.get(spec.task)
    said = task.status.get("conditions", {}).get(READY) if task is not None else None
    ready = condition_from_json(READY, said) if said is not None else None
    near = [one for one in map(view.get, case.refs) if one is not None]
    agents = [one for one in near if one.address.startswith("agent/")]
    containers = [one for one in near if one.address.startswith("container/")]
    is_over = task is not None and task.state in ENDED
    is_closed = is_over and all(map(_has_left, agents)) and all(map(_is_down, containers))
    trouble = next(filter(None, map(trouble_of, containers)), "")
    failures = frozenset(filter(None, map(_failure_of, agents)))
    bug = next(filter(None, map(bug_at, agents)), "")
    return Observed(case, spec, task, ready, is_closed, work.is_live(job_key(case)), now, trouble, failures, bug)


def _has_left(agent: Resource) -> bool:
    """Whether the agent writes nothing to the workspace any more."""
    return agent.state == AgentState.ENDED


def _is_down(container: Resource) -> bool:
    """Whether nothing in the container writes to the workspace any more."""
    return container.state in OVER or container.state == ContainerState.WAITING


def _failure_of(agent: Resource) -> str:
    """Why the model of a blocked agent gives no reply; empty for any other."""
    if agent.state != AgentState.BLOCKED:
        return ""
    kept = (agent.status.get("open") or {}).get("failure")
    return str(kept[0]["reason"]) if kept else ""


def bug_at(agent: Resource) -> str:
    """The bug of planloop that the agent stands still for, which nothing tries again; empty when there is none."""
    said = agent.status.get("conditions", {}).get(STALLED)
    return f"{agent.address}: {said['message']}" if said is not None and said["reason"] == INTERNAL_ERROR else ""


def trouble_of(container: Resource) -> str:
    """What the engine does not do for the container, or why it does not answer; empty when all is well."""
    trouble = container.status.get("engine") or (container.status if container.status.get("tries") else {})
    return f"{container.address}: {trouble['why']}" if trouble.get("why") else ""


def job_key(case: Resource) -> str:
    """The key of the job that grades a case."""
    return f"{case.address}@{case.uid}"
