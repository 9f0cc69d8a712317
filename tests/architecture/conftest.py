"""The syntax trees that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.architecture.tree import parsed, python_files


@pytest.fixture(scope="session")
def parsed_once() -> None:
    """Parse every file before the first test: the time belongs to all of them, not to the one that comes first."""
    for file in python_files():
        parsed(file)
