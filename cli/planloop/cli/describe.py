"""`plan describe`."""

from __future__ import annotations

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.following import all_records
from planloop.cli import selecting
from planloop.cli.completing import names
from planloop.cli.options import access_to, plan_option
from planloop.cli.rendering import budgets, containers, descriptions, printing
from planloop.cli.rendering.records import QUIET, is_echo, parted
from planloop.cli.rendering.verdicts import is_of
from planloop.schemas.record import Record
from planloop.schemas.resource import Resource

EXAMPLE = """
\b
Examples:
  plan describe task/backend
  plan describe backend            the same
  plan describe call/1f0c9a3b77e2
"""
RECENT = 8


@click.command(epilog=EXAMPLE)
@click.argument("what", metavar="KIND/NAME", shell_complete=names())
@plan_option
def command(what: str, plan: str | None) -> None:
    """Show one object: its conditions, why it waits, what would unblock it.

    A name without a kind is a task.
    """
    from planloop.app import wiring

    access = access_to(plan)
    found = access.object(pointing.address_of(what))
    known = access.objects()
    if not found.status:
        from planloop.app.telling import unwritten  # The controller's rules, which take a while to load.

        found = unwritten.explained(found, known, wiring.now())
    costs = budgets.Costs(known)
    item, *related = selecting.by_now(access, [found, *descriptions.related(known, found)])
    click.echo(descriptions.text(item, related, costs=costs, now=wiring.now()))
    if said := selecting.nobody_runs(access, known):
        click.echo(descriptions.labelled("stands", said))
    printing.lines(descriptions.recent(_recent(access, item), printing.width()))


def _recent(access: Access, item: Resource) -> list[Record]:
    """The newest records about the object or what it owns that say something to a person."""
    names = {item.address, item.address.replace("task/", "agent/", 1)}
    steps = (step for one in all_records(access) for step in parted(one))
    about = (one for one in steps if one.draft.subject in names or is_of(one.draft, item.address))
    found = [one for one in about if one.draft.type not in QUIET and not is_echo(one.draft)]
    return containers.without_retries(found)[-RECENT:]
