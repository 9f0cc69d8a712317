"""The History page: authors, times, reasons and changes of revisions, and rollbacks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.folder import Folder
from tests.e2e.page.browsing import Kept
from tests.e2e.page.conftest import Axe, Keep, Running, Screens, Serve, Shot

ONE = re.compile(r"^Revision \d")

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = """\
plan: demo
goal: a web chat
tasks:
  docs: {goal: update the examples, agent: {script: [{when: {message: the end}, done: x}]}}
  long: {goal: takes its time, run: sleep 500}
  maker:
    goal: splits its work
    agent:
      tools: [all]
      script:
        - patch: [{op: add, path: /tasks/maker/tasks, value: {part: {goal: a part, run: sleep 500}}}]
        - {when: {message: the end}, done: x}
"""


@pytest.fixture
def demo(running: Running) -> Folder:
    folder = running(PLAN)
    change(folder)
    return folder


@pytest.fixture(scope="module")
def kept(keep: Keep) -> Kept:
    """The plan for the tests that only read it."""
    return keep(PLAN, change)


def change(folder: Folder) -> None:
    """Make one change that is accepted and one that is refused."""
    changed = folder.run("patch", "task/docs", "goal=update the examples and the pictures", "--reason", "people asked")
    assert changed.code == 0, changed.text
    assert folder.run("patch", "task/docs", "goal=42", "bogus=1").code != 0


def test_revisions_have_author_reason_verdict_and_both_sides_of_each_field(
    kept: Kept, page: Page, shot: Shot, axe: Axe, screens: Screens
) -> None:
    page.goto(kept.links.at("/history"))
    listed = page.get_by_role("region", name="Revisions")
    expect(listed.get_by_role("link").first).to_contain_text("~ task/docs/goal (people asked)")
    expect(listed).to_contain_text("agent/maker")
    expect(listed.get_by_role("list")).not_to_contain_text("refused")
    axe(page)
    listed.get_by_role("link").first.focus()
    page.keyboard.press("Enter")
    one = page.get_by_role("region", name=ONE)
    expect(one).to_contain_text("human:cli")
    expect(one).to_contain_text("people asked")
    expect(one.get_by_role("row").filter(has_text="task/docs")).to_contain_text("message")
    expect(one.locator("del")).to_have_text("- update the examples\n")
    expect(one.locator("ins")).to_have_text("+ update the examples and the pictures\n")
    axe(page)
    shot(page, "history")
    screens(page, "history")

    page.get_by_label("Show").select_option("refused")
    expect(listed.get_by_role("link")).to_have_count(1)
    listed.get_by_role("link").click()
    expect(page.get_by_role("region", name=ONE).locator(".problem").first).to_be_visible()
    page.get_by_label("Show").select_option("")
    page.get_by_label("Author").select_option("agent/maker")
    expect(listed.get_by_role("link")).to_have_count(1)
    expect(listed).to_contain_text("+ task/maker/")


def test_earlier_revisions_stay_in_one_list_while_new_ones_come(running: Running, served: Serve, page: Page) -> None:
    part = {"goal": "part 0", "run": "true", "needs": ["long"]}
    steps: list[dict[str, Any]] = [{"patch": [{"op": "add", "path": "/tasks/maker/tasks", "value": {"part": part}}]}]
    steps += [
        {"patch": [{"op": "replace", "path": "/tasks/maker/tasks/part/goal", "value": f"part {at}"}]}
        for at in range(1, 61)
    ]
    tasks = {"long": {"run": "sleep 500"}, "maker": {"goal": "splits", "agent": {"script": [*steps, {"done": "x"}]}}}
    folder = running(json.dumps({"plan": "demo", "goal": "a web chat", "tasks": tasks}))
    site = served(folder)
    page.goto(site.at("/plan/task/maker/part"))
    expect(page.get_by_role("region", name="About task/maker/part")).to_contain_text("part 60")
    page.goto(site.at("/history"))
    links = page.get_by_role("region", name="Revisions").get_by_role("link")
    page.get_by_role("button", name="Earlier revisions").click()
    expect(links).to_have_count(62)
    expect(page.get_by_role("button", name="Earlier revisions")).to_have_count(0)
    for name in ("one", "two", "three"):
        assert folder.run("patch", ".", f"goal={name}").code == 0
    expect(links).to_have_count(65)
    made = [one["rev"] for one in folder.records() if one["type"] == "plan.patched"]
    assert [int(rev) for rev in page.locator(".revision-rev").all_inner_texts()] == made[::-1]


def test_closing_a_revision_focuses_its_link(kept: Kept, page: Page) -> None:
    page.goto(kept.links.at("/history"))
    link = page.get_by_role("region", name="Revisions").get_by_role("link").nth(1)
    link.click()
    close = page.get_by_role("region", name=ONE).get_by_role("button", name="Close")
    close.focus()
    page.keyboard.press("Enter")
    expect(close).to_have_count(0)
    expect(link).to_be_focused()


def test_a_rollback_shows_its_effect_and_asks_before_it_loses_work(
    demo: Folder, served: Serve, page: Page, shot: Shot, axe: Axe
) -> None:
    first = next(one["rev"] for one in demo.records() if one["type"] == "plan.patched")
    assert demo.run("delete", "task/long").code == 0
    page.goto(served(demo).at(f"/history/{first}"))
    page.get_by_role("button", name="Roll back to here").click()
    question = page.get_by_role("dialog", name=f"Roll back to revision {first}?")
    expect(question.get_by_role("row").filter(has_text="task/long")).to_contain_text("start")
    expect(question.get_by_role("row").filter(has_text="task/maker/part")).to_contain_text("cancel")
    axe(page)
    shot(page, "history-back")
    question.get_by_label("Reason").fill("that was better")
    if question.get_by_role("checkbox").count():
        question.get_by_role("checkbox").check()
    question.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status").filter(has_text=f"Rolled back to revision {first}")).to_be_visible()
    expect(page.get_by_role("region", name="Revisions").get_by_role("link").first).to_contain_text("human:web")
    assert demo.json("get", "task/docs")["spec"]["goal"] == "update the examples"
    assert "task/long" in demo.states()
    assert demo.records()[-1]["rev"] > first


def test_a_read_only_link_cannot_roll_back(kept: Kept, page: Page) -> None:
    first = next(one["rev"] for one in kept.folder.records() if one["type"] == "plan.patched")
    page.goto(kept.links.read_at(f"/history/{first}"))
    expect(page.get_by_text("This link is read-only.")).to_be_visible()
    expect(page.get_by_role("button", name="Roll back to here")).to_have_count(0)
