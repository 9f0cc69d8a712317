"""`plan get`, `plan describe` and `plan tree`: the objects of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from planloop.cli.options import OUTPUTS, client_of_plan, complete_addresses, output_option, plan_option
from planloop.client import plan_paths, references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.render import object_tables, printer
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.client.render.budgets import Costs
    from planloop.schemas.log.record import Record

# Each verb imports what only it prints with: `plan get` is held to 90 ms.

GET_EXAMPLE = """
\b
Examples:
  plan get                      the plan, its tasks and containers
  plan get containers           image, state, ports and restarts of each
  plan get agents               one kind
  plan get task/frontend        one object
  plan get calls -o json        for programs
  plan get tasks -w             follow changes
"""
USUAL = ("tasks", "containers")


@click.command(epilog=GET_EXAMPLE)
@click.argument("what", nargs=-1, metavar="[KIND | KIND/NAME]...", shell_complete=complete_addresses())
@plan_option
@output_option(*OUTPUTS)
@click.option("-w", "--watch", is_flag=True, help="Keep printing objects as they change.")
def get_command(what: tuple[str, ...], plan: str | None, output: str | None, watch: bool) -> None:
    """List objects.

    Kinds are task, agent, call, approval, conflict, lock, container, hook, mcp (tool servers), fork, thread, case (of a
    benchmark) and plan, in singular or plural; `all` is every kind. Without arguments: tasks and containers.
    """
    access = client_of_plan(plan)
    found = selected_objects(access, what or USUAL)
    print_objects(found, output, what, access)
    if watch:
        from planloop.cli.wait import print_changes

        print_changes(access, found, what or USUAL, output)


def print_objects(found: list[Resource], output: str | None, what: tuple[str, ...], access: PlanClient) -> None:
    """Print objects in the chosen format; without `what`, below a summary of the plan.

    A kind always gives a list, whatever its length. An address gives one object.
    """
    from planloop.client import process

    match output:
        case "json" | "yaml":
            listed = [item.to_json() for item in found]
            is_one = len(what) == 1 and "/" in what[0]
            printer.print_structured(listed[0] if is_one else listed, output)
        case "name":
            printer.print_lines(item.address for item in found)
        case _:
            found = with_current_reasons(access, found)
            if not what:
                click.echo(plan_headline(access, found))
            text = object_tables.object_tables_text(
                found, now=process.now(), costs=_costs(access, output), width=printer.terminal_width()
            )
            click.echo(text if text else f"no {_kinds(what)}")
            if text and what and (said := not_running_note(access)):
                printer.print_note(said)  # A note for people; without arguments the summary line has this information.


def _costs(access: PlanClient, output: str | None) -> Costs | None:
    """For the wide form only: what a subtree costs is added up from all objects."""
    if output != "wide":
        return None
    from planloop.client.render.budgets import Costs

    return Costs(access.objects())


def _kinds(what: tuple[str, ...]) -> str:
    return " or ".join(f"{references.parse_kind(word) or 'object'}s" for word in what or ("tasks",))


DESCRIBE_EXAMPLE = """
\b
Examples:
  plan describe task/backend
  plan describe backend            the same
  plan describe call/1f0c9a3b77e2
"""
RECENT = 8


@click.command(epilog=DESCRIBE_EXAMPLE)
@click.argument("what", metavar="KIND/NAME", shell_complete=complete_addresses())
@plan_option
def describe_command(what: str, plan: str | None) -> None:
    """Show one object: its conditions, why it waits and what would unblock it.

    A name without a kind is a task.
    """
    from planloop.client import process
    from planloop.client.render import budgets, object_details

    access = client_of_plan(plan)
    found = access.object(references.resolve_address(what))
    known = access.objects()
    if not found.status:
        from planloop.client.presenters import description  # The controller's rules, which take a while to load.

        found = description.with_slot_reasons(found, known, process.now())
    costs = budgets.Costs(known)
    item, *related = with_current_reasons(access, [found, *object_details.related_objects(known, found)])
    click.echo(object_details.object_text(item, related, costs=costs, now=process.now()))
    if said := not_running_note(access, known):
        click.echo(object_details.labelled_lines("owner", said))
    printer.print_lines(object_details.recent_records(_recent_records(access, item), printer.terminal_width()))


def _recent_records(access: PlanClient, item: Resource) -> list[Record]:
    """Return the newest records about the object and what it owns, without those of internal interest."""
    from planloop.client.plan_follower import read_records
    from planloop.client.render import containers
    from planloop.client.render.records import QUIET, expand_record, is_echo, is_verdict_of

    names = {item.address, item.address.replace("task/", "agent/", 1)}
    steps = (step for one in read_records(access) for step in expand_record(one))
    about = (one for one in steps if one.draft.subject in names or is_verdict_of(one.draft, item.address))
    found = [one for one in about if one.draft.type not in QUIET and not is_echo(one.draft)]
    return containers.without_retries(found)[-RECENT:]


TREE_EXAMPLE = """
\b
Examples:
  plan tree
  plan tree task/frontend --depth 1
"""


@click.command(epilog=TREE_EXAMPLE)
@click.argument("top", default=".", metavar="[TASK]")
@plan_option
@click.option("--depth", type=click.IntRange(min=1), help="How many levels to show.")
def tree_command(top: str, plan: str | None, depth: int | None) -> None:
    """Show the tree of tasks with their states.

    In a benchmark run, each task shows its verdict: ✖ next to `done` means fail, error or invalid.
    """
    from planloop.client import process
    from planloop.client.render import task_tree
    from planloop.client.render.budgets import Costs

    access = client_of_plan(plan)
    known = access.objects()
    tasks = {item.address: item for item in known if item.kind in ("task", "container", "case")}
    address = references.resolve_address(top)
    if address not in tasks or not address.startswith("task/"):
        raise CommandError(ExitCode.NOT_FOUND, f"no {address} in this plan", "plan get tasks -o name lists the tasks")
    costs = Costs(known)
    cost = costs.line(tasks[address])
    click.echo(plan_headline(access, list(tasks.values())) + (f"   {cost}" if cost else ""))
    found = task_tree.tree_rows(tasks, now=process.now(), costs=costs, top=address, depth=depth)
    printer.print_lines(task_tree.tree_lines(found, width=printer.terminal_width(), plain=printer.is_plain()))


def selected_objects(access: PlanClient, what: Sequence[str]) -> list[Resource]:
    """Return the objects that `what` names, each once. Raises CommandError for an unknown object."""
    out: dict[str, Resource] = {}
    for word in what:
        for item in _objects_of(access, word):
            out[item.address] = item
    return list(out.values())


def _objects_of(access: PlanClient, word: str) -> list[Resource]:
    if word == "all":
        return access.objects()
    kind = references.parse_kind(word)
    if kind is not None:
        return access.objects(kind)
    return [access.object(references.resolve_address(word))]


def with_current_reasons(access: PlanClient, items: Sequence[Resource]) -> list[Resource]:
    """Return `items` with up-to-date reasons for their waits."""
    from planloop.client.render import locks

    return locks.with_current_holders(items, access.objects("lock")) if locks.names_lock_holders(items) else list(items)


def plan_headline(access: PlanClient, found: Sequence[Resource]) -> str:
    """`webchat  rev 41  2 of 5 tasks done, 1 running   not running: plan apply webchat.plan.yaml`."""
    status = access.get("status")
    states = [one.state for one in found if one.kind == "task" and one.address != "task/."]
    parts = [f"{states.count('done')} of {len(states)} tasks done"] if states else []
    parts += [f"{states.count(state)} {state}" for state in ("running", "blocked", "failed") if state in states]
    containers = [one for one in found if one.kind == "container"]
    if containers:
        from planloop.client.render.containers import containers_headline  # For those who have some.

        parts.append(containers_headline(containers))
    owner = "" if status["pid"] else f"   not running: {plan_paths.command_to_resume(access.place)}"
    return f"{status['plan']}  rev {status['rev']}{'  ' if parts else ''}{', '.join(parts)}{owner}"


def not_running_note(access: PlanClient, known: Sequence[Resource] = ()) -> str:
    """Return a note that no process runs an unfinished plan, with the command that resumes it; else an empty text.

    Without an owner nothing listed changes: no lock is released and no time limit expires.
    """
    if access.is_owned():
        return ""
    root = next((one for one in known or access.objects("task") if one.address == "task/."), None)
    if root is None or root.state in ENDED:
        return ""
    return f"{access.place.name} is not running: {plan_paths.command_to_resume(access.place)} resumes it"
