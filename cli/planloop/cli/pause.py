"""`plan pause`."""

from __future__ import annotations

import click

from planloop.cli import steering
from planloop.cli.completing import names
from planloop.cli.options import plan_option

EXAMPLE = """
\b
Examples:
  plan pause task/frontend
  plan pause .                 everything
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", nargs=-1, required=True, metavar="TASK...", shell_complete=names("task"))
@plan_option
@click.option("--reason", default="", help="Why, for the history and for the agents it concerns.")
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
def command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Stop a subtree at its next boundary and keep its work.

    Running commands go on to their end; nothing new starts below it until `plan resume`.
    """
    steering.steer(what, plan, "pause", reason=reason, dry_run=dry_run)
