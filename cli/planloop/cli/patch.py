"""`plan patch`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli import patching
from planloop.cli.options import access_to, plan_option
from planloop.schemas import patching as operations
from planloop.schemas import pointer
from planloop.schemas.encoding import Json, JsonObject, decode

EXAMPLE = """
\b
Examples:
  plan patch task/backend budget.usd=40
  plan patch . goal="a chat with rooms"           the plan itself
  plan patch task/ui --merge '{"goal": "dark theme", "notes": null}'
  plan patch --json '[{"op": "add", "path": "/tasks/ui/priority", "value": 5}]'
  plan patch task/ui pause=true --dry-run
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", required=False, metavar="[KIND/NAME]")
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE | FIELD-]...")
@plan_option
@click.option("--merge", metavar="JSON", help="A merge patch (RFC 7386) of the object; null removes.")
@click.option("--json", "json_", metavar="JSON", help="Operations (RFC 6902) on the whole plan document.")
@click.option("--file", "-f", "file", type=click.Path(path_type=Path, allow_dash=True), help="The same from a file.")
@click.option("--reason", default="", help="Why, for the history.")
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
def command(
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

    It passes the same gate as an edit of the file. A value is JSON, or else text; `FIELD-` removes the field. The file
    itself is not written: `plan pull` does that.
    """
    access = access_to(plan)
    if file is not None:
        json_ = sys.stdin.read() if str(file) == "-" else file.read_text()
    given = [name for name, value in (("changes", changes), ("--merge", merge), ("--json", json_)) if value]
    if len(given) != 1:
        if what is not None and "=" in what and not given:
            raise Halt(Exit.USAGE, f"`{what}` of what?", _apart(access, what))
        hint = "plan patch task/x FIELD=VALUE, or --merge, or --json"
        raise Halt(Exit.USAGE, "say in one way what to change", hint)
    if json_:
        ops = _operations(json_)
    else:
        address = pointing.address_of(what or ".")
        _require(access, address)
        ops = _merge_ops(access, address, merge) if merge else _field_ops(access, address, changes)
    patching.submit(access, ops, reason=reason, dry_run=dry_run)


def _apart(access: Access, what: str) -> str:
    """The command meant by `task/a/run=x` or `a.run=x`, with the task and its field in two words."""
    named, _, value = what.partition("=")
    known = {one.address for one in access.objects("task")}
    for sign in "/.":
        head, _, field = named.rpartition(sign) if sign == "/" else named.partition(sign)
        if field and head and f"task/{head.removeprefix('task/')}" in known:
            return f"plan patch {head} {shlex.quote(f'{field}={value}')}"
    return f"plan patch task/x {what}, or `.` for the plan itself: plan patch . {what}"


def _require(access: Access, address: str) -> None:
    """Raises Halt unless there is such an object: a slip in a name must not make a new task of that name."""
    pointing.field_of(address, "")
    access.object(address)


def _operations(text: str) -> list[JsonObject]:
    raw = _json(text)
    if isinstance(raw, dict):
        raw = [raw]
    if not isinstance(raw, list):
        raise Halt(Exit.USAGE, "operations are a JSON list", 'as in [{"op": "add", "path": "/goal", "value": "…"}]')
    try:
        return [one.to_json() for one in operations.ops_from_json(raw)]
    except operations.PatchFailed as error:
        raise Halt(Exit.USAGE, f"operation {error.index}: {error.reason}", "RFC 6902 describes them") from None


def _merge_ops(access: Access, address: str, text: str) -> list[JsonObject]:
    document, at = document_of(access), pointing.field_of(address, "")
    if not pointer.has(document, at):
        return [operations.Op("add", at, operations.merge({}, _json(text))).to_json()]
    old = pointer.get(document, at)
    new = operations.merge(old, _json(text))
    return [op.to_json() for op in operations.difference(old, new, at)]


def _field_ops(access: Access, address: str, changes: tuple[str, ...]) -> list[JsonObject]:
    document = document_of(access)
    return [op for change in changes for op in _field_op(document, address, change)]


def _field_op(document: JsonObject, address: str, change: str) -> list[JsonObject]:
    field, equals, text = change.partition("=")
    if not equals:
        if not change.endswith("-"):
            raise Halt(Exit.USAGE, f"`{change}` is no change", "write FIELD=VALUE, or FIELD- to remove it")
        path = pointing.field_of(address, change[:-1])
        return [operations.Op("remove", path).to_json()] if pointer.has(document, path) else []
    path = pointing.field_of(address, field)
    return [pointing.setting(document, path, pointing.value_of(text)).to_json()]


def document_of(access: Access) -> JsonObject:
    """The live plan document."""
    document: JsonObject = access.object(f"plan/{access.place.name}").spec
    return document


def _json(text: str) -> Json:
    try:
        return decode(text)
    except ValueError as error:
        raise Halt(
            Exit.USAGE, f"that is not JSON: {error}", 'quote it for the shell, as in \'{"goal": "…"}\''
        ) from None
