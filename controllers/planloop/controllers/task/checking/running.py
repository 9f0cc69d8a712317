"""Runs one check by its kind, or several side by side, each within its own time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import anyio

from planloop.controllers.task.checking import (
    container,
    contains,
    http,
    json_subset,
    port,
    require_file,
    run_in,
    shell,
    web,
    ws,
)
from planloop.controllers.task.checking.contract import Bench, Check, Finding
from planloop.schemas import limits
from planloop.schemas.task import CheckSpec

KINDS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "sh": shell.check,
        "require-file": require_file.check,
        "contains": contains.check,
        "json": json_subset.check,
        "http": http.check,
        "port": port.check,
        "container": container.check,
        "run-in": run_in.check,
        "web": web.check,
        "ws": ws.check,
    }
)
_BOUNDED_HERE: Final = frozenset({"require-file", "port"})  # All others see to their time themselves.


async def run_check(spec: CheckSpec, bench: Bench) -> Finding:
    """What the check finds. Never raises but for cancellation: a check that cannot run is an error, not a fault."""
    check = KINDS.get(spec.kind)
    if check is None:
        return Finding("error", f"checks of kind `{spec.kind}` are not run by this version")
    if spec.kind not in _BOUNDED_HERE:
        return await check(spec, bench)
    with anyio.move_on_after(spec.timeout_s):
        return await check(spec, bench)
    return Finding("error", f"not done after {spec.timeout_s:g} s")


async def run_checks(
    checks: Iterable[CheckSpec], bench: Bench, *, parallel: int = limits.PARALLEL_DEFAULT
) -> dict[str, Finding]:
    """Runs checks outside of any plan, at most `parallel` at once, and writes nothing: for `plan diff --checks`."""
    wanted = list(checks)
    found: dict[str, Finding] = {}
    slots = anyio.CapacityLimiter(parallel)

    async def one(spec: CheckSpec) -> None:
        async with slots:
            found[spec.key] = await run_check(spec, bench)

    async with anyio.create_task_group() as group:
        for spec in wanted:
            group.start_soon(one, spec)
    return {spec.key: found[spec.key] for spec in wanted}
