"""Hostile plans: thousands of errors, endless chains, cycles of every kind. Each gets an error."""

from __future__ import annotations

import pytest

from planloop.compiler.plan_compiler import check_document
from tests.compiler.compiling import SOURCES, codes
from tests.product import Json, JsonObject


def _lines(count: int, line: str) -> str:
    return "".join(line.format(n=n, next=n + 1) + "\n" for n in range(count))


MANY_AGENTS = "agents:\n" + _lines(2000, "  a{n}: {{run: x}}")
RING_OF_TOOLSETS = "toolsets:\n" + _lines(40, "  s{n}: [s{next}, s0, s{next}]") + "  s40: [read]\n"
RING_OF_CONTAINERS = _lines(3000, "  a{n}: {{image: x, needs: [a{next}]}}") + "  a3000: {image: x, needs: [a0]}\n"
RING_OF_TASKS = _lines(4000, "  t{n}: {{run: x, needs: [t{next}]}}") + "  t4000: {run: x, needs: [t0]}\n"
HOSTILE = {
    "unknown fields": ("tasks:\n" + _lines(5000, "  t{n}: {{run: x, gaol{n}: z}}"), "P0201"),
    "unknown tasks": ("tasks:\n" + _lines(3000, "  t{n}: {{run: x, needs: [zz{n}]}}"), "P0204"),
    "unknown agents": (MANY_AGENTS + "tasks:\n" + _lines(2000, "  t{n}: {{goal: x, agent: b{n}}}"), "P0203"),
    "prototypes": ("run: x\nagents:\n" + _lines(3000, "  a{n}: {{extends: a{next}}}") + "  a3000: {run: x}\n", "P0224"),
    "toolsets": ("agent: {run: x, tools: [s0]}\n" + RING_OF_TOOLSETS, "P0215"),
    "locks": ("run: x\nlocks:\n" + _lines(300, "  - f{n}"), "P0212"),
    "containers": ("run: x\ncontainers:\n" + RING_OF_CONTAINERS, "P0222"),
    "needs": ("tasks:\n" + RING_OF_TASKS, "P0222"),
}


@pytest.mark.sweep(keep=3)
@pytest.mark.parametrize("name", HOSTILE)
def test_law_11_plan_full_of_errors_is_reported_in_bounded_time(name: str) -> None:
    text, code = HOSTILE[name]
    assert code in codes(text)


def test_law_11_a_chain_of_needs_may_be_as_long_as_a_plan() -> None:
    assert codes("tasks:\n" + _lines(4000, "  t{n}: {{run: x, needs: [t{next}]}}") + "  t4000: {run: x}\n") == []


def test_law_11_a_patched_document_is_as_bounded_as_a_text() -> None:
    deep: Json = "x"
    for _ in range(10_000):
        deep = [deep]
    wide: JsonObject = {"plan": "p", "run": "x", "agents": {"a": {"run": "x", "options": {"x": [1] * 100_001}}}}
    assert _codes({"plan": "p", "goal": deep}) == ["P0111"]
    assert _codes(wide) == ["P0112"]


def _codes(document: JsonObject) -> list[str]:
    return [one.code for one in check_document(document, sources=SOURCES).diagnostics]
