"""The Containers page with a real engine: states, conditions, output, and the chat with a container's agent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.container_harness import IMAGE, ContainerHarness, machines_address
from tests.e2e.page import browsing
from tests.e2e.page.conftest import Axe, Opened, Screens, Serve, Shot
from tests.fakes.model_server.running import started
from tests.golden_text import said

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

PLAN = f"""\
plan: p
goal: a service, and who looks after it
containers:
  service:
    image: {IMAGE}
    env: {{NAME: the service}}
    ports: [{{container: 8080}}]
    health: {{tcp: 8080, interval: 0.2}}
  after:
    image: {IMAGE}
    env: {{NAME: what comes after}}
    needs: {{service: healthy}}
  broken:
    image: planloop-test/there-is-none:1
tasks:
  keeper:
    goal: look after the service
    containers: [service]
    agent:
      tools: [all]
      sandbox: {{container: service}}
      script:
        - say: I am there.
        - when: {{message: how is it}}
          call: {{shell: {{command: "echo it is $NAME"}}}}
        - say: it is well
        - when: {{message: break it}}
          call: {{shell: {{command: "rm /tmp/well"}}}}
        - say: now it is not
        - when: {{message: the end}}
          done: kept
"""


SAYS = """path => new Promise((resolve, reject) => {
  const socket = new WebSocket(location.origin.replace("http", "ws") + path,
    ["planloop.v1", "token." + localStorage.getItem("planloop.token")]);
  socket.onopen = () => socket.send(JSON.stringify({id: "1", text: "the end"}));
  socket.onmessage = event => { const frame = JSON.parse(event.data); if (frame.refused) resolve(frame.refused); };
  socket.onclose = () => reject("it was closed");
})"""
"""JavaScript that sends a message over a new websocket, with the token of the page."""
STORY = "once upon a time there was a very small fox"
STORY_PLAN = """\
plan: p
goal: a story in a container
containers: {{den: {{image: {image}, env: {{NAME: the den}}}}}}
models: {{ollama: {{url: {url}}}}}
tasks:
  fox: {{goal: tell it, containers: [den], agent: {{model: ollama/small, tools: [read]}}}}
"""


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    """Check for an engine before the browser starts, whose event loop would interfere."""
    machines_address()


@pytest.fixture
def at(harness: ContainerHarness) -> Iterator[ContainerHarness]:
    with browsing.owned(harness.folder, PLAN):
        yield harness


def fits(page: Page) -> None:
    """Check that no element is wider than its container on a small screen."""
    wide = page.viewport_size
    assert wide is not None
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("(main => main.scrollWidth <= main.clientWidth)(document.querySelector('main'))")
    page.set_viewport_size(wide)


def test_each_container_shows_its_state_and_conditions(
    at: ContainerHarness, served: Serve, page: Page, shot: Shot, axe: Axe, screens: Screens
) -> None:
    page.goto(served(at.folder).at("/containers"))

    row = page.get_by_role("row").filter(has_text=re.compile("^service"))
    expect(row).to_contain_text("healthy")
    expect(row).to_contain_text("->8080")
    expect(row).to_contain_text("container/after")
    expect(row).to_contain_text("task/keeper")
    broken = page.get_by_role("row").filter(has_text=re.compile("^broken"))
    expect(broken).to_contain_text("there-is-none")
    expect(page.get_by_role("status").filter(has_text="of 3 containers up")).to_be_visible()
    shot(page, "containers")
    axe(page)
    fits(page)
    screens(page, "containers")

    page.get_by_role("link", name="broken", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("broken")
    expect(page.get_by_role("region", name="Conditions")).to_contain_text(re.compile("NoImage|NoRegistry"))
    expect(page.get_by_role("heading", name="To unblock")).to_be_visible()
    shot(page, "container-broken")
    axe(page)


def test_output_is_followed_and_older_lines_load_on_demand(
    at: ContainerHarness, served: Serve, page: Page, shot: Shot, axe: Axe, screens: Screens
) -> None:
    page.goto(served(at.folder).at("/containers/service"))
    output = page.get_by_role("region", name="Output")
    expect(output).to_contain_text("the service is up")

    at.said_inside("service", "sh", "-c", "echo a word from inside >/proc/1/fd/1")
    expect(output).to_contain_text("a word from inside")
    shot(page, "container-logs")
    axe(page)
    expect(page.get_by_role("log")).to_contain_text("I am there.")
    fits(page)
    screens(page, "container")

    many = "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); echo line $i of many that come at once; done >/proc/1/fd/1"
    at.said_inside("service", "sh", "-c", many)
    expect(output).to_contain_text("line 9000 of many")
    page.reload()
    expect(output).to_contain_text("line 9000 of many")
    assert "the service is up" not in (output.text_content() or ""), "the first page has the newest lines alone"
    older = page.get_by_role("button", name="Older lines")
    while older.is_visible():
        before = len(output.text_content() or "")
        older.dblclick()  # A page that is requested twice is added once.
        page.wait_for_function(
            "([before]) => document.querySelector('.output').textContent.length > before", arg=[before]
        )
    lines = (output.text_content() or "").splitlines()
    assert lines[:2] == ["the service is up", "a word from inside"]
    assert lines[2:] == [f"line {number} of many that come at once" for number in range(1, 9001)]


def test_a_user_chats_with_the_agent_of_a_container(
    at: ContainerHarness, served: Serve, page: Page, shot: Shot, axe: Axe
) -> None:
    """As with `plan chat container/service`: with the keyboard, and live replies and calls."""
    page.goto(served(at.folder).at("/containers/service"))
    heard = page.get_by_role("log")
    expect(heard).to_contain_text("I am there.")

    page.get_by_label("Message to agent/keeper").focus()
    page.keyboard.type("how is it?")
    page.keyboard.press("Enter")
    expect(heard).to_contain_text("human:web: how is it?")
    expect(heard).to_contain_text("calls shell")
    expect(heard).to_contain_text("it is the service")
    expect(heard).to_contain_text("it is well")
    expect(page.get_by_label("Message to agent/keeper")).to_be_empty()
    expect(page.get_by_label("Message to agent/keeper")).to_be_focused()
    shot(page, "container-chat")
    axe(page)

    page.keyboard.type("break it")
    page.keyboard.press("Enter")
    expect(heard).to_contain_text("now it is not")
    expect(page.get_by_role("heading", level=1)).to_contain_text("unhealthy")


def test_the_chat_ends_when_the_container_ends(at: ContainerHarness, served: Serve, page: Page) -> None:
    page.goto(served(at.folder).at("/containers/service"))
    expect(page.get_by_role("log")).to_contain_text("I am there.")

    at.folder.run("down")
    expect(page.get_by_text("The conversation has ended")).to_be_visible()
    expect(page.get_by_label("Message to agent/keeper")).to_be_disabled()


def test_a_read_only_link_follows_the_chat_but_cannot_send(
    at: ContainerHarness, served: Serve, page: Page, opened: Opened
) -> None:
    links = served(at.folder)
    page.goto(links.at("/containers/service"))
    looking = opened(links.read_url.replace("/#", "/containers/service#"), viewport={"width": 360, "height": 780})
    expect(looking.get_by_role("log")).to_contain_text("I am there.")
    expect(looking.get_by_text("This link is read-only.")).to_be_visible()
    expect(looking.get_by_role("button", name="Send")).to_have_count(0)
    refused = looking.evaluate(SAYS, "/v1/plans/p/containers/service/chat")
    said(refused["summary"])

    page.get_by_label("Message to agent/keeper").fill("how is it?")
    page.get_by_role("button", name="Send").click()
    expect(looking.get_by_role("log")).to_contain_text("it is well")
    wide = looking.evaluate("document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth")
    assert wide <= 0, "nothing stands out of a narrow screen"


def test_a_reply_is_shown_while_the_model_writes_it(
    harness: ContainerHarness, served: Serve, page: Page, tmp_path: Path, shot: Shot
) -> None:
    steps: list[dict[str, Any]] = [{"reply": {"text": STORY, "split": 10}, "hang": 3}]
    (tmp_path / "model").mkdir()
    with (
        started(steps, tmp_path / "model") as server,
        browsing.owned(harness.folder, STORY_PLAN.format(image=IMAGE, url=server.url)),
    ):
        page.goto(served(harness.folder).at("/containers/den"))
        expect(page.get_by_role("log")).to_contain_text("once upon a time")
        assert not [one for one in harness.folder.records() if "once" in str(one["data"].get("text"))], (
            "in no record yet"
        )
        shot(page, "container-writing")
