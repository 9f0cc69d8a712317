"""`plan rollback`."""

from __future__ import annotations

import click

from planloop.cli import patching
from planloop.cli.options import access_to, plan_option

EXAMPLE = """
\b
Examples:
  plan history
  plan rollback 12
"""


@click.command(epilog=EXAMPLE)
@click.argument("rev", type=click.IntRange(min=1))
@plan_option
@click.option("--reason", default="", help="Why, for the history.")
@click.option("--yes", "-y", is_flag=True, help="Let pass what would be held for approval.")
def command(rev: int, plan: str | None, reason: str, yes: bool) -> None:
    """Go back to an earlier revision, as a new one.

    The plan file is held back with it: its present content is not applied again until you change it. `plan pull`
    writes the old plan into the file.
    """
    access = access_to(plan)
    before = access.get("status")["rev"]
    answer = access.post("rollback", {"rev": rev, "reason": reason, "is_approved": yes})
    if answer["verdict"] == "accepted" and answer["rev"] <= before:
        answer["changed"] = False
    patching.say(answer, access.place.name, did=f"is back at revision {rev}")
