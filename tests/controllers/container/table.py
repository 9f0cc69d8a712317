"""One container as its controller observes it, told in few words, for tables of what is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planloop.controllers.container.observe import ContainerNeed, ObservedContainer
from planloop.controllers.container.status import ContainerExit, SeenContainer, SeenTag, read_container_status
from planloop.schemas.objects.container import ContainerSpec, running_digest
from tests.product import Resource, Uid

NOW = 1_000.0
TOKEN = "plan@2"
SPEC = ContainerSpec(image="busybox:1")
OF = running_digest(SPEC)
UP = SeenContainer("c1", "running", SeenTag("u1", 1, OF), started_at=900.0)
ENDED = replace(UP, run="exited", ended_at=950.0)
DONE = ENDED
BROKEN = replace(ENDED, exit=ContainerExit(3))
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
    typed = {name: status.pop(name) for name in ("stuck", "probed", "engine") if name in status}
    written = {"looked": TOKEN if is_looked else "", "seen": None if seen is None else seen.to_json(), **status}
    resource = Resource("container/app", Uid("u1"), 1, {}, {}, finalizers=("container",), deleting=is_deleting)
    return ObservedContainer(
        resource=resource,
        spec=spec,
        status=replace(read_container_status(written), **typed),
        of=running_digest(spec),
        unwanted=unwanted or ("it was removed from the plan" if is_deleting else ""),
        token=TOKEN,
        needs=needs,
        dependants=dependants,
        jobs=frozenset(jobs.split()),
        raising=raising,
        now=NOW,
    )
