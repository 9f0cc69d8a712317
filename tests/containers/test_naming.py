"""Names in an engine: those that it takes, whatever the plan is called."""

from __future__ import annotations

import pytest

from containers.naming import Names


@pytest.mark.parametrize(
    ("plan", "begins"),
    [("web.chat-1", "web.chat-1-db-"), ("grüße", "gre-db-"), ("_x", "x-db-"), ("日本", "plan-db-")],
)
def test_a_plan_of_any_name_has_names_that_engines_take(plan: str, begins: str) -> None:
    name = Names(plan, "label").container("db")
    assert name.startswith(begins)
    assert name.isascii()
    assert name != Names(plan, "another").container("db")
