"""What went wrong with budgets elsewhere, each by its name: none of it can happen here."""

from __future__ import annotations

from decimal import Decimal

from planloop.controllers.agent import budget
from planloop.schemas.objects.budget import Budget, Cost
from tests.controllers.ledger.balancing import used_below
from tests.controllers.ledger.bank import GROUP, Bank, thinks
from tests.controllers.task.harness import spec


def tokens(amount: int) -> Cost:
    return Cost(tokens=amount)


def test_a_stale_pool_read_does_not_let_two_agents_spend_the_same_rest() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=100)), a=thinks("a"), b=thinks("b"))
    first = bank.ask("a", tokens(60))
    assert first is not None
    assert bank.ask("b", tokens(60)) is None, "what is under way is not there for others"
    bank.answer(first, tokens(30))
    assert bank.ask("b", tokens(60)) is not None


def test_no_refund_is_made_while_children_still_run() -> None:
    bank = Bank(
        root=spec(GROUP, budget=Budget(tokens=100_000)),
        a=thinks("a", budget=Budget(tokens=50_000)),
        a_x=thinks("a/x", budget=Budget(tokens=20_000)),
        b=thinks("b"),
    )
    bank.claim("a", "fail")
    assert bank.state("a") == "failed"
    assert bank.left(".", "tokens") == 50_000, "its child still runs on what it granted"
    bank.claim("a/x")
    assert bank.left(".", "tokens") == 100_000
    assert bank.account("a", "tokens")["closed"] is True


def test_a_grandchild_that_ends_late_gives_back_the_grants_of_all_above_it() -> None:
    bank = Bank(
        root=spec(GROUP, budget=Budget(tokens=100_000)),
        a=thinks("a", budget=Budget(tokens=50_000)),
        a_b=thinks("a/b"),
        a_b_c=thinks("a/b/c"),
        keep=thinks("keep"),
    )
    bank.claim("a", "fail")
    bank.claim("a/b", "fail")
    assert bank.left(".", "tokens") == 50_000
    bank.claim("a/b/c")
    assert bank.left(".", "tokens") == 100_000


def test_a_child_cannot_switch_off_its_cap_by_dropping_its_own_budget() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=100)), a=thinks("a", budget=Budget(tokens=50)))
    request = bank.ask("a", tokens(20))
    assert request is not None
    bank.budget("a")
    bank.settle()
    assert bank.left("a", "tokens") == 80, "it draws from the plan, and what it reserved is reserved there"
    bank.answer(request, tokens(20))
    assert bank.ask("a", tokens(90)) is None


def test_resuming_does_not_shrink_the_grant() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=100_000)), a=thinks("a", budget=Budget(tokens=40_000)))
    kept = bank.left("a", "tokens")
    bank.change("a", pause=True)
    bank.settle()
    bank.change("a", pause=False)
    bank.settle()
    assert bank.left("a", "tokens") == kept
    bank.claim("a", "fail")
    assert bank.left(".", "tokens") == 100_000
    bank.change("a", goal="another")
    bank.settle()
    assert bank.left("a", "tokens") == kept, "a restarted task gets a new grant"


def test_the_reserve_for_the_last_report_is_not_spent_by_descendants() -> None:
    bank = Bank(root=thinks(".", budget=Budget(tokens=100_000)), a=thinks("a"), b=thinks("b"))
    while bank.left("a", "tokens") >= 10_000:
        request = bank.ask("a", tokens(10_000))
        assert request is not None
        bank.answer(request, tokens(10_000))
    assert bank.ask("b", tokens(10_000)) is None
    assert bank.ask("b", tokens(10_000), is_last=True) is None, "a child has no hand over of its own to draw on"
    assert bank.account(".", "tokens")["handover"] == 5_000
    rest = int(bank.left(".", "tokens"))
    assert bank.ask(".", tokens(rest + 5_000), is_last=True) is not None


def test_the_cost_of_a_task_is_shown_with_its_childrens() -> None:
    bank = Bank(
        root=spec(GROUP, budget=Budget(usd=Decimal(10))),
        a=thinks("a", budget=Budget(usd=Decimal(5))),
        a_x=thinks("a/x"),
        a_y=thinks("a/y", budget=Budget(usd=Decimal(2))),
    )
    for name in ("a", "a/x", "a/y"):
        request = bank.ask(name, Cost(usd=Decimal("0.5")))
        assert request is not None
        bank.answer(request, Cost(usd=Decimal("0.4")))
    assert used_below(bank.view, bank["task/."], "usd") == Decimal("1.2")
    bank.claim("a/y")
    assert used_below(bank.view, bank["task/."], "usd") == Decimal("1.2")


def test_every_unit_of_a_budget_is_enforced() -> None:
    small = {"tokens": 3, "usd": Decimal(3), "time_s": 3.0, "calls": 3, "turns": 3}
    for unit, bound in small.items():
        bank = Bank(root=spec(GROUP, budget=Budget(**{unit: bound})), a=thinks("a"))  # type: ignore[arg-type]
        request = bank.ask("a", Cost())
        assert request is not None
        bank.answer(request, Cost(**{unit: bound}))  # type: ignore[arg-type]
        left = budget.left_of_task(bank.view, "task/a")
        assert budget.spent_units(left) == (unit,)


def test_time_in_a_queue_is_not_counted() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(time_s=10)), a=spec("x"))
    bank.now += 1_000
    bank.begin("a")
    bank.end("a", took_s=4)
    assert bank.account(".", "time_s")["spent"] == 4
