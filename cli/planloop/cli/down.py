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
  plan down                  stop the owner and what it runs
  plan down --leave          stop only the owner; commands and containers go on by themselves
  plan down --volumes        also remove what its containers keep in named volumes
  plan down --force          kill an owner that does not answer, then stop and remove the same
"""
PATIENCE_S = 30.0
STARTING_S = 5.0
LOOK_S = 0.05
AGAIN = "plan down again removes what is left"
FORCE_PATIENCE_S = 5.0  # Who says --force has waited already; an owner that is well answers in milliseconds.


@click.command(epilog=EXAMPLE)
@plan_option
@click.option("--leave", is_flag=True, help="Leave what runs; the next plan apply takes it over.")
@click.option("--volumes", is_flag=True, help="Remove the named volumes of its containers with their data.")
@click.option("--force", is_flag=True, help="Kill an owner that does not answer, then stop what it ran.")
def command(plan: str | None, leave: bool, volumes: bool, force: bool) -> None:
    """Stop the process that runs a plan.

    Running commands are stopped (TERM, then KILL), and `plan apply` goes on from there. A stopped command runs again
    when its task says `effect: idempotent`; any other waits for `plan approve`, which is named. Containers are removed
    with their networks; named volumes stay, and are named. With no owner it stops what one left behind. The exit code
    is 1 when something is left that was to go: it is named, with the reason.
    """
    if leave and volumes:
        raise CommandError(ExitCode.USAGE, "containers that go on need their volumes", "--leave or --volumes")
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
    """What there is of an owner that was told to stop."""

    GONE = "gone"
    DEAF = "deaf"  # It starts, ends or hands over to the background: for a moment it listens to nobody.
    STUCK = "stuck"  # It listens, and has not answered in time to who has no patience.


def _stopped(access: PlanClient, *, leave: bool, volumes: bool, force: bool) -> _Owner:
    """Stops the owner, or what one left behind."""
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
    click.echo(f"{access.place.name} is down; {plan_paths.command_to_resume(access.place)} goes on from here")
    _tell_doubts(access)
    if not is_whole:
        raise CommandError(ExitCode.FAILED, "not all containers were removed", AGAIN)
    return _Owner.GONE


def _tell_doubts(access: PlanClient) -> None:
    """Names every command that was cut off and may not simply run again."""
    for call in access.objects("call"):
        if call.state == "Unknown":
            click.echo(
                f"  ? {call.spec['owner']}  {call_text(call)}  stopped while it ran; effect {call.spec['effect']}"
            )
            click.echo(f"    plan approve {call.address} --did-not runs it again · --happened takes it as done")


def _containers(answer: JsonObject) -> list[Resource]:
    return [resource_from_json(raw) for raw in answer["objects"]]


def _tell_containers(access: PlanClient, before: list[Resource], *, with_volumes: bool) -> bool:
    """The owner had the words in its own log; whoever asked for it reads here what became of them.

    Whether nothing is left that was to go.
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
                ExitCode.TIMEOUT, f"the owner is still there after {patience_s:.0f} s", "plan down --force"
            )
        time.sleep(0.02)


def _stop_strays(access: PlanClient, *, leave: bool, volumes: bool) -> None:
    from planloop.owner import container_teardown, stop_commands

    if leave:
        click.echo(f"nobody runs {access.place.name}")
        if said := container_teardown.running_containers_note(access.objects("container")):
            click.echo(said)
        return
    stopped = stop_commands.stop_strays(access.place)
    behind = f"; {quantities.pluralize(stopped, 'command')} left behind stopped" if stopped else ""
    click.echo(f"nobody runs {access.place.name}{behind}")
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
    click.echo(f"the owner of {access.place.name} was killed; plan apply goes on from the log")
