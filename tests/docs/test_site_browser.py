"""The built site in Chromium: it can be searched, fits a narrow screen, and asks no other host for anything."""

from __future__ import annotations

import functools
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests import needs
from tests.architecture.tree import ROOT
from tests.docs.test_site import build
from tests.e2e.page.conftest import ARGUMENTS, WAIT_MS

PAGES = ("index.md", "reference/errors/P0204.md", "concepts/gate.md", "reference/fields/task.md")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """The address of a site of a few pages: building all of them costs more than the browser."""
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(settings)
    for page in PAGES:
        (tmp_path / "docs" / page).parent.mkdir(parents=True, exist_ok=True)
        text = re.sub(r"(?<!!)\[([^\]]*)\]\([^)]*\)", r"\1", (ROOT / "docs" / page).read_text())
        (tmp_path / "docs" / page).write_text(text)
    shutil.copytree(ROOT / "docs" / "img", tmp_path / "docs" / "img")
    code, output = build(tmp_path)
    assert code == 0, output
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path / "site"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.browser
def test_the_site_is_searched_and_read_without_another_host(origin: str) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
        page.set_default_timeout(WAIT_MS)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        too_wide = []
        for path in ("/concepts/gate/", "/reference/fields/task/", "/"):
            page.goto(origin + path)
            if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                too_wide.append(path)
        assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"

        page.keyboard.press("/")
        page.keyboard.type("P0204")
        found = page.get_by_role("option", name="P0204").first
        expect(found).to_be_visible()
        found.click()
        page.wait_for_url("**/errors/P0204/**")
        browser.close()

    assert [url for url in asked if not url.startswith(f"{origin}/")] == []
    assert complaints == []
    assert too_wide == []
