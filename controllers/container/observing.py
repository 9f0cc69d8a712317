"""One container and what bears on it, read from the view at one moment."""

from __future__ import annotations

from controllers.container.status import ContainerStatus, read
from reconciler.driving.working import WorkPlane
from reconciler.storing.store import View
from schemas.container import (
    AWAITING_CONTAINERS,
    UP,
    ContainerSpec,
    ContainerState,
    Readiness,
    container_from_json,
    what_runs,
)
from schemas.frozen import frozen
from schemas.resource import Resource
from schemas.task import ENDED

ROOT = "task/."


@frozen
class Need:
    """A container that must be `how` far first. `is_hopeless`: it has failed for good, or ended short of that."""

    address: str
    how: Readiness
    is_met: bool
    is_hopeless: bool
    last: str = ""


@frozen
class Observed:
    """`of` is the digest of what is to run. `is_wanted`: it is to be there now; else `unwanted` says why not.

    `is_looked`: this owner has looked at the engine. `dependants` are those that need it and are still there. `jobs`
    are the live ones of this container, by the name behind `#`.
    """

    resource: Resource
    spec: ContainerSpec
    status: ContainerStatus
    of: str
    is_wanted: bool
    unwanted: str
    is_looked: bool
    needs: tuple[Need, ...]
    dependants: tuple[str, ...]
    jobs: frozenset[str]
    now: float


def observe(resource: Resource, view: View, work: WorkPlane, epoch: int, now: float) -> Observed:
    """What is known of the container `resource`."""
    spec, status = container_from_json(resource.spec), read(resource.status)
    unwanted = _unwanted(resource, spec, status, view, now)
    return Observed(
        resource=resource,
        spec=spec,
        status=status,
        of=what_runs(spec),
        is_wanted=not unwanted,
        unwanted=unwanted,
        is_looked=status.epoch == epoch,
        needs=tuple(_need(view, name, how) for name, how in spec.needs.items()),
        dependants=tuple(each for each in view.referrers(resource.address) if _is_there(view, each, resource.address)),
        jobs=frozenset(key.partition("#")[2] for key in work.live_for(resource.address)),
        now=now,
    )


def job_key(address: str, name: str) -> str:
    """The key of a job of the container at `address`."""
    return f"{address}#{name}"


def _unwanted(resource: Resource, spec: ContainerSpec, status: ContainerStatus, view: View, now: float) -> str:
    """Why it is not to be there; empty when it is."""
    if resource.deleting:
        return "it is taken out of the plan"
    root = view.get(ROOT)
    if root is not None and root.state in ENDED:
        return "the plan is over"
    if spec.task and not _is_at_work(view, f"task/{spec.task}"):
        return f"task/{spec.task} is not at work"
    if spec.ttl_s is not None and status.seen is not None and 0 < status.seen.started_at <= now - spec.ttl_s:
        return f"it has run for {spec.ttl_s:g} s"
    return ""


def _is_at_work(view: View, address: str) -> bool:
    """Whether the task has begun and not ended, or would begin if its containers were up."""
    task = view.get(address)
    if task is None or task.deleting or task.state in ENDED:
        return False
    waits_for = task.status.get("conditions", {}).get("Progressing", {}).get("reason")
    return bool(task.status.get("stage")) or waits_for == AWAITING_CONTAINERS


def _need(view: View, name: str, how: Readiness) -> Need:
    address = f"container/{name}"
    resource = view.get(address)
    if resource is None or resource.deleting:
        return Need(address, how, is_met=False, is_hopeless=False)
    state = resource.state
    is_met = (state == ContainerState.COMPLETED) if how == "completed" else state in UP and _is_far(resource, how)
    ended = (ContainerState.FAILED, *(() if how == "completed" else (ContainerState.COMPLETED,)))
    return Need(address, how, is_met, is_hopeless=state in ended, last=read(resource.status).last)


def _is_far(resource: Resource, how: Readiness) -> bool:
    return how == "started" or resource.state == ContainerState.HEALTHY


def _is_there(view: View, address: str, needed: str) -> bool:
    found = view.get(address)
    if found is None or found.kind != "container" or read(found.status).seen is None:
        return False
    return needed.partition("/")[2] in container_from_json(found.spec).needs
