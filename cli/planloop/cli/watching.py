"""`-w`: prints what changes until the owner ends or the reader has seen enough."""

from __future__ import annotations

from collections.abc import Sequence

import click

from planloop.app import going_on, pointing
from planloop.app.access import Access
from planloop.app.client import OwnerGone
from planloop.app.exits import Exit, Halt
from planloop.app.following import Following
from planloop.cli.rendering import objects as cells
from planloop.cli.rendering import printing, tables
from planloop.schemas import widths
from planloop.schemas.resource import Resource


def not_running(access: Access) -> Halt:
    """The ending when something is to be followed and nothing runs."""
    hint = going_on.command(access.place)
    return Halt(Exit.NOT_FOUND, f"nobody runs {access.place.name}, so nothing will change", hint)


def print_changes(access: Access, shown: Sequence[Resource], what: Sequence[str], output: str | None) -> None:
    """One line (or one JSON document) for each change of what was asked for."""
    seen: dict[str, str | None] = {item.address: _face(item) for item in shown}
    kinds = {kind for word in what if (kind := pointing.kind_of(word))}
    single = {item.address for item in shown} if not kinds else set()
    following = Following(access)
    try:
        for step in following.steps():
            for address in step.changed:
                if address not in single and address.partition("/")[0] not in kinds and "all" not in what:
                    continue
                item = following.view.get(address)
                face = None if item is None else _face(item)
                if output in ("json", "yaml") and item is not None:
                    printing.structured(item.to_json(), output)
                elif seen.get(address) != face:
                    click.echo(f"{address}   gone" if item is None else _line(item, output))
                seen[address] = face
    except OwnerGone:
        raise not_running(access) from None


def _face(item: Resource) -> str:
    return f"{item.uid} {cells.state_of(item)} {cells.checks_of(item)} {cells.what_of(item)}"


def _line(item: Resource, output: str | None) -> str:
    if output == "name":
        return item.address
    checks = cells.checks_of(item)
    parts = [item.address, cells.state_of(item), f"{checks} checks" if checks else "", cells.what_of(item)]
    line = tables.GAP.join(part for part in parts if part)
    width = printing.width()
    return line if width is None else widths.cut(line, width)
