"""`plan unlock`."""

from __future__ import annotations

import click

from planloop.app import pointing
from planloop.app.exits import Exit, Halt
from planloop.cli.completing import names
from planloop.cli.options import access_to, plan_option

EXAMPLE = """
\b
Examples:
  plan get locks
  plan unlock lock/src/app.py --reason "it only reads there"
  plan unlock "src/**"                the same as lock/src/**
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", metavar="LOCK", shell_complete=names("lock"))
@plan_option
@click.option("--reason", default="", help="Why, for the history and for who held it.")
def command(what: str, plan: str | None, reason: str) -> None:
    """Take a lock from whoever holds it.

    It goes to who has waited longest. An agent that held it is told, and its next write under it is refused, so that it
    looks at the file again first. A command that runs is not stopped, and may still write there: cancel its task for
    that. What was written stays.
    """
    address = what if what.startswith("lock/") else pointing.address_of(what.strip("/"), "lock")
    if not address.startswith("lock/"):
        raise Halt(
            Exit.USAGE, f"{address} is no lock", f"plan get locks lists them; plan describe {address} what it has"
        )
    answer = access_to(plan).post("unlock", {"lock": address, "reason": reason})
    click.echo(f"{address} was taken from {', '.join(answer['owners'])}, rev {answer['rev']}")
    for task in answer["commands"]:
        click.echo(f"the command of {task} goes on and may still write there; to stop it: plan cancel {task}")
