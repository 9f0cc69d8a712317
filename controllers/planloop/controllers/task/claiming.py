"""The agent's side of a task: it goes until it claims an end, and each claim is answered once.

A claim names the incarnation it is about; one of an older incarnation is not seen (law 7).
"""

from __future__ import annotations

from planloop.controllers.task import family, finishing, forking, verifying, working
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Says, Step, after
from planloop.schemas.agent import FOR_OTHERS, STUCK, AgentState
from planloop.schemas.call import CallState
from planloop.schemas.condition import of_status
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.task import TaskState


def advance(observed: Observed) -> Step:
    """Lets the agent go, or answers what it claims."""
    # The digests follow the plan while the agent works: it is told of a new goal, and what it then ends is that goal.
    merge: JsonObject = {"go": observed.progress.incarnation, "basis": observed.basis}
    claim = newest_claim(observed)
    if claim is None:
        return Step(_at_work(observed), merge=merge)
    if claim["kind"] == "fail":
        reason = str(_said(claim) or "the agent gave up")
        refused = verifying.verdict(observed, accepted=False, message=reason)
        word = STUCK if claim.get("stuck") else "AgentFailed"
        return finishing.failed(observed, word, reason).on_top_of({"verdict": refused})
    merge["result"] = {"ok": True, "text": _said(claim)}
    says = family.not_done(observed)
    if says is not None and says.state is TaskState.FAILED:
        merge["verdict"] = verifying.verdict(observed, accepted=False, message=says.message)
        if hopeless := verifying.hopeless(observed):
            word = STUCK if verifying.stuck(observed) else "AgentFailed"
            return finishing.failed(observed, word, f"{says.message}; {hopeless}").on_top_of(merge)
        return Step(_at_work(observed), merge=merge)
    if observed.spec.acceptance or says is not None:
        return working.over(after(observed, merge)).on_top_of(merge)
    if (bringing := forking.bring(after(observed, merge))) is not None:
        return bringing.on_top_of(merge)
    merge["verdict"] = verifying.verdict(observed, accepted=True, message="accepted")
    return finishing.done(after(observed, merge)).on_top_of(merge)


def newest_claim(observed: Observed) -> JsonObject | None:
    """What the agent claims of this incarnation and has no answer to yet."""
    claim: JsonObject | None = observed.agent.status.get("claim") if observed.agent is not None else None
    if not claim or claim.get("incarnation") != observed.progress.incarnation:
        return None
    return claim if claim["seq"] > observed.progress.judged else None


def _said(claim: JsonObject) -> Json:
    # Agents keep free values in a list of one, where a merge cannot look into them.
    said = claim.get("result")
    return said[0] if isinstance(said, list) and said else said


def _at_work(observed: Observed) -> Says:
    """It works, unless its agent waits for what only somebody else can do: then the task says what that is."""
    agent = observed.agent
    if agent is None or agent.state not in (AgentState.PARKED, AgentState.BLOCKED):
        return Says(TaskState.RUNNING, "Running", _works(observed))
    found = [one for type_, one in of_status(agent.status).items() if type_ in FOR_OTHERS]
    if found:
        return Says(TaskState.BLOCKED, found[0].reason, f"{agent.address}: {found[0].message}", found[0].unblocks)
    waits = of_status(agent.status).get(CallState.AWAITING_LOCK)
    if waits is not None:  # For its like, which let go by themselves: nobody else has to do anything.
        return Says(TaskState.RUNNING, waits.reason, f"{agent.address}: {waits.message}", waits.unblocks)
    if agent.state == AgentState.PARKED:
        return Says(TaskState.BLOCKED, "BudgetSpent", f"{agent.address} has used up its budget")
    return Says(TaskState.RUNNING, "Running", _works(observed))


def _works(observed: Observed) -> str:
    """That it works, and on what after a claim that its checks did not bear out."""
    if conflict := forking.conflict_words(observed):
        return f"its agent mends what did not merge: {conflict}"
    verdict = observed.me.status.get("verdict") or {}
    is_of_now = verdict.get("incarnation") == observed.progress.incarnation
    if is_of_now and not verdict.get("accepted") and verdict.get("failing"):
        return f"its agent works on what failed: {verdict['message']}"
    return "its agent works"
