"""Fixtures for a running plan in a real browser: a folder with an owner, its `plan serve`, and pages of Chromium.

Each test is marked `browser`. The tests use the committed build of the page; `--page DIR` uses another one.
An error on the console or of the content security policy fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import needs
from tests.e2e.folder import Folder
from tests.e2e.page import browsing
from tests.e2e.page.browsing import Kept, Served

ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]
WAIT_MS = 20_000  # Enough for a busy machine.

expect.set_options(timeout=WAIT_MS)

Running: TypeAlias = Callable[..., Folder]
Serving: TypeAlias = Callable[..., AbstractContextManager[Served]]
Serve: TypeAlias = Callable[..., Served]
Opened: TypeAlias = Callable[..., Page]
Shot: TypeAlias = Callable[[Page, str], None]
Axe: TypeAlias = Callable[[Page], None]
Keep: TypeAlias = Callable[..., Kept]
Screens: TypeAlias = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, started per module: with session scope, its event loop would break async tests.

    Connecting to a running browser would save only 0.2 processor seconds per module.
    """
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=needs.chromium(), args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def keep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keep]:
    """`keep(text, prepare)`: run and serve the plan `text` for all tests of the module that only read it.

    Calls `prepare` with the folder before serving it. A test that changes the plan, its files or its links uses
    `running` and `served` instead, which start an owner and a server per test, at three processor seconds.
    """
    built = request.config.getoption("--page")
    with ExitStack() as stack:

        def start(text: str, prepare: Callable[[Folder], None] | None = None) -> Kept:
            folder = Folder(tmp_path_factory.mktemp("kept"))
            stack.enter_context(browsing.owned(folder, text))
            if prepare is not None:
                prepare(folder)
            return Kept(folder, stack.enter_context(browsing.serving(folder, built and Path(built))))

        yield start


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """`running(text, scripts)`: a folder with the files `scripts`, in which an owner runs the plan `text`."""
    with ExitStack() as stack:

        def run(text: str, scripts: Mapping[str, str] | None = None, name: str = "plan") -> Folder:
            folder = Folder(tmp_path / name)
            folder.path.mkdir(exist_ok=True)
            for file, content in (scripts or {}).items():
                (folder.path / file).parent.mkdir(parents=True, exist_ok=True)
                folder.write(file, content)
            stack.enter_context(browsing.owned(folder, text))
            return folder

        yield run


@pytest.fixture
def serving(request: pytest.FixtureRequest) -> Serving:
    """`with serving(folder, "--read-only", …) as links`: `plan serve` in that folder until the block ends."""
    built = request.config.getoption("--page")
    return lambda folder, *words: browsing.serving(folder, built and Path(built), *words)


@pytest.fixture
def served(serving: Serving, running: Running) -> Iterator[Serve]:
    """`served(folder, "--read-only", …)`: the links of a `plan serve` in that folder until the test ends."""
    with ExitStack() as stack:
        yield lambda folder, *words: stack.enter_context(serving(folder, *words))


@pytest.fixture
def console_errors() -> Iterator[list[str]]:
    """Errors on the console. A test that provokes errors checks them here and clears the list."""
    found: list[str] = []
    yield found
    assert found == [], "errors on the console"


@pytest.fixture
def opened(browser: Browser, console_errors: list[str], served: Serve) -> Iterator[Opened]:
    """`opened(url, color_scheme="dark", viewport={…})`: a page in a new browser context.

    The unused arguments fix the order of teardown: the page closes first, then `plan serve`, then the owner.
    """
    with ExitStack() as stack:

        def open_page(url: str | None = None, **options: Any) -> Page:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
            stack.callback(context.close)
            context.set_default_timeout(WAIT_MS)
            page = context.new_page()
            browsing.watch(page, console_errors)
            if url is not None:
                page.goto(url)
            return page

        yield open_page


@pytest.fixture
def page(opened: Opened) -> Page:
    """An empty page."""
    return opened()


@pytest.fixture
def shot() -> Shot:
    """`shot(page, name)` saves a screenshot in reports/page."""
    return browsing.shot


@pytest.fixture
def screens() -> Screens:
    """`screens(page, name)` checks the page in dark mode and on a small screen."""
    return browsing.on_other_screens


@pytest.fixture
def axe() -> Axe:
    """`axe(page)` fails on serious accessibility problems."""
    return browsing.axe
