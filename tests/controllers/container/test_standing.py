"""The reported progress of a container, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planloop.controllers.container.observe import ObservedContainer
from planloop.controllers.container.readiness import container_readiness
from planloop.controllers.container.status import EngineTrouble, ProbeResult
from planloop.schemas.objects.container import Health
from tests import rows
from tests.controllers.container.table import BROKEN, ENDED, HOPELESS, OF, SPEC, UNMET, UP, observed

OVER = "the plan has ended"
SICK = replace(SPEC, health=Health(cmd=("true",)))
DOWN = EngineTrouble(0, "EngineDown", "no engine answers", "systemctl start docker")
FAILED: dict[str, Any] = {"failed_of": OF, "reason": "Exited", "why": "it ended with exit code 3", "failures": 2}

CASES: dict[str, tuple[ObservedContainer, str]] = {
    "new": (observed(is_looked=False), "waiting AwaitingEngine: waits for the first answer of the container engine"),
    "no engine": (observed(is_looked=False, engine=DOWN), "waiting EngineDown: no engine answers"),
    "no engine, to go": (
        observed(UP, is_looked=False, engine=DOWN, is_deleting=True),
        "stopping EngineDown: no engine answers",
    ),
    "a need": (observed(needs=(UNMET,)), "waiting AwaitingNeeds: container/db is not started yet"),
    "a need that failed": (
        observed(needs=(HOPELESS,)),
        "failed NeedFailed: container/db is not started and will not be: boom",
    ),
    "a need that failed, and the plan with it": (
        observed(needs=(HOPELESS,), unwanted=OVER),
        "failed NeedFailed: container/db is not started and will not be: boom",
    ),
    "its image": (observed(jobs="raise", doing="image", why="12 of 40 MB"), "preparing Preparing: 12 of 40 MB"),
    "its start": (observed(jobs="raise", doing="start"), "starting Starting"),
    "it runs": (observed(UP), "running Running"),
    "limits it cannot have": (observed(UP, bound_why="no limits here"), "running Running: no limits here"),
    "health unknown": (observed(UP, spec=SICK), "starting Probing: its health check has not passed yet"),
    "health of an earlier run": (
        observed(UP, spec=SICK, probed=ProbeResult(1.0, True)),
        "starting Probing: its health check has not passed yet",
    ),
    "healthy": (observed(UP, spec=SICK, probed=ProbeResult(UP.started_at, True)), "healthy Healthy"),
    "unhealthy": (
        observed(UP, spec=SICK, probed=ProbeResult(UP.started_at, False, "exit code 1")),
        "unhealthy Unhealthy: its health check fails: exit code 1",
    ),
    "it failed": (observed(BROKEN, **FAILED), "failed Exited: it ended with exit code 3"),
    "it is tried again": (
        observed(BROKEN, retry_at=1.0, **FAILED),
        "restarting Exited: it ended with exit code 3; tried 2 times",
    ),
    "it was removed from outside": (
        observed(reason="Vanished", why="it was removed", losses=1, failed_of=OF, retry_at=1.0),
        "restarting Vanished: it was removed; it is being recreated",
    ),
    "it was removed from outside, and the plan has ended": (
        observed(reason="Vanished", why="it was removed", losses=1, failed_of=OF, retry_at=1.0, unwanted=OVER),
        "removed Removed: the plan has ended",
    ),
    "others remove it": (
        observed(replace(UP, run="removing")),
        "stopping Stopping: it is being replaced by a new container",
    ),
    "no engine was there to start it again": (
        observed(BROKEN, retry_at=1.0, **{**FAILED, "reason": "EngineDown", "why": "no engine", "tries": 5}),
        "restarting EngineDown: no engine; tried 5 times",
    ),
    "it never ran and is tried again": (
        observed(failed_of=OF, reason="PortTaken", why="port 80 is taken", failures=1, retry_at=1.0),
        "waiting PortTaken: port 80 is taken; tried once",
    ),
    "it failed, and the plan with it": (
        observed(BROKEN, unwanted=OVER, jobs="lower", **FAILED),
        "failed Exited: it ended with exit code 3",
    ),
    "it failed and is kept": (
        observed(BROKEN, unwanted=OVER, spec=replace(SPEC, keep="on-failure"), **FAILED),
        "failed Exited: it ended with exit code 3; it is kept (keep: on-failure): the plan has ended",
    ),
    "it is kept": (
        observed(ENDED, unwanted=OVER, spec=replace(SPEC, keep="always")),
        "kept Kept: it is kept (keep: always): the plan has ended",
    ),
    "it ended well": (observed(ENDED, done_of=OF), "completed Completed: it ended with exit code 0"),
    "its time is over": (
        observed(done_of=OF, is_expired=True, spec=replace(SPEC, ttl_s=5)),
        "completed Expired: it reached its ttl of 5 s",
    ),
    "it goes": (observed(UP, unwanted=OVER), "stopping Stopping: the plan has ended"),
    "it goes because of what it needs": (
        observed(UP, needs=(HOPELESS,), unwanted=OVER),
        "stopping Stopping: container/db is not started and will not be: boom",
    ),
    "it goes after others": (
        observed(UP, unwanted=OVER, dependants=("container/web",)),
        "stopping Stopping: the plan has ended; waits until container/web has stopped",
    ),
    "it does not go": (
        observed(UP, unwanted=OVER, stuck=replace(DOWN, failures=3)),
        "stopping EngineDown: the plan has ended; no engine answers; tried 3 times",
    ),
    "another one is to come": (
        observed(replace(UP, tag=replace(UP.tag, digest="old"))),
        "stopping Stopping: it is being replaced by a new container",
    ),
    "it is gone": (observed(unwanted=OVER), "removed Removed: the plan has ended"),
    "its task has not begun": (
        observed(unwanted="task/t is not running", spec=replace(SPEC, task="t")),
        "waiting AwaitingTask: waits until task/t begins",
    ),
}


@rows.each("case", CASES)
def test_progress_of_a_container_is_derived(case: str) -> None:
    seen, said = CASES[case]
    now = container_readiness(seen)

    assert f"{now.state} {now.reason}" + (f": {now.why}" if now.why else "") == said
