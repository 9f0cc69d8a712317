"""The job that finds out whether a sandbox is to be had; the task that wanted to know looks again when it ends."""

from __future__ import annotations

from planloop.controllers.task.running import Desk
from planloop.controllers.task.step import TryJob
from planloop.controllers.task.writing import ACTOR
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Draft, SetStatus


async def find_out(desk: Desk, job: TryJob) -> None:
    """Tries it, once for all tasks that want the same, and says in the plan's status what came of it."""
    answer = await desk.surroundings.sandboxes.tried(job.wish)
    plan = desk.store.view.get(f"plan/{desk.surroundings.plan}")
    told: JsonObject = {job.wish.words: answer.to_json()}
    if plan is None or (plan.status.get("sandbox") or {}).get(job.wish.words) == told[job.wish.words]:
        return
    change = SetStatus(plan.address, plan.uid, {"sandbox": told})
    desk.store.propose(
        Draft("plan.condition", ACTOR, plan.address, (change,), {"sandbox": told}), {plan.address: plan.rev}
    )
