"""`plan down`."""

from __future__ import annotations

import os
import signal
import time
from enum import Enum

import click

from planloop.cli.options import client_of_plan, plan_option
from planloop.client import plan_paths
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import ANSWER_TIMEOUT_S, OwnerClient, OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.render.tables import call_text
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.limits import CONTAINERS_DOWN_S
from planloop.schemas.resource import Resource, resource_from_json

EXAMPLE = """
\b
Examples:
  plan down                  stop the owner, its commands and containers
  plan down --leave          stop only the owner; commands and containers keep running
  plan down --volumes        also remove the named volumes of its containers
  plan down --force          kill an owner that does not answer, then stop the same
"""
PATIENCE_S = 30.0
STARTING_S = 5.0
LOOK_S = 0.05
AGAIN = "run plan down again to remove what is left"
FORCE_PATIENCE_S = 5.0  # A user of --force has already waited; a healthy owner answers in milliseconds.


@click.command(epilog=EXAMPLE)
@plan_option
@click.option("--leave", is_flag=True, help="Leave commands and containers running; the next plan apply adopts them.")
@click.option("--volumes", is_flag=True, help="Also remove the named volumes of its containers, with their data.")
@click.option(
    "--force", is_flag=True, help="Kill an owner that does not answer, then stop its commands and containers."
)
def command(plan: str | None, leave: bool, volumes: bool, force: bool) -> None:
    """Stop the process that runs a plan.

    Running commands are stopped (TERM, then KILL); `plan apply` resumes the plan. A stopped command runs again if its
    task has `effect: idempotent`; any other waits for `plan approve`, and that command is printed. Containers and
    their networks are removed; named volumes stay and are listed. Without an owner, this command stops what an earlier
    owner left running. Exit 1 if something could not be removed; it is listed with the reason.
    """
    if leave and volumes:
        raise CommandError(
            ExitCode.USAGE,
            "--leave and --volumes cannot be combined: running containers need their volumes",
            "give one of them",
        )
    access = client_of_plan(plan)
    deadline = time.monotonic() + (FORCE_PATIENCE_S if force else STARTING_S)
    while (owner := _stopped(access, leave=leave, volumes=volumes, force=force)) is not _Owner.GONE:
        if owner is _Owner.STUCK or time.monotonic() > deadline:
            if not force:
                raise CommandError(
                    ExitCode.TIMEOUT, "a process owns the plan but does not answer", "plan down --force kills it"
                )
            _kill(access)
            force, deadline = False, time.monotonic() + STARTING_S
        time.sleep(LOOK_S)


class _Owner(Enum):
    """State of an owner that was asked to stop."""

    GONE = "gone"
    DEAF = "deaf"  # It is starting, stopping or moving to the background, and does not listen for a moment.
    STUCK = "stuck"  # It listens, but did not answer within the short timeout of --force.


def _stopped(access: PlanClient, *, leave: bool, volumes: bool, force: bool) -> _Owner:
    """Stop the owner, or what an earlier owner left running."""
    from planloop.reconciler.errors import NotOwner
    from planloop.reconciler.store import owner_lock

    try:
        owner = OwnerClient(access.place.folder, timeout_s=FORCE_PATIENCE_S if force else ANSWER_TIMEOUT_S)
        before = _containers(owner.get("objects", kind="container"))
        owner.post("stop", {"leave": leave, "volumes": volumes})
    except OwnerGone:
        if owner_lock.current_owner(access.place.folder) is not None:
            return _Owner.DEAF
        try:
            _stop_strays(access, leave=leave, volumes=volumes)
        except NotOwner:
            return _Owner.DEAF
        return _Owner.GONE
    except CommandError as halt:
        if not force or halt.exit is not ExitCode.TIMEOUT:
            raise
        return _Owner.STUCK
    _until_gone(access, PATIENCE_S + (CONTAINERS_DOWN_S if before else 0.0))
    is_whole = leave or not before or _tell_containers(access, before, with_volumes=volumes)
    click.echo(f"{access.place.name} is stopped; {plan_paths.command_to_resume(access.place)} resumes it")
    _tell_doubts(access)
    if not is_whole:
        raise CommandError(ExitCode.FAILED, "some containers were not removed", AGAIN)
    return _Owner.GONE


def _tell_doubts(access: PlanClient) -> None:
    """Print every command that was interrupted and must not run again by default."""
    for call in access.objects("call"):
        if call.state == "Unknown":
            click.echo(f"  ? {call.spec['owner']}  {call_text(call)}  interrupted; effect {call.spec['effect']}")
            click.echo(f"    plan approve {call.address} --did-not runs it again · --happened counts it as done")


def _containers(answer: JsonObject) -> list[Resource]:
    return [resource_from_json(raw) for raw in answer["objects"]]


def _tell_containers(access: PlanClient, before: list[Resource], *, with_volumes: bool) -> bool:
    """Print what became of the containers, which the owner reported only in its own log.

    Return whether everything was removed.
    """
    from planloop.owner import container_teardown

    lines, is_whole = container_teardown.teardown_report(before, access.objects("container"), with_volumes=with_volumes)
    for line in lines:
        click.echo(line)
    return is_whole


def _until_gone(access: PlanClient, patience_s: float = PATIENCE_S) -> None:
    from planloop.reconciler.store import owner_lock

    deadline = time.monotonic() + patience_s
    while owner_lock.current_owner(access.place.folder) is not None:
        if time.monotonic() > deadline:
            raise CommandError(
                ExitCode.TIMEOUT, f"the owner did not stop within {patience_s:.0f} s", "plan down --force"
            )
        time.sleep(0.02)


def _stop_strays(access: PlanClient, *, leave: bool, volumes: bool) -> None:
    from planloop.owner import container_teardown, stop_commands

    if leave:
        click.echo(f"{access.place.name} is not running")
        if said := container_teardown.running_containers_note(access.objects("container")):
            click.echo(said)
        return
    stopped = stop_commands.stop_strays(access.place)
    behind = f"; {quantities.pluralize(stopped, 'command')} of an earlier owner stopped" if stopped else ""
    click.echo(f"{access.place.name} is not running{behind}")
    faults: tuple[str, ...] = ()
    if volumes or access.objects("container"):  # Volumes outlive those that had them.
        left = container_teardown.take_down_offline(access.place, with_volumes=volumes)
        faults = left.faults
        for line in container_teardown.removed_lines(left):
            click.echo(line)
    _tell_doubts(access)
    if faults:
        raise CommandError(ExitCode.FAILED, "\n".join(faults))


def _kill(access: PlanClient) -> None:
    from planloop.reconciler.store import owner_lock

    owner = owner_lock.current_owner(access.place.folder)
    if owner is not None:
        os.kill(owner.pid, signal.SIGKILL)
        _until_gone(access)
    click.echo(f"the process that ran plan {access.place.name} was killed; run `plan apply` to resume it from its log")
