"""Each test has a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
