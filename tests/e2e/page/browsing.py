"""What browser tests stand on: a `plan serve` of their own, a page that is watched for faults, and axe."""

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
LINKS = re.compile(r"(?:(?P<look>to look only)|\S+)  (?P<url>http\S+#token=(?P<token>\S+))")


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that answers: the link that may change things, the link that may look, and the token of the first."""

    url: str
    read_url: str
    token: str

    def at(self, path: str) -> str:
        """The link to a place in the page, such as `/plan/task/write`."""
        site, _, token = self.url.partition("/#")
        return f"{site}{path}#{token}"

    def read_at(self, path: str) -> str:
        """The same with the link that may only look."""
        site, _, token = self.read_url.partition("/#")
        return f"{site}{path}#{token}"

    @property
    def port(self) -> str:
        """Where it listens, as `--port` of the next takes it."""
        return str(urlsplit(self.url).port)


@dataclass(frozen=True, slots=True)
class Kept:
    """A running plan that the tests of a module share: its folder, and the links to its page."""

    folder: Folder
    links: Served


@contextmanager
def owned(folder: Folder, text: str) -> Iterator[None]:
    """An owner of the plan with that text in the background. With the block it ends, and all that it started."""
    with folder.owned("demo.plan.yaml", text):
        yield


@contextmanager
def serving(folder: Folder, page: Path | None, *words: str) -> Iterator[Served]:
    """`plan serve` on a free port, with another build of the page when one is given, until the block ends."""
    built = [] if page is None else ["--page", str(page)]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with command.start("serve", "--port", "0", *built, *words, cwd=folder.path, stdout=pipe, stderr=both) as process:
        try:
            yield _links(process)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            rest = process.stdout.read()
            assert process.wait() == 0, f"plan serve did not end well: {process.returncode}\n{rest}"


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
    raise AssertionError(f"it ended without a link:\n{''.join(seen)}")


def watch(page: Page, faults: list[str]) -> None:
    """Has everything that the console complains of end up in `faults`: errors, and what the content policy forbids."""

    def heard(message: ConsoleMessage) -> None:
        # What the API refuses is an answer that the page shows; Chromium tells of it besides.
        is_answer = message.text.startswith("Failed to load resource") and "/v1/" in message.location["url"]
        # So Chromium ends what is under way when another test's container gets its network: the page asks again.
        is_network = "net::ERR_NETWORK_CHANGED" in message.text
        if message.type in ("error", "warning") and not is_answer and not is_network:
            faults.append(f"{message.text} ({message.location['url']})")

    page.on("console", heard)
    page.on("pageerror", lambda error: faults.append(f"{error}\n{error.stack or ''}"))


def look_back(page: Page, rev: int) -> None:
    """Takes the page to a revision before the newest, once it has heard of what came after that.

    The end of the line is the present: at a revision that is the newest the page knows of, it would stay there.
    """
    slider = page.get_by_role("slider", name="Revision")
    page.wait_for_function("([one, rev]) => Number(one.max) > rev", arg=[slider.element_handle(), rev])
    slider.fill(str(rev))


def on_other_screens(page: Page, name: str) -> None:
    """Check accessibility and width in the dark and on a small screen, and keep pictures of both.

    The page is left as it was: light and wide.
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
    """Fails with what axe finds to be serious or worse in the page as it is now."""
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
    """Keeps a picture of what is on the screen in reports/page."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")
