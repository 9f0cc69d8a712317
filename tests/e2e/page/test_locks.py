"""The Locks page: holders, queues, waits, conflicts, and unlocking."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.folder import Folder
from tests.e2e.page import browsing
from tests.e2e.page.browsing import Kept
from tests.e2e.page.conftest import Axe, Keep, Running, Screens, Serve, Shot

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = """\
plan: demo
goal: renames
tasks:
  docs:
    goal: update the examples
    agent:
      script:
        - call: {lock: {paths: ["src/**"], reason: renames everywhere}}
        - {when: {message: the end}, done: x}
  backend:
    goal: the router
    needs: [ready]
    agent: {script: [{call: {write: {path: src/app.py, content: "router\\n"}}}, {when: {message: the end}, done: y}]}
  build:
    goal: build it
    needs: [ready]
    locks: [src, {path: docs, mode: read}]
    run: "true"
  ready:
    run: "until grep -q lock.granted .plan/demo/events.jsonl; do sleep 0.05; done"
"""


@pytest.fixture
def demo(running: Running) -> Folder:
    return running(PLAN)


@pytest.fixture(scope="module")
def kept(keep: Keep) -> Kept:
    """The plan for the tests that only read it."""
    return keep(PLAN)


def test_a_lock_shows_holders_and_waiters_and_can_be_unlocked(
    demo: Folder, served: Serve, page: Page, shot: Shot, axe: Axe, screens: Screens
) -> None:
    page.goto(served(demo).at("/locks/lock/src/**"))
    held = page.get_by_role("listitem", name="lock/src/**")
    expect(held).to_be_focused()
    expect(held).to_contain_text("held by agent/docs write")
    expect(held).to_contain_text("until it releases the lock, fence")
    expect(held).to_contain_text("renames everywhere")
    waits = page.locator("ul.waits")
    expect(waits).to_contain_text("agent/backend waits for agent/docs · lock/src/**")
    expect(waits).to_contain_text("task/build waits for agent/docs · lock/src/**")
    graph = page.get_by_role("img", name="Graph of waits")
    expect(graph.locator(".wait-node")).to_have_count(3)
    expect(graph.locator(".wait-edge")).to_have_count(2)
    expect(page.get_by_role("link", name="conflict/1")).to_be_visible()
    axe(page)
    shot(page, "locks")
    screens(page, "locks")

    take = held.get_by_role("button", name="Unlock src/**")
    take.focus()
    page.keyboard.press("Enter")
    question = page.get_by_role("dialog", name="Unlock lock/src/**, held by agent/docs?")
    question.get_by_label("Reason").fill("the router comes first")
    axe(page)
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    expect(held).to_contain_text("lost by agent/docs, unlocked by human:web")
    expect(held.get_by_role("button")).to_have_count(0)
    expect(held).to_be_focused()
    expect(waits.filter(has_text="agent/docs")).to_have_count(0)
    (broken,) = [one for one in demo.records() if one["type"] == "lock.fenced"]
    assert (broken["actor"], broken["data"]["reason"]) == ("human:web", "the router comes first")


def test_a_link_to_a_conflict_shows_it_open_and_closed(demo: Folder, served: Serve, page: Page, axe: Axe) -> None:
    links = served(demo)
    page.goto(links.at("/locks/conflict/1"))
    open_one = page.get_by_role("listitem").filter(has_text="conflict/1")
    expect(open_one).to_be_focused()
    expect(page.get_by_text("is closed")).to_have_count(0)
    assert demo.run("approve", "conflict/1", "--release").code == 0
    over = page.get_by_role("region", name="conflict/1")
    expect(over).to_contain_text("is closed")
    expect(over).to_contain_text("release by human:cli")
    axe(page)
    page.goto(links.at("/locks/conflict/77"))
    expect(page.get_by_role("alert")).to_contain_text("conflict/77")


def test_a_past_revision_shows_its_locks_without_buttons(kept: Kept, page: Page) -> None:
    page.goto(kept.links.at("/locks"))
    expect(page.get_by_role("link", name="conflict/1")).to_be_visible()
    rev = next(one["rev"] for one in kept.folder.records() if "lock.granted" in str(one)) - 1
    browsing.look_back(page, rev)
    expect(page.get_by_text("This is a past revision, so it is read-only.")).to_be_visible()
    expect(page.get_by_role("listitem", name="lock/src/**")).to_have_count(0)
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)


CYCLE = """\
plan: ring
goal: two that want what the other has
tasks:
  a:
    goal: a
    agent: {script: [{call: {lock: {paths: [x]}}}, {when: {message: go}, call: {lock: {paths: [y]}}}, {done: a}]}
  b:
    goal: b
    agent: {script: [{call: {lock: {paths: [y]}}}, {when: {message: go}, call: {lock: {paths: [x]}}}, {done: b}]}
"""


def test_a_deadlock_is_marked_in_the_graph_and_in_the_list(
    running: Running, served: Serve, page: Page, shot: Shot
) -> None:
    ring = running(CYCLE)
    page.goto(served(ring).at("/locks"))
    for lock in "xy":
        expect(page.get_by_role("listitem", name=f"lock/{lock}")).to_contain_text("held by")
    assert ring.run("send", "a", "b", "go").code == 0
    rev = 0
    while not rev:  # planloop breaks it immediately; the past still has it.
        rev = next((one["rev"] for one in ring.records() if "lock.deadlock" in str(one)), 0)
    browsing.look_back(page, rev - 1)
    words = page.locator(".cycle-words")
    expect(words).to_contain_text("Deadlock:")
    expect(words).to_contain_text("waits for agent/")
    expect(page.locator(".wait-node[data-cycle]")).to_have_count(2)
    expect(page.locator("ul.waits li[data-cycle]").first).to_contain_text("deadlock")
    shot(page, "locks-ring")


def test_a_read_only_link_cannot_unlock(kept: Kept, page: Page) -> None:
    page.goto(kept.links.read_at("/locks"))
    expect(page.get_by_role("listitem", name="lock/src/**")).to_be_visible()
    expect(page.get_by_role("button", name="Unlock")).to_have_count(0)
    expect(page.get_by_text("This link is read-only.")).to_be_visible()
