"""`plan events`."""

from __future__ import annotations

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.client import OwnerGone
from planloop.app.following import Following, all_records
from planloop.cli.completing import names
from planloop.cli.options import access_to, output_option, plan_option
from planloop.cli.rendering import printing, records
from planloop.schemas import widths
from planloop.schemas.encoding import encode
from planloop.schemas.record import Also, Draft, Record, record_to_json

EXAMPLE = """
\b
Examples:
  plan events                       the newest 50
  plan events task/frontend         about one object and what is below it
  plan events --type plan.refused   one type; `plan.` means all that begin so
  plan events -w -o json            one JSON record a line, as they come
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", required=False, metavar="[KIND/NAME]", shell_complete=names())
@plan_option
@output_option("json")
@click.option("--type", "type_", metavar="TYPE", default="", help="Only records whose type begins so.")
@click.option("--after", type=int, default=0, metavar="REV", help="Only records after this revision.")
@click.option("--limit", "-n", type=int, default=50, show_default=True, help="The newest so many; 0 for all.")
@click.option("-w", "--watch", is_flag=True, help="Go on as records come.")
def command(
    what: str | None, plan: str | None, output: str | None, type_: str, after: int, limit: int, watch: bool
) -> None:
    """Show the log.

    Every change of the plan is a record: who asked, what was changed, what was refused, what ran and how it ended.
    """
    access = access_to(plan)
    address = pointing.address_of(what) if what else None
    following = Following(access) if watch else None
    found = [record for record in all_records(access, after) if _is_about(record, address, type_)]
    for record in found[-limit:] if limit else found:
        _print(record, output, address, type_)
    if not (found or watch or output):
        printing.note("no record" + (f" about {address}" if address else "") + (f" of type {type_}" if type_ else ""))
    if following is not None:
        _watch(access, following, address, type_, output)


def _watch(access: Access, following: Following, address: str | None, type_: str, output: str | None) -> None:
    try:
        for step in following.steps():
            if _is_about(step.record, address, type_):
                _print(step.record, output, address, type_)
    except OwnerGone:
        from planloop.cli.watching import not_running

        raise not_running(access) from None


def _is_about(record: Record, address: str | None, type_: str) -> bool:
    """Whether any step that the record tells of is asked for."""
    return any(_is_asked_for(one, address, type_) for one in record.draft.entries)


def _is_asked_for(step: Also | Draft, address: str | None, type_: str) -> bool:
    is_there = address is None or step.subject == address or step.subject.startswith(f"{address}/")
    return is_there and step.type.startswith(type_)


def _print(record: Record, output: str | None, address: str | None, type_: str) -> None:
    """The record as it is, or a line for each of its steps that is asked for."""
    if output == "json":
        click.echo(encode(record_to_json(record)).decode())
        return
    width = printing.width()
    for step in records.parted(record):
        if _is_asked_for(step.draft, address, type_):
            line = records.line(step)
            click.echo(line if width is None else widths.cut(line, width))
