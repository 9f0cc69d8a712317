"""`container`: holds when the container is healthy, or runs where it has no health check.

One that is being started, or started again, is waited for: whether it holds is not known before.
"""

from __future__ import annotations

from planloop.controllers.inside import Standing
from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Looks at how far it is."""
    found = await settled(spec.arguments["name"], bench, spec.timeout_s)
    if isinstance(found, Finding):
        return found
    if found.is_well:
        return Finding("pass", f"`{found.name}` is {found.state}")
    return Finding("fail", found.words)


async def settled(name: str, bench: Bench, within_s: float) -> Standing | Finding:
    """The container once it is up or will not be soon; an error when it is not to be had, or that takes too long."""
    if bench.containers is None:
        return Finding("error", f"`{name}` can be looked into only while its plan runs")
    found = await bench.containers.settled(name, within_s)
    if found is None:
        return Finding("error", f"the plan has no container `{name}`")
    if found.is_on_its_way:
        return Finding("error", f"not done after {within_s:g} s: {found.words}")
    return found
