"""What tasks cost, in words: with all that is below them, wherever it is by now."""

from __future__ import annotations

from decimal import Decimal

from planloop.client.render import object_details, object_tables, task_tree
from planloop.client.render.budgets import Costs
from planloop.schemas.objects.budget import Account, account_to_json
from tests.golden_text import said, said_in
from tests.product import JsonObject, Resource, Uid


def task(address: str, parent: str | None, **accounts: Account) -> Resource:
    ledger = {unit: account_to_json(unit, account) for unit, account in accounts.items()}
    spec: JsonObject = {"parent": parent, "children": [], "acceptance": [], "goal": "g", "budget": {}}
    return Resource(address, Uid(f"uid-{address}"), 1, spec, {"ledger": ledger} if ledger else {})


def agent(path: str, tokens: int, usd: str) -> Resource:
    used = {"turns": 1, "calls": 0, "time_s": 1.0, "tokens": tokens, "usd": usd}
    return Resource(f"agent/{path}", Uid(f"uid-agent-{path}"), 1, {"task": f"task/{path}"}, {"used": used})


def usd(bound: str, spent: str, **more: object) -> Account:
    return Account(Decimal(bound), Decimal(spent), **more)  # type: ignore[arg-type]


ROOT = task(
    "task/.",
    None,
    usd=usd("20", "0.53", granted={"uid-task/a": Decimal(4)}, reserved={"x": {"op": Decimal("0.10")}}),
    tokens=Account(Decimal(2_000_000), Decimal(212_000)),
)
CHILD = task(
    "task/a", "task/.", usd=usd("4", "0.31", giver="uid-task/.", handover=Decimal("0.2"), keeps=Decimal("0.2"))
)
PLAN = (ROOT, CHILD, agent("a", 5_000, "0.31"))


def test_usage_is_shown_as_a_share_of_the_bound_with_what_children_spent() -> None:
    costs = Costs(PLAN)
    said(costs.line(ROOT))
    said(costs.line(CHILD))
    assert costs.short(ROOT) == "$0.84 of $20.00"
    said(costs.rest(ROOT))
    said(costs.rest(CHILD))


def test_cost_without_a_budget_is_added_up_from_the_agents_below() -> None:
    tasks = [task("task/.", None), task("task/a", "task/."), task("task/a/b", "task/a")]
    costs = Costs([*tasks, agent("a", 7_000, "0.50"), agent("a/b", 27_000, "27.26")])
    assert [costs.line(one) for one in tasks] == ["$27.76, 34k tokens", "$27.76, 34k tokens", "$27.26, 27k tokens"]
    assert Costs(tasks).line(tasks[0]) == ""


def test_unknown_cost_is_not_shown_as_zero() -> None:
    root = task("task/.", None, usd=usd("20", "0.53", unknown=2))
    said(Costs([root]).line(root))


def test_every_list_of_tasks_shows_their_cost() -> None:
    costs = Costs(PLAN)
    sheet = object_tables.object_tables_text([ROOT, CHILD], now=0, costs=costs)
    assert "BUDGET" in sheet
    said_in(sheet)
    root = Resource(ROOT.address, ROOT.uid, 1, {**ROOT.spec, "children": ["task/a"]}, ROOT.status)
    rows = task_tree.tree_rows({"task/.": root, "task/a": CHILD}, now=0, costs=costs)
    assert "$0.31 of $4.00" in task_tree.tree_lines(rows)[0]
    lines = object_details.object_text(ROOT, [], costs=costs, now=0).splitlines()
    said_in(lines)
    said_in(lines)
