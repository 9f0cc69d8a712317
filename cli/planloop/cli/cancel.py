"""`plan cancel`."""

from __future__ import annotations

import click

from planloop.cli import steering
from planloop.cli.completing import names
from planloop.cli.options import plan_option

EXAMPLE = """
\b
Examples:
  plan cancel task/frontend/ui
  plan cancel task/a task/b --reason 'wrong approach'
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", nargs=-1, required=True, metavar="TASK...", shell_complete=names("task"))
@plan_option
@click.option("--reason", default="", help="Why, for the history and for the agents it concerns.")
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
def command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Stop a subtree for good and keep it as cancelled.

    Running commands are stopped (TERM, then KILL after a grace), agents end, locks are released. The task stays in the
    plan with its results; `plan resume` lets it run again.
    """
    steering.steer(what, plan, "cancel", reason=reason, dry_run=dry_run)
