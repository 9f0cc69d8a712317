"""`plan history` and `plan events`: records of the log."""

from __future__ import annotations

import click

from planloop.cli.options import client_of_plan, complete_addresses, output_option, plan_option
from planloop.client import references
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import PlanFollower, read_records
from planloop.client.render import printer, records, tables
from planloop.schemas import quantities
from planloop.schemas.canonical_json import encode
from planloop.schemas.log.patch import describe_author
from planloop.schemas.log.record import Record, RecordDraft, SubRecord, record_to_json

HISTORY_EXAMPLE = """
\b
Examples:
  plan history                 who changed the plan, when and why
  plan history --all           with what was refused or held
  plan rollback 12             back to one of them
"""


@click.command(epilog=HISTORY_EXAMPLE)
@plan_option
@output_option("json", "yaml", "name")
@click.option("--all", "everything", is_flag=True, help="Also what was refused, held, approved or rejected.")
@click.option("--limit", "-n", type=int, default=50, show_default=True, help="The newest so many; 0 for all.")
def history_command(plan: str | None, output: str | None, everything: bool, limit: int) -> None:
    """List the plan's revisions with author and cause."""
    from planloop.reconciler.admission.history import DOCUMENT_TYPES, REVISION_TYPES

    wanted = REVISION_TYPES if everything else DOCUMENT_TYPES
    found = [record for record in read_records(client_of_plan(plan)) if record.draft.type in wanted]
    found = found[-limit:] if limit else found
    match output:
        case "json" | "yaml":
            printer.print_structured([record_to_json(record) for record in found], output)
        case "name":
            printer.print_lines(str(record.rev) for record in found)
        case _:
            head = ("rev", "at", "author", "did", "what")
            click.echo(tables.format_table(head, [_row(record) for record in found], width=printer.terminal_width()))


def _row(record: Record) -> tuple[str, ...]:
    draft = record.draft
    verb = draft.type.partition(".")[2]
    return (
        str(record.rev),
        records.clock_time(record.at),
        describe_author(draft.actor),
        verb,
        records.record_words(draft),
    )


EVENTS_EXAMPLE = """
\b
Examples:
  plan events                       the newest 50
  plan events task/frontend         about one object and what is below it
  plan events --type plan.refused   one type; `plan.` means all that begin so
  plan events -w -o json            one JSON record a line, as they come
"""


@click.command(epilog=EVENTS_EXAMPLE)
@click.argument("what", required=False, metavar="[KIND/NAME]", shell_complete=complete_addresses())
@plan_option
@output_option("json")
@click.option("--type", "type_", metavar="TYPE", default="", help="Only records whose type begins so.")
@click.option("--after", type=int, default=0, metavar="REV", help="Only records after this revision.")
@click.option("--limit", "-n", type=int, default=50, show_default=True, help="The newest so many; 0 for all.")
@click.option("-w", "--watch", is_flag=True, help="Go on as records come.")
def events_command(
    what: str | None, plan: str | None, output: str | None, type_: str, after: int, limit: int, watch: bool
) -> None:
    """Show the log.

    Every change of the plan is a record: who asked, what was changed, what was refused, what ran and how it ended.
    """
    access = client_of_plan(plan)
    address = references.resolve_address(what) if what else None
    following = PlanFollower(access) if watch else None
    found = [record for record in read_records(access, after) if _is_about(record, address, type_)]
    for record in found[-limit:] if limit else found:
        _print(record, output, address, type_)
    if not (found or watch or output):
        printer.print_note(
            "no record" + (f" about {address}" if address else "") + (f" of type {type_}" if type_ else "")
        )
    if following is not None:
        _watch(access, following, address, type_, output)


def _watch(access: PlanClient, following: PlanFollower, address: str | None, type_: str, output: str | None) -> None:
    try:
        for step in following.steps():
            if _is_about(step.record, address, type_):
                _print(step.record, output, address, type_)
    except OwnerGone:
        from planloop.cli.watch import not_running_error

        raise not_running_error(access) from None


def _is_about(record: Record, address: str | None, type_: str) -> bool:
    """Whether any step that the record tells of is asked for."""
    return any(_is_asked_for(one, address, type_) for one in record.draft.entries)


def _is_asked_for(step: SubRecord | RecordDraft, address: str | None, type_: str) -> bool:
    is_there = address is None or step.subject == address or step.subject.startswith(f"{address}/")
    return is_there and step.type.startswith(type_)


def _print(record: Record, output: str | None, address: str | None, type_: str) -> None:
    """The record as it is, or a line for each of its steps that is asked for."""
    if output == "json":
        click.echo(encode(record_to_json(record)).decode())
        return
    width = printer.terminal_width()
    for step in records.expand_record(record):
        if _is_asked_for(step.draft, address, type_):
            line = records.record_line(step)
            click.echo(line if width is None else quantities.truncate_cells(line, width))
