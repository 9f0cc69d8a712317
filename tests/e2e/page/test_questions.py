"""Confirmation dialogs: each answer belongs to its own dialog, however quickly the next one opens.

The browser sends the `close` event some time after a dialog has closed. Tests that click before that event do so in one
script, which the browser does not interrupt, so that the order is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.folder import Folder
from tests.e2e.page.browsing import Kept
from tests.e2e.page.conftest import Keep

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

TASKS = 6
PLAN = "plan: demo\ngoal: dialogs\ntasks:\n" + "".join(
    f"  long{number}: {{goal: takes its time, run: sleep 500}}\n" for number in range(TASKS)
)

# Closes the open dialog with `leave`, clicks `next` after the render, and waits for the `close` event of the first.
QUICKLY = """
async ([leave, next]) => {
  const button = (name) => [...document.querySelectorAll("button")].find((one) => one.textContent === name);
  const first = document.querySelector("dialog");
  const closed = new Promise((resolve) => first.addEventListener("close", resolve));
  if (leave === "Escape") first.requestClose();
  else button(leave).click();
  await Promise.resolve();
  (next === "the same" ? document.activeElement : button(next)).click();
  await closed;
}
"""


@pytest.fixture(scope="module")
def tasks(keep: Keep) -> tuple[Kept, Iterator[str]]:
    """The plan, and the tasks that no test has used yet."""
    return keep(PLAN), (f"task/long{number}" for number in range(TASKS))


@pytest.fixture
def shown(tasks: tuple[Kept, Iterator[str]], page: Page) -> tuple[Folder, Page, str]:
    """A task for one test, and the page that shows it."""
    kept, unused = tasks
    task = next(unused)
    page.goto(kept.links.at(f"/plan/{task}"))
    return kept.folder, page, task


@pytest.mark.parametrize("leave", ["Back", "Escape"])
def test_a_dialog_that_opens_quickly_is_not_closed_with_the_previous_one(
    shown: tuple[Folder, Page, str], leave: str
) -> None:
    folder, page, task = shown
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("dialog", name=f"Pause {task}?")).to_be_visible()
    page.evaluate(QUICKLY, [leave, "Cancel"])
    question = page.get_by_role("dialog", name=f"Cancel {task}?")
    expect(question).to_be_visible()
    question.get_by_role("button", name="Cancel the task").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Resume")).to_be_focused()
    assert folder.states()[task] == "cancelled"


@pytest.mark.parametrize("leave", ["Back", "Escape"])
def test_a_second_click_on_the_focused_button_opens_a_new_dialog(shown: tuple[Folder, Page, str], leave: str) -> None:
    _, page, task = shown
    pause = page.get_by_role("button", name="Pause")
    pause.focus()
    page.keyboard.press("Enter")
    question = page.get_by_role("dialog", name=f"Pause {task}?")
    question.get_by_label("Reason").fill("not yet")
    page.evaluate(QUICKLY, [leave, "the same"])
    expect(question).to_be_visible()
    expect(question.get_by_label("Reason")).to_have_value("")
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(pause).to_be_focused()


def test_escape_closes_the_dialog_and_keeps_the_details(shown: tuple[Folder, Page, str]) -> None:
    _, page, task = shown
    about = page.get_by_role("region", name=f"About {task}")
    pause = about.get_by_role("button", name="Pause")
    pause.click()
    question = page.get_by_role("dialog", name=f"Pause {task}?")
    expect(question.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(pause).to_be_focused()
    page.keyboard.press("Escape")
    expect(about).to_have_count(0)


def test_a_late_response_does_not_close_the_next_dialog(shown: tuple[Folder, Page, str]) -> None:
    folder, page, task = shown
    held: list[Route] = []

    def hold(route: Route) -> None:
        if (route.request.post_data_json or {}).get("dry_run"):
            route.continue_()
        else:
            held.append(route)

    page.route("**/steer", hold)
    page.get_by_role("button", name="Pause").click()
    with page.expect_request(lambda request: "steer" in request.url and "dry_run" not in (request.post_data or "")):
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Cancel", exact=True).click()
    question = page.get_by_role("dialog", name=f"Cancel {task}?")
    expect(question).to_be_visible()
    held.pop().continue_()
    expect(page.locator(".steering").get_by_text("paused")).to_be_visible()
    expect(page.locator(".steering").get_by_role("button", name="Resume", include_hidden=True)).to_be_visible()
    expect(question).to_be_visible()
    page.unroute("**/steer", hold)
    question.get_by_label("Reason").fill("another way")
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    assert folder.states()[task] == "cancelled"
