"""The frame of every page: the plan's name, the navigation and the connection."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.page.browsing import Kept
from tests.e2e.page.conftest import Keep, Opened, Running, Serve, Serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = """\
plan: demo
goal: two commands and one that waits
tasks:
  first: {run: 'true'}
  second: {run: 'true', needs: [first]}
"""


@pytest.fixture(scope="module")
def kept(keep: Keep) -> Kept:
    """The plan for the tests that only read it."""
    return keep(PLAN)


def test_the_page_shows_the_plan_and_is_live(kept: Kept, page: Page) -> None:
    page.goto(kept.links.url)

    expect(page.get_by_role("banner")).to_contain_text("demo")
    expect(page.get_by_role("banner").get_by_role("status")).to_contain_text("live")
    assert "token" not in page.url, "the address bar contains no token"


@pytest.mark.smoke
def test_every_page_opens_without_a_reload_and_with_the_keyboard(kept: Kept, page: Page) -> None:
    page.goto(kept.links.url)
    main = page.get_by_role("main")
    expect(main.get_by_role("tree")).to_be_visible()
    page.evaluate("() => { window.is_same = true; }")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(main).to_be_focused()
    for name in ("Agents", "Locks", "Containers", "Approvals", "History", "Benchmarks", "Edit", "Plan"):
        link = page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)
        link.focus()
        page.keyboard.press("Enter")
        expect(link).to_have_attribute("aria-current", "page")
        expect(main.get_by_role("heading", level=1)).to_be_visible()
        assert page.title().endswith("demo")
    page.go_back()
    expect(page.get_by_role("link", name="Edit")).to_have_attribute("aria-current", "page")
    assert page.evaluate("() => window.is_same") is True


def test_an_invalid_token_shows_how_to_get_a_valid_one(kept: Kept, page: Page) -> None:
    link = kept.links.url
    page.goto(link.replace("#token=", "#token=not-"))

    expect(page.get_by_role("alert")).to_contain_text("use the link that plan serve printed")


def test_the_page_reports_a_lost_server_and_recovers(
    running: Running, opened: Opened, console_errors: list[str], serving: Serving
) -> None:
    folder = running(PLAN)
    with serving(folder) as served:
        page = opened(served.at("/plan/task/first"))
        line = page.get_by_role("banner").get_by_role("status")
        expect(line).to_have_text("live")
    expect(line).to_have_text("connection lost, reconnecting")

    assert folder.run("patch", "task/first", "goal=said meanwhile").code == 0
    with serving(folder, "--port", served.port):
        expect(line).to_have_text("live")
        expect(page.get_by_role("region", name="About task/first")).to_contain_text("said meanwhile")
        page.context.close()
    assert all("WebSocket connection" in fault or "ERR_CONNECTION" in fault for fault in console_errors)
    console_errors.clear()


def test_a_revoked_link_shows_what_to_do(running: Running, served: Serve, page: Page) -> None:
    folder = running(PLAN)
    page.goto(served(folder).url)
    line = page.get_by_role("banner").get_by_role("status")
    expect(line).to_have_text("live")

    served(folder, "--new-links")
    expect(line).to_have_text("disconnected")
    expect(page.get_by_role("alert")).to_contain_text("This link was revoked")
    expect(page.get_by_role("alert")).to_contain_text("Open the link that plan serve printed last")
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()


def test_a_link_revoked_while_the_server_was_down_is_reported(
    running: Running, opened: Opened, console_errors: list[str], serving: Serving
) -> None:
    folder = running(PLAN)
    with serving(folder) as served:
        page = opened(served.url)
        expect(page.get_by_role("banner").get_by_role("status")).to_have_text("live")
    with serving(folder, "--new-links", "--port", served.port):
        expect(page.get_by_role("alert")).to_contain_text("This link was revoked")
        page.context.close()
    console_errors.clear()


def test_a_page_that_cannot_load_leaves_the_others_working(
    running: Running, opened: Opened, console_errors: list[str], serving: Serving
) -> None:
    folder = running(PLAN)
    with serving(folder) as served:
        page = opened(served.url)
        pages = page.get_by_role("navigation", name="Pages")
        expect(page.get_by_role("treeitem", name="second")).to_be_visible()
    pages.get_by_role("link", name="Locks").click()
    expect(page.get_by_role("button", name="Reload the page")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Cannot show this page")
    pages.get_by_role("link", name="Plan").click()
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()

    with serving(folder, "--port", served.port):
        expect(page.get_by_role("banner").get_by_role("status")).to_have_text("live")
        expect(page.get_by_role("treeitem", name="second")).to_be_visible()
        page.context.close()
    console_errors.clear()  # The test provokes failed requests.


def test_a_page_that_cannot_load_reloads_once_and_then_on_request(
    kept: Kept, page: Page, console_errors: list[str]
) -> None:
    page.goto(kept.links.url)
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()
    page.route("**/LocksPage-*.js", lambda route: route.abort())
    again = page.get_by_role("button", name="Reload the page")
    with page.expect_event("load"):  # It reloads once automatically, because the server answers.
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Locks").click()
    expect(again).to_be_visible()

    page.unroute("**/LocksPage-*.js")
    again.click()
    expect(page.get_by_role("heading", name="Locks", exact=True)).to_be_visible()
    console_errors.clear()


LOOKS = "**/assets/index-*.css"
HEAD = "() => [...document.head.children].map((one) => one.outerHTML)"


@pytest.mark.parametrize("how", ["no answer", "not found"])
def test_a_stylesheet_that_failed_to_load_is_fetched_again(
    kept: Kept, page: Page, console_errors: list[str], how: str
) -> None:
    lost: list[str] = []

    def lose(route: Route) -> None:
        lost.append(route.request.url)
        if how == "no answer":
            route.abort()
        else:
            route.fulfill(status=404)

    link = kept.links.url
    page.goto(link)
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()
    head = page.evaluate(HEAD)
    expect(page.get_by_role("banner")).to_have_css("display", "flex")
    page.route(LOOKS, lose, times=2)
    page.reload()
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()
    expect(page.get_by_role("banner")).to_have_css("display", "flex")
    assert page.evaluate(HEAD) == head
    assert len(lost) == 2
    assert len(console_errors) >= 2 and all(lost[0] in fault for fault in console_errors), console_errors
    console_errors.clear()


COUNT_LOST = """
window.lost = 0;
addEventListener("error", (event) => { if (event.target.rel === "stylesheet") window.lost += 1; }, true);
"""


def test_a_missing_stylesheet_is_requested_seven_times_and_the_page_works(
    kept: Kept, page: Page, console_errors: list[str]
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/assets/index-" in request.url else None)
    page.route(LOOKS, lambda route: route.abort())
    page.add_init_script(COUNT_LOST)
    page.clock.install()
    page.goto(kept.links.url)
    for count in range(1, 8):
        page.wait_for_function("(count) => window.lost >= count", arg=count)
        page.clock.fast_forward(3600_000)
    expect(page.get_by_role("treeitem", name="second")).to_be_visible()
    page.evaluate("() => fetch(location.href).then((answer) => answer.text())")  # Time for an eighth request.
    assert len([one for one in asked if one.endswith(".css")]) == 7
    console_errors.clear()  # The test provokes failed requests.
