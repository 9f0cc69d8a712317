"""The job of one acceptance check: runs it, and writes what it found with the step that follows, in one append."""

from __future__ import annotations

from contextlib import suppress

from planloop.controllers.task import checking, running, settling, writing
from planloop.controllers.task.deciding import step_for
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.running import Desk
from planloop.controllers.task.step import CheckJob
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Draft
from planloop.schemas.resource import Uid


async def check(desk: Desk, uid: Uid, address: str, job: CheckJob) -> None:
    """Runs the check, if its result is still missing. It is of class read: cancelled or lost, it just runs again."""
    observed = _wanted(desk, uid, address, job)
    if observed is None:
        return
    spec, surroundings = observed.spec, desk.surroundings
    env = surroundings.env(observed.address, spec, observed.progress.incarnation, observed.encloser)
    started_at = desk.clock.now()
    if isinstance(observed.ground, str):
        with suppress(OSError):  # The check says that it has no folder.
            surroundings.make_ground(observed.ground, observed.encloser, observed.fork)
        box = running.sandbox(desk, observed)
        bench = checking.Bench(
            desk.processes,
            desk.ids,
            observed.ground,
            surroundings.no_links_from(observed.encloser, observed.fork),
            env,
            surroundings.containers,
            str(uid),
            box,
        )
        finding = await surroundings.check(job.check, bench)
    else:
        finding = checking.Finding("error", f"not run: {observed.ground.words}")
    before = desk.observer.observe(address, desk.clock.now(), without_job=job.key)
    if before is None or before.me.uid != uid or not _is_asked(before, job):
        return  # Edited or called off meanwhile: the finding is about something that is no longer asked.
    blob = desk.store.put_blob(finding.output) if finding.output else None
    entry: JsonObject = {
        "result": finding.result,
        "message": finding.message,
        "at": before.now,
        "took_s": round(before.now - started_at, 6),
        "blob": blob,
        "incarnation": before.progress.incarnation,
        "round": job.round,
        "digest": job.digest,
    }
    step = settling.found(before, job, entry)
    data: JsonObject = {"check": job.check.key, "kind": job.check.kind, "result": finding.result}
    data["message"] = finding.message
    blobs = (blob,) if blob else ()
    draft = Draft("check.ran", writing.ACTOR, before.address, writing.changes_of(before, step), data, blobs)
    desk.store.propose(draft, {before.address: before.me.rev})


def _is_asked(observed: Observed, job: CheckJob) -> bool:
    progress = observed.progress
    is_same = progress.round == job.round and observed.digests.get(job.check.key) == job.digest
    return is_same and progress.round_for is not None and not observed.me.deleting


def _wanted(desk: Desk, uid: Uid, address: str, job: CheckJob) -> Observed | None:
    """The task, if it still asks for this check in this round."""
    observed = desk.observer.observe(address, desk.clock.now(), without_job=job.key)
    if observed is None or observed.me.uid != uid:
        return None
    return observed if job.key in [wanted.key for wanted in step_for(observed).start] else None
