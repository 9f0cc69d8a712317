"""`plan history`."""

from __future__ import annotations

import click

from planloop.app.following import all_records
from planloop.cli.options import access_to, output_option, plan_option
from planloop.cli.rendering import printing, records, tables
from planloop.schemas.patch import author_in_words
from planloop.schemas.record import Record, record_to_json

EXAMPLE = """
\b
Examples:
  plan history                 who changed the plan, when and why
  plan history --all           with what was refused or held
  plan rollback 12             back to one of them
"""


@click.command(epilog=EXAMPLE)
@plan_option
@output_option("json", "yaml", "name")
@click.option("--all", "everything", is_flag=True, help="Also what was refused, held, approved or rejected.")
@click.option("--limit", "-n", type=int, default=50, show_default=True, help="The newest so many; 0 for all.")
def command(plan: str | None, output: str | None, everything: bool, limit: int) -> None:
    """List the plan's revisions with author and cause."""
    from planloop.reconciler.editing.history import DOCUMENT_TYPES, REVISION_TYPES

    wanted = REVISION_TYPES if everything else DOCUMENT_TYPES
    found = [record for record in all_records(access_to(plan)) if record.draft.type in wanted]
    found = found[-limit:] if limit else found
    match output:
        case "json" | "yaml":
            printing.structured([record_to_json(record) for record in found], output)
        case "name":
            printing.lines(str(record.rev) for record in found)
        case _:
            head = ("rev", "at", "author", "did", "what")
            click.echo(tables.table(head, [_row(record) for record in found], width=printing.width()))


def _row(record: Record) -> tuple[str, ...]:
    draft = record.draft
    verb = draft.type.partition(".")[2]
    return (str(record.rev), records.clock_time(record.at), author_in_words(draft.actor), verb, records.words(draft))
