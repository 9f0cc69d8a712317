"""`plan resume`."""

from __future__ import annotations

import click

from planloop.cli import steering
from planloop.cli.completing import names
from planloop.cli.options import plan_option

EXAMPLE = """
\b
Examples:
  plan resume task/frontend
  plan resume container/db  made anew, if it failed
  plan resume .             all of the plan; what failed runs once more
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", nargs=-1, required=True, metavar="TASK...", shell_complete=names("task", "container"))
@plan_option
@click.option("--reason", default="", help="Why, for the history and for the agents it concerns.")
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
def command(what: tuple[str, ...], plan: str | None, reason: str, dry_run: bool) -> None:
    """Let a paused subtree go on, and what failed in it try once more.

    A container that failed is made anew when it is named, and with `.` as all that failed is.

    Also takes back a `plan cancel`: the task runs again. A model that could not be asked, for want of a key or a
    server, is asked again. Keys in variables are read where `plan apply` runs: for one that was not set there, leave
    it and apply again instead.
    """
    steering.steer(what, plan, "resume", reason=reason, dry_run=dry_run)
