"""One container as its controller observes it, told in few words, for tables of what is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planloop.controllers.container.observe import ContainerNeed, ObservedContainer
from planloop.controllers.container.status import ContainerStatus, SeenContainer
from planloop.schemas.objects.container import ContainerSpec, running_digest
from tests.product import Resource, Uid

NOW = 1_000.0
TOKEN = "plan@2"
SPEC = ContainerSpec(image="busybox:1")
OF = running_digest(SPEC)
UP = SeenContainer("c1", "running", "u1", 1, OF, started_at=900.0)
ENDED = replace(UP, run="exited", ended_at=950.0)
DONE = replace(ENDED, exit_code=0)
BROKEN = replace(ENDED, exit_code=3)
MET = ContainerNeed("container/db", "started", is_met=True, is_hopeless=False)
UNMET = replace(MET, is_met=False)
HOPELESS = replace(UNMET, is_hopeless=True, last="boom\n")


def observed(
    seen: SeenContainer | None = None,
    *,
    jobs: str = "",
    raising: str = OF,
    unwanted: str = "",
    is_deleting: bool = False,
    is_looked: bool = True,
    needs: tuple[ContainerNeed, ...] = (),
    dependants: tuple[str, ...] = (),
    spec: ContainerSpec = SPEC,
    **status: Any,
) -> ObservedContainer:
    """`jobs` are words; further words are members of the status."""
    resource = Resource("container/app", Uid("u1"), 1, {}, {}, finalizers=("container",), deleting=is_deleting)
    return ObservedContainer(
        resource=resource,
        spec=spec,
        status=ContainerStatus(looked=TOKEN if is_looked else "", seen=seen, **status),
        of=running_digest(spec),
        is_wanted=not (unwanted or is_deleting),
        unwanted=unwanted or ("it is taken out of the plan" if is_deleting else ""),
        is_looked=is_looked,
        token=TOKEN,
        needs=needs,
        dependants=dependants,
        jobs=frozenset(jobs.split()),
        raising=raising,
        now=NOW,
    )
