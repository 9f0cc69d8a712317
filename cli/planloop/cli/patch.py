"""`plan patch` and `plan rollback`, and printing what the gate decided."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from planloop.cli.options import client_of_plan, plan_option
from planloop.client import references
from planloop.client.error_report import refused_error
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.render import differences, printer
from planloop.schemas import json_patch, json_pointer
from planloop.schemas.canonical_json import Json, JsonObject, decode

# What the verbs that change the live plan share: from words to operations, to the gate, and what the gate said.


def submit_patch(access: PlanClient, ops: Sequence[JsonObject], *, reason: str = "", dry_run: bool = False) -> None:
    """Send one patch as `human:cli` and print the decision. Raises CommandError if it was refused."""
    verdict = access.post("patch", {"ops": list(ops), "reason": reason, "dry_run": dry_run})
    print_verdict(verdict, access.place.name)


def print_verdict(verdict: JsonObject, plan: str, *, did: str = "patched") -> None:
    """Print the gate's decision, `did` if it accepted. Raises CommandError if it refused."""
    from planloop.client import process

    match verdict["verdict"]:
        case "refused":
            raise refused_error(verdict)
        case "held":
            click.echo(f"held for approval: {verdict['why']}")
            _print_differences(verdict, process.now())
            approval = verdict["approval"]
            click.echo(f"next: plan approve {approval} · or: plan reject {approval}")
        case "preview":
            _print_differences(verdict, process.now())
            click.echo(f"{differences.differences_summary(verdict['differences'])} · nothing was changed")
        case _:
            done = "nothing to change" if not verdict["changed"] else did
            click.echo(f"{plan} {done}, rev {verdict['rev']}")
            _print_differences(verdict, process.now())
    for note in verdict.get("notes", ()):
        printer.print_note(f"note: {note}")


def _print_differences(verdict: JsonObject, now: float) -> None:
    found = verdict.get("differences", ())
    shown = differences.differences_text(found, now=now, width=printer.terminal_width()) or differences.unchanged_text(
        found
    )
    if shown:
        click.echo(shown)
    if left := verdict.get("differences_left"):
        click.echo(f"  and {left} more")


PATCH_EXAMPLE = """
\b
Examples:
  plan patch task/backend budget.usd=40
  plan patch . goal="a chat with rooms"           the plan itself
  plan patch task/ui --merge '{"goal": "dark theme", "notes": null}'
  plan patch --json '[{"op": "add", "path": "/tasks/ui/priority", "value": 5}]'
  plan patch task/ui pause=true --dry-run
"""


@click.command(epilog=PATCH_EXAMPLE)
@click.argument("what", required=False, metavar="[KIND/NAME]")
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE | FIELD-]...")
@plan_option
@click.option("--merge", metavar="JSON", help="A merge patch (RFC 7386) of the object; null removes a field.")
@click.option("--json", "json_", metavar="JSON", help="Operations (RFC 6902) on the whole plan document.")
@click.option(
    "--file",
    "-f",
    "file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Read the merge patch or the operations from a file.",
)
@click.option("--reason", default="", help="The reason, for the history.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
def patch_command(
    what: str | None,
    changes: tuple[str, ...],
    plan: str | None,
    merge: str | None,
    json_: str | None,
    file: Path | None,
    reason: str,
    dry_run: bool,
) -> None:
    """Change fields of the live plan.

    The change is checked like an edit of the plan file. VALUE is parsed as JSON; if it is not valid JSON, it is used
    as text. `FIELD-` removes the field. To write the change to the plan file, run `plan pull`.
    """
    access = client_of_plan(plan)
    if file is not None:
        json_ = sys.stdin.read() if str(file) == "-" else file.read_text()
    given = [name for name, value in (("changes", changes), ("--merge", merge), ("--json", json_)) if value]
    if len(given) != 1:
        if what is not None and "=" in what and not given:
            raise CommandError(ExitCode.USAGE, f"`{what}` does not name an object", _apart(access, what))
        hint = "plan patch task/x FIELD=VALUE, or --merge, or --json"
        raise CommandError(ExitCode.USAGE, "give exactly one kind of change", hint)
    if json_:
        ops = _operations(json_)
    else:
        address = references.resolve_address(what or ".")
        _require(access, address)
        ops = _merge_ops(access, address, merge) if merge else _field_ops(access, address, changes)
    submit_patch(access, ops, reason=reason, dry_run=dry_run)


def _apart(access: PlanClient, what: str) -> str:
    """The command meant by `task/a/run=x` or `a.run=x`, with the task and its field in two words."""
    named, _, value = what.partition("=")
    known = {one.address for one in access.objects("task")}
    for sign in "/.":
        head, _, field = named.rpartition(sign) if sign == "/" else named.partition(sign)
        if field and head and f"task/{head.removeprefix('task/')}" in known:
            return f"plan patch {head} {shlex.quote(f'{field}={value}')}"
    return f"plan patch task/x {what}, or `.` for the plan itself: plan patch . {what}"


def _require(access: PlanClient, address: str) -> None:
    """Raise CommandError unless the object exists: a misspelt name must not create a new task."""
    references.field_path(address, "")
    access.object(address)


def _operations(text: str) -> list[JsonObject]:
    raw = _json(text)
    if isinstance(raw, dict):
        raw = [raw]
    if not isinstance(raw, list):
        raise CommandError(
            ExitCode.USAGE, "operations must be a JSON list", 'as in [{"op": "add", "path": "/goal", "value": "…"}]'
        )
    try:
        return [one.to_json() for one in json_patch.ops_from_json(raw)]
    except json_patch.PatchFailed as error:
        raise CommandError(
            ExitCode.USAGE, f"operation {error.index}: {error.reason}", "RFC 6902 defines the operations"
        ) from None


def _merge_ops(access: PlanClient, address: str, text: str) -> list[JsonObject]:
    document, at = live_document(access), references.field_path(address, "")
    if not json_pointer.has_value(document, at):
        return [json_patch.PatchOp("add", at, json_patch.merge_values({}, _json(text))).to_json()]
    old = json_pointer.value_at(document, at)
    new = json_patch.merge_values(old, _json(text))
    return [op.to_json() for op in json_patch.diff_values(old, new, at)]


def _field_ops(access: PlanClient, address: str, changes: tuple[str, ...]) -> list[JsonObject]:
    document = live_document(access)
    return [op for change in changes for op in _field_op(document, address, change)]


def _field_op(document: JsonObject, address: str, change: str) -> list[JsonObject]:
    field, equals, text = change.partition("=")
    if not equals:
        if not change.endswith("-"):
            raise CommandError(
                ExitCode.USAGE, f"`{change}` is not a change", "write FIELD=VALUE, or FIELD- to remove it"
            )
        path = references.field_path(address, change[:-1])
        return [json_patch.PatchOp("remove", path).to_json()] if json_pointer.has_value(document, path) else []
    path = references.field_path(address, field)
    return [references.parse_setting(document, path, references.parse_value(text)).to_json()]


def live_document(access: PlanClient) -> JsonObject:
    """The live plan document."""
    document: JsonObject = access.object(f"plan/{access.place.name}").spec
    return document


def _json(text: str) -> Json:
    try:
        return decode(text)
    except ValueError as error:
        raise CommandError(
            ExitCode.USAGE, f"invalid JSON: {error}", 'quote it for the shell, as in \'{"goal": "…"}\''
        ) from None


ROLLBACK_EXAMPLE = """
\b
Examples:
  plan history
  plan rollback 12
"""


@click.command(epilog=ROLLBACK_EXAMPLE)
@click.argument("rev", type=click.IntRange(min=1))
@plan_option
@click.option("--reason", default="", help="The reason, for the history.")
@click.option("--yes", "-y", is_flag=True, help="Approve changes that would otherwise wait for approval.")
def rollback_command(rev: int, plan: str | None, reason: str, yes: bool) -> None:
    """Restore an earlier revision. This makes a new revision.

    The restored plan becomes the live plan, and the plan file does not change. planloop ignores the file until you
    edit it. To write the restored plan to the file, run `plan pull`.
    """
    access = client_of_plan(plan)
    before = access.get("status")["rev"]
    answer = access.post("rollback", {"rev": rev, "reason": reason, "is_approved": yes})
    if answer["verdict"] == "accepted" and answer["rev"] <= before:
        answer["changed"] = False
    print_verdict(answer, access.place.name, did=f"is back at revision {rev}")
