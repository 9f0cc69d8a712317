"""`plan pause`, `resume`, `cancel`, `delete` and `unlock`."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import click

from planloop.cli import patch
from planloop.cli.options import client_of_plan, complete_addresses, plan_option
from planloop.cli.patch import live_document
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.container import is_kept_for_inspection
from planloop.schemas.resource import Resource
from planloop.server.task_control import task_path

# Remove stopped containers that were kept for inspection.


def discard_containers(access: PlanClient, addresses: Sequence[str], *, dry_run: bool) -> None:
    """Remove the kept containers at `addresses`. The plan does not change. Raises CommandError.

    The owner of the plan, if there is one, notices this and records it.
    """
    for address in addresses:
        if dry_run:
            click.echo(f"{address}: the stopped container would be removed; plan logs {address} stays")
            continue
        access.refuse_insiders()
        if access.is_owned():
            _remove_stopped(access, access.object(address))
        else:
            from planloop.owner import container_teardown

            if faults := container_teardown.discard_container(access.place, address):
                raise CommandError(ExitCode.FAILED, "\n".join(faults))
        click.echo(f"{address}: the stopped container was removed; plan logs {address} stays")


def _remove_stopped(access: PlanClient, item: Resource) -> None:
    from planloop.client import engine_access
    from planloop.containers.engine.engine import EngineFailed

    async def remove() -> None:
        engine = engine_access.container_engine()
        for one in await engine_access.engine_containers(access.place, item):
            if one.state not in ("running", "paused", "restarting"):
                await engine.remove(one.id)

    try:
        anyio.run(remove)
    except EngineFailed as failed:
        raise CommandError(ExitCode.FAILED, f"{item.address}: {failed}", failed.hint) from failed


# What pause, resume and cancel ask of the plan, and how `delete` takes tasks and containers out of it.


def steer_tasks(what: Sequence[str], plan: str | None, do: str, *, reason: str, dry_run: bool) -> None:
    """Pause, resume or cancel each task of `what`. Raises CommandError for an unknown task."""
    access = client_of_plan(plan)
    named = [references.resolve_address(word) for word in what]
    verdict = access.post("steer", {"do": do, "what": named, "reason": reason, "dry_run": dry_run})
    patch.print_verdict(verdict, access.place.name)


def _is_container(address: str) -> bool:
    return address.startswith("container/")


def remove_objects(what: Sequence[str], plan: str | None, *, reason: str, dry_run: bool) -> None:
    """Remove tasks with their descendants, and containers, from the plan. A kept container is only removed itself.

    Raises CommandError for an unknown object.
    """
    access = client_of_plan(plan)
    kept, document = kept_containers(access, what), live_document(access)
    paths = [_removable(document, references.resolve_address(word)) for word in what if word not in kept]
    if kept:
        discard_containers(access, [references.resolve_address(word) for word in kept], dry_run=dry_run)
        if not paths:
            return
    if () in paths:
        hint = "plan cancel . cancels all tasks · plan down stops the owner"
        raise CommandError(ExitCode.USAGE, "the root task is the plan itself and cannot be removed", hint)
    ops = [{"op": "remove", "path": json_pointer.render_pointer(path)} for path in paths]
    patch.submit_patch(access, ops, reason=reason, dry_run=dry_run)


def kept_containers(access: PlanClient, what: Sequence[str]) -> list[str]:
    """Those words that name a container of which only a stopped one is left."""
    named = [word for word in what if _is_container(references.resolve_address(word))]
    found = {word: access.object(references.resolve_address(word)) for word in named}
    return [word for word, one in found.items() if is_kept_for_inspection(one.state, one.status)]


def _removable(document: JsonObject, address: str) -> tuple[str, ...]:
    if not _is_container(address):
        return task_path(document, address)
    path = references.field_path(address, "")
    if not json_pointer.has_value(document, path):
        raise CommandError(
            ExitCode.NOT_FOUND, f"no {address} in this plan", "plan get containers -o name lists the containers"
        )
    return path


PAUSE_EXAMPLE = """
\b
Examples:
  plan pause task/frontend
  plan pause .                 everything
"""


@click.command(epilog=PAUSE_EXAMPLE)
@click.argument("what", nargs=-1, required=True, metavar="TASK...", shell_complete=complete_addresses("task"))
@plan_option
@click.option("--reason", default="", help="The reason, for the history and the affected agents.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
def pause_command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Pause a subtree after its current step, and keep its work.

    Running commands continue to their end; nothing new starts in the subtree until `plan resume`.
    """
    steer_tasks(what, plan, "pause", reason=reason, dry_run=dry_run)


RESUME_EXAMPLE = """
\b
Examples:
  plan resume task/frontend
  plan resume container/db  recreate it if it failed
  plan resume .             the whole plan; failed tasks run again
"""


@click.command(epilog=RESUME_EXAMPLE)
@click.argument(
    "what", nargs=-1, required=True, metavar="TASK...", shell_complete=complete_addresses("task", "container")
)
@plan_option
@click.option("--reason", default="", help="The reason, for the history and the affected agents.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
def resume_command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Resume a paused subtree and retry what failed in it.

    A failed container is recreated if you name it; with `.` all failed tasks and containers are.

    The command also undoes `plan cancel`: the task runs again. A model that was unavailable, without a key or a server,
    is asked again. API keys in environment variables are read by the process of `plan apply`. If a key was not set
    there, detach and apply again.
    """
    steer_tasks(what, plan, "resume", reason=reason, dry_run=dry_run)


CANCEL_EXAMPLE = """
\b
Examples:
  plan cancel task/frontend/ui
  plan cancel task/a task/b --reason 'wrong approach'
"""


@click.command(epilog=CANCEL_EXAMPLE)
@click.argument("what", nargs=-1, required=True, metavar="TASK...", shell_complete=complete_addresses("task"))
@plan_option
@click.option("--reason", default="", help="The reason, for the history and the affected agents.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
def cancel_command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Cancel a subtree and keep its results.

    Running commands are stopped (TERM, then KILL after a grace period), agents end, and locks are released. The task
    stays in the plan with its results; `plan resume` runs it again.
    """
    steer_tasks(what, plan, "cancel", reason=reason, dry_run=dry_run)


DELETE_EXAMPLE = """
\b
Examples:
  plan delete task/frontend/ui
  plan delete task/old --dry-run
  plan delete container/sut       a kept container, or one of the live plan
"""


@click.command(epilog=DELETE_EXAMPLE)
@click.argument(
    "what",
    nargs=-1,
    required=True,
    metavar="TASK | CONTAINER...",
    shell_complete=complete_addresses("task", "container"),
)
@plan_option
@click.option("--reason", default="", help="The reason, for the history and the affected agents.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
def delete_command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Remove a subtree or a container from the live plan.

    Running work in the subtree is cancelled, as with `plan cancel`, and its objects are removed. Files that it wrote
    stay. If the plan file still declares the subtree, the next save of the file adds it again: remove it there too, or
    run `plan pull`. For a container that was kept after it stopped (`keep:`), only the container is removed; the plan
    does not change.
    """
    remove_objects(what, plan, reason=reason, dry_run=dry_run)


UNLOCK_EXAMPLE = """
\b
Examples:
  plan get locks
  plan unlock lock/src/app.py --reason "it only reads there"
  plan unlock "src/**"                the same as lock/src/**
"""


@click.command(epilog=UNLOCK_EXAMPLE)
@click.argument("what", metavar="LOCK", shell_complete=complete_addresses("lock"))
@plan_option
@click.option("--reason", default="", help="The reason, for the history and the holder.")
def unlock_command(what: str, plan: str | None, reason: str) -> None:
    """Take a lock from its holder.

    The lock goes to the first waiter. If an agent held the lock, it gets a message, and its next write under the lock
    is refused, so that it reads the file again first. A running command is not stopped and may still write there;
    cancel its task to stop it. Files that were written stay.
    """
    address = what if what.startswith("lock/") else references.resolve_address(what.strip("/"), "lock")
    if not address.startswith("lock/"):
        raise CommandError(
            ExitCode.USAGE,
            f"{address} is not a lock",
            f"plan get locks lists the locks; plan describe {address} shows the object",
        )
    answer = client_of_plan(plan).post("unlock", {"lock": address, "reason": reason})
    click.echo(f"{address} was taken from {', '.join(answer['owners'])}, rev {answer['rev']}")
    for task in answer["commands"]:
        click.echo(f"the command of {task} continues and may still write there; to stop it: plan cancel {task}")
