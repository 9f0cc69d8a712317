"""`-w`: print changes until the owner ends."""

from __future__ import annotations

from collections.abc import Sequence

import click

from planloop.client import plan_paths, references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import PlanFollower
from planloop.client.render import object_tables, printer, tables
from planloop.schemas import quantities
from planloop.schemas.resource import Resource


def not_running_error(access: PlanClient) -> CommandError:
    """The ending when something is to be followed and nothing runs."""
    hint = plan_paths.command_to_resume(access.place)
    return CommandError(ExitCode.NOT_FOUND, f"nobody runs {access.place.name}, so nothing will change", hint)


def print_changes(access: PlanClient, shown: Sequence[Resource], what: Sequence[str], output: str | None) -> None:
    """One line (or one JSON document) for each change of what was asked for."""
    seen: dict[str, str | None] = {item.address: _face(item) for item in shown}
    kinds = {kind for word in what if (kind := references.parse_kind(word))}
    single = {item.address for item in shown} if not kinds else set()
    following = PlanFollower(access)
    try:
        for step in following.steps():
            for address in step.changed:
                if address not in single and address.partition("/")[0] not in kinds and "all" not in what:
                    continue
                item = following.view.get(address)
                face = None if item is None else _face(item)
                if output in ("json", "yaml") and item is not None:
                    printer.print_structured(item.to_json(), output)
                elif seen.get(address) != face:
                    click.echo(f"{address}   gone" if item is None else _line(item, output))
                seen[address] = face
    except OwnerGone:
        raise not_running_error(access) from None


def _face(item: Resource) -> str:
    return (
        f"{item.uid} {object_tables.state_of(item)} {object_tables.checks_of(item)} {object_tables.state_reason(item)}"
    )


def _line(item: Resource, output: str | None) -> str:
    if output == "name":
        return item.address
    checks = object_tables.checks_of(item)
    parts = [
        item.address,
        object_tables.state_of(item),
        f"{checks} checks" if checks else "",
        object_tables.state_reason(item),
    ]
    line = tables.GAP.join(part for part in parts if part)
    width = printer.terminal_width()
    return line if width is None else quantities.truncate_cells(line, width)
