"""`plan history`, `plan events` and `plan replay`: print the records of the log, and verify it."""

from __future__ import annotations

import click

from planloop.cli.options import client_of_plan, complete_addresses, output_option, paths_of_plan, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import PlanFollower, read_records
from planloop.client.plan_paths import PlanPaths
from planloop.client.render import printer, records, tables
from planloop.schemas import quantities
from planloop.schemas.canonical_json import encode
from planloop.schemas.log.patch import describe_author
from planloop.schemas.log.record import Record, RecordDraft, SubRecord, record_to_json

HISTORY_EXAMPLE = """
\b
Examples:
  plan history                 who changed the plan, when and why
  plan history --all           also refused changes, and those held for approval
  plan rollback 12             restore one of them
"""


@click.command(epilog=HISTORY_EXAMPLE)
@plan_option
@output_option("json", "yaml", "name")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also show changes that were refused, held for approval, approved or rejected.",
)
@click.option("--limit", "-n", type=int, default=50, show_default=True, help="Show the newest N; 0 shows all.")
def history_command(plan: str | None, output: str | None, everything: bool, limit: int) -> None:
    """List the plan's revisions with author and reason."""
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
            head = ("rev", "at", "author", "action", "what")
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
  plan events task/frontend         one object and its descendants
  plan events --type plan.refused   one type; `plan.` matches every type with this prefix
  plan events -w -o json            one JSON record per line, as they are written
"""


@click.command(epilog=EVENTS_EXAMPLE)
@click.argument("what", required=False, metavar="[KIND/NAME]", shell_complete=complete_addresses())
@plan_option
@output_option("json")
@click.option("--type", "type_", metavar="TYPE", default="", help="Only records whose type has this prefix.")
@click.option("--after", type=int, default=0, metavar="REV", help="Only records after this revision.")
@click.option("--limit", "-n", type=int, default=50, show_default=True, help="Show the newest N; 0 shows all.")
@click.option("-w", "--watch", is_flag=True, help="Keep printing new records.")
def events_command(
    what: str | None, plan: str | None, output: str | None, type_: str, after: int, limit: int, watch: bool
) -> None:
    """Show the records of the log.

    Every change is a record: who requested it, what was changed or refused, what ran and how it ended.
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
        from planloop.cli.wait import not_running_error

        raise not_running_error(access) from None


def _is_about(record: Record, address: str | None, type_: str) -> bool:
    """Return whether the filter matches any step of the record."""
    return any(_is_asked_for(one, address, type_) for one in record.draft.entries)


def _is_asked_for(step: SubRecord | RecordDraft, address: str | None, type_: str) -> bool:
    is_there = address is None or step.subject == address or step.subject.startswith(f"{address}/")
    return is_there and step.type.startswith(type_)


def _print(record: Record, output: str | None, address: str | None, type_: str) -> None:
    """Return the whole record, or one line for each matching step."""
    if output == "json":
        click.echo(encode(record_to_json(record)).decode())
        return
    width = printer.terminal_width()
    for step in records.expand_record(record):
        if _is_asked_for(step.draft, address, type_):
            line = records.record_line(step)
            click.echo(line if width is None else quantities.truncate_cells(line, width))


REPLAY_EXAMPLE = """
\b
Examples:
  plan replay                  does the stored state match the log?
  plan replay --tree           are all decisions the same when repeated?
"""


@click.command(epilog=REPLAY_EXAMPLE)
@plan_option
@output_option("json", "yaml")
@click.option("--tree", "is_tree", is_flag=True, help="Repeat every decision, with the results recorded in the log.")
def replay_command(plan: str | None, output: str | None, is_tree: bool) -> None:
    """Replay the log and compare the result with the stored state.

    The command verifies every checksum, computes the state from all records, and compares it byte for byte with the
    state that opening the plan gives. It uses no clock and no network, and starts no process. Exit 1 if they differ.

    With --tree every agent, task and lock decides again, in a scratch copy. Model replies, results of tools, commands
    and checks, and actions of people are replayed from the log. Every prompt must have the same digest, and the final
    state must be the same except for ids. Exit 0 if it is the same, 1 if it differs (the first difference is printed),
    6 if the log does not have all that is required.
    """
    place = paths_of_plan(plan)
    if is_tree:
        _replay_plan(place, output)
    else:
        _verify_log(place, output)


def _verify_log(place: PlanPaths, output: str | None) -> None:
    from planloop.reconciler.store import backend

    with backend.open_log(place.folder) as log:
        found = log.replay()
    if output:
        listed = {"rev": found.rev, "objects": found.object_count, "different": list(found.different)}
        printer.print_structured(listed | {"mirror_rev": found.mirror_rev}, output)
    else:
        same = "the same" if not found.different else f"{len(found.different)} differ"
        objects = quantities.pluralize(found.object_count, "object")
        click.echo(f"{place.name}: {quantities.pluralize(found.rev, 'revision')} verified, {objects}, {same}")
        printer.print_lines(f"    {address}" for address in found.different)
    if found.different:
        raise CommandError(
            ExitCode.FAILED, "", "the log is authoritative: run plan apply again to rebuild the snapshot in log.db"
        )


def _replay_plan(place: PlanPaths, output: str | None) -> None:
    from planloop.owner import build
    from planloop.owner.replay import play

    found = play.replay_plan(build.replay_setup(place))
    if output:
        printer.print_structured(play.replay_json(found), output)
    else:
        printer.print_lines(play.replay_lines(found, place.name))
    if found.verdict == "diverged":
        raise CommandError(
            ExitCode.FAILED,
            "",
            "plan events shows the original; replay with the version of planloop that wrote the log",
        )
    if found.verdict == "inconclusive":
        raise CommandError(ExitCode.NOT_FOUND, "", "plan replay without --tree still verifies the log")
