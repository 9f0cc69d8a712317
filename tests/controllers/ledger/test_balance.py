"""Ledgers balance at every revision of any history: random trees, requests, ends, removals, edits and crashes."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from planloop.schemas.objects.budget import Budget, Cost, accounts_of
from tests import sets
from tests.controllers.ledger.bank import GROUP, Bank, Request, thinks
from tests.controllers.task.harness import spec
from tests.product import ENDED, Resource, TaskSpec

PLACES = ("a", "b", "a/x", "a/y", "b/x", "a/x/u", "a/x/v")
UNITS = ("tokens", "usd", "calls", "turns", "time_s")

amounts: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries(
    {},
    optional={
        "tokens": st.integers(0, 60_000),
        "usd": st.decimals(0, 30, places=2),
        "calls": st.integers(0, 30),
        "turns": st.integers(0, 30),
        "time_s": st.integers(0, 300),
    },
)
budgets: st.SearchStrategy[dict[str, object]] = st.one_of(st.just({}), amounts)
costs = st.builds(
    Cost,
    tokens=st.integers(0, 9_000),
    usd=st.one_of(st.none(), st.decimals(0, 3, places=4)),
    time_s=st.floats(0, 9).map(lambda s: round(s, 3)),
    calls=st.integers(0, 3),
    turns=st.integers(0, 1),
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, TaskSpec]:
    names = [name for name in PLACES if draw(st.booleans())]
    names = [name for name in names if all(above in names for above in _above(name))]
    return {".": _task(draw, "."), **{name: _task(draw, name) for name in names}}


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _task(draw: st.DrawFn, name: str) -> TaskSpec:
    return _made(name, draw(budgets), not draw(st.integers(0, 3)))


def _made(name: str, units: dict[str, object], is_group: bool) -> TaskSpec:
    bound = Budget(**units)  # type: ignore[arg-type]
    return spec(GROUP, budget=bound) if is_group else thinks(name, budget=bound)


def test_a_task_at_the_old_place_of_one_that_moved_is_another_in_the_books() -> None:
    bank = Bank()
    bank.edit({".": spec(GROUP), "a": spec(GROUP), "a/y": thinks("a/y")})
    bank.settle()
    bank.move("a/y", "a/x")
    bank.edit({"a/y": thinks("a/y")})
    bank.budget("a/x", tokens=0)
    bank.budget(".", tokens=0)

    bank.settle()

    assert bank["task/a/x"].uid != bank["task/a/y"].uid


class Histories(RuleBasedStateMachine):
    """A bank to which anything may happen in any order. Its `fold` looks at every ledger after every record."""

    bank: Bank

    @initialize(tree=trees())
    def open(self, tree: dict[str, TaskSpec]) -> None:
        self.bank = Bank()
        self.bank.edit(dict(tree))
        self.bank.settle()

    def _pick(self, names: list[str], index: int) -> str | None:
        return sorted(names)[index % len(names)] if names else None

    def _request(self, index: int) -> Request | None:
        op = self._pick(list(self.bank.requests), index)
        return None if op is None else self.bank.requests[op]

    @rule(index=st.integers(0, 9), worst=costs, is_last=st.booleans())
    def an_agent_asks(self, index: int, worst: Cost, is_last: bool) -> None:
        if name := self._pick(self.bank.working(), index):
            self.bank.ask(name, worst, is_last=is_last)

    @rule(index=st.integers(0, 9), cost=costs)
    def a_request_ends(self, index: int, cost: Cost) -> None:
        if request := self._request(index):
            self.bank.answer(request, cost)

    @rule(index=st.integers(0, 9), kind=st.sampled_from(("done", "fail")))
    def an_agent_claims(self, index: int, kind: str) -> None:
        if name := self._pick(self.bank.working(), index):
            self.bank.claim(name, kind)

    @rule(repeats=st.lists(st.booleans(), min_size=1, max_size=4))
    def the_owner_crashes(self, repeats: list[bool]) -> None:
        """Requests under way were lost: each is made again, or called off."""
        self.bank.take_over()
        for place, request in enumerate(list(self.bank.requests.values())):
            if request.op not in self.bank.requests:
                continue
            if repeats[place % len(repeats)]:
                self.bank.repeat(request)
            else:
                self.bank.call_off(request.agent)

    @rule(name=st.sampled_from((".", *PLACES)), units=budgets, is_at_once=st.booleans())
    def a_budget_is_edited(self, name: str, units: dict[str, object], is_at_once: bool) -> None:
        if f"task/{name}" in self.bank.specs:
            self.bank.budget(name, **units)
            if is_at_once:
                self.bank.settle()

    @rule(name=st.sampled_from(PLACES))
    def a_task_is_removed(self, name: str) -> None:
        if f"task/{name}" in self.bank.specs:
            self.bank.edit({name: None})
            self.bank.settle()

    @rule(name=st.sampled_from(PLACES), units=budgets, is_group=st.booleans())
    def a_task_is_added(self, name: str, units: dict[str, object], is_group: bool) -> None:
        known = self.bank.specs
        if f"task/{name}" not in known and all(f"task/{above}" in known for above in _above(name)):
            self.bank.settle()
            if self.bank.view.get(f"task/{name}") is None:
                self.bank.edit({name: _made(name, units, is_group)})

    @rule(old=st.sampled_from(PLACES), new=st.sampled_from(PLACES))
    def a_task_moves(self, old: str, new: str) -> None:
        """With its requests under way, out of the reach of who set something aside for them, or not."""
        known = {address.removeprefix("task/") for address in self.bank.specs}
        is_leaf = not any(name.startswith(f"{old}/") for name in known)
        is_agent = old in known and self.bank.view.get(f"agent/{old}") is not None
        if not (is_agent and is_leaf) or new in known or not set(_above(new)) <= known - {old}:
            return
        self.bank.settle()
        if self.bank.view.get(f"task/{new}") is None and self.bank.view.get(f"agent/{old}") is not None:
            self.bank.move(old, new)

    @rule(name=st.sampled_from(PLACES), goal=st.integers(0, 3))
    def a_goal_is_edited(self, name: str, goal: int) -> None:
        """What had ended begins again."""
        if f"task/{name}" in self.bank.specs:
            self.bank.change(name, goal=f"goal {goal}")
            self.bank.settle()

    @rule(name=st.sampled_from(PLACES), cancel=st.booleans())
    def a_task_is_cancelled_or_not(self, name: str, cancel: bool) -> None:
        if f"task/{name}" in self.bank.specs:
            self.bank.change(name, cancel=cancel)
            self.bank.settle()

    @rule(name=st.sampled_from((".", *PLACES)))
    def a_task_is_looked_at(self, name: str) -> None:
        if self.bank.view.get(f"task/{name}") is not None:
            self.bank.step(name)

    @invariant()
    def nothing_is_reserved_for_nobody(self) -> None:
        if not hasattr(self, "bank"):
            return
        under_way = {(self.bank.agent_of(one.agent).uid, op) for op, one in self.bank.requests.items()}
        for task in self.bank.view.list("task"):
            for account in accounts_of(task.status).values():
                found = {(agent, op) for agent, requests in account.reserved.items() for op in requests}
                assert found <= under_way, f"{task.address} keeps {found - under_way} for nobody"

    def teardown(self) -> None:
        """In the end everything ends, and then nothing is granted or reserved any more."""
        if not hasattr(self, "bank"):
            return
        self.bank.settle()
        for request in list(self.bank.requests.values()):
            if request.op in self.bank.requests:
                self.bank.answer(request, Cost())
        for _ in range(3 * len(PLACES)):
            working = self.bank.working()
            if not working:
                break
            self.bank.claim(sorted(working, key=len)[-1], "fail")
        for task in self.bank.view.list("task"):
            for unit, account in accounts_of(task.status).items():
                held = [one for one in account.granted if not self._may_hold(one)]
                assert not account.reserved and not held, f"{task.address} {unit}: {account}"

    def _may_hold(self, uid: str) -> bool:
        task = next(one for one in self.bank.view.list("task") if one.uid == uid)
        return not _is_over(self.bank, task)


def _is_over(bank: Bank, task: Resource) -> bool:
    if task.state not in ENDED:
        return False
    below = [one for one in bank.view.list("task") if one.spec["parent"] == task.address]
    return all(_is_over(bank, one) for one in below)


@pytest.mark.sweep
class TestHistories(Histories.TestCase):  # type: ignore[valid-type, misc]
    """Any history."""

    settings = settings(max_examples=sets.examples(200, 40), stateful_step_count=30)
