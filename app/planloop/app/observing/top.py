"""The page of `plan top`: a line on the whole plan, then who is at work and what it takes, the most first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from planloop.cli.rendering import objects as cells
from planloop.cli.rendering import tables
from planloop.reconciler.storing.store import View
from planloop.schemas import amounts
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import status_from_json

HEAD: Final = ("agent", "state", "turn", "calls", "tokens", "cost", "for", "what")
BUSY: Final = "running"


@frozen
class Row:
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


ORDERS: Final[Mapping[str, Callable[[Row], tuple[object, ...]]]] = {
    "cost": lambda row: (-row.usd, -row.tokens, -row.turn, row.agent),
    "tokens": lambda row: (-row.tokens, -row.usd, row.agent),
    "turns": lambda row: (-row.turn, row.agent),
    "state": lambda row: (row.state != BUSY, row.state, row.agent),
    "name": lambda row: (row.agent,),
}


def rows(view: View, now: float, order: str) -> list[Row]:
    """All agents, in one of `ORDERS`. `now` is seconds since 1970."""
    calls = Counter(str(call.spec.get("owner", "")) for call in view.list("call"))
    found: list[Row] = []
    for agent in view.list("agent"):
        used = agent.status.get("used") or {}
        age, what = cells.age_of(agent, now), cells.what_of(agent)
        counts = (int(agent.status.get("turn", 0)), calls[agent.address], int(used.get("tokens", 0)))
        money = Decimal(str(used.get("usd", 0)))
        found.append(Row(cells.path_of(agent), cells.state_of(agent), *counts, money, age, what))
    return sorted(found, key=ORDERS[order])


def head(view: View, plan: str, found: Sequence[Row]) -> str:
    """`webchat  rev 412 · 6 agents, 2 running · 3 calls · 1 waits for a lock · 212k tokens, $0.84`."""
    running = sum(row.state == BUSY for row in found)
    waits = sum(len(status_from_json(lock.status).waiters) for lock in view.list("lock"))
    parts = [
        f"rev {view.rev}",
        f"{amounts.plural(len(found), 'agent')}, {running} running",
        amounts.plural(len(view.list("call")), "call"),
        f"{amounts.plural(waits, 'wait')} for locks" if waits else "",
        f"{amounts.count(sum(row.tokens for row in found))} tokens, {amounts.money(sum_of(found))}",
    ]
    return f"{plan}  {' · '.join(part for part in parts if part)}"


def sum_of(found: Sequence[Row]) -> Decimal:
    """What all of them have cost, in US dollars."""
    return sum((row.usd for row in found), Decimal(0))


def page(view: View, plan: str, now: float, order: str, size: tuple[int, int | None]) -> str:
    """The whole page, `size` cells wide and lines high; None: as high as it gets."""
    width, height = size
    found = rows(view, now, order)
    shown = found if height is None else found[: max(1, height - 3)]
    table = tables.table(HEAD, [_cells(row) for row in shown], width=width) if found else "no agents"
    rest = f"\n… {len(found) - len(shown)} more" if len(shown) < len(found) else ""
    return f"{head(view, plan, found)}\n{table}{rest}"


def _cells(row: Row) -> tuple[str, ...]:
    tokens = amounts.count(row.tokens) if row.tokens else ""
    usd = amounts.money(row.usd) if row.usd else ""
    return (row.agent, row.state, str(row.turn), str(row.calls or ""), tokens, usd, row.age, row.what)
