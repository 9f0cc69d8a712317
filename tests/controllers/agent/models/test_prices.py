"""Prices and windows of models: the plan first, then the dated table, and no guesses."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from planloop.controllers.agent.models import catalog
from planloop.schemas import limits
from planloop.schemas.objects.model import ModelTable
from tests.product import TokenPrice, TokenUsage


def table(**rows: dict[str, Any]) -> ModelTable:
    return ModelTable(tuple(rows.items()))


def of(model: str, **rows: dict[str, Any]) -> TokenPrice:
    price = catalog.stated_price(model, table(**rows))
    assert price is not None
    return price


def test_every_row_has_a_source_a_date_and_sane_amounts() -> None:
    assert catalog.price_table()
    for name, row in catalog.price_table().items():
        assert row.price is not None, name
        assert row.price.source, name
        assert len(row.price.date) == len("2026-01-31"), name
        assert 0 <= row.price.usd_cached <= row.price.usd_in <= 1_000, name
        assert row.window is None or row.window >= 1_024, name


def test_unstated_price_is_unknown() -> None:
    assert catalog.stated_price("groq/never-heard-of", ModelTable()) is None
    assert catalog.stated_price("x@https://example.com/v1", ModelTable()) is None
    assert catalog.stated_price("house/big", table(house={"price": {"in": 1}})) is None


@pytest.mark.parametrize("model", ["ollama/qwen3:8b", "vllm/x", "llamacpp/x", "x@http://127.0.0.1:8000/v1"])
def test_a_server_of_ones_own_costs_nothing(model: str) -> None:
    assert of(model).cost(TokenUsage(1_000_000, 1_000_000)) == 0


def test_server_that_needs_a_key_is_not_a_local_one() -> None:
    assert catalog.stated_price("vllm/x", table(vllm={"url": "https://hosted/v1", "key": "env:K"})) is None


def test_a_server_that_the_plan_gives_a_name_costs_nothing_on_this_machine() -> None:
    assert of("gpu/x", gpu={"url": "http://127.0.0.1:8000/v1"}).cost(TokenUsage(1_000_000, 1_000_000)) == 0
    assert catalog.stated_price("gpu/x", table(gpu={"url": "http://127.0.0.1:8000/v1", "key": "env:K"})) is None
    assert catalog.stated_price("gpu/x", table(gpu={"url": "http://gpu.local:8000/v1"})) is None


def test_price_of_the_plan_takes_precedence() -> None:
    price = of("openai/gpt-4o", openai={"price": {"in": 9, "out": 10}})

    assert price == TokenPrice(Decimal(9), Decimal(10), Decimal(9), source="the plan")


def test_price_missing_in_the_plan_is_the_tables() -> None:
    known = of("openai/gpt-4o")

    assert of("openai/gpt-4o", openai={"price": {"out": 99}}) == TokenPrice(
        known.usd_in, Decimal(99), known.usd_cached, source="the plan"
    )


def test_cached_tokens_without_a_price_cost_the_normal_price() -> None:
    price = of("house/big", house={"price": {"in": 2, "out": 4}})

    assert price.cost(TokenUsage(1_000_000, 500_000, tokens_cached=400_000)) == 4


def test_a_recorded_model_costs_and_holds_what_the_model_does() -> None:
    plain, taped = "openai/gpt-4o", "record/tape.jsonl@openai/gpt-4o"

    assert of(taped) == of(plain)
    assert catalog.context_window(taped, ModelTable()) == catalog.context_window(plain, ModelTable()) == 128_000


def test_windows_and_replies_have_defaults_that_the_plan_can_set() -> None:
    stated = table(house={"window": 4_096, "output": 512})

    assert (catalog.context_window("house/x", stated), catalog.output_max("house/x", stated)) == (4_096, 512)
    assert catalog.context_window("house/x", ModelTable()) == limits.MODEL_WINDOW_TOKENS
    assert catalog.output_max("house/x", ModelTable()) == limits.MODEL_OUTPUT_TOKENS


def test_a_small_window_is_not_filled_by_the_reply() -> None:
    assert catalog.output_max("house/x", table(house={"window": 4_096})) == 2_048
