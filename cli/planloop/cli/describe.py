"""`plan describe`."""

from __future__ import annotations

import click

from planloop.cli import selection
from planloop.cli.options import client_of_plan, complete_addresses, plan_option
from planloop.client import references
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import read_records
from planloop.client.render import budgets, containers, object_details, printer
from planloop.client.render.records import QUIET, expand_record, is_echo, is_verdict_of
from planloop.schemas.log.record import Record
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
@click.argument("what", metavar="KIND/NAME", shell_complete=complete_addresses())
@plan_option
def command(what: str, plan: str | None) -> None:
    """Show one object: its conditions, why it waits, what would unblock it.

    A name without a kind is a task.
    """
    from planloop.client import context

    access = client_of_plan(plan)
    found = access.object(references.resolve_address(what))
    known = access.objects()
    if not found.status:
        from planloop.client.presenters import description  # The controller's rules, which take a while to load.

        found = description.with_slot_reasons(found, known, context.now())
    costs = budgets.Costs(known)
    item, *related = selection.with_current_reasons(access, [found, *object_details.related_objects(known, found)])
    click.echo(object_details.object_text(item, related, costs=costs, now=context.now()))
    if said := selection.not_running_note(access, known):
        click.echo(object_details.labelled_lines("stands", said))
    printer.print_lines(object_details.recent_records(_recent(access, item), printer.terminal_width()))


def _recent(access: PlanClient, item: Resource) -> list[Record]:
    """The newest records about the object or what it owns that say something to a person."""
    names = {item.address, item.address.replace("task/", "agent/", 1)}
    steps = (step for one in read_records(access) for step in expand_record(one))
    about = (one for one in steps if one.draft.subject in names or is_verdict_of(one.draft, item.address))
    found = [one for one in about if one.draft.type not in QUIET and not is_echo(one.draft)]
    return containers.without_retries(found)[-RECENT:]
