"""Questions before something happens: what they ask about stays as it is until they are answered."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.folder import Folder
from tests.e2e.page.conftest import Running, Serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PLAN = """\
plan: demo
goal: something to be asked about
tasks:
  long: {goal: takes its time, run: sleep 500}
"""


@pytest.fixture
def shown(running: Running, served: Serve, page: Page) -> tuple[Folder, Page]:
    """A task that can be paused and cancelled, and the page that shows it."""
    folder = running(PLAN)
    page.goto(served(folder).at("/plan/task/long"))
    return folder, page


def test_escape_takes_away_the_question_and_leaves_what_it_is_about(shown: tuple[Folder, Page]) -> None:
    _, page = shown
    about = page.get_by_role("region", name="About task/long")
    pause = about.get_by_role("button", name="Pause")
    pause.click()
    question = page.get_by_role("dialog", name="Pause task/long?")
    expect(question.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(pause).to_be_focused()
    page.keyboard.press("Escape")
    expect(about).to_have_count(0)
