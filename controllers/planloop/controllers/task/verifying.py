"""Rounds of acceptance checks. A result is fresh when it is of this round and of the check as now written.

A round is begun by a write, so that after a crash the missing results, and only they, are run again.
"""

from __future__ import annotations

from planloop.controllers.task import finishing, forking, jobs, keys, reopening, starting, working
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.status import Round, Stage
from planloop.controllers.task.step import Says, Step, after
from planloop.schemas import limits
from planloop.schemas.agent import STUCK
from planloop.schemas.encoding import JsonObject
from planloop.schemas.task import ByAgent, CheckSpec, Group, TaskState


def begin_round(observed: Observed, why: Round) -> Step:
    """Starts all checks. Results of checks that are no longer written go."""
    kept = observed.digests
    gone = {key: None for key in observed.progress.checks or () if key not in kept}
    merge: JsonObject = {"round": observed.progress.round + 1, "round_for": why}
    if why == "work":
        merge["stage"] = "verify"
    if gone:
        merge["checks"] = gone
    return advance(after(observed, merge)).on_top_of(merge)


def advance(observed: Observed) -> Step:
    """Starts the checks that have no fresh result, or answers when all have one."""
    missing = [check for check in observed.spec.acceptance if not is_fresh(observed, check)]
    if not missing:
        return _answer(observed)
    wanted = [jobs.check_job(observed, check, observed.progress.round) for check in missing]
    asked = {job.key for job in wanted}
    stale = tuple(sorted(key for key in observed.jobs if keys.is_check(key) and key not in asked))
    return Step(_checking(observed), start=tuple(job for job in wanted if job.key not in observed.jobs), cancel=stale)


def is_fresh(observed: Observed, check: CheckSpec) -> bool:
    """Whether the result of `check` is of this round and of its present wording."""
    result = (observed.progress.checks or {}).get(check.key)
    return (
        result is not None
        and result["round"] == observed.progress.round
        and result["digest"] == observed.digests[check.key]
    )


def is_edited(observed: Observed) -> bool:
    """Whether a check was added or reworded since it last ran."""
    checks = observed.progress.checks or {}
    return any(checks.get(key, {}).get("digest") != digest for key, digest in observed.digests.items())


def failing(observed: Observed) -> list[CheckSpec]:
    """The checks whose result is not a pass."""
    checks = observed.progress.checks or {}
    return [check for check in observed.spec.acceptance if checks.get(check.key, {}).get("result") != "pass"]


def summary(observed: Observed) -> str:
    """The first check that does not hold, and how many more."""
    bad = failing(observed)
    result = (observed.progress.checks or {}).get(bad[0].key, {})
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{bad[0].kind}: {result.get('message', '')}{more}"


def _checking(observed: Observed) -> Says:
    if observed.progress.round_for == "heal":
        return reopening.stored(observed)
    return Says(TaskState.CHECKING, "Checking", "its acceptance checks run")


def _answer(observed: Observed) -> Step:
    holds = not failing(observed)
    match observed.progress.round_for:
        case "before":
            if not holds:
                return starting.begin_work(observed)
            return forking.bring(observed) or finishing.done(observed, is_skipped=True)
        case "work":
            return _accept(observed) if holds else _reject(observed)
        case _:
            if holds:
                return _accept(observed) if observed.progress.stage is not Stage.DONE else _still_done(observed)
            return _no_longer(observed)


def _accept(observed: Observed) -> Step:
    if (bringing := forking.bring(observed)) is not None:
        return bringing
    step = finishing.done(observed)
    if not isinstance(observed.spec.work, ByAgent):
        return step
    return step.on_top_of({"verdict": verdict(observed, accepted=True, message="accepted")})


def _still_done(observed: Observed) -> Step:
    merge: JsonObject = {"round_for": None}
    return reopening.keep_done(after(observed, merge)).on_top_of(merge)


def _no_longer(observed: Observed) -> Step:
    # A failed task whose edited checks still fail stays failed: its command is not run again for that.
    if observed.progress.stage is Stage.FAILED or isinstance(observed.spec.work, Group):
        says = Says(TaskState.FAILED, "ChecksFailing", summary(observed), ("edit the task, or mend what fails",))
        return Step(says, merge={"stage": "failed", "round_for": None})
    return reopening.begin_again(observed)


def _reject(observed: Observed) -> Step:
    message = summary(observed)
    if not isinstance(observed.spec.work, ByAgent):
        return finishing.failed(observed, "ChecksFailing", message)
    refused = verdict(observed, accepted=False, message=message)
    if words := hopeless(observed):
        reason = STUCK if stuck(observed) else "ChecksFailing"
        return finishing.failed(observed, reason, f"{message}; {words}").on_top_of({"verdict": refused})
    merge: JsonObject = {"stage": "work", "round_for": None, "verdict": refused}
    return working.advance(after(observed, merge)).on_top_of(merge)


def hopeless(observed: Observed) -> str:
    """Why no other claim is waited for when the one at hand is rejected; empty while it is not the last."""
    if words := stuck(observed):
        return words
    is_last = observed.progress.rejections + 1 >= limits.CLAIMS_REJECTED_MAX
    return f"its agent claimed {limits.CLAIMS_REJECTED_MAX} times to be done and was not" if is_last else ""


def stuck(observed: Observed) -> str:
    """What the claim at hand repeats, if the agent has nothing else to try; empty for any other."""
    claim = (observed.agent.status.get("claim") or {}) if observed.agent is not None else {}
    return str(claim.get("stuck") or "")


def verdict(observed: Observed, *, accepted: bool, message: str) -> JsonObject:
    """The answer to the agent's newest claim."""
    claim = (observed.agent.status.get("claim") or {}) if observed.agent is not None else {}
    count: JsonObject = {} if accepted else {"rejections": observed.progress.rejections + 1}
    return count | {
        "claim": claim.get("seq", 0),
        "incarnation": observed.progress.incarnation,
        "accepted": accepted,
        "message": message,
        "failing": [] if accepted else [check.key for check in failing(observed)],
    }
