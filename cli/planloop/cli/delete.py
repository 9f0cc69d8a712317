"""`plan delete`."""

from __future__ import annotations

import click

from planloop.cli import steering
from planloop.cli.completing import names
from planloop.cli.options import plan_option

EXAMPLE = """
\b
Examples:
  plan delete task/frontend/ui
  plan delete task/old --dry-run
  plan delete container/sut       one that was kept after it stopped, or one of the live plan
"""


@click.command(epilog=EXAMPLE)
@click.argument(
    "what", nargs=-1, required=True, metavar="TASK | CONTAINER...", shell_complete=names("task", "container")
)
@plan_option
@click.option("--reason", default="", help="Why, for the history and for the agents it concerns.")
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
def command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Remove a subtree or a container from the live plan.

    Its work is stopped as by `plan cancel` and its objects go; files that it wrote stay. What the plan file says comes
    back with the next save of that file, so remove it there too, or `plan pull`. Of a container that was kept after it
    stopped (`keep:`) only that goes, and the plan stays as it is.
    """
    steering.remove(what, plan, reason=reason, dry_run=dry_run)
