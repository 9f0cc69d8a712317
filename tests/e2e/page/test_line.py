"""The page and its connection: an owner that is killed, a gateway that is begun again, a log that is made anew."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import command
from tests.e2e.folder import Folder
from tests.e2e.page.conftest import Opened, Running, Serve, Serving
from tests.server.gateway.writers import deleted

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = "plan: demo\ngoal: two that wait\ntasks:\n  first: {run: sleep 600}\n  second: {run: 'true', needs: [first]}\n"
PATIENCE_MS = 20_000  # The page asks who runs the plan every few seconds.
TALK = """\
plan: demo
goal: talk
tasks:
  say: {agent: {script: [{say: of the %s log}, {when: {message: go}, done: x}]}}
  other: {run: sleep 600}
"""
OTHER = "plan: demo\ngoal: another\ntasks:\n  third: {run: sleep 600}\n"


def is_live(page: Page) -> None:
    expect(page.get_by_role("banner").get_by_role("status")).to_contain_text("live")


def kill_owner(folder: Folder) -> None:
    """SIGKILL to whoever runs the plan."""
    (owner,) = (folder.path / ".plan").glob("*/owner")
    found = re.search(r'"pid":\s*(\d+)', owner.read_text())
    assert found is not None
    subprocess.run(["kill", "-9", found[1]], check=True)


def make_anew(folder: Folder, text: str) -> None:
    """The state of the plan is gone, and it is applied again as `text`: its log is another one."""
    folder.run("down", "--force")
    deleted(folder.path / ".plan")
    folder.write("demo.plan.yaml", text)
    assert folder.run("apply", "--yes", "--detach", "demo.plan.yaml").code == 0


def test_the_page_goes_on_when_the_owner_is_killed_and_replaced(running: Running, served: Serve, page: Page) -> None:
    folder = running(PLAN)
    page.goto(served(folder).url)
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()

    kill_owner(folder)
    line = page.get_by_role("banner").get_by_role("status")
    expect(line).to_contain_text("nobody runs it: plan apply demo.plan.yaml", timeout=PATIENCE_MS)
    folder.write("demo.plan.yaml", PLAN + "  late: {run: 'true', needs: [first]}\n")
    assert folder.run("apply", "--yes", "--detach", "demo.plan.yaml").code == 0

    expect(page.get_by_role("treeitem", name="late")).to_be_visible()
    is_live(page)
    expect(line).not_to_contain_text("nobody", timeout=PATIENCE_MS)


def test_a_state_that_is_removed_and_made_anew_is_shown_anew(running: Running, served: Serve, page: Page) -> None:
    folder = running(PLAN)
    page.goto(served(folder).url)
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()

    make_anew(folder, OTHER)

    expect(page.get_by_role("treeitem", name="third")).to_be_visible()
    expect(page.get_by_role("treeitem", name="second")).to_have_count(0)
    is_live(page)


def test_the_conversation_of_another_log_takes_the_place_of_the_one_before(
    running: Running, opened: Opened, faults: list[str], serving: Serving
) -> None:
    folder = running(TALK % "first")
    for note in range(20):
        assert folder.run("patch", "other", f"notes=number {note}").code == 0
    with serving(folder) as links:
        page = opened(links.at("/agents/say"))
        feed = page.get_by_role("feed")
        expect(feed).to_contain_text("of the first log")
    kept = folder.path / ".plan" / "demo" / "links.json"
    words = kept.read_text()
    make_anew(folder, TALK % "second")
    kept.write_text(words)
    kept.chmod(0o600)
    with serving(folder, "--port", links.port):
        expect(feed).to_contain_text("of the second log")
        expect(feed).not_to_contain_text("of the first log")
        page.context.close()
    faults[:] = [fault for fault in faults if "ERR_CONNECTION_REFUSED" not in fault]


def test_the_page_comes_back_when_plan_serve_does(
    running: Running, page: Page, faults: list[str], request: pytest.FixtureRequest
) -> None:
    folder = running(PLAN)
    built = request.config.getoption("--page")
    words = ["--page", built] if built else []
    status = page.get_by_role("banner").get_by_role("status")
    pages = page.get_by_role("navigation", name="Pages")
    with _serving(folder.path, "0", *words) as url:
        page.goto(url)
        is_live(page)
        for name in ("Locks", "Plan"):
            pages.get_by_role("link", name=name).click()
            expect(page.get_by_role("main")).to_contain_text("locks" if name == "Locks" else "two that wait")
    expect(status).not_to_contain_text("live")
    pages.get_by_role("link", name="Locks").click()
    expect(page.get_by_role("alert")).to_contain_text("the server does not answer")

    assert folder.run("patch", "second", "notes=while nobody served it").code == 0
    port = url.partition("://")[2].partition("/")[0].rpartition(":")[2]
    with _serving(folder.path, port, *words) as again:
        assert again == url, "links stay good"
        is_live(page)
        expect(page.get_by_text("Nobody holds a lock.")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        pages.get_by_role("link", name="Plan").click()
        page.get_by_role("treeitem", name="second").click()
        expect(page.get_by_text("while nobody served it").first).to_be_visible()
        page.close()
    # That the connection failed meanwhile is what the browser says of it, and what this is about.
    faults[:] = [fault for fault in faults if "ERR_CONNECTION_REFUSED" not in fault]


@contextmanager
def _serving(folder: Path, port: str, *words: str) -> Iterator[str]:
    """The link of a `plan serve` on that port, until the block ends."""
    with command.start("serve", "--port", port, *words, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        link = re.search(r"http\S+", process.stdout.readline())
        assert link is not None
        yield link[0]
        process.send_signal(signal.SIGINT)
