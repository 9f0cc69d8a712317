"""`plan get`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.cli import selecting
from planloop.cli.completing import names
from planloop.cli.options import OUTPUTS, access_to, output_option, plan_option
from planloop.cli.rendering import objects as cells
from planloop.cli.rendering import printing
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.cli.rendering.budgets import Costs

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
@click.argument("what", nargs=-1, metavar="[KIND | KIND/NAME]...", shell_complete=names())
@plan_option
@output_option(*OUTPUTS)
@click.option("-w", "--watch", is_flag=True, help="Go on printing objects as they change.")
def command(what: tuple[str, ...], plan: str | None, output: str | None, watch: bool) -> None:
    """List objects.

    Kinds are task, agent, call, approval, conflict, lock, container, hook, mcp (tool servers), fork, thread, case (of a
    benchmark) and plan, in singular or plural; `all` is every kind. Without any: the tasks and the containers.
    """
    access = access_to(plan)
    found = selecting.selected(access, what or USUAL)
    show(found, output, what, access)
    if watch:
        from planloop.cli.watching import print_changes

        print_changes(access, found, what or USUAL, output)


def show(found: list[Resource], output: str | None, what: tuple[str, ...], access: Access) -> None:
    """Prints objects in the chosen form; without `what` under the head line that says how the plan does.

    A kind is always a list, however many there are: programs should not have to look. An address is one object.
    """
    from planloop.app import wiring

    match output:
        case "json" | "yaml":
            listed = [item.to_json() for item in found]
            is_one = len(what) == 1 and "/" in what[0]
            printing.structured(listed[0] if is_one else listed, output)
        case "name":
            printing.lines(item.address for item in found)
        case _:
            found = selecting.by_now(access, found)
            if not what:
                click.echo(selecting.headline(access, found))
            text = cells.text(found, now=wiring.now(), costs=_costs(access, output), width=printing.width())
            click.echo(text if text else f"no {_kinds(what)}")
            if text and what and (said := selecting.nobody_runs(access)):
                printing.note(said)  # Beside the table, for people: without words its head line says it.


def _costs(access: Access, output: str | None) -> Costs | None:
    """For the wide form only: what a subtree costs is added up from all objects."""
    if output != "wide":
        return None
    from planloop.cli.rendering.budgets import Costs

    return Costs(access.objects())


def _kinds(what: tuple[str, ...]) -> str:
    return " or ".join(f"{pointing.kind_of(word) or 'object'}s" for word in what or ("tasks",))
