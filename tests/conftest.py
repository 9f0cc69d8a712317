"""Fixtures that every test may use. Others stand next to their tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Real-time async tests run on asyncio, as the product does; simulations ask for trio themselves."""
    return "asyncio"
