"""What decides over a case: its task, the container that was worked in, and whether it is being graded."""

from __future__ import annotations

from reconciler.driving.working import WorkPlane
from reconciler.storing.store import View
from schemas.case import CaseSpec, CaseState, case_from_json
from schemas.container import OVER
from schemas.frozen import frozen
from schemas.resource import Resource
from schemas.task import ENDED

KEPT_FOR_TASKS = frozenset({"waiting"})  # A container that is for a task waits for it, and is not there.


@frozen
class Observed:
    """A case and what bears on it. `task` is None when it is gone; `is_closed`: nobody works on it any more."""

    case: Resource
    spec: CaseSpec
    task: Resource | None
    is_closed: bool
    is_graded_now: bool

    @property
    def has_ended(self) -> bool:
        return self.case.state == CaseState.ENDED


def observe(view: View, work: WorkPlane, address: str) -> Observed | None:
    """The case at `address`; None when it is gone."""
    case = view.get(address)
    if case is None:
        return None
    spec = case_from_json(case.spec)
    task = view.get(spec.task)
    is_over = task is not None and task.state in ENDED
    return Observed(case, spec, task, is_over and _is_left(view, case), work.is_live(job_key(case)))


def _is_left(view: View, case: Resource) -> bool:
    """Whether the agent and the containers of the case are gone: nothing writes to its workspace any more."""
    others = (view.get(ref) for ref in case.refs)
    return all(_is_over(one) for one in others if one is not None)


def _is_over(one: Resource) -> bool:
    match one.kind:
        case "container":
            return one.state in OVER or one.state in KEPT_FOR_TASKS
        case "agent":
            return one.state == "ended"
        case _:
            return True


def job_key(case: Resource) -> str:
    """The key of the job that grades a case."""
    return f"{case.address}@{case.uid}"
