"""`plan get`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planloop.cli import selection
from planloop.cli.options import OUTPUTS, client_of_plan, complete_addresses, output_option, plan_option
from planloop.client import references
from planloop.client.plan_client import PlanClient
from planloop.client.render import object_tables, printer
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.client.render.budgets import Costs

EXAMPLE = """
\b
Examples:
  plan get                      the plan, its tasks and containers
  plan get containers           image, state, ports and restarts of each
  plan get agents               one kind
  plan get task/frontend        one object
  plan get calls -o json        for programs
  plan get tasks -w             again and again as they change
"""
USUAL = ("tasks", "containers")


@click.command(epilog=EXAMPLE)
@click.argument("what", nargs=-1, metavar="[KIND | KIND/NAME]...", shell_complete=complete_addresses())
@plan_option
@output_option(*OUTPUTS)
@click.option("-w", "--watch", is_flag=True, help="Go on printing objects as they change.")
def command(what: tuple[str, ...], plan: str | None, output: str | None, watch: bool) -> None:
    """List objects.

    Kinds are task, agent, call, approval, conflict, lock, container, hook, mcp (tool servers), fork, thread, case (of a
    benchmark) and plan, in singular or plural; `all` is every kind. Without any: the tasks and the containers.
    """
    access = client_of_plan(plan)
    found = selection.selected_objects(access, what or USUAL)
    print_objects(found, output, what, access)
    if watch:
        from planloop.cli.watch import print_changes

        print_changes(access, found, what or USUAL, output)


def print_objects(found: list[Resource], output: str | None, what: tuple[str, ...], access: PlanClient) -> None:
    """Prints objects in the chosen form; without `what` under the head line that says how the plan does.

    A kind is always a list, however many there are: programs should not have to look. An address is one object.
    """
    from planloop.client import context

    match output:
        case "json" | "yaml":
            listed = [item.to_json() for item in found]
            is_one = len(what) == 1 and "/" in what[0]
            printer.print_structured(listed[0] if is_one else listed, output)
        case "name":
            printer.print_lines(item.address for item in found)
        case _:
            found = selection.with_current_reasons(access, found)
            if not what:
                click.echo(selection.plan_headline(access, found))
            text = object_tables.object_tables_text(
                found, now=context.now(), costs=_costs(access, output), width=printer.terminal_width()
            )
            click.echo(text if text else f"no {_kinds(what)}")
            if text and what and (said := selection.not_running_note(access)):
                printer.print_note(said)  # Beside the table, for people: without words its head line says it.


def _costs(access: PlanClient, output: str | None) -> Costs | None:
    """For the wide form only: what a subtree costs is added up from all objects."""
    if output != "wide":
        return None
    from planloop.client.render.budgets import Costs

    return Costs(access.objects())


def _kinds(what: tuple[str, ...]) -> str:
    return " or ".join(f"{references.parse_kind(word) or 'object'}s" for word in what or ("tasks",))
