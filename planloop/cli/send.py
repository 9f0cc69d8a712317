"""`plan send`."""

from __future__ import annotations

import sys

import click

from planloop.cli import selecting
from planloop.cli.options import access_to, plan_option
from planloop.exits import Exit, Halt

EXAMPLE = """
\b
Examples:
  plan send agent/frontend "use the new palette"
  plan send frontend "stop guessing, ask" --delivery interrupt
  git diff | plan send reviewer -
"""


@click.command(epilog=EXAMPLE)
@click.argument("to", metavar="AGENT")
@click.argument("text", metavar="TEXT")
@plan_option
@click.option(
    "--delivery",
    type=click.Choice(["queue", "steer", "interrupt"]),
    default="queue",
    show_default=True,
    help="With its next turn, at its next boundary, or stopping the step in flight.",
)
def command(to: str, text: str, plan: str | None, delivery: str) -> None:
    """Send a message to an agent.

    It wakes an agent that sleeps. A message never grants anything: rights and budgets are changed with `plan patch`.
    """
    access = access_to(plan)
    address = selecting.address_of(to, "agent")
    body = sys.stdin.read() if text == "-" else text
    if not body.strip():
        raise Halt(Exit.USAGE, "the message is empty", 'plan send AGENT "what you want to say"')
    answer = access.post("send", {"to": address, "text": body, "delivery": delivery})
    click.echo(f"delivered to {address} ({answer['state'] or 'new'}), rev {answer['rev']}")
    if answer["state"] == "ended":
        click.echo(f"its task is over: it reads this only if task/{address.partition('/')[2]} begins again")
    if not access.is_owned():
        click.echo("nobody runs the plan: it is read after plan apply")
