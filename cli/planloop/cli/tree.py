"""`plan tree`."""

from __future__ import annotations

import click

from planloop.app import pointing
from planloop.app.exits import Exit, Halt
from planloop.cli import selecting
from planloop.cli.options import access_to, plan_option
from planloop.cli.rendering import printing, trees
from planloop.cli.rendering.budgets import Costs

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
    from planloop.app import wiring

    access = access_to(plan)
    known = access.objects()
    tasks = {item.address: item for item in known if item.kind in ("task", "container", "case")}
    address = pointing.address_of(top)
    if address not in tasks or not address.startswith("task/"):
        raise Halt(Exit.NOT_FOUND, f"no {address} in this plan", "plan get tasks -o name lists what there is")
    costs = Costs(known)
    cost = costs.line(tasks[address])
    click.echo(selecting.headline(access, list(tasks.values())) + (f"   {cost}" if cost else ""))
    found = trees.rows(tasks, now=wiring.now(), costs=costs, top=address, depth=depth)
    printing.lines(trees.lines(found, width=printing.width(), plain=printing.is_plain()))
