"""State of a container for people: state, reason, message, and what would unblock it. Pure."""

from __future__ import annotations

from planloop.controllers.container.decide import REMOVE, START, STOP, is_kept_for_inspection, is_obsolete
from planloop.controllers.container.observe import ObservedContainer
from planloop.controllers.container.status import ContainerStatus, SeenContainer
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import AWAITING_TASK, NEED_FAILED, VANISHED, ContainerState


@frozen
class ContainerReadiness:
    """State of a container, with the reason and message of its condition `Ready`."""

    state: ContainerState
    reason: str = ""
    why: str = ""
    unblocks: tuple[str, ...] = ()


def container_readiness(seen: ObservedContainer) -> ContainerReadiness:
    """Return the state of the observed container."""
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
    """Return the state of a container that is over: how it ended, also while it is being removed.

    A failed container stays failed. Otherwise the task that it blocks would be unblocked, the plan that ended because
    of it would start again, and the container with it, in an endless loop.
    """
    status, found = seen.status, seen.status.seen
    kept = _kept_message(seen) if found is not None and is_kept_for_inspection(seen) else ""
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
    """Return the state of a wanted container that is not running and has no job."""
    if seen.status.ended.done_of == seen.of:
        return _of_done(seen)
    return _of_failed(seen) if seen.status.failure.of == seen.of else _of_waiting(seen)


def _is_going(seen: ObservedContainer, found: SeenContainer) -> bool:
    """Whether the container is being stopped or removed, or will be."""
    if seen.jobs & {STOP, REMOVE} or seen.resource.deleting:
        return True
    return not seen.is_wanted or found.run == "removing" or is_obsolete(seen, found)


def _of_unknown(seen: ObservedContainer) -> ContainerReadiness:
    """Return the state of a container before the first look at the engine."""
    state = ContainerState.STOPPING if seen.resource.deleting or not seen.is_wanted else ContainerState.WAITING
    trouble = seen.status.engine
    if trouble is None:
        return ContainerReadiness(state, "AwaitingEngine", "waits for the first answer of the container engine")
    return ContainerReadiness(state, trouble.reason, trouble.why, _fixes(trouble.hint))


def _of_going(seen: ObservedContainer) -> ContainerReadiness:
    why = seen.unwanted or "it is being replaced by a new container"
    if not (seen.is_wanted or seen.resource.deleting) and (hopeless := _hopeless(seen)) is not None:
        why = hopeless.why  # More useful than that the plan ended because of it.
    if seen.status.ended.is_expired and seen.is_wanted:
        why = _expired_message(seen)
    if (stuck := seen.status.stuck) is not None:
        message = f"{why}; {_with_tries(stuck.why, stuck.failures)}"
        return ContainerReadiness(ContainerState.STOPPING, stuck.reason, message, _fixes(stuck.hint))
    if seen.dependants and not seen.is_wanted:
        why += f"; waits until {', '.join(seen.dependants)} has stopped"
    return ContainerReadiness(ContainerState.STOPPING, "Stopping", why)


def _with_tries(why: str, count: int) -> str:
    return f"{why}; tried {_times(count)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _fixes(hint: str) -> tuple[str, ...]:
    return (hint,) if hint else ()


def _of_running(seen: ObservedContainer, found: SeenContainer) -> ContainerReadiness:
    limits = seen.status.refused.why
    if seen.spec.health is None:
        return ContainerReadiness(ContainerState.RUNNING, "Running", limits)
    probed = seen.status.probed
    if probed.started_at != found.started_at or probed.is_well is None:
        return ContainerReadiness(ContainerState.STARTING, "Probing", "its health check has not passed yet")
    if probed.is_well:
        return ContainerReadiness(ContainerState.HEALTHY, "Healthy", limits)
    why = f"its health check fails: {probed.said}"
    return ContainerReadiness(ContainerState.UNHEALTHY, "Unhealthy", why, (f"plan logs {seen.resource.address}",))


def _kept_message(seen: ObservedContainer) -> str:
    return f"it is kept (keep: {seen.spec.keep}): {seen.unwanted}"


def _of_done(seen: ObservedContainer) -> ContainerReadiness:
    if seen.status.ended.is_expired:
        return ContainerReadiness(ContainerState.COMPLETED, "Expired", _expired_message(seen))
    return ContainerReadiness(ContainerState.COMPLETED, "Completed", "it ended with exit code 0")


def _expired_message(seen: ObservedContainer) -> str:
    return f"it reached its ttl of {seen.spec.ttl_s:g} s" if seen.spec.ttl_s is not None else "it reached its ttl"


def _of_failed(seen: ObservedContainer) -> ContainerReadiness:
    status = seen.status
    failure, fixes = status.failure, _fixes(status.failure.hint)
    if failure.retry_at is None or not seen.is_wanted:
        return ContainerReadiness(ContainerState.FAILED, failure.reason, failure.why, fixes)
    if failure.reason == VANISHED:
        return ContainerReadiness(ContainerState.RESTARTING, VANISHED, f"{failure.why}; it is being recreated", fixes)
    state = ContainerState.RESTARTING if _has_run(status) else ContainerState.WAITING
    why = _with_tries(failure.why, status.counts.tries or status.counts.failures)
    return ContainerReadiness(state, failure.reason, why, fixes)


def _has_run(status: ContainerStatus) -> bool:
    return status.seen is not None and status.seen.started_at > 0


def _of_removed(seen: ObservedContainer) -> ContainerReadiness:
    if seen.spec.task and not seen.resource.deleting and not seen.status.incarnation:
        return ContainerReadiness(ContainerState.WAITING, AWAITING_TASK, f"waits until task/{seen.spec.task} begins")
    return ContainerReadiness(ContainerState.REMOVED, "Removed", seen.unwanted)


def _hopeless(seen: ObservedContainer) -> ContainerReadiness | None:
    """Return failed if a container that it needs has failed; it starts again when that one does. Else None."""
    need = next((need for need in seen.needs if need.is_hopeless), None)
    if need is None:
        return None
    last = f": {need.last.strip()}" if need.last.strip() else ""
    why = f"{need.address} is not {need.how} and will not be{last}"
    return ContainerReadiness(ContainerState.FAILED, NEED_FAILED, why, (f"plan describe {need.address}",))


def _of_waiting(seen: ObservedContainer) -> ContainerReadiness:
    if (hopeless := _hopeless(seen)) is not None:
        return hopeless
    unmet = [need for need in seen.needs if not need.is_met]
    if unmet:
        why = ", ".join(f"{need.address} is not {need.how} yet" for need in unmet)
        return ContainerReadiness(ContainerState.WAITING, "AwaitingNeeds", why)
    return ContainerReadiness(ContainerState.STARTING, "Starting")
