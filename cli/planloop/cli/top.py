"""`plan top`."""

from __future__ import annotations

import shutil
import sys
import time

import click

from planloop.app import streams
from planloop.app.access import Access
from planloop.app.client import OwnerGone
from planloop.app.following import Following
from planloop.app.observing import top
from planloop.cli.options import access_to, output_option, plan_option
from planloop.cli.rendering import printing

EXAMPLE = """
\b
Examples:
  plan top                   who is at work and what it costs, as it goes on
  plan top --by turns -n 5   the most turns first, every five seconds
  plan top --once -o json    for programs
"""


@click.command(epilog=EXAMPLE)
@plan_option
@click.option("--by", type=click.Choice(list(top.ORDERS)), default="cost", show_default=True, help="What comes first.")
@click.option("-n", "--interval", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, metavar="SECONDS")
@click.option("--once", is_flag=True, help="Print it once; so it is where there is no terminal, too.")
@output_option("json", "yaml")
def command(plan: str | None, by: str, interval: float, once: bool, output: str | None) -> None:
    """Show agents at work: turns, calls, tokens and cost, the most first.

    Goes on until Ctrl-C or the end of the process that runs the plan. Nothing is asked of the agents.
    """
    access = access_to(plan)
    following = Following(access)
    if output is not None:
        printing.structured([row.to_json() for row in top.rows(following.view, _now(), by)], output)
    elif once or not sys.stdout.isatty():
        click.echo(top.page(following.view, access.place.name, _now(), by, (printing.width() or 80, None)))
    else:
        _watch(access, following, by, interval)


def _watch(access: Access, following: Following, by: str, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def drawn() -> Text:
        size = shutil.get_terminal_size()
        page = top.page(following.view, access.place.name, _now(), by, (size.columns, size.lines))
        return Text(streams.shown(page), no_wrap=True, overflow="ellipsis")

    console = Console(highlight=False, file=streams.obeying(sys.stdout))
    with Live(drawn(), console=console, auto_refresh=False) as live:
        try:
            while _followed(following, time.monotonic() + interval):
                live.update(drawn(), refresh=True)
        except OwnerGone:
            pass
        live.update(drawn(), refresh=True)
    printing.note(f"nobody runs {access.place.name} any more")


def _followed(following: Following, until: float) -> bool:
    """Folds what happens until then; whether the owner is still there."""
    try:
        for _ in following.steps(until=until):
            pass
    except TimeoutError:
        return True
    return False


def _now() -> float:
    from planloop.app import wiring

    return wiring.now()
