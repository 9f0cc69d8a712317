"""How far spending may pass a limit: by no more than one call of each worker; and whose reserve is whose."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.schemas.objects.budget import ZERO, Budget, Cost, accounts_of
from tests import sets
from tests.controllers.ledger.balancing import used_below
from tests.controllers.ledger.bank import GROUP, Bank, thinks
from tests.controllers.task.harness import spec
from tests.golden_text import said
from tests.product import TaskSpec

PLACES = ("a", "b", "a/x", "a/y", "b/x", "a/x/u")
BOUND = 100_000
EXCESS_MAX = 2_500


@st.composite
def trees(draw: st.DrawFn) -> dict[str, TaskSpec]:
    """A plan with a bound on tokens; some of its tasks have grants of it, larger than there is or not."""
    names = [name for name in PLACES if draw(st.booleans())]
    names = [name for name in names if "/" not in name or name.rpartition("/")[0] in names]
    root = thinks(".", budget=Budget(tokens=BOUND)) if draw(st.booleans()) else spec(GROUP, budget=Budget(tokens=BOUND))
    grants = st.one_of(st.none(), st.integers(1_000, BOUND))
    return {".": root, **{name: thinks(name, budget=Budget(tokens=draw(grants))) for name in names}}


happenings = st.lists(
    st.tuples(
        st.sampled_from(("ask", "ask", "ask", "answer", "answer", "last", "claim", "crash", "goal", "remove")),
        st.integers(0, 9),
        st.integers(100, 9_000),
        st.integers(0, EXCESS_MAX),
    ),
    max_size=80,
)


@pytest.mark.sweep
@settings(max_examples=sets.examples(120, 30))
@given(trees(), happenings)
def test_spending_passes_a_limit_by_no_more_than_one_call_of_each_worker(
    tree: dict[str, TaskSpec], events: list[tuple[str, int, int, int]]
) -> None:
    bank, over, lasts = Bank(), dict[str, int](), False
    bank.edit(dict(tree))
    bank.settle()
    for what, index, worst, excess in events:
        lasts = lasts or what == "last"
        _happen(bank, over, (what, index, worst, excess))
        used = used_below(bank.view, bank["task/."], "tokens")
        assert used == bank.truly_used("tokens"), "the whole subtree's cost, with ended and removed agents"
        assert used <= BOUND + sum(over.values())
        if bank["task/."].spec["work"]["kind"] == "agent":
            kept = int(str(bank.account(".", "tokens")["handover"]))
            assert lasts or kept >= BOUND // 20, "no descendant has used it"


def _happen(bank: Bank, over: dict[str, int], event: tuple[str, int, int, int]) -> None:
    what, index, worst, excess = event
    working, requests = sorted(bank.working()), list(bank.requests.values())
    busy = {one.agent for one in requests}  # A worker makes one request at a time, which is what the bound counts.
    name = working[index % len(working)] if working else ""
    match what:
        case "ask" if name and name not in busy:
            bank.ask(name, Cost(tokens=worst))
        case "last" if "." in working and "." not in busy:
            # What is kept may be less than the worst case: then this is the one call that passes the limit.
            if bank.ask(".", Cost(tokens=worst), is_last=True):
                over["."] = max(over.get(".", 0), worst + EXCESS_MAX)
        case "answer" if requests:
            request = requests[index % len(requests)]
            over[request.agent] = max(over.get(request.agent, 0), excess)
            bank.answer(request, Cost(tokens=request.worst.tokens + excess))
        case "claim" if name:
            bank.claim(name, "fail" if worst % 2 else "done")
        case _:
            _happen_above(bank, what, index, worst)


def _happen_above(bank: Bank, what: str, index: int, number: int) -> None:
    """What people and the machine do."""
    paths = sorted(address.removeprefix("task/") for address in bank.specs if address != "task/.")
    name = paths[index % len(paths)] if paths else ""
    match what:
        case "crash":
            bank.take_over()
            for request in list(bank.requests.values()):
                if request.op in bank.requests:
                    bank.repeat(request)
        case "goal" if name:
            bank.change(name, goal=f"goal {number}")
            bank.settle()
        case "remove" if name:
            bank.edit({name: None})
            bank.settle()
        case _:
            pass


def test_parent_cannot_grant_its_reserve_for_its_last_turn() -> None:
    bank = Bank(root=thinks(".", budget=Budget(usd=Decimal(10))), a=thinks("a", budget=Budget(usd=Decimal(10))))
    assert bank.says("a") == "blocked NoBudgetLeft"
    bank.budget("a", usd="9.5")
    bank.settle()
    assert bank.left("a", "usd") == 9.5 - 0.475
    assert bank.left(".", "usd") == 0


def test_child_without_enough_budget_waits_with_a_fix_and_starts_when_there_is() -> None:
    bank = Bank(
        root=spec(GROUP, budget=Budget(usd=Decimal(10))),
        a=thinks("a", budget=Budget(usd=Decimal(7))),
        b=thinks("b", budget=Budget(usd=Decimal(6))),
    )
    told = bank["task/b"].status["conditions"]["Ready"]
    assert (bank.state("b"), told["reason"]) == ("blocked", "NoBudgetLeft")
    said(told["message"])
    said(told["unblocks"])
    assert "ledger" not in bank["task/b"].status, "never silently less"
    before = bank["task/."].signal
    bank.claim("a")
    assert bank["task/."].signal != before, "those who wait are woken"
    assert bank.working() == ["b"]


def test_impossible_grant_is_reported_to_those_that_wait_for_the_task() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=10)), a=thinks("a", budget=Budget(tokens=11)))
    assert bank["task/a"].status["signal"]["stuck"]


def test_impossible_raise_keeps_the_old_bound_and_is_reported() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=10_000)), a=thinks("a", budget=Budget(tokens=8_000)))
    bank.budget("a", tokens=20_000)
    bank.settle()
    told = bank["task/a"].status["conditions"]["BudgetGranted"]
    said(told["message"])
    assert bank.account("a", "tokens")["bound"] == 8_000
    bank.budget(".", tokens=30_000)
    bank.settle()
    assert bank.account("a", "tokens")["bound"] == 20_000
    assert "BudgetGranted" not in bank["task/a"].status["conditions"]


def test_lowering_a_bound_below_usage_leaves_nothing_and_returns_what_is_left() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=10_000)), a=thinks("a", budget=Budget(tokens=8_000)))
    request = bank.ask("a", Cost(tokens=3_000))
    assert request is not None
    bank.answer(request, Cost(tokens=3_000))
    bank.budget("a", tokens=1_000)
    bank.settle()
    assert bank.left("a", "tokens") < 0
    assert bank.left(".", "tokens") == 7_000, "what is spent is gone"


def test_lowering_the_plans_bound_stops_holders_of_its_grants() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=10_000)), a=thinks("a", budget=Budget(tokens=8_000)))
    bank.budget(".", tokens=2_000)
    bank.settle()
    assert bank.left("a", "tokens") < 0
    assert bank.ask("a", Cost(tokens=1)) is None


def test_unknown_price_is_shown_as_unknown_and_not_as_zero() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(usd=Decimal(10))), a=thinks("a"))
    request = bank.ask("a", Cost(tokens=5, usd=None))
    assert request is not None
    bank.answer(request, Cost(tokens=5, usd=None))
    assert bank.account(".", "usd")["unknown"] == 1
    assert bank.account(".", "usd")["spent"] == "0"


def test_a_bound_at_the_top_counts_for_the_life_of_the_plan() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=10_000)), a=thinks("a"))
    request = bank.ask("a", Cost(tokens=4_000))
    assert request is not None
    bank.answer(request, Cost(tokens=4_000))
    bank.claim("a")
    assert bank.state(".") == "done"
    bank.change("a", goal="another")
    bank.settle()
    assert bank.left("a", "tokens") == 6_000


def test_a_task_that_failed_for_good_does_not_try_again_on_a_new_grant_of_retries() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(retries=5)), a=spec("x", budget=Budget(retries=1), retries=9))
    for _ in range(2):
        bank.now += 100
        bank.settle()
        bank.run("a", code=1)
    bank.settle()
    assert (bank.state("a"), bank.left(".", "retries")) == ("failed", 4)


def test_a_task_that_moves_takes_its_grant_along() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=10_000)), a=thinks("a", budget=Budget(tokens=4_000)))
    spent = bank.ask("a", Cost(tokens=1_000))
    assert spent is not None
    bank.answer(spent, Cost(tokens=1_000))
    bank.move("a", "c")
    assert bank.left("c", "tokens") == 4_000 - 1_000 - 2_000
    bank.claim("c")
    assert bank.left(".", "tokens") == 9_000
    assert bank["task/."].status["ledger"]["tokens"]["spent"] == int(ZERO) + 1_000


UNITS = ("tokens", "calls")


def teams() -> Bank:
    """Two teams with budgets of their own; `a/x` works for the first and has none itself."""
    team = {name: spec(GROUP, budget=Budget(tokens=4_000, calls=9)) for name in ("a", "b")}
    return Bank(root=spec(GROUP, budget=Budget(tokens=10_000)), **team, **{"a/x": thinks("a/x")})


def test_a_request_of_a_task_that_moves_is_settled_where_it_was_set_aside() -> None:
    bank = teams()
    asked = bank.ask("a/x", Cost(tokens=1_000, calls=1))
    assert asked is not None
    bank.move("a/x", "b/x")
    assert bank.account("a", "tokens")["left"] == 3_000
    bank.answer(asked, Cost(tokens=400, calls=1))
    assert [bank.account("a", unit)["spent"] for unit in UNITS] == [400, 1]
    assert bank.account("a", "tokens")["left"] == 3_600 and "reserved" not in bank.account("a", "tokens")
    assert bank.account("b", "tokens")["spent"] == 0
    again = bank.ask("b/x", Cost(tokens=700))
    assert again is not None
    bank.answer(again, Cost(tokens=700))
    assert bank.account("b", "tokens")["spent"] == 700
    assert "held" not in bank.agent_of("b/x").status


@pytest.mark.parametrize("how", ["called off", "made again", "withdrawn", "cost more"])
def test_moved_task_leaves_no_reservation_at_its_old_place(how: str) -> None:
    bank = teams()
    asked = bank.ask("a/x", Cost(tokens=3_900))
    assert asked is not None
    bank.move("a/x", "b/x")
    match how:
        case "called off":
            bank.call_off("b/x")
        case "made again":
            again = bank.repeat(asked)
            assert again is not None and bank.account("b", "tokens")["left"] == 100
            bank.answer(again, Cost(tokens=1))
        case "withdrawn":
            bank.budget("a")
            bank.settle()
            bank.answer(asked, Cost(tokens=1))
        case _:
            bank.answer(asked, Cost(tokens=5_000))
            assert bank.account("a", "tokens")["left"] == -1_000
            assert bank.left("b/x", "tokens") == 4_000
    assert not any(account.reserved for task in bank.view.list("task") for account in accounts_of(task.status).values())


def test_a_unit_that_is_added_to_the_budget_of_running_work_counts_from_then_on() -> None:
    bank = Bank(root=spec(GROUP, budget=Budget(tokens=10_000)), a=thinks("a"))
    before, under_way = bank.ask("a", Cost(tokens=900)), bank.ask("a", Cost(tokens=500))
    assert before is not None and under_way is not None
    bank.answer(before, Cost(tokens=900))
    bank.budget("a", tokens=2_000)
    bank.settle()
    assert bank.account("a", "tokens")["spent"] == 0
    bank.answer(under_way, Cost(tokens=500))
    assert bank.account("a", "tokens")["spent"] == 0, "it was set aside before, so it counts above"
    assert bank.account(".", "tokens")["spent"] == 1_400
    later = bank.ask("a", Cost(tokens=300))
    assert later is not None
    bank.answer(later, Cost(tokens=300))
    assert bank.account("a", "tokens")["spent"] == 300
