"""What is done next for a container, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planloop.controllers.container.decide import (
    CancelContainerJob,
    ContainerRest,
    ContainerStep,
    CountContainerEnd,
    ExpireContainer,
    ForgetContainer,
    MarkContainerSpent,
    ReleaseContainer,
    StartContainerJob,
    container_backoff_s,
    decide_container,
)
from planloop.controllers.container.observe import ObservedContainer, limits_digest
from planloop.controllers.container.status import ContainerExit, EngineTrouble
from planloop.schemas import limits
from planloop.schemas.objects.container import Health
from tests import rows
from tests.controllers.container.table import (
    BROKEN,
    DONE,
    ENDED,
    HOPELESS,
    MET,
    NOW,
    OF,
    SPEC,
    TOKEN,
    UNMET,
    UP,
    observed,
)

OTHER = replace(UP, tag=replace(UP.tag, digest="other"))
LOGGED: dict[str, Any] = {"logged": UP.started_at}
OVER = "the plan has ended"
STUCK = EngineTrouble(2, "EngineDown", "no engine", "", NOW + 4)
SICK = replace(SPEC, health=Health(cmd=("true",)))
SMALL = replace(SPEC, memory_bytes=1 << 20)
FAILED: dict[str, Any] = {"failed_of": OF, "reason": "Exited", "counted": BROKEN.end, "failed_by": TOKEN, **LOGGED}

CASES: dict[str, tuple[ObservedContainer, ContainerStep]] = {
    "not inspected yet": (observed(is_looked=False), ContainerRest()),
    "not inspected yet, and it was never made": (observed(is_looked=False, is_deleting=True), ReleaseContainer()),
    "not inspected yet, and it was made": (observed(is_looked=False, is_deleting=True, incarnation=1), ContainerRest()),
    "there is none": (observed(), StartContainerJob("raise")),
    "it is brought up": (observed(jobs="raise"), ContainerRest()),
    "law 4: another one is brought up": (observed(jobs="raise", raising="old"), CancelContainerJob("raise")),
    "law 4: it is brought up and not wanted": (observed(jobs="raise", unwanted=OVER), CancelContainerJob("raise")),
    "law 4: the same while the state is unknown": (
        observed(jobs="raise", unwanted=OVER, is_looked=False),
        CancelContainerJob("raise"),
    ),
    "a need is met": (observed(needs=(MET,)), StartContainerJob("raise")),
    "a need is not met": (observed(needs=(MET, UNMET)), ContainerRest()),
    "it was made and not started": (observed(replace(UP, run="created")), StartContainerJob("raise")),
    "it is paused": (observed(replace(UP, run="paused")), StartContainerJob("raise")),
    "others remove it": (observed(replace(UP, run="removing")), ContainerRest()),
    "it runs, not followed": (observed(UP), StartContainerJob("follow")),
    "it runs": (observed(UP, jobs="follow"), ContainerRest()),
    "its output was taken": (observed(UP, **LOGGED), ContainerRest()),
    "its health is not asked for": (observed(UP, jobs="follow", spec=SICK), StartContainerJob("probe")),
    "its health is asked for no more": (observed(UP, jobs="follow probe"), CancelContainerJob("probe")),
    "it has ended while it is probed": (observed(ENDED, jobs="probe", spec=SICK), CancelContainerJob("probe")),
    "its limits are others": (observed(UP, spec=SMALL, jobs="follow"), StartContainerJob("update")),
    "its limits were refused": (
        observed(UP, spec=SMALL, jobs="follow", bound_of=limits_digest(SMALL)),
        ContainerRest(),
    ),
    "it has time left": (observed(UP, spec=replace(SPEC, ttl_s=150), jobs="follow"), ContainerRest(50.0)),
    "its time is over": (observed(UP, spec=replace(SPEC, ttl_s=100), jobs="follow"), ExpireContainer()),
    "it expired and runs": (observed(UP, done_of=OF, is_expired=True), StartContainerJob("stop")),
    "it expired and is there": (observed(ENDED, done_of=OF, is_expired=True, **LOGGED), StartContainerJob("lower")),
    "it expired": (observed(done_of=OF, is_expired=True), ContainerRest()),
    "it ended, its output is not taken": (observed(DONE), StartContainerJob("follow")),
    "it ended, its output is being taken": (observed(DONE, jobs="follow"), ContainerRest()),
    "it ended": (observed(DONE, **LOGGED), CountContainerEnd()),
    "it ended well": (observed(DONE, done_of=OF, counted=DONE.end, **LOGGED), ContainerRest()),
    "it failed for good": (observed(BROKEN, **FAILED), ContainerRest()),
    "it is tried again later": (observed(BROKEN, retry_at=NOW + 3, **FAILED), ContainerRest(3.0)),
    "it is tried again now": (observed(BROKEN, retry_at=NOW, **FAILED), StartContainerJob("raise")),
    "it was removed from outside": (observed(failed_of=OF, reason="Vanished", retry_at=NOW + 2), ContainerRest(2.0)),
    "it was removed from outside, a while ago": (
        observed(failed_of=OF, reason="Vanished", retry_at=NOW),
        StartContainerJob("raise"),
    ),
    "the engine refused it for this owner": (
        observed(failed_of=OF, reason="NoImage", failed_by=TOKEN),
        ContainerRest(),
    ),
    "the engine refused it for an earlier owner": (
        observed(failed_of=OF, reason="NoImage", failed_by="plan@1"),
        StartContainerJob("raise"),
    ),
    "it failed for good for an earlier owner": (observed(BROKEN, **{**FAILED, "failed_by": "plan@1"}), ContainerRest()),
    "another one failed": (observed(failed_of="old"), ForgetContainer()),
    "another one ended well": (observed(done_of="old"), ForgetContainer()),
    "another one runs": (observed(OTHER), StartContainerJob("stop")),
    "another one runs and is needed": (observed(OTHER, dependants=("container/web",)), StartContainerJob("stop")),
    "another one has ended": (observed(replace(OTHER, run="exited")), StartContainerJob("follow")),
    "another one has ended and is written down": (
        observed(replace(OTHER, run="exited"), **LOGGED),
        StartContainerJob("lower"),
    ),
    "we have begun to end it": (observed(ENDED, stopping=ENDED.started_at, **LOGGED), StartContainerJob("lower")),
    "it is wanted again": (observed(is_spent=True, done_of=OF), ForgetContainer()),
    "it is wanted again, one was kept": (observed(BROKEN, is_spent=True, **FAILED), StartContainerJob("lower")),
    "unwanted, it runs": (observed(UP, unwanted=OVER), StartContainerJob("stop")),
    "unwanted, it is needed still": (observed(UP, unwanted=OVER, dependants=("container/web",)), ContainerRest()),
    "unwanted, it is being stopped": (observed(UP, unwanted=OVER, jobs="stop"), ContainerRest()),
    "unwanted, it could not be stopped": (observed(UP, unwanted=OVER, stuck=STUCK), ContainerRest(4.0)),
    "unwanted, it waits for its next try": (
        observed(BROKEN, unwanted=OVER, retry_at=NOW + 60, **FAILED),
        StartContainerJob("lower"),
    ),
    "unwanted, none is left": (observed(unwanted=OVER, done_of=OF), MarkContainerSpent()),
    "unwanted, there never was one": (observed(unwanted=OVER), ContainerRest()),
    "unwanted and spent": (observed(unwanted=OVER, done_of=OF, is_spent=True), ContainerRest()),
    "unwanted, it failed for an earlier owner": (
        observed(unwanted=OVER, failed_of=OF, is_spent=True, failed_by="plan@1"),
        ForgetContainer(),
    ),
    "unwanted, it is kept and runs": (
        observed(UP, unwanted=OVER, spec=replace(SPEC, keep="always")),
        StartContainerJob("stop"),
    ),
    "unwanted, it is kept": (
        observed(ENDED, unwanted=OVER, spec=replace(SPEC, keep="always"), **LOGGED),
        MarkContainerSpent(),
    ),
    "unwanted, kept if it failed, and it did": (
        observed(BROKEN, unwanted=OVER, spec=replace(SPEC, keep="on-failure"), **FAILED),
        MarkContainerSpent(),
    ),
    "unwanted, kept if it failed, and we ended it": (
        observed(
            replace(ENDED, exit=ContainerExit(143)), unwanted=OVER, spec=replace(SPEC, keep="on-failure"), **LOGGED
        ),
        StartContainerJob("lower"),
    ),
    "deleted, kept": (
        observed(ENDED, is_deleting=True, spec=replace(SPEC, keep="always"), **LOGGED),
        StartContainerJob("lower"),
    ),
    "deleted, none is left": (observed(is_deleting=True, incarnation=3), ReleaseContainer()),
    "deleted, a job is at it": (observed(is_deleting=True, jobs="follow"), ContainerRest()),
}


@rows.each("case", CASES)
def test_next_step_follows_from_the_state(case: str) -> None:
    seen, step = CASES[case]

    assert decide_container(seen) == step


def test_a_need_that_has_failed_starts_nothing() -> None:
    assert decide_container(observed(needs=(HOPELESS,))) == ContainerRest()


def test_retries_are_less_and_less_frequent_up_to_a_bound() -> None:
    waits = [container_backoff_s(failures) for failures in range(1, 12)]

    assert waits[:3] == [0.5, 1.0, 2.0]
    assert waits == sorted(waits)
    assert waits[-1] == container_backoff_s(10_000) == limits.BACKOFF_CAP_S
