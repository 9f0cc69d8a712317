"""`plan tree`."""

from __future__ import annotations

import click

from planloop.cli import selection
from planloop.cli.options import client_of_plan, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.render import printer, task_tree
from planloop.client.render.budgets import Costs

EXAMPLE = """
\b
Examples:
  plan tree
  plan tree task/frontend --depth 1
"""


@click.command(epilog=EXAMPLE)
@click.argument("top", default=".", metavar="[TASK]")
@plan_option
@click.option("--depth", type=click.IntRange(min=1), help="How many levels below it.")
def command(top: str, plan: str | None, depth: int | None) -> None:
    """Show the tree of tasks with their states.

    In a run of a benchmark each tells how what it made was judged: ✖ beside `done` is a fail, an error or invalid.
    """
    from planloop.client import context

    access = client_of_plan(plan)
    known = access.objects()
    tasks = {item.address: item for item in known if item.kind in ("task", "container", "case")}
    address = references.resolve_address(top)
    if address not in tasks or not address.startswith("task/"):
        raise CommandError(
            ExitCode.NOT_FOUND, f"no {address} in this plan", "plan get tasks -o name lists what there is"
        )
    costs = Costs(known)
    cost = costs.line(tasks[address])
    click.echo(selection.plan_headline(access, list(tasks.values())) + (f"   {cost}" if cost else ""))
    found = task_tree.tree_rows(tasks, now=context.now(), costs=costs, top=address, depth=depth)
    printer.print_lines(task_tree.tree_lines(found, width=printer.terminal_width(), plain=printer.is_plain()))
