"""Observe a container: read it and everything that affects it from the view, at one moment. Pure."""

from __future__ import annotations

from typing import Final

from planloop.controllers.container.status import ContainerStatus, read_container_status
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import View
from planloop.schemas.canonical_json import sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import (
    NEED_FAILED,
    ContainerSpec,
    ContainerState,
    Readiness,
    container_from_json,
    running_digest,
)
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource, conditions_of_status

ROOT: Final = "task/."
_FOR: Final = ":"  # Separates the name of a job and its purpose.


@frozen
class ContainerNeed:
    """A container that must be `how` (started, healthy or completed) first.

    `is_hopeless`: it has failed for good, or ended before that. `last` is the end of its output; if it failed because
    of its own need, the message of the container that failed first.
    """

    address: str
    how: Readiness
    is_met: bool
    is_hopeless: bool
    last: str = ""


@frozen
class ObservedContainer:
    """`of` is the digest of what must run; `unwanted` is why it must not run, empty if it must.

    `token` identifies this owner. `dependants` are the containers that need it and still exist. `jobs` are its live
    jobs by name; `raising` is the digest that the start job works for.
    """

    resource: Resource
    spec: ContainerSpec
    status: ContainerStatus
    of: str
    unwanted: str
    token: str
    needs: tuple[ContainerNeed, ...]
    dependants: tuple[str, ...]
    jobs: frozenset[str]
    raising: str
    now: float

    @property
    def is_wanted(self) -> bool:
        """Whether the container must exist now."""
        return not self.unwanted

    @property
    def is_looked(self) -> bool:
        """Whether this owner has looked at the engine."""
        return self.status.looked == self.token


def observe_container(resource: Resource, view: View, work: WorkPlane, token: str, now: float) -> ObservedContainer:
    """Return the observation of the container `resource`."""
    spec, status = container_from_json(resource.spec), read_container_status(resource.status)
    jobs = live_jobs(work, resource.address)
    return ObservedContainer(
        resource=resource,
        spec=spec,
        status=status,
        of=running_digest(spec),
        unwanted=unwanted_reason(resource, spec, view),
        token=token,
        needs=tuple(_need(view, name, how, token) for name, how in spec.needs.items()),
        dependants=tuple(each for each in view.referrers(resource.address) if _is_there(view, each, resource.address)),
        jobs=frozenset(jobs),
        raising=jobs.get("raise", ""),
        now=now,
    )


def container_job_key(address: str, name: str, what: str = "") -> str:
    """Return the key of a job of the container at `address`. `what` is its purpose, if that may change meanwhile."""
    return f"{address}#{name}{_FOR}{what}" if what else f"{address}#{name}"


def live_jobs(work: WorkPlane, address: str) -> dict[str, str]:
    """Return the purpose of each live job of the container at `address`, by the job's name."""
    return dict(_job_named(key) for key in work.live_for(address))


def _job_named(key: str) -> tuple[str, str]:
    name, _, what = key.partition("#")[2].partition(_FOR)
    return name, what


def limits_digest(spec: ContainerSpec) -> str:
    """Return the digest of its limits, to recognise an edit."""
    return sha256_of_value([spec.cpu, spec.memory_bytes, spec.pids])[:16]


def unwanted_reason(resource: Resource, spec: ContainerSpec, view: View) -> str:
    """Return why the container must not exist now; empty if it must."""
    if resource.deleting:
        return "it was removed from the plan"
    root = view.get(ROOT)
    if root is not None and root.state in ENDED:
        return "the plan has ended"
    if spec.task and not _is_at_work(view, f"task/{spec.task}"):
        return f"task/{spec.task} is not running"
    return ""


def _is_at_work(view: View, address: str) -> bool:
    """Whether the task has begun and not ended, or only waits for its containers."""
    task = view.get(address)
    if task is None or task.deleting or task.state in ENDED:
        return False
    return bool(task.status.get("stage") or (task.status.get("signal") or {}).get("containers"))


def _need(view: View, name: str, how: Readiness, token: str) -> ContainerNeed:
    """Return how far a needed container is, by what the engine reported: its state may be written later."""
    address = f"container/{name}"
    resource = view.get(address)
    if resource is None or resource.deleting:
        return ContainerNeed(address, how, is_met=False, is_hopeless=False)
    status, spec = read_container_status(resource.status), container_from_json(resource.spec)
    of, found = running_digest(spec), status.seen
    is_up = (
        found is not None
        and found.run == "running"
        and found.tag.digest == of
        and found.started_at != status.ended.stopping
    )
    is_well = is_up and found is not None and status.probed.is_well_in(found.started_at)
    is_done = status.ended.done_of == of and not status.ended.is_spent
    is_completed = is_done and not status.ended.is_expired
    is_far = {"started": is_up or is_completed, "healthy": is_well, "completed": is_completed}[how]
    is_hopeless = resource.state == ContainerState.FAILED or is_done  # It may have failed because of its own need.
    is_looked = status.looked == token
    return ContainerNeed(
        address, how, is_far and is_looked, is_hopeless and is_looked and not is_far, _last(resource, status)
    )


def _last(resource: Resource, status: ContainerStatus) -> str:
    ready = conditions_of_status(resource.status).get("Ready")
    return ready.message if ready is not None and ready.reason == NEED_FAILED else status.ended.last


def _is_there(view: View, address: str, needed: str) -> bool:
    found = view.get(address)
    seen = None if found is None or found.kind != "container" else read_container_status(found.status).seen
    if found is None or seen is None or seen.has_ended:  # An ended container may be kept, and needs nothing.
        return False
    return needed.partition("/")[2] in container_from_json(found.spec).needs
