"""`plan top`."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import click

from planloop.cli.options import client_of_plan, output_option, plan_option
from planloop.client import process
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import PlanFollower
from planloop.client.render import object_tables, printer, tables
from planloop.reconciler.store.store import View
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.lock import lock_status_from_json

# The page of `plan top`: a line on the whole plan, then who is at work and what it takes, the most first. Pure.

TOP_HEAD: Final = ("agent", "state", "turn", "calls", "tokens", "cost", "for", "what")
BUSY: Final = "running"


@frozen
class TopRow:
    """One agent. `calls` are those that are under way; `age` and `what` are words."""

    agent: str
    state: str
    turn: int
    calls: int
    tokens: int
    usd: Decimal
    age: str
    what: str

    def to_json(self) -> JsonObject:
        own: JsonObject = {"agent": self.agent, "state": self.state, "turn": self.turn, "calls": self.calls}
        return own | {"tokens": self.tokens, "usd": str(self.usd)}


ORDERS: Final[Mapping[str, Callable[[TopRow], tuple[object, ...]]]] = {
    "cost": lambda row: (-row.usd, -row.tokens, -row.turn, row.agent),
    "tokens": lambda row: (-row.tokens, -row.usd, row.agent),
    "turns": lambda row: (-row.turn, row.agent),
    "state": lambda row: (row.state != BUSY, row.state, row.agent),
    "name": lambda row: (row.agent,),
}


def top_rows(view: View, now: float, order: str) -> list[TopRow]:
    """All agents, in one of `ORDERS`. `now` is seconds since 1970."""
    calls = Counter(str(call.spec.get("owner", "")) for call in view.list("call"))
    found: list[TopRow] = []
    for agent in view.list("agent"):
        used = agent.status.get("used") or {}
        age, what = object_tables.age_of(agent, now), object_tables.state_reason(agent)
        counts = (int(agent.status.get("turn", 0)), calls[agent.address], int(used.get("tokens", 0)))
        money = Decimal(str(used.get("usd", 0)))
        found.append(TopRow(object_tables.path_of(agent), object_tables.state_of(agent), *counts, money, age, what))
    return sorted(found, key=ORDERS[order])


def top_head(view: View, plan: str, found: Sequence[TopRow]) -> str:
    """`webchat  rev 412 · 6 agents, 2 running · 3 calls · 1 waits for a lock · 212k tokens, $0.84`."""
    running = sum(row.state == BUSY for row in found)
    waits = sum(len(lock_status_from_json(lock.status).waiters) for lock in view.list("lock"))
    parts = [
        f"rev {view.rev}",
        f"{quantities.pluralize(len(found), 'agent')}, {running} running",
        quantities.pluralize(len(view.list("call")), "call"),
        f"{quantities.pluralize(waits, 'wait')} for locks" if waits else "",
        f"{quantities.format_count(sum(row.tokens for row in found))} tokens, "
        f"{quantities.format_money(top_sum(found))}",
    ]
    return f"{plan}  {' · '.join(part for part in parts if part)}"


def top_sum(found: Sequence[TopRow]) -> Decimal:
    """What all of them have cost, in US dollars."""
    return sum((row.usd for row in found), Decimal(0))


def top_page(view: View, plan: str, now: float, order: str, size: tuple[int, int | None]) -> str:
    """The whole page, `size` cells wide and lines high; None: as high as it gets."""
    width, height = size
    found = top_rows(view, now, order)
    shown = found if height is None else found[: max(1, height - 3)]
    table = tables.format_table(TOP_HEAD, [_cells(row) for row in shown], width=width) if found else "no agents"
    rest = f"\n… {len(found) - len(shown)} more" if len(shown) < len(found) else ""
    return f"{top_head(view, plan, found)}\n{table}{rest}"


def _cells(row: TopRow) -> tuple[str, ...]:
    tokens = quantities.format_count(row.tokens) if row.tokens else ""
    usd = quantities.format_money(row.usd) if row.usd else ""
    return (row.agent, row.state, str(row.turn), str(row.calls or ""), tokens, usd, row.age, row.what)


EXAMPLE = """
\b
Examples:
  plan top                   agents and their cost, updated live
  plan top --by turns -n 5   sorted by turns, every five seconds
  plan top --once -o json    for programs
"""


@click.command(epilog=EXAMPLE)
@plan_option
@click.option("--by", type=click.Choice(list(ORDERS)), default="cost", show_default=True, help="The sort order.")
@click.option("-n", "--interval", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, metavar="SECONDS")
@click.option("--once", is_flag=True, help="Print the table once; the default without a terminal.")
@output_option("json", "yaml")
def command(plan: str | None, by: str, interval: float, once: bool, output: str | None) -> None:
    """Show agents with their turns, calls, tokens and cost, the highest first.

    The table is updated until Ctrl-C or until the owner stops. This does not affect the agents.
    """
    access = client_of_plan(plan)
    following = PlanFollower(access)
    if output is not None:
        printer.print_structured([row.to_json() for row in top_rows(following.view, _now(), by)], output)
    elif once or not sys.stdout.isatty():
        click.echo(top_page(following.view, access.place.name, _now(), by, (printer.terminal_width() or 80, None)))
    else:
        _watch(access, following, by, interval)


def _watch(access: PlanClient, following: PlanFollower, by: str, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def drawn() -> Text:
        size = shutil.get_terminal_size()
        page = top_page(following.view, access.place.name, _now(), by, (size.columns, size.lines))
        return Text(process.escaped(page), no_wrap=True, overflow="ellipsis")

    console = Console(highlight=False, file=process.underlying_stream(sys.stdout))
    with Live(drawn(), console=console, auto_refresh=False) as live:
        try:
            while _followed(following, time.monotonic() + interval):
                live.update(drawn(), refresh=True)
        except OwnerGone:
            pass
        live.update(drawn(), refresh=True)
    printer.print_note(f"{access.place.name} is no longer running")


def _followed(following: PlanFollower, until: float) -> bool:
    """Folds what happens until then; whether the owner is still there."""
    try:
        for _ in following.steps(until=until):
            pass
    except TimeoutError:
        return True
    return False


def _now() -> float:
    from planloop.client import process

    return process.now()
