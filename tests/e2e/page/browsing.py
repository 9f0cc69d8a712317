"""Helpers of browser tests: a `plan serve` per test, a page whose console is watched, and axe."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page

from tests.architecture.tree import ROOT
from tests.e2e import command
from tests.e2e.folder import Folder

SHOTS = ROOT / "reports" / "page"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")
LINKS = re.compile(r"(?:(?P<look>read-only)|\S+)  (?P<url>http\S+#token=(?P<token>\S+))")


@dataclass(frozen=True, slots=True)
class Served:
    """A running `plan serve`: its link that can change the plan, its read-only link, and the token of the first."""

    url: str
    read_url: str
    token: str

    def at(self, path: str) -> str:
        """Return the link to a place in the page, such as `/plan/task/write`."""
        site, _, token = self.url.partition("/#")
        return f"{site}{path}#{token}"

    def read_at(self, path: str) -> str:
        """Return the same with the read-only link."""
        site, _, token = self.read_url.partition("/#")
        return f"{site}{path}#{token}"

    @property
    def port(self) -> str:
        """The port that it listens on."""
        return str(urlsplit(self.url).port)


@dataclass(frozen=True, slots=True)
class Kept:
    """A running plan that the tests of a module share: its folder and its links."""

    folder: Folder
    links: Served


@contextmanager
def owned(folder: Folder, text: str) -> Iterator[None]:
    """Run an owner of the plan `text` in the background. At the end of the block, end it and all that it started."""
    with folder.owned("demo.plan.yaml", text):
        yield


@contextmanager
def serving(folder: Folder, page: Path | None, *words: str) -> Iterator[Served]:
    """Run `plan serve` on a free port until the block ends, with the build `page` if given."""
    built = [] if page is None else ["--page", str(page)]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with command.start("serve", "--port", "0", *built, *words, cwd=folder.path, stdout=pipe, stderr=both) as process:
        try:
            yield _links(process)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            rest = process.stdout.read()
            assert process.wait() == 0, f"plan serve failed with exit code {process.returncode}\n{rest}"


def _links(process: subprocess.Popen[str]) -> Served:
    assert process.stdout is not None
    seen, links = [], {}
    for line in process.stdout:
        seen.append(line)
        if found := LINKS.match(line):
            links["look" if found["look"] else "change"] = found
        if "Ctrl-C" in line:
            change = links.get("change", links.get("look"))
            assert change is not None, seen
            return Served(change["url"], links.get("look", change)["url"], change["token"])
    raise AssertionError(f"plan serve ended without printing a link:\n{''.join(seen)}")


def watch(page: Page, console_errors: list[str]) -> None:
    """Collect errors and warnings of the console, including those of the content policy, in `console_errors`."""

    def heard(message: ConsoleMessage) -> None:
        # Chromium also logs responses of the API with an error status, which the page shows.
        is_answer = message.text.startswith("Failed to load resource") and "/v1/" in message.location["url"]
        # Chromium aborts requests when a container of another test gets its network: the page retries them.
        is_network = "net::ERR_NETWORK_CHANGED" in message.text
        if message.type in ("error", "warning") and not is_answer and not is_network:
            console_errors.append(f"{message.text} ({message.location['url']})")

    page.on("console", heard)
    page.on("pageerror", lambda error: console_errors.append(f"{error}\n{error.stack or ''}"))


def look_back(page: Page, rev: int) -> None:
    """Show the page at a past revision, after it has received a newer one.

    The end of the slider is the present: at the newest revision that the page has, it would stay live.
    """
    slider = page.get_by_role("slider", name="Revision")
    page.wait_for_function("([one, rev]) => Number(one.max) > rev", arg=[slider.element_handle(), rev])
    slider.fill(str(rev))


def on_other_screens(page: Page, name: str) -> None:
    """Check accessibility and width in dark mode and on a small screen, and save screenshots of both.

    Afterwards the page is light and wide again.
    """
    wide = page.viewport_size
    assert wide is not None
    page.emulate_media(color_scheme="dark")
    axe(page)
    shot(page, f"{name}-dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    axe(page)
    shot(page, f"{name}-narrow")
    page.set_viewport_size(wide)


def axe(page: Page) -> None:
    """Fail if axe finds serious or critical problems in the current page."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("() => axe.run(document)")
    grave = [
        f"{rule['id']}: {rule['help']}\n  "
        + "\n  ".join(f"{node['html'][:200]}  {node['target']}" for node in rule["nodes"])
        for rule in found["violations"]
        if rule["impact"] in GRAVE
    ]
    assert grave == [], "\n".join(grave)


def shot(page: Page, name: str) -> None:
    """Save a screenshot in reports/page."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")
