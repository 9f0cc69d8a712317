"""Fixtures that every test may use. Others stand next to their tests."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import needs, sets
from tests.suite import plugin, updates

pytest.register_assert_rewrite("tests.contracts", "tests.containers.engine_contract", "tests.e2e.container_harness")
"""Their assertions show values when they fail, as those in files of tests do."""

if TYPE_CHECKING:  # Most tests need no engine.
    from planloop.containers.engine.docker_engine import DockerEngine

NO_NETWORK = "PLANLOOP_NO_NETWORK"
"""The product's own switch (`planloop.controllers.agent.models.router`), which conftest is too early to import."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption("--seed", type=int, default=7, help="seed of random errors")
    parser.addoption("--page", metavar="DIR", help="try this build of the page in the browser tests")
    plugin.add_options(parser)
    updates.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried with the same examples at each run, and no clock decides whether they hold.

    A seed of one's own (`make laws`) draws others. What tests start can be interrupted, also where a script runs them
    in its background, which ignores INT.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    plugin.configure(config)  # First: the set decides how many examples are drawn.
    is_same = config.getoption("--hypothesis-seed") is None
    settings.register_profile(
        "planloop",
        derandomize=is_same,
        deadline=None,
        max_examples=sets.examples(100, 40),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("planloop")
    updates.configure(config)
    config.pluginmanager.register(needs.Needs(), "planloop-needs")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of tests with random errors."""
    return int(request.config.getoption("--seed"))


@pytest.fixture
def is_updating(request: pytest.FixtureRequest) -> bool:
    """Whether the test rewrites its golden file or page (`make docs`) rather than compares with it."""
    return bool(request.config.getoption("--update"))


@pytest.fixture
def anyio_backend() -> str:
    """Real-time async tests run on asyncio, as the product does; simulations ask for trio themselves."""
    return "asyncio"


@pytest.fixture
def engine() -> DockerEngine:
    """A running container engine."""
    return needs.engine()


@pytest.fixture(scope="session")
def local_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a configuration of apt that names a repository on this machine."""
    from tests.containers.images import packages

    return packages.repository(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def apt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let apt take packages from a repository on this machine; in nightly and for `network`, from Debian's own.

    Return the shell command that does the same for commands that have another environment.
    """
    if sets.is_nightly() or request.node.get_closest_marker("network") is not None:
        return ":"
    from tests.containers.images import packages

    config = str(request.getfixturevalue("local_packages"))
    monkeypatch.setenv(packages.APT_CONFIG, config)
    return f"export {packages.APT_CONFIG}={shlex.quote(config)}"


@pytest.fixture(scope="session", autouse=True)
def _no_model_off_this_machine() -> Iterator[None]:
    """No test may ask a model over the network, nor any process that a test starts."""
    os.environ[NO_NETWORK] = "1"  # noqa: TID251 - what every process of this session inherits
    yield
    del os.environ[NO_NETWORK]  # noqa: TID251
