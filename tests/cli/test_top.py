"""`plan top`: the order, the head line, and what a low terminal shows."""

from __future__ import annotations

from planloop.cli import top
from tests.golden_text import said
from tests.product import JsonObject, MemoryView, Resource, Uid


def agent(name: str, state: str, turn: int, usd: str) -> Resource:
    status: JsonObject = {"state": state, "turn": turn, "used": {"tokens": turn * 1000, "usd": usd}}
    return Resource(f"agent/{name}", Uid(name), 1, {"task": f"task/{name}"}, status)


VIEW = MemoryView([agent("a", "asleep", 9, "0.10"), agent("b", "running", 2, "2.5"), agent("c", "running", 3, "0")], 12)


def test_largest_is_first_in_each_order() -> None:
    orders = {order: [row.agent for row in top.top_rows(VIEW, 0.0, order)] for order in top.ORDERS}

    assert orders == {
        "cost": ["b", "a", "c"],
        "tokens": ["a", "c", "b"],
        "turns": ["a", "c", "b"],
        "state": ["b", "c", "a"],
        "name": ["a", "b", "c"],
    }


def test_head_sums_all_agents_and_a_low_terminal_counts_the_hidden_ones() -> None:
    page = top.top_page(VIEW, "p", 0.0, "cost", (80, 4)).splitlines()

    said(page[0])
    assert [line.split()[0] for line in page[1:]] == ["AGENT", "b", "…"]
    assert page[-1] == "… 2 more"
