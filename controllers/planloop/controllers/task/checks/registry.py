"""Which function runs each kind of check; run checks side by side, each within its time limit.

A new kind also needs its fields in `planloop.schemas.spec.checks` and, if it runs a command, its rule in
`planloop.reconciler.admission.command_policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import anyio

from planloop.controllers.task.checks import command, files, http, json_subset, ws
from planloop.controllers.task.checks.contract import CheckEnvironment, CheckFinding, CheckFunction
from planloop.controllers.task.checks.web import check
from planloop.schemas import limits
from planloop.schemas.objects.task import CheckSpec

KINDS: Final[Mapping[str, CheckFunction]] = MappingProxyType(
    {
        "sh": command.check_shell,
        "require-file": files.check_require_file,
        "contains": files.check_contains,
        "json": json_subset.check_json,
        "http": http.check_http,
        "port": http.check_port,
        "container": command.check_container,
        "run-in": command.check_run_in,
        "web": check.check_web,
        "ws": ws.check_ws,
    }
)
_BOUNDED_HERE: Final = frozenset({"require-file", "port"})  # All others see to their time themselves.


async def run_check(spec: CheckSpec, bench: CheckEnvironment) -> CheckFinding:
    """What the check finds. Never raises but for cancellation: a check that cannot run is an error, not a fault."""
    check = KINDS.get(spec.kind)
    if check is None:
        return CheckFinding("error", f"checks of kind `{spec.kind}` are not run by this version")
    if spec.kind not in _BOUNDED_HERE:
        return await check(spec, bench)
    with anyio.move_on_after(spec.timeout_s):
        return await check(spec, bench)
    return CheckFinding("error", f"not done after {spec.timeout_s:g} s")


async def run_checks(
    checks: Iterable[CheckSpec], bench: CheckEnvironment, *, parallel: int = limits.PARALLEL_DEFAULT
) -> dict[str, CheckFinding]:
    """Runs checks outside of any plan, at most `parallel` at once, and writes nothing: for `plan diff --checks`."""
    wanted = list(checks)
    found: dict[str, CheckFinding] = {}
    slots = anyio.CapacityLimiter(parallel)

    async def one(spec: CheckSpec) -> None:
        async with slots:
            found[spec.key] = await run_check(spec, bench)

    async with anyio.create_task_group() as group:
        for spec in wanted:
            group.start_soon(one, spec)
    return {spec.key: found[spec.key] for spec in wanted}
