"""A running plan in a real browser: its folder with an owner in the background, its gateway, and pages of Chromium.

Each test is marked `browser` and has a minute. The page is the one that ships; `--page DIR` tries another build of it.
A complaint on the console, or of the content security policy, fails the test that made it.
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
WAIT_MS = 20_000  # A busy machine has much else to do.

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
    """Chromium. Of a module, not of the session: its event loop would be in the way of async tests.

    Connecting to a running browser would save 0.2 processor seconds a module: most is for the driver and the pages.
    """
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=needs.chromium(), args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def keep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keep]:
    """`keep(text, prepare)`: the plan `text`, running and served, for all tests of the module that only read it.

    `prepare` is given the folder before it is served. A test that changes the plan, its files or its links takes
    `running` and `served` instead: an owner and a gateway cost three processor seconds, and are its own.
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
    """`running(text, scripts)`: a folder with files `scripts` by name, in which the plan `text` has an owner."""
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
    """`with serving(folder, "--read-only", …) as links`: a `plan serve` there, as long as the block lasts."""
    built = request.config.getoption("--page")
    return lambda folder, *words: browsing.serving(folder, built and Path(built), *words)


@pytest.fixture
def served(serving: Serving, running: Running) -> Iterator[Serve]:
    """`served(folder, "--read-only", …)`: the links of a `plan serve` there, as long as the test lasts."""
    with ExitStack() as stack:
        yield lambda folder, *words: stack.enter_context(serving(folder, *words))


@pytest.fixture
def faults() -> Iterator[list[str]]:
    """What the console complained of. A test that provokes a complaint looks at it here and clears the list."""
    found: list[str] = []
    yield found
    assert found == [], "the console complains"


@pytest.fixture
def opened(browser: Browser, faults: list[str], served: Serve) -> Iterator[Opened]:
    """`opened(url, color_scheme="dark", viewport={…})`: a page in a browser context of its own.

    It closes before the gateway does, which ends before the owner: hence the arguments that nothing here reads.
    """
    with ExitStack() as stack:

        def open_page(url: str | None = None, **options: Any) -> Page:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
            stack.callback(context.close)
            context.set_default_timeout(WAIT_MS)
            page = context.new_page()
            browsing.watch(page, faults)
            if url is not None:
                page.goto(url)
            return page

        yield open_page


@pytest.fixture
def page(opened: Opened) -> Page:
    """A fresh page that shows nothing yet."""
    return opened()


@pytest.fixture
def shot() -> Shot:
    """`shot(page, name)` keeps a picture in reports/page."""
    return browsing.shot


@pytest.fixture
def screens() -> Screens:
    """`screens(page, name)` fails if the page is worse in the dark or on a small screen."""
    return browsing.on_other_screens


@pytest.fixture
def axe() -> Axe:
    """`axe(page)` fails with what a screen reader's user would stumble over."""
    return browsing.axe
