"""What is done next for a container, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planloop.controllers.container.deciding import (
    Cancel,
    Count,
    Expire,
    Forget,
    Release,
    Rest,
    Spend,
    Start,
    Step,
    backoff_s,
    decide,
)
from planloop.controllers.container.observing import Observed, limits_digest
from planloop.controllers.container.status import Trouble
from planloop.schemas import limits
from planloop.schemas.container import Health
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

OTHER = replace(UP, of="other")
LOGGED: dict[str, Any] = {"logged": UP.started_at}
OVER = "the plan is over"
STUCK = Trouble(2, "EngineDown", "no engine", "", NOW + 4)
SICK = replace(SPEC, health=Health(cmd=("true",)))
SMALL = replace(SPEC, memory_bytes=1 << 20)
FAILED: dict[str, Any] = {"failed_of": OF, "reason": "Exited", "counted": BROKEN.end, "failed_by": TOKEN, **LOGGED}

CASES: dict[str, tuple[Observed, Step]] = {
    "nobody has looked": (observed(is_looked=False), Rest()),
    "nobody has looked, and it was never made": (observed(is_looked=False, is_deleting=True), Release()),
    "nobody has looked, and it was made": (observed(is_looked=False, is_deleting=True, incarnation=1), Rest()),
    "there is none": (observed(), Start("raise")),
    "it is brought up": (observed(jobs="raise"), Rest()),
    "law 4: another one is brought up": (observed(jobs="raise", raising="old"), Cancel("raise")),
    "law 4: it is brought up and not wanted": (observed(jobs="raise", unwanted=OVER), Cancel("raise")),
    "law 4: the same while nobody knows what there is": (
        observed(jobs="raise", unwanted=OVER, is_looked=False),
        Cancel("raise"),
    ),
    "a need is met": (observed(needs=(MET,)), Start("raise")),
    "a need is not met": (observed(needs=(MET, UNMET)), Rest()),
    "it was made and not started": (observed(replace(UP, run="created")), Start("raise")),
    "it is paused": (observed(replace(UP, run="paused")), Start("raise")),
    "others remove it": (observed(replace(UP, run="removing")), Rest()),
    "it runs, nobody follows it": (observed(UP), Start("follow")),
    "it runs": (observed(UP, jobs="follow"), Rest()),
    "its output was taken": (observed(UP, **LOGGED), Rest()),
    "its health is not asked for": (observed(UP, jobs="follow", spec=SICK), Start("probe")),
    "its health is asked for no more": (observed(UP, jobs="follow probe"), Cancel("probe")),
    "it has ended while it is probed": (observed(ENDED, jobs="probe", spec=SICK), Cancel("probe")),
    "its limits are others": (observed(UP, spec=SMALL, jobs="follow"), Start("update")),
    "its limits were refused": (observed(UP, spec=SMALL, jobs="follow", bound_of=limits_digest(SMALL)), Rest()),
    "it has time left": (observed(UP, spec=replace(SPEC, ttl_s=150), jobs="follow"), Rest(50.0)),
    "its time is over": (observed(UP, spec=replace(SPEC, ttl_s=100), jobs="follow"), Expire()),
    "it expired and runs": (observed(UP, done_of=OF, is_expired=True), Start("stop")),
    "it expired and is there": (observed(ENDED, done_of=OF, is_expired=True, **LOGGED), Start("lower")),
    "it expired": (observed(done_of=OF, is_expired=True), Rest()),
    "it ended, its output is not taken": (observed(DONE), Start("follow")),
    "it ended, its output is being taken": (observed(DONE, jobs="follow"), Rest()),
    "it ended": (observed(DONE, **LOGGED), Count()),
    "it ended well": (observed(DONE, done_of=OF, counted=DONE.end, **LOGGED), Rest()),
    "it failed for good": (observed(BROKEN, **FAILED), Rest()),
    "it is tried again later": (observed(BROKEN, retry_at=NOW + 3, **FAILED), Rest(3.0)),
    "it is tried again now": (observed(BROKEN, retry_at=NOW, **FAILED), Start("raise")),
    "it was removed from outside": (observed(failed_of=OF, reason="Vanished", retry_at=NOW + 2), Rest(2.0)),
    "it was removed from outside, a while ago": (
        observed(failed_of=OF, reason="Vanished", retry_at=NOW),
        Start("raise"),
    ),
    "the engine refused it for this owner": (
        observed(failed_of=OF, reason="NoImage", failed_by=TOKEN),
        Rest(),
    ),
    "the engine refused it for an earlier owner": (
        observed(failed_of=OF, reason="NoImage", failed_by="plan@1"),
        Start("raise"),
    ),
    "it failed for good for an earlier owner": (observed(BROKEN, **{**FAILED, "failed_by": "plan@1"}), Rest()),
    "another one failed": (observed(failed_of="old"), Forget()),
    "another one ended well": (observed(done_of="old"), Forget()),
    "another one runs": (observed(OTHER), Start("stop")),
    "another one runs and is needed": (observed(OTHER, dependants=("container/web",)), Start("stop")),
    "another one has ended": (observed(replace(OTHER, run="exited")), Start("follow")),
    "another one has ended and is written down": (observed(replace(OTHER, run="exited"), **LOGGED), Start("lower")),
    "we have begun to end it": (observed(ENDED, stopping=ENDED.started_at, **LOGGED), Start("lower")),
    "it is wanted again": (observed(is_spent=True, done_of=OF), Forget()),
    "it is wanted again, one was kept": (observed(BROKEN, is_spent=True, **FAILED), Start("lower")),
    "unwanted, it runs": (observed(UP, unwanted=OVER), Start("stop")),
    "unwanted, it is needed still": (observed(UP, unwanted=OVER, dependants=("container/web",)), Rest()),
    "unwanted, it is being stopped": (observed(UP, unwanted=OVER, jobs="stop"), Rest()),
    "unwanted, it could not be stopped": (observed(UP, unwanted=OVER, stuck=STUCK), Rest(4.0)),
    "unwanted, it waits for its next try": (
        observed(BROKEN, unwanted=OVER, retry_at=NOW + 60, **FAILED),
        Start("lower"),
    ),
    "unwanted, none is left": (observed(unwanted=OVER, done_of=OF), Spend()),
    "unwanted, there never was one": (observed(unwanted=OVER), Rest()),
    "unwanted and spent": (observed(unwanted=OVER, done_of=OF, is_spent=True), Rest()),
    "unwanted, it failed for an earlier owner": (
        observed(unwanted=OVER, failed_of=OF, is_spent=True, failed_by="plan@1"),
        Forget(),
    ),
    "unwanted, it is kept and runs": (observed(UP, unwanted=OVER, spec=replace(SPEC, keep="always")), Start("stop")),
    "unwanted, it is kept": (observed(ENDED, unwanted=OVER, spec=replace(SPEC, keep="always"), **LOGGED), Spend()),
    "unwanted, kept if it failed, and it did": (
        observed(BROKEN, unwanted=OVER, spec=replace(SPEC, keep="on-failure"), **FAILED),
        Spend(),
    ),
    "unwanted, kept if it failed, and we ended it": (
        observed(replace(ENDED, exit_code=143), unwanted=OVER, spec=replace(SPEC, keep="on-failure"), **LOGGED),
        Start("lower"),
    ),
    "deleted, kept": (
        observed(ENDED, is_deleting=True, spec=replace(SPEC, keep="always"), **LOGGED),
        Start("lower"),
    ),
    "deleted, none is left": (observed(is_deleting=True, incarnation=3), Release()),
    "deleted, a job is at it": (observed(is_deleting=True, jobs="follow"), Rest()),
}


@rows.each("case", CASES)
def test_what_is_done_next(case: str) -> None:
    seen, step = CASES[case]

    assert decide(seen) == step


def test_a_need_that_has_failed_starts_nothing() -> None:
    assert decide(observed(needs=(HOPELESS,))) == Rest()


def test_tries_come_ever_more_rarely_up_to_a_bound() -> None:
    waits = [backoff_s(failures) for failures in range(1, 12)]

    assert waits[:3] == [0.5, 1.0, 2.0]
    assert waits == sorted(waits)
    assert waits[-1] == backoff_s(10_000) == limits.BACKOFF_CAP_S
