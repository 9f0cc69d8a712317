"""One server and what bears on it, read from the view at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planloop.controllers.mcp import status as statuses
from planloop.controllers.mcp.status import McpStatus
from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.storing.store import View
from planloop.schemas.frozen import frozen
from planloop.schemas.mcp import SHARED, McpSpec, mcp_from_json
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED

ROOT: Final = "task/."


@frozen
class Observed:
    """`needed` are the runs that somebody at work may use, `live` those that have a job; by name.

    `is_over` says that the plan has come to its end, so that nobody will need it soon. `approvals` are its own, by
    address: those of tools whose words changed. `of` is the digest of what is to run now.
    """

    resource: Resource
    spec: McpSpec
    status: McpStatus
    needed: tuple[str, ...]
    live: frozenset[str]
    is_over: bool
    approvals: Mapping[str, Resource]
    now: float
    of: str


def observe(resource: Resource, view: View, work: WorkPlane, now: float, world: str = "") -> Observed:
    """What is known of the server `resource`; `world` is the digest of the file of a simulated one."""
    spec = mcp_from_json(resource.spec)
    root = view.get(ROOT)
    own = () if resource.deleting or spec.world else _users_at_work(resource, view)
    owned = view.owned_by(resource.address)
    return Observed(
        resource=resource,
        spec=spec,
        status=statuses.read(resource.status),
        needed=own if spec.share == "agent" else (SHARED,) if own else (),
        live=frozenset(run_of(key) for key in work.live_for(resource.address)),
        is_over=root is None or root.state in ENDED,
        approvals={each.address: each for each in owned if each.kind == "approval"},
        now=now,
        of=statuses.what_runs(spec, world),
    )


def _users_at_work(resource: Resource, view: View) -> tuple[str, ...]:
    """The agents that may use it (they name it in their refs) and whose tasks have begun and not ended."""
    return tuple(
        name for name in view.referrers(resource.address) if name.startswith("agent/") and _is_at_work(view, name)
    )


def _is_at_work(view: View, agent: str) -> bool:
    found, task = view.get(agent), view.get(agent.replace("agent/", "task/", 1))
    if found is not None and found.status.get("open") is not None:
        return True  # In a turn: also one in which it answers after its task is over.
    return task is not None and task.status.get("go") is not None and task.state not in ENDED and not task.deleting


def job_key(server: str, run: str) -> str:
    """The key of the job that lives as long as the run does."""
    return f"{server}#{run}"


def run_of(key: str) -> str:
    """Inverse of `job_key`."""
    return key.partition("#")[2]
