"""The Approvals page: items that wait for a user, and the answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.folder import Folder
from tests.e2e.page.conftest import Axe, Running, Screens, Serve, Shot
from tests.e2e.test_tool_servers import TRICKY

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = """\
plan: demo
goal: a web chat
approve: [goal]
tasks:
  docs:
    goal: update the examples
    hooks: {plan-first: lib:planning}
    agent:
      tools: [all]
      script:
        - call: {request: {kind: plan, what: "first the names,\\nthen the examples", why: others read them}}
        - {when: {message: approved}, done: fine}
  push:
    goal: bring it out
    agent:
      tools: [all]
      script:
        - call: {shell: {command: git push origin fix}}
        - done: given up
    hooks:
      careful: {on: before-call, rule: [{when: {call: "shell(git push*)"}, ask: it is seen by others}]}
  front:
    goal: the page
    agent:
      script:
        - call: {lock: {paths: [api.py], reason: it moves}}
        - call: {write: {path: api.py, content: "by front\\n"}}
        - when: {message: "you also do the part of `back`"}
          call: {edit: {path: api.py, old: by front, new: by front for both}}
        - done: x
  back:
    goal: the server
    agent:
      topology: {talk-to: [front]}
      script:
        - sleep: 1
        - call: {contest: {paths: [api.py], intent: a new field, proposal: you do it}}
        - when: {message: "does your part"}
          done: left to front
  long: {goal: takes its time, run: sleep 500}
"""


@pytest.fixture
def demo(running: Running) -> Folder:
    return running(PLAN)


def card(page: Page, words: str) -> Locator:
    return page.get_by_role("article").filter(has_text=words)


def test_requests_calls_and_conflicts_are_answered_with_reasons(
    demo: Folder, served: Serve, page: Page, shot: Shot, axe: Axe, screens: Screens
) -> None:
    page.goto(served(demo).at("/approvals"))
    ask, push, conflict = (card(page, words) for words in ("others read them", "git push", "wants api.py, held by"))
    expect(ask).to_contain_text("plan: first the names,\nthen the examples", use_inner_text=True)
    expect(push).to_contain_text("it is seen by others")
    expect(conflict).to_contain_text("proposes: you do it")
    axe(page)
    shot(page, "approvals")
    screens(page, "approvals")

    ask.get_by_label("Reason").fill("go ahead")
    ask.get_by_role("button", name="Approve").click()
    expect(ask).to_have_count(0)
    push.get_by_label("Reason").fill("not yet")
    push.get_by_role("button", name="Reject").click()
    expect(push).to_have_count(0)

    conflict.get_by_role("radio", name=re.compile("^merge")).check()
    expect(conflict).to_contain_text("`front` does both parts")
    conflict.get_by_label("Message to both agents").fill("keep the names")
    conflict.get_by_role("button", name="Resolve").click()
    assert demo.run("wait", "task/front", "task/back", "task/docs", "--timeout", "30s").code == 0
    expect(conflict).to_have_count(0)
    assert (demo.path / "api.py").read_text() == "by front for both\n"
    answers = {one["type"]: one for one in demo.records() if one["type"] in ("plan.approved", "plan.rejected")}
    assert {one["actor"] for one in answers.values()} == {"human:web"}
    assert answers["plan.rejected"]["data"]["reason"] == "not yet"


def test_a_held_edit_shows_its_effect_and_is_applied_when_approved(
    demo: Folder, served: Serve, page: Page, shot: Shot
) -> None:
    page.goto(served(demo).at("/approvals"))
    held = demo.run("delete", "task/long", "task/push", "task/docs")
    assert "held" in held.out, held.text
    edit = card(page, "an edit of the plan")
    expect(edit).to_contain_text("it would stop")
    expect(edit.get_by_role("row").filter(has_text="task/long")).to_contain_text("cancel")
    edit.get_by_text("Changed fields").click()
    expect(edit.locator("del").first).to_be_visible()
    shot(page, "approvals-edit")
    edit.get_by_role("button", name="Approve").click()
    expect(edit).to_have_count(0)
    demo.run("wait", "task/long", "--for", "gone", "--timeout", "30s")  # It may be deleted already.
    assert "task/long" not in demo.states()


def test_the_page_and_the_command_count_the_hidden_rows_of_a_large_edit(
    running: Running, served: Serve, page: Page
) -> None:
    parts = {f"part{at}": {"goal": "a part", "run": "true", "needs": ["long"]} for at in range(230)}
    script = [{"patch": [{"op": "add", "path": "/tasks/maker/tasks", "value": parts}]}, {"done": "split"}]
    document = {
        "plan": "demo",
        "approve": ["/tasks/*/tasks"],
        "tasks": {"long": {"run": "sleep 500"}, "maker": {"goal": "splits", "agent": {"script": script}}},
    }
    folder = running(json.dumps(document))
    page.goto(served(folder).at("/approvals"))
    edit = card(page, "an edit of the plan")
    expect(edit).to_contain_text("230 to add, 0 to change, 0 to remove")
    expect(edit.locator("table.does tbody tr")).to_have_count(200)
    expect(edit.get_by_text("and 30 more", exact=True)).to_be_visible()
    approval = edit.get_attribute("id") or ""
    assert "230 to add, 0 to change, 0 to remove" in folder.run("describe", approval).out
    passed = folder.run("approve", approval)
    assert "and 30 more" in passed.out, passed.text
    page.goto(served(folder).at("/history"))
    page.get_by_role("region", name="Revisions").get_by_role("link").first.click()
    expect(page.get_by_role("region", name=re.compile(r"^Revision \d"))).to_contain_text("and 30 more230 to add")


def test_a_link_focuses_its_approval_and_a_read_only_link_has_no_buttons(
    demo: Folder, served: Serve, page: Page
) -> None:
    links = served(demo)
    page.goto(links.read_at("/approvals/docs.1"))
    expect(page.get_by_role("article", name="approval/docs.1")).to_be_focused()
    expect(page.get_by_text("This link is read-only.")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
    page.goto(links.read_at("/approvals/gone.7"))
    expect(page.get_by_text("approval/gone.7 is not pending")).to_be_visible()


def test_a_question_of_a_tool_server_is_a_form(
    running: Running, served: Serve, page: Page, axe: Axe, shot: Shot
) -> None:
    steps = [{"call": {"t.greet": {}}}, {"expect": {"contains": "hello Ada"}}, {"done": "over"}]
    document = {
        "plan": "served",
        "mcp": {"t": {"command": TRICKY}},
        "tasks": {"a": {"agent": {"tools": ["t"], "script": steps}}},
    }
    folder = running("".join(f"{name}: {json.dumps(value)}\n" for name, value in document.items()))
    page.goto(served(folder).at("/approvals"))
    question = card(page, "What is your name?")
    question.get_by_role("button", name="Answer").click()
    assert question.get_by_label("name").evaluate("field => field.validity.valueMissing"), "the field is required"
    axe(page)
    shot(page, "approvals-question")
    question.get_by_label("name").fill("Ada")
    question.get_by_label("name").press("Enter")
    expect(question).to_have_count(0)
    assert folder.run("wait", "task/a", "--timeout", "30s").code == 0
    assert folder.states()["task/a"] == "done"


def test_a_call_with_an_unknown_outcome_is_marked_as_done(
    tmp_path: Path, served: Serve, page: Page, shot: Shot
) -> None:
    folder = Folder(tmp_path / "unknown")
    folder.path.mkdir()
    folder.done('plan: demo\ntasks:\n  one: {run: "echo one >> lines", effect: once}\n')
    rev = next(one["rev"] for one in folder.records() if one["type"] == "call.started")
    assert folder.run("fork", "--at", str(rev), "--as", "again").code == 0
    assert folder.run("apply", "--detach", "again.plan.yaml").code == 0
    page.goto(served(folder, "--plan", "again").at("/approvals"))
    call = card(page, "its outcome is unknown")
    expect(call).to_contain_text("echo one >> lines")
    shot(page, "approvals-unknown")
    call.get_by_role("button", name="Mark as done").click()
    expect(call).to_have_count(0)
    assert folder.run("wait", "task/one", "--plan", "again", "--timeout", "30s").code == 0
    assert (folder.path / "lines").read_text() == "one\n"
    folder.run("down", "--plan", "again")


def test_a_hook_that_stays_until_approval_is_ended(
    running: Running, served: Serve, page: Page, axe: Axe, shot: Shot
) -> None:
    script = [
        {"call": {"write": {"path": "a", "content": "x"}}},
        {"expect": {"error": "Denied"}},
        {"when": {"message": "now"}, "call": {"write": {"path": "b", "content": "x"}}},
        {"done": "written"},
    ]
    hook = {"on": "before-call", "match": "write", "rule": {"deny": "not yet"}, "expires": {"approved": True}}
    task = {"goal": "writes", "agent": {"tools": ["all"], "script": script}, "hooks": {"guard": hook}}
    folder = running(json.dumps({"plan": "demo", "tasks": {"a": task}}))
    page.goto(served(folder).at("/approvals/hook/a/guard"))
    guard = page.get_by_role("article", name="hook/a/guard")
    expect(guard).to_be_focused()
    expect(page.get_by_role("heading", name="Hooks that stay until you end them")).to_be_visible()
    expect(guard).to_contain_text("task/a")
    axe(page)
    shot(page, "approvals-hook")
    guard.get_by_label("Reason").fill("it knows by now")
    guard.get_by_role("button", name="End the hook").click()
    expect(guard).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="hook/a/guard: ended")).to_be_visible()
    expect(page.get_by_role("heading", name="Approvals")).to_be_focused()
    assert folder.run("send", "a", "now").code == 0
    assert folder.run("wait", "task/a", "--timeout", "30s").code == 0
    assert not (folder.path / "a").exists()
    assert (folder.path / "b").read_text() == "x"
