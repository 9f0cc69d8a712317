"""The timeline of a long log: dragging the slider, and pages that are always live."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.folder import Folder
from tests.e2e.page import browsing
from tests.e2e.page.browsing import Served
from tests.e2e.page.conftest import Keep
from tests.server.gateway.writers import writing

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = "plan: demo\ngoal: one that waits\ntasks:\n  first: {run: sleep 600}\n"
LONG = 6_000


@pytest.fixture(scope="module")
def long(keep: Keep) -> Served:
    """The links of a plan that has several thousand records and no owner."""
    return keep(PLAN, grow).links


def grow(folder: Folder) -> None:
    folder.run("down", "--force")
    with writing(folder.path / ".plan" / "demo") as writer:
        assert writer.write(LONG) > LONG


def test_dragging_the_slider_loads_only_the_revision_where_it_stops(long: Served, page: Page) -> None:
    page.goto(long.url)
    slider = page.get_by_role("slider", name="Revision")
    expect(page.get_by_role("treeitem", name="first")).to_be_visible()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    held: list[Route] = []

    def hold_up(route: Route) -> None:
        held.append(route)

    page.route(re.compile(r"/objects\?at="), hold_up)
    page.mouse.move(box["x"] + box["width"] - 7, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, middle, steps=40)
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^revision 1\d\d\d of "))
    page.mouse.up()
    assert len(held) == 1, "what the hand passes while a stretch is read is not asked for"

    stopped = slider.input_value()
    with page.expect_request(re.compile(r"/objects\?at=1000")):
        held[0].continue_()
    expect(slider).to_have_value(stopped)
    held[1].continue_()
    expect(page.get_by_text(f"The plan as of revision {stopped}", exact=True)).to_be_visible()
    assert len(held) == 2
    expect(slider).to_have_value(stopped)


def test_opening_a_live_page_leaves_the_past(long: Served, page: Page) -> None:
    page.goto(long.url)
    browsing.look_back(page, 3)
    past = page.get_by_text("The plan as of revision")
    expect(past).to_be_visible()
    page.get_by_role("link", name="Locks").click()
    expect(page.get_by_text("This is a past revision, so it is read-only.")).to_be_visible()

    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    expect(past).to_have_count(0)
    expect(page.get_by_text("This one is live")).to_have_count(0)
    page.get_by_role("link", name="Plan", exact=True).click()
    expect(page.get_by_role("treeitem", name="first")).to_be_visible()
    expect(past).to_have_count(0)
