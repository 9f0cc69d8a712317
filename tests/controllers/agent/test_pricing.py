"""Costs from tokens: the most that a request can cost, the bill, and unknown prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from planloop.controllers.agent.models import catalog
from planloop.controllers.agent.models.catalog import UnpricedModel
from planloop.schemas import limits
from planloop.schemas.objects.budget import Cost
from tests.product import JsonObject, MemoryView, NoModelClient, Resource, TokenPrice, TokenUsage, Uid

PRICE = TokenPrice(Decimal(2), Decimal(8), Decimal("0.5"))


def test_the_worst_case_is_the_whole_prompt_uncached_and_the_longest_answer() -> None:
    assert catalog.worst_cost(PRICE, 10_000, 1_000) == Cost(tokens=11_000, usd=Decimal("0.028"), calls=1)
    assert catalog.worst_cost(None, 10_000, 1_000).usd is None


def test_the_bill_is_the_providers_count_with_what_was_cached_cheaper() -> None:
    usage = TokenUsage(10_000, 100, tokens_cached=8_000)
    assert catalog.request_cost(PRICE, usage) == Cost(tokens=10_100, usd=Decimal("0.0088"), calls=1)


@pytest.mark.parametrize(
    ("policy", "is_bounded", "is_refused"),
    [("refuse", True, True), ("refuse", False, False), ("allow", True, False), ("estimate", False, False)],
)
def test_unknown_price_is_refused_only_with_a_money_budget_and_the_default_policy(
    policy: str, is_bounded: bool, is_refused: bool
) -> None:
    found = catalog.price_for_budget(NoModelClient(), "openai/new-one", policy, is_bounded=is_bounded)
    assert found == (UnpricedModel("openai/new-one") if is_refused else None)


def test_refusal_names_the_way_out() -> None:
    assert UnpricedModel("x/y").unblocks == (
        "state its price: models: {x/y: {price: {in: …, out: …}}} (dollars per million tokens)",
        "plan patch . limits.unknown-price=estimate",
        "plan patch . limits.unknown-price=allow",
    )


def test_estimated_price_is_the_highest_of_the_provider_or_of_all() -> None:
    known = {name: row.price for name, row in catalog.price_table().items() if row.price is not None}
    of_provider = [price for name, price in known.items() if name.startswith("openai/")]
    found = catalog.price_for_budget(NoModelClient(), "openai/new-one", "estimate", is_bounded=True)
    assert isinstance(found, TokenPrice)
    assert found.usd_in + found.usd_out == max(one.usd_in + one.usd_out for one in of_provider)
    other = catalog.price_for_budget(NoModelClient(), "nobody/new-one", "estimate", is_bounded=True)
    assert isinstance(other, TokenPrice)
    assert other.usd_in + other.usd_out == max(one.usd_in + one.usd_out for one in known.values())


@pytest.mark.parametrize(("limits_", "policy"), [({}, "refuse"), ({"unknown-price": "allow"}, "allow")])
def test_the_policy_is_the_plans(limits_: JsonObject, policy: str) -> None:
    view = MemoryView([Resource("plan/p", Uid("u"), 1, {"limits": limits_}, {})])
    assert catalog.unknown_price_policy(view, "plan/p") == policy
    assert catalog.unknown_price_policy(view, "plan/none") == "refuse"


@pytest.mark.parametrize(
    ("left", "output"),
    [
        ({}, 4_000),
        ({"tokens": 12_000.0}, 2_000),
        ({"usd": 0.028}, 1_000),
        ({"tokens": 12_000.0, "usd": 0.028}, 1_000),
        ({"tokens": 10_100.0}, limits.OUTPUT_TOKENS_MIN),
    ],
)
def test_answer_is_cut_to_the_remaining_budget(left: dict[str, float], output: int) -> None:
    assert catalog.affordable_output_tokens(left, PRICE, 10_000, 4_000) == output


def test_count_that_differs_too_much_from_ours_is_reported() -> None:
    assert not catalog.is_count_off(1_000, TokenUsage(1_200, 1))
    assert catalog.is_count_off(1_000, TokenUsage(1_500, 1))
    assert not catalog.is_count_off(1_000, TokenUsage(9_000, 1, is_estimated=True))
