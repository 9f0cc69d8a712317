"""One plan that has run to its end, and a gateway to it that many tests ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.folder import Folder
from tests.server.gateway.gateways import Served, served

PLAN = "plan: demo\ngoal: a greeting\ntasks:\n  greet: {run: 'echo hello'}\n"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder in which the plan `demo` is done and has no owner."""
    folder = Folder(tmp_path_factory.mktemp("demo"))
    folder.done(PLAN)
    return folder


@pytest.fixture(scope="module")
def gateway(done: Folder) -> Iterator[Served]:
    with served(done.path) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def page() -> Path:
    """The page that ships."""
    return Path(__file__).parents[3] / "server/planloop/server/page"
