"""The Agents page: the conversation of an agent, turn by turn and while its model writes, and the actions on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.folder import Folder
from tests.e2e.page import browsing
from tests.e2e.page.browsing import Kept
from tests.e2e.page.conftest import Axe, Keep, Running, Screens, Serve, Serving, Shot
from tests.fakes.model_server.running import started

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = """\
plan: demo
goal: a web chat
budget: {turns: 60, calls: 200}
tasks:
  docs:
    goal: update the examples, so that a newcomer finds the way
    budget: {turns: 12}
    hooks:
      careful:
        on: before-call
        rule:
          - when: {call: "write(tmp/*)"}
            deny: Nothing is kept in tmp.
          - when: {call: "shell(echo*)"}
            comment: Say less.
    agent:
      tools: [all]
      script:
        - say: I lock all of src first.
        - call: {lock: {paths: ["src/**"], reason: renames everywhere}}
        - call: {write: {path: tmp/x, content: "one\\ntwo\\n"}}
        - expect: {error: Denied}
        - call: {shell: {command: "echo one; echo two"}}
        - when: {message: run it}
          call: {shell: {command: "echo begun; until test -e go; do sleep 0.05; done; echo over"}}
        - when: {message: how far}
          say: half of it
        - when: {message: the end}
          done: all of it
  other:
    goal: waits
    agent: {script: [{when: {message: go}, done: x}]}
  talk:
    goal: asks around
    agent:
      tools: [all]
      script:
        - call: {discuss: {speakers: [talk/a, talk/b], prompt: What is missing?}}
        - when: {message: enough}
          done: y
    tasks:
      a: {goal: says a, agent: {script: [{when: {message: missing}, done: an index}]}}
      b: {goal: says b, agent: {script: [{when: {message: missing}, done: a test}]}}
"""


@pytest.fixture
def demo(running: Running) -> Folder:
    return running(PLAN)


@pytest.fixture(scope="module")
def kept(keep: Keep) -> Kept:
    """The plan for the tests that only read it."""
    return keep(PLAN)


def turn(page: Page, number: int) -> Locator:
    return page.get_by_role("article", name=f"Turn {number}", exact=True)


def call(page: Page, tool: str) -> Locator:
    return page.locator(".talk-call").filter(has=page.get_by_text(tool, exact=True))


def send(page: Page, words: str) -> None:
    page.get_by_label("Message to agent/docs").fill(words)
    page.get_by_role("button", name="Send").click()


def test_agents_are_listed_found_and_opened_with_the_keyboard(kept: Kept, page: Page, axe: Axe) -> None:
    page.goto(kept.links.at("/agents"))

    rows = page.get_by_role("list", name="Agents")
    expect(rows.get_by_role("listitem")).to_have_count(5)
    expect(rows).to_contain_text("script, ")
    axe(page)
    page.get_by_role("searchbox", name="Find agents").fill("docs")
    expect(rows.get_by_role("listitem")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("docs")
    assert page.url.endswith("/agents/docs")


def test_a_conversation_has_calls_verdicts_outputs_and_comments(
    kept: Kept, page: Page, shot: Shot, axe: Axe, screens: Screens
) -> None:
    page.goto(kept.links.at("/agents/docs"))

    expect(turn(page, 1)).to_contain_text("I lock all of src first.")
    denied = call(page, "write")
    expect(denied).to_contain_text("denied")
    expect(denied).to_contain_text("hook docs/careful before-call deny: Nothing is kept in tmp.")
    expect(denied).to_contain_text("one\ntwo", use_inner_text=True)
    echoed = call(page, "shell").first
    expect(echoed).to_contain_text("comment: “Say less.”")
    expect(echoed.locator("pre")).to_have_text("one\ntwo")
    aside = page.get_by_role("complementary", name="Details")
    expect(aside.get_by_role("meter", name="turns")).to_have_attribute("aria-valuetext", re.compile("of 12 turns"))
    expect(aside).to_contain_text("holds (write) lock/src/**")
    expect(aside.get_by_role("link", name="careful")).to_be_visible()
    expect(aside).to_contain_text("network")
    expect(page.get_by_role("link", name="task/docs")).to_have_attribute("href", "/plan/task/docs")
    axe(page)
    shot(page, "agent")
    screens(page, "agent")


def test_a_message_is_delivered_and_a_running_command_shows_its_output(
    demo: Folder, served: Serve, page: Page, shot: Shot
) -> None:
    page.goto(served(demo).at("/agents/docs"))
    expect(call(page, "shell")).to_have_count(1)

    send(page, "run it")
    expect(page.get_by_role("status").filter(has_text="Delivered")).to_be_visible()
    expect(page.get_by_role("feed")).to_contain_text("human:web")
    expect(page.get_by_role("log")).to_contain_text("begun")
    expect(page.get_by_role("log")).not_to_contain_text("over")
    shot(page, "agent-running")
    demo.write("go", "")
    expect(call(page, "shell").last.locator("pre").last).to_have_text("begun\nover")

    page.get_by_label("Ask for an answer").check()
    send(page, "how far are you?")
    expect(page.locator(".asked")).to_contain_text("half of it")
    sent = [one["actor"] for one in demo.records() if one["type"] == "message.sent" and one["subject"] == "agent/docs"]
    assert sent == ["human:web", "human:web"]


def messages_sent(folder: Folder) -> list[str]:
    """Return the messages from users to agent/docs, in order."""
    return [
        str(one["data"]["message"]["body"])
        for one in folder.records()
        if one["type"] == "message.sent" and one["subject"] == "agent/docs"
    ]


def test_a_double_click_sends_a_message_once_and_keeps_text_typed_meanwhile(
    demo: Folder, served: Serve, page: Page
) -> None:
    page.goto(served(demo).at("/agents/docs"))
    words = page.get_by_label("Message to agent/docs")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/send", hold)
    words.fill("how far are you?")
    with page.expect_request("**/send"):
        words.press("Control+Enter")
    words.press("Control+Enter")
    expect(page.get_by_role("form", name="Send a message").get_by_role("button")).to_be_disabled()
    words.fill("and the examples?")
    held.pop().continue_()
    expect(page.get_by_role("status").filter(has_text="Delivered")).to_be_visible()
    expect(words).to_have_value("and the examples?")
    assert (held, messages_sent(demo)) == ([], ["how far are you?"])


def test_a_message_whose_response_was_lost_is_delivered_once_when_sent_again(
    demo: Folder, served: Serve, page: Page
) -> None:
    page.goto(served(demo).at("/agents/docs"))

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/send", lose, times=1)
    page.get_by_label("Ask for an answer").check()
    send(page, "how far are you?")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status").filter(has_text="Delivered")).to_be_visible()
    assert messages_sent(demo) == ["how far are you?"]
    send(page, "run it")
    demo.write("go", "")
    answer = page.locator(".asked").first
    expect(answer).to_contain_text("half of it")
    browsing.look_back(page, 1)
    expect(page.get_by_label("Message to agent/docs")).to_be_hidden()
    expect(answer).to_contain_text("half of it")  # Although its record is newer than that revision.


def test_a_draft_survives_a_look_at_a_past_revision(kept: Kept, page: Page) -> None:
    page.goto(kept.links.at("/agents/docs"))
    expect(call(page, "shell")).to_have_count(1)
    page.get_by_label("Message to agent/docs").fill("when you are")
    browsing.look_back(page, 1)
    expect(page.get_by_text("This agent does not exist at this revision.")).to_be_visible()
    expect(page.get_by_label("Message to agent/docs")).to_be_hidden()
    page.get_by_role("button", name="Back to live").click()
    expect(page.get_by_label("Message to agent/docs")).to_have_value("when you are")


def test_an_inbox_shows_unread_messages_in_order(demo: Folder, served: Serve, page: Page, axe: Axe) -> None:
    """While a command runs, queued messages stay unread."""
    page.goto(served(demo).at("/agents/docs"))
    inbox = page.locator("section").filter(has=page.get_by_role("heading", name="Inbox"))
    send(page, "run it")
    expect(page.get_by_role("log")).to_contain_text("begun")
    expect(inbox).to_contain_text("No unread messages.")

    send(page, "first this")
    expect(inbox.get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Deliver", exact=False).select_option("steer")
    send(page, "then that")
    messages = inbox.get_by_role("listitem")
    expect(messages).to_have_count(2)
    expect(messages.first).to_contain_text("human:web")
    expect(messages.first).to_contain_text("first this")
    expect(messages.last).to_contain_text("steer")
    axe(page)
    page.get_by_role("link", name="Agents", exact=True).first.click()
    row = page.get_by_role("list", name="Agents").get_by_role("listitem").filter(has_text="docs")
    expect(row).to_contain_text("2 messages unread")
    demo.write("go", "")
    expect(row).not_to_contain_text("unread")


def test_interrupting_cancels_the_current_step(demo: Folder, served: Serve, page: Page, axe: Axe) -> None:
    page.goto(served(demo).at("/agents/docs"))
    send(page, "run it")
    expect(page.get_by_role("log")).to_contain_text("begun")

    page.get_by_role("button", name="Interrupt").click()
    question = page.get_by_role("dialog")
    question.get_by_label("Message").fill("leave it")
    axe(page)
    question.get_by_role("button", name="Interrupt").click()
    expect(call(page, "shell").last).to_contain_text("cancelled")
    expect(page.get_by_role("feed")).to_contain_text("ended: its task is failed")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    expect(page.get_by_role("button", name="Interrupt")).to_have_count(0)


def test_a_task_is_paused_resumed_and_cancelled_with_the_keyboard(demo: Folder, served: Serve, page: Page) -> None:
    page.goto(served(demo).at("/agents/docs"))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("dialog")).to_contain_text("task/docs")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()

    cancel = page.get_by_role("button", name="Cancel", exact=True)
    cancel.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(cancel).to_be_focused()
    cancel.press("Enter")
    page.get_by_role("dialog").get_by_label("Reason").fill("another way")
    expect(page.get_by_role("dialog").get_by_role("row").filter(has_text="task/docs")).to_contain_text("cancel")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the task").click()
    expect(page.get_by_role("feed")).to_contain_text("ended: its task is cancelled")
    assert demo.states()["task/docs"] == "cancelled"
    changed = [one for one in demo.records() if one["type"] == "plan.patched"][-1]
    assert (changed["actor"], changed["data"]["reason"]) == ("human:web", "another way")


def test_a_conversation_is_filtered_by_thread(kept: Kept, page: Page) -> None:
    page.goto(kept.links.at("/agents/talk/a"))
    expect(page.get_by_role("feed")).to_contain_text("What is missing?")
    threads = page.get_by_label("Thread")
    thread = threads.locator("option").nth(1).get_attribute("value")
    assert thread is not None and thread.startswith("thread/")
    threads.select_option(thread)
    expect(page.get_by_role("feed").get_by_role("article")).to_have_count(1)


def test_a_read_only_link_shows_no_buttons_and_the_reason(kept: Kept, page: Page) -> None:
    page.goto(kept.links.read_at("/agents/docs"))
    expect(turn(page, 1)).to_be_visible()
    expect(page.get_by_text("This link is read-only.")).to_be_visible()
    for name in ("Send", "Interrupt", "Pause", "Cancel"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_past_revision_shows_the_conversation_of_that_time(kept: Kept, page: Page) -> None:
    page.goto(kept.links.at("/agents/docs"))
    expect(call(page, "shell")).to_have_count(1)
    rev = next(
        one["rev"]
        for one in kept.folder.records()
        if one["subject"] == "agent/docs" and "I lock all" in str(one["also"])
    )
    browsing.look_back(page, rev)
    expect(page.get_by_text("This is a past revision, so it is read-only.")).to_be_visible()
    expect(page.get_by_role("feed")).to_contain_text("I lock all of src first.")
    expect(page.get_by_role("feed").get_by_text("shell")).to_have_count(0)
    page.get_by_role("button", name="Back to live").click()
    expect(call(page, "shell")).to_have_count(1)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_long_transcript_loads_in_pages_and_keeps_few_turns_in_the_document(
    running: Running, served: Serve, page: Page
) -> None:
    steps = "\n".join(f'    - call: {{shell: {{command: "echo line {at}"}}}}' for at in range(150))
    end = "    - {when: {message: go}, done: x}"
    text = f"plan: long\ngoal: many turns\nagent:\n  tools: [all]\n  script:\n{steps}\n{end}\n"
    folder = running(text)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/conversation/" in request.url else None)
    page.goto(served(folder).at("/agents/~"))

    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("line 149", timeout=60_000)
    page.reload()
    expect(feed).to_contain_text("line 149")
    assert feed.get_by_role("article").count() < 80
    first = len(asked)
    feed.focus()
    while "line 0" not in re.findall(r"line \d+", feed.inner_text()):
        page.keyboard.press("Home")
        page.wait_for_timeout(20)
    assert len(asked) > first, "scrolling up loads older turns"
    assert feed.get_by_role("article").count() < 80
    page.keyboard.press("End")
    expect(feed).to_contain_text("line 149")


STORY = "once upon a time there was"
STORY_PLAN = """\
plan: demo
goal: tell a story
agent: {{model: ollama/small, tools: [read]}}
models: {{ollama: {{url: {url}}}}}
"""


def test_a_reply_is_shown_while_the_model_writes_it(
    running: Running, served: Serve, page: Page, tmp_path: Path, shot: Shot
) -> None:
    steps: list[dict[str, Any]] = [{"reply": {"text": STORY, "split": 10}, "hang": 3}]
    (tmp_path / "model").mkdir()
    with started(steps, tmp_path / "model") as server:
        folder = running(STORY_PLAN.format(url=server.url))
        page.goto(served(folder).at("/agents/~"))
        expect(page.get_by_label("Being written")).to_contain_text("once upon a time")
        assert not [one for one in folder.records() if "once" in str(one["data"].get("text"))], "no record has it yet"
        shot(page, "agent-writing")
        folder.run("down", "--force")


def test_a_reply_is_shown_once_after_a_reconnection(
    running: Running, page: Page, tmp_path: Path, console_errors: list[str], serving: Serving
) -> None:
    steps: list[dict[str, Any]] = [{"reply": {"text": STORY, "split": 10}, "hang": 3}]
    (tmp_path / "model").mkdir()
    with started(steps, tmp_path / "model") as server:
        folder = running(STORY_PLAN.format(url=server.url))
        written = page.get_by_label("Being written")
        with serving(folder) as links:
            page.goto(links.at("/agents/~"))
            expect(written).to_contain_text("once upon a time")
            words = written.inner_text()
        expect(written).to_have_count(0)
        with serving(folder, "--port", links.port):
            expect(written).to_have_text(words)
            page.close()
        folder.run("down", "--force")
    console_errors[:] = [
        one for one in console_errors if "WebSocket connection" not in one and "ERR_CONNECTION" not in one
    ]
