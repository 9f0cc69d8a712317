"""Fixtures that every test may use. Others stand next to their tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag for every golden folder: expected results are written anew, for a person to look through."""
    parser.addoption("--update-golden", action="store_true", help="rewrite expected results in tests/golden")
    parser.addoption("--update-docs", action="store_true", help="rewrite docs/verbs from what the verbs print")


@pytest.fixture
def is_updating(request: pytest.FixtureRequest) -> bool:
    """Whether golden results are to be written rather than compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def is_updating_docs(request: pytest.FixtureRequest) -> bool:
    """Whether the pages of the verbs are to be written rather than compared."""
    return bool(request.config.getoption("--update-docs"))


@pytest.fixture
def anyio_backend() -> str:
    """Real-time async tests run on asyncio, as the product does; simulations ask for trio themselves."""
    return "asyncio"
