"""`plan reject`."""

from __future__ import annotations

import click

from planloop.app import pointing
from planloop.cli.completing import names
from planloop.cli.options import access_to, plan_option
from planloop.cli.ways import not_said

EXAMPLE = """
\b
Examples:
  plan get approvals
  plan reject approval/5b1e0c77a2f4 --reason "too expensive"
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", metavar="APPROVAL", shell_complete=names("approval"))
@plan_option
@click.option("--reason", default="", help="Why, for the history and for who asked.")
def command(what: str, plan: str | None, reason: str) -> None:
    """Turn down something that waits for a person."""
    access = access_to(plan)
    address = pointing.address_of(what, "approval").replace("approval/conflict-", "conflict/")
    if address.startswith("conflict/"):
        raise not_said(access, address, f"nobody rejects {address}: somebody says how it goes on")
    answer = access.post("reject", {"address": address, "reason": reason})
    click.echo(f"{address} was rejected, rev {answer['rev']}; nothing was changed")
