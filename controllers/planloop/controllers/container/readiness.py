"""The state of a container in one word and a sentence, with what would unblock it. Probes run in `run_jobs`. Pure."""

from __future__ import annotations

from planloop.controllers.container.decide import REMOVE, START, STOP, is_kept_for_inspection, is_obsolete
from planloop.controllers.container.observe import ObservedContainer
from planloop.controllers.container.status import ContainerStatus, EngineTrouble, SeenContainer
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import AWAITING_TASK, NEED_FAILED, VANISHED, ContainerState


@frozen
class ContainerReadiness:
    """How far it is. `unblocks` are what would get it further."""

    state: ContainerState
    reason: str = ""
    why: str = ""
    unblocks: tuple[str, ...] = ()


def container_readiness(seen: ObservedContainer) -> ContainerReadiness:
    """How far the container is, from everything that is known of it."""
    status, found = seen.status, seen.status.seen
    if not seen.is_looked:
        return _of_unknown(seen)
    if not (seen.is_wanted or seen.resource.deleting or (found is not None and found.is_up)):
        return _of_past(seen)
    if found is not None and _is_going(seen, found):
        return _of_going(seen)
    if START in seen.jobs:
        state = ContainerState.PREPARING if status.doing == "image" else ContainerState.STARTING
        return ContainerReadiness(state, state.title(), status.failure.why if status.doing == "image" else "")
    if found is not None and found.run == "running":
        return _of_running(seen, found)
    return _of_waiting(seen) if seen.is_wanted and status.ended.is_spent else _of_rest(seen)


def _of_past(seen: ObservedContainer) -> ContainerReadiness:
    """It is over: how it ended is what stands, also while the rest of it is taken away.

    One that failed goes on standing as failed. Otherwise whoever was stuck with it would take heart, the plan that is
    over because of it would begin anew, and the container with it, without end.
    """
    status, found = seen.status, seen.status.seen
    kept = _kept_words(seen) if found is not None and is_kept_for_inspection(seen) else ""
    if status.failure.of == seen.of and status.failure.reason != VANISHED:
        failed = _of_failed(seen)
        return ContainerReadiness(
            failed.state, failed.reason, "; ".join(filter(None, (failed.why, kept))), failed.unblocks
        )
    if (hopeless := _hopeless(seen)) is not None:
        return hopeless
    if kept:
        return ContainerReadiness(ContainerState.KEPT, "Kept", kept, (f"plan delete {seen.resource.address}",))
    if status.ended.done_of == seen.of:
        return _of_done(seen)
    return _of_removed(seen) if found is None else _of_going(seen)


def _of_rest(seen: ObservedContainer) -> ContainerReadiness:
    """It is wanted, none of it runs, and nothing is being done."""
    if seen.status.ended.done_of == seen.of:
        return _of_done(seen)
    return _of_failed(seen) if seen.status.failure.of == seen.of else _of_waiting(seen)


def _is_going(seen: ObservedContainer, found: SeenContainer) -> bool:
    """Whether it is on its way out."""
    if seen.jobs & {STOP, REMOVE} or seen.resource.deleting:
        return True
    return not seen.is_wanted or found.run == "removing" or is_obsolete(seen, found)


def _of_unknown(seen: ObservedContainer) -> ContainerReadiness:
    """Nobody knows what the engine has."""
    state = ContainerState.STOPPING if seen.resource.deleting or not seen.is_wanted else ContainerState.WAITING
    trouble = seen.status.engine
    if trouble is None:
        return ContainerReadiness(state, "AwaitingEngine", "the engine is asked what it has")
    return ContainerReadiness(state, trouble.reason, trouble.why, _cures(trouble.hint))


def _of_going(seen: ObservedContainer) -> ContainerReadiness:
    why = seen.unwanted or "another one is to take its place"
    if not (seen.is_wanted or seen.resource.deleting) and (hopeless := _hopeless(seen)) is not None:
        why = hopeless.why  # That the plan is over because of it says less.
    if seen.status.ended.is_expired and seen.is_wanted:
        why = _expired_words(seen)
    if (stuck := seen.status.stuck) is not None:
        said = f"{why}; {_tried(stuck)}"
        return ContainerReadiness(ContainerState.STOPPING, stuck.reason, said, _cures(stuck.hint))
    if seen.dependants and not seen.is_wanted:
        why += f"; first goes {', '.join(seen.dependants)}"
    return ContainerReadiness(ContainerState.STOPPING, "Stopping", why)


def _tried(trouble: EngineTrouble) -> str:
    return f"{trouble.why}; tried {_times(trouble.failures)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _cures(hint: str) -> tuple[str, ...]:
    return (hint,) if hint else ()


def _of_running(seen: ObservedContainer, found: SeenContainer) -> ContainerReadiness:
    limits = seen.status.refused.why
    if seen.spec.health is None:
        return ContainerReadiness(ContainerState.RUNNING, "Running", limits)
    probed = seen.status.probed
    if probed.started_at != found.started_at or probed.is_well is None:
        return ContainerReadiness(ContainerState.STARTING, "Probing", "its health is not known yet")
    if probed.is_well:
        return ContainerReadiness(ContainerState.HEALTHY, "Healthy", limits)
    why = f"its health check fails: {probed.said}"
    return ContainerReadiness(ContainerState.UNHEALTHY, "Unhealthy", why, (f"plan logs {seen.resource.address}",))


def _kept_words(seen: ObservedContainer) -> str:
    return f"it is kept (keep: {seen.spec.keep}): {seen.unwanted}"


def _of_done(seen: ObservedContainer) -> ContainerReadiness:
    if seen.status.ended.is_expired:
        return ContainerReadiness(ContainerState.COMPLETED, "Expired", _expired_words(seen))
    return ContainerReadiness(ContainerState.COMPLETED, "Completed", "it ended with exit code 0")


def _expired_words(seen: ObservedContainer) -> str:
    return f"it has run for its ttl of {seen.spec.ttl_s:g} s" if seen.spec.ttl_s is not None else "its ttl is over"


def _of_failed(seen: ObservedContainer) -> ContainerReadiness:
    status = seen.status
    cures = _cures(status.failure.hint)
    if status.failure.retry_at is None or not seen.is_wanted:
        return ContainerReadiness(ContainerState.FAILED, status.failure.reason, status.failure.why, cures)
    if status.failure.reason == VANISHED:
        return ContainerReadiness(
            ContainerState.RESTARTING, VANISHED, f"{status.failure.why}; another one takes its place", cures
        )
    state = ContainerState.RESTARTING if _has_run(status) else ContainerState.WAITING
    return ContainerReadiness(
        state,
        status.failure.reason,
        f"{status.failure.why}; tried {_times(status.counts.tries or status.counts.failures)}",
        cures,
    )


def _has_run(status: ContainerStatus) -> bool:
    return status.seen is not None and status.seen.started_at > 0


def _of_removed(seen: ObservedContainer) -> ContainerReadiness:
    if seen.spec.task and not seen.resource.deleting and not seen.status.incarnation:
        return ContainerReadiness(ContainerState.WAITING, AWAITING_TASK, f"waits until task/{seen.spec.task} begins")
    return ContainerReadiness(ContainerState.REMOVED, "Removed", seen.unwanted)


def _hopeless(seen: ObservedContainer) -> ContainerReadiness | None:
    """What it needs has failed, and so has it: it comes back when that does."""
    need = next((need for need in seen.needs if need.is_hopeless), None)
    if need is None:
        return None
    said = f": {need.last.strip()}" if need.last.strip() else ""
    why = f"{need.address} is not {need.how} and will not be{said}"
    return ContainerReadiness(ContainerState.FAILED, NEED_FAILED, why, (f"plan describe {need.address}",))


def _of_waiting(seen: ObservedContainer) -> ContainerReadiness:
    if (hopeless := _hopeless(seen)) is not None:
        return hopeless
    lacking = [need for need in seen.needs if not need.is_met]
    if lacking:
        why = ", ".join(f"{need.address} is not {need.how} yet" for need in lacking)
        return ContainerReadiness(ContainerState.WAITING, "AwaitingNeeds", why)
    return ContainerReadiness(ContainerState.STARTING, "Starting")
