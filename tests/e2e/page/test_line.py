"""The connection of the page: a killed owner, a restarted `plan serve`, and a replaced log."""

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
PATIENCE_MS = 20_000  # The page polls for the owner every few seconds.
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
    """Send SIGKILL to the owner."""
    (owner,) = (folder.path / ".plan").glob("*/owner")
    found = re.search(r'"pid":\s*(\d+)', owner.read_text())
    assert found is not None
    subprocess.run(["kill", "-9", found[1]], check=True)


def recreate(folder: Folder, text: str) -> None:
    """Delete the state of the plan and apply `text`, which creates another log."""
    folder.run("down", "--force")
    deleted(folder.path / ".plan")
    folder.write("demo.plan.yaml", text)
    assert folder.run("apply", "--yes", "--detach", "demo.plan.yaml").code == 0


def test_the_page_survives_a_killed_and_replaced_owner(running: Running, served: Serve, page: Page) -> None:
    folder = running(PLAN)
    page.goto(served(folder).url)
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()

    kill_owner(folder)
    line = page.get_by_role("banner").get_by_role("status")
    expect(line).to_contain_text("Resume: plan apply demo.plan.yaml", timeout=PATIENCE_MS)
    folder.write("demo.plan.yaml", PLAN + "  late: {run: 'true', needs: [first]}\n")
    assert folder.run("apply", "--yes", "--detach", "demo.plan.yaml").code == 0

    expect(page.get_by_role("treeitem", name="late")).to_be_visible()
    is_live(page)
    expect(line).not_to_contain_text("Resume", timeout=PATIENCE_MS)


def test_a_recreated_plan_replaces_the_shown_one(running: Running, served: Serve, page: Page) -> None:
    folder = running(PLAN)
    page.goto(served(folder).url)
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()

    recreate(folder, OTHER)

    expect(page.get_by_role("treeitem", name="third")).to_be_visible()
    expect(page.get_by_role("treeitem", name="second")).to_have_count(0)
    is_live(page)


def test_the_conversation_of_a_recreated_log_replaces_the_old_one(
    running: Running, opened: Opened, console_errors: list[str], serving: Serving
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
    recreate(folder, TALK % "second")
    kept.write_text(words)
    kept.chmod(0o600)
    with serving(folder, "--port", links.port):
        expect(feed).to_contain_text("of the second log")
        expect(feed).not_to_contain_text("of the first log")
        page.context.close()
    console_errors[:] = [fault for fault in console_errors if "ERR_CONNECTION_REFUSED" not in fault]


def test_the_page_reconnects_when_plan_serve_restarts(
    running: Running, page: Page, console_errors: list[str], request: pytest.FixtureRequest
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
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")

    assert folder.run("patch", "second", "notes=while plan serve was down").code == 0
    port = url.partition("://")[2].partition("/")[0].rpartition(":")[2]
    with _serving(folder.path, port, *words) as again:
        assert again == url, "links stay good"
        is_live(page)
        expect(page.get_by_text("No locks are held.")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        pages.get_by_role("link", name="Plan").click()
        page.get_by_role("treeitem", name="second").click()
        expect(page.get_by_text("while plan serve was down").first).to_be_visible()
        page.close()
    # The test provokes errors about the lost connection.
    console_errors[:] = [fault for fault in console_errors if "ERR_CONNECTION_REFUSED" not in fault]


@contextmanager
def _serving(folder: Path, port: str, *words: str) -> Iterator[str]:
    """Run `plan serve` on that port until the block ends, and yield its link."""
    with command.start("serve", "--port", port, *words, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        link = re.search(r"http\S+", process.stdout.readline())
        assert link is not None
        yield link[0]
        process.send_signal(signal.SIGINT)
