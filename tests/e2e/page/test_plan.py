"""The Plan page of a running plan: tree, graph, reasons, actions and past revisions."""

from __future__ import annotations

import json
import os
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.folder import Folder
from tests.e2e.page import browsing
from tests.e2e.page.browsing import Kept
from tests.e2e.page.conftest import Axe, Keep, Running, Screens, Serve, Shot

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = """\
plan: webchat
goal: create and integrate a full stack web chat
budget: {calls: 500, tokens: 2M, usd: 20}
limits: {parallel: 6}
tasks:
  frontend:
    goal: the chat in the browser, dark theme
    tasks:
      page:
        goal: the page of the chat
        budget: {calls: 40}
        agent:
          tools: [all]
          lock: task
          script:
            - call: {write: {path: core.js, content: "1"}}
            - {when: {message: go}, done: the page is there}
        acceptance:
          - require-file: core.js
      socket:
        goal: reconnects when the line breaks
        needs: [begun]
        agent:
          tools: [all]
          script:
            - call: {edit: {path: core.js, old: "1", new: "2"}}
            - done: it does
      begun: {goal: the page has its file, run: while ! test -s core.js; do sleep 0.05; done}
      style: {goal: colours that can be read, run: "true", acceptance: [{sh: "true"}]}
  backend:
    goal: the server
    notes: One text frame a message, at /chat.
    run: echo tests failed; exit 1
  watch: {goal: keeps an eye on the build, run: sleep 500}
  integrate: {goal: both together, needs: [frontend, backend], run: "true"}
"""


@pytest.fixture
def webchat(running: Running) -> Folder:
    """Run the plan, in which `socket` waits for a file that `page` holds."""
    return running(PLAN)


@pytest.fixture(scope="module")
def kept(keep: Keep) -> Kept:
    """The plan for the tests that only read it."""
    return keep(PLAN)


def item(page: Page, name: str) -> Locator:
    """Return the row of the tree with that name."""
    return page.get_by_role("treeitem").filter(has=page.get_by_text(name, exact=True))


def active(page: Page) -> str:
    """Return the name of the active row."""
    found = "tree => document.getElementById(tree.getAttribute('aria-activedescendant')).querySelector('a').textContent"
    return str(page.get_by_role("tree").evaluate(found))


@pytest.mark.smoke
def test_the_tree_shows_the_live_plan(webchat: Folder, served: Serve, page: Page, shot: Shot) -> None:
    page.goto(served(webchat).url)

    rows = page.get_by_role("tree", name="Tasks").get_by_role("treeitem")
    names = ["webchat", "frontend", "page", "socket", "begun", "style", "backend", "watch", "integrate"]
    expect(rows.get_by_role("link")).to_have_text(names)
    expect(item(page, "style")).to_contain_text("done")
    expect(item(page, "style")).to_contain_text("1 of 1")
    expect(item(page, "backend")).to_contain_text("ended with exit code 1: tests failed")
    expect(item(page, "integrate")).to_contain_text("needs task/backend, which failed")
    expect(item(page, "socket")).to_contain_text("lock core.js is held by agent/frontend/page")
    expect(item(page, "watch")).to_have_attribute("aria-level", "2")
    expect(page.get_by_role("meter", name="calls")).to_have_attribute("aria-valuetext", re.compile(r"of 500 calls"))
    shot(page, "plan-tree")

    assert webchat.run("cancel", "watch").code == 0
    expect(item(page, "watch")).to_contain_text("cancelled")


def test_a_task_shows_why_it_waits_how_to_unblock_it_and_its_agent(kept: Kept, page: Page, shot: Shot) -> None:
    page.goto(kept.links.at("/plan/task/frontend/socket"))

    about = page.get_by_role("region", name="About task/frontend/socket")
    expect(about).to_contain_text("reconnects when the line breaks")
    expect(about).to_contain_text("lock core.js is held by agent/frontend/page (write)")
    ways = about.get_by_role("list", name="To unblock")
    expect(ways).to_contain_text("lock/core.js is released")
    expect(ways).to_contain_text("plan unlock lock/core.js")
    expect(about).to_contain_text("edit('core.js', '1', '2')")
    expect(about.get_by_role("link", name="agent/frontend/socket").first).to_be_visible()
    expect(about.get_by_role("region", name="Recent")).to_contain_text("model.replied")
    shot(page, "plan-why")

    about.get_by_role("link", name="task/frontend/begun").click()
    expect(page.get_by_role("region", name="About task/frontend/begun")).to_contain_text("while ! test -s core.js")
    page.go_back()
    expect(about).to_be_visible()


def test_an_object_of_any_kind_has_a_link_and_a_description(kept: Kept, page: Page) -> None:
    page.goto(kept.links.at("/plan/plan/webchat"))

    about = page.get_by_role("region", name="About plan/webchat")
    expect(about.get_by_role("term").filter(has_text="changed")).to_be_visible()
    expect(about.get_by_role("definition").filter(has_text="rev ")).to_be_visible()
    browsing.look_back(page, 2)
    expect(about.get_by_role("definition").filter(has_text="rev 2")).to_be_visible()


def test_the_tree_is_navigated_with_the_keyboard(kept: Kept, page: Page) -> None:
    page.goto(kept.links.url)
    tree = page.get_by_role("tree", name="Tasks")
    expect(item(page, "watch")).to_be_visible()
    tree.focus()

    walked = []
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowDown", "End", "Home", "w"):
        page.keyboard.press(key)
        walked.append(active(page))
    assert walked == ["frontend", "page", "frontend", "frontend", "backend", "integrate", "webchat", "watch"]
    expect(item(page, "frontend")).to_have_attribute("aria-expanded", "false")
    expect(item(page, "socket")).to_have_count(0)

    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="About task/watch")).to_contain_text("sleep 500")
    expect(item(page, "watch")).to_have_attribute("aria-selected", "true")
    assert page.url.endswith("/plan/task/watch")
    expect(tree).to_be_focused()
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="About task/watch")).to_have_count(0)
    expect(tree).to_be_focused()


def test_details_follow_a_renamed_task_and_report_a_deleted_one(webchat: Folder, served: Serve, page: Page) -> None:
    page.goto(served(webchat).at("/plan/task/watch"))
    expect(page.get_by_role("region", name="About task/watch")).to_contain_text("sleep 500")
    page.get_by_role("tree").focus()

    moved = [
        {"op": "move", "from": "/tasks/watch", "path": "/tasks/watchman"},
        {"op": "add", "path": "/moved", "value": {"watch": "watchman"}},
    ]
    said = webchat.run("patch", "--json", json.dumps(moved))
    assert said.code == 0, said.text

    expect(page.get_by_role("region", name="About task/watchman")).to_contain_text("sleep 500")
    assert active(page) == "watchman"
    expect(page.get_by_role("tree")).to_be_focused()

    gone = [{"op": "remove", "path": "/moved"}, {"op": "remove", "path": "/tasks/watchman"}]
    assert webchat.run("patch", "--json", json.dumps(gone)).code == 0
    about = page.get_by_role("region", name="About task/watchman")
    expect(about).to_contain_text("task/watchman was deleted.")
    expect(page.get_by_role("tree")).to_be_focused()
    about.get_by_role("button", name="Show it at revision").click()
    expect(about).to_contain_text("sleep 500")
    expect(page.get_by_text("The plan as of revision")).to_be_visible()


def test_the_timeline_shows_any_revision_read_only(
    webchat: Folder, served: Serve, page: Page, shot: Shot, axe: Axe
) -> None:
    page.goto(served(webchat).at("/plan/task/backend"))
    about = page.get_by_role("region", name="About task/backend")
    expect(about).to_contain_text("tests failed")
    expect(about.get_by_role("button", name="Run again")).to_be_enabled()

    slider = page.get_by_role("slider", name="Revision")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text("The plan as of revision 1", exact=True)).to_be_visible()
    expect(about).to_contain_text("task/backend does not exist at revision 1.")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("The plan as of revision 2", exact=True)).to_be_visible()
    expect(item(page, "backend")).to_contain_text("waiting")
    expect(about.get_by_role("group", name="Actions")).to_have_count(0)
    expect(about).to_contain_text("This is a past revision, so it is read-only.")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^revision 2 of "))
    shot(page, "plan-past")
    axe(page)

    assert webchat.run("cancel", "watch").code == 0
    expect(item(page, "watch")).to_contain_text("waiting")
    page.get_by_role("button", name="Back to live").click()
    expect(page.get_by_text("The plan as of revision")).to_have_count(0)
    expect(item(page, "watch")).to_contain_text("cancelled")
    expect(item(page, "backend")).to_contain_text("failed")

    page.get_by_role("button", name="Previous revision").click()
    expect(page.get_by_text("The plan as of revision")).to_be_visible()
    slider.focus()
    page.keyboard.press("End")
    expect(page.get_by_text("The plan as of revision")).to_have_count(0)


@pytest.mark.smoke
def test_a_task_is_paused_resumed_and_cancelled_from_the_page(
    webchat: Folder, served: Serve, page: Page, axe: Axe
) -> None:
    page.goto(served(webchat).at("/plan/task/watch"))
    about = page.get_by_role("region", name="About task/watch")

    question = page.get_by_role("dialog")
    about.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    expect(question.get_by_role("row").filter(has_text="task/watch")).to_contain_text("pause")
    axe(page)
    question.get_by_role("button", name="Pause").press("Enter")
    expect(item(page, "watch")).to_contain_text("paused")
    expect(about.get_by_role("button", name="Resume")).to_be_focused()
    page.keyboard.press("Enter")
    question.get_by_role("button", name="Resume").press("Enter")
    expect(item(page, "watch")).to_contain_text("running")
    expect(about.get_by_role("button", name="Pause")).to_be_focused()
    cancel = about.get_by_role("button", name="Cancel")
    cancel.press("Enter")
    expect(page.get_by_role("dialog", name="Cancel task/watch?")).to_be_visible()
    question.get_by_role("button", name="Back").click()
    expect(question).to_have_count(0)
    expect(cancel).to_be_focused()
    page.keyboard.press("Enter")
    question.get_by_role("button", name="Cancel the task").press("Enter")
    expect(item(page, "watch")).to_contain_text("cancelled")
    expect(about.get_by_role("button", name="Resume")).to_be_focused()
    (patched, *_) = [one for one in reversed(webchat.records()) if one["type"] == "plan.patched"]
    assert patched["actor"] == "human:web"


def test_a_read_only_link_shows_no_buttons(kept: Kept, page: Page) -> None:
    page.goto(kept.links.read_url)
    item(page, "watch").click()

    about = page.get_by_role("region", name="About task/watch")
    expect(about.get_by_role("button", name="Pause")).to_have_count(0)
    expect(about).to_contain_text("This link is read-only.")
    expect(page.get_by_role("banner")).to_contain_text("read-only")


def test_the_graph_shows_needs_and_has_a_text_form(kept: Kept, page: Page, shot: Shot, axe: Axe) -> None:
    page.goto(kept.links.url)
    page.get_by_role("button", name="Graph").click()

    graph = page.get_by_role("group", name=re.compile("Dependency graph of 8 tasks"))
    expect(graph.get_by_role("link", name="task/backend, failed")).to_be_visible()
    expect(graph.get_by_role("link", name="Close group task/frontend")).to_be_visible()
    shot(page, "plan-graph")
    axe(page)

    graph.get_by_role("link", name="task/integrate").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="About task/integrate")).to_contain_text("both together")
    expect(graph.get_by_role("link", name="task/integrate")).to_have_attribute("aria-current", "true")
    graph.get_by_role("link", name="Close group task/frontend").click()
    expect(graph.get_by_role("link", name="task/frontend, running, group of 4 tasks")).to_be_visible()

    page.get_by_text("As text").click()
    text = page.get_by_role("region", name="Dependency graph").get_by_role("listitem")
    expect(text.last).to_contain_text("needs task/frontend, task/backend")


def test_a_name_in_the_tree_is_a_link_that_opens_in_another_tab(kept: Kept, page: Page) -> None:
    page.goto(kept.links.url)
    about = page.get_by_role("region", name="About task/watch")
    before = page.evaluate("() => history.length")
    link = item(page, "watch").get_by_role("link")
    with page.context.expect_page() as other:
        link.click(modifiers=["ControlOrMeta"])
    expect(other.value.get_by_role("region", name="About task/watch")).to_be_visible()
    expect(about).to_have_count(0)
    other.value.close()

    link.click()
    expect(about).to_be_visible()
    link.click()
    assert page.evaluate("() => history.length") == before + 1
    page.go_back()
    expect(about).to_have_count(0)


def test_the_focus_moves_to_the_target_of_a_link(kept: Kept, page: Page) -> None:
    links = kept.links
    page.goto(links.at("/plan/task/integrate"))
    page.get_by_role("region", name="About task/integrate").get_by_role("link", name="task/backend").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="About task/backend")).to_be_focused()

    page.goto(links.at("/agents/frontend/page"))
    page.get_by_role("main").get_by_role("link", name="task/frontend/page").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="About task/frontend/page")).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()


def test_the_address_keeps_the_graph_when_a_task_is_selected(kept: Kept, page: Page) -> None:
    page.goto(kept.links.url)
    page.get_by_role("button", name="Graph").click()
    page.get_by_role("link", name="task/backend, failed").click()
    expect(page.get_by_role("region", name="About task/backend")).to_be_visible()
    assert page.url.endswith("/plan/task/backend?view=graph")
    page.get_by_role("button", name="Tree").click()
    assert page.url.endswith("/plan/task/backend")
    page.go_back()
    expect(page.get_by_role("group", name=re.compile("Dependency graph"))).to_be_visible()


def test_tasks_are_found_by_words_and_by_state(kept: Kept, page: Page) -> None:
    page.goto(kept.links.url)
    rows = page.get_by_role("treeitem")
    expect(rows).to_have_count(9)

    page.get_by_role("searchbox", name="Find tasks").fill("COLOURS")
    expect(rows.get_by_role("link")).to_have_text(["webchat", "frontend", "style"])
    page.get_by_role("searchbox", name="Find tasks").fill("no such words")
    expect(page.get_by_text("No tasks match.")).to_be_visible()
    page.get_by_role("searchbox", name="Find tasks").fill("")
    page.get_by_role("button", name="1 failed").click()
    expect(rows.get_by_role("link")).to_have_text(["webchat", "backend"])


def test_the_page_is_accessible_on_every_screen(kept: Kept, page: Page, axe: Axe, screens: Screens) -> None:
    page.goto(kept.links.url)
    expect(item(page, "backend")).to_contain_text("failed")
    axe(page)
    screens(page, "plan")

    item(page, "socket").click()
    about = page.get_by_role("region", name="About task/frontend/socket")
    expect(about).to_contain_text("lock core.js is held")
    about.locator("summary").filter(has_text="Conditions").click()
    axe(page)
    screens(page, "plan-task")
    page.set_viewport_size({"width": 360, "height": 740})
    about.get_by_role("link", name="Close").click()
    expect(item(page, "socket")).to_be_visible()


def ten_thousand() -> str:
    """Return a plan with 20 groups of 500 tasks, which all wait for one task."""
    lines = ["plan: big", "goal: many", "tasks:", "  gate: {run: sleep 500}"]
    for group in range(20):
        lines += [f"  g{group}:", "    tasks:"]
        lines += [f"      t{group}-{number}: {{run: 'true', needs: [gate]}}" for number in range(499)]
    return "\n".join(lines)


def test_a_plan_with_ten_thousand_tasks_is_usable(running: Running, served: Serve, page: Page, shot: Shot) -> None:
    page.goto(served(running(ten_thousand())).url)

    expect(page.get_by_role("button", name=re.compile("waiting"))).to_be_visible()
    tree = page.get_by_role("tree")
    expect(item(page, "gate")).to_contain_text("running")
    assert page.get_by_role("treeitem").count() < 100, "only visible rows are in the document"
    tree.focus()
    page.keyboard.press("End")
    expect(item(page, "t19-498")).to_be_in_viewport()
    assert active(page) == "t19-498"
    shot(page, "plan-ten-thousand")

    page.get_by_role("button", name="Graph").click()
    expect(page.get_by_role("link", name="task/g7,")).to_be_visible()
    page.get_by_role("link", name="task/g7,").click()
    expect(page.get_by_text("more", exact=False).first).to_be_visible()
    shot(page, "plan-ten-thousand-graph")


def test_a_task_without_a_status_shows_that_it_waits_for_a_slot(running: Running, served: Serve, page: Page) -> None:
    folder = running("plan: p\nlimits: {tasks: 1}\ntasks:\n  a: {run: sleep 500}\n  b: {run: 'true'}\n")
    page.goto(served(folder).url)
    expect(item(page, "b")).to_contain_text("waits for a slot")
    page.get_by_role("treeitem", name="b").click()
    expect(page.get_by_text("1 running task, and `limits.tasks` is 1")).to_be_visible()


PRINTS = """\
plan: demo
goal: commands that print
tasks:
  grows: {run: 'echo one; cat go; echo two; exit 1'}
  long: {run: 'seq 100000; echo cannot compile; exit 1'}
  late: {run: 'true', needs: [long]}
  gives-up: {agent: {script: [{fail: "the key is missing\\nnobody has one\\nask for it"}]}}
"""


@pytest.fixture(scope="module")
def prints(keep: Keep) -> Kept:
    """Run the plan; `grows` prints a line and waits for a write to the FIFO `go`, which one test makes."""
    return keep("plan: demo\ntasks: {none: {run: 'true'}}\n", begin_to_print)


def begin_to_print(folder: Folder) -> None:
    os.mkfifo(folder.path / "go")
    folder.write("demo.plan.yaml", PRINTS)
    assert folder.run("apply", "--yes", "--detach", "demo.plan.yaml").code == 0


# Whether the end of the output was visible at the first render.
DRAWN = """
new MutationObserver(() => {
  const box = document.querySelector(".printed pre");
  if (window.was_at_end !== undefined || !box?.textContent.includes("cannot compile")) return;
  window.was_at_end = box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 1;
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def test_output_is_followed_and_its_end_is_shown_after_a_failure(
    prints: Kept, page: Page, axe: Axe, screens: Screens
) -> None:
    page.goto(prints.links.at("/plan/task/grows"))
    output = page.get_by_role("region", name="Command output")
    expect(output).to_have_text("one\n")
    expect(page.get_by_label("Follow")).to_be_checked()
    axe(page)
    (prints.folder.path / "go").write_bytes(b"meanwhile\n")
    expect(output).to_have_text("one\nmeanwhile\ntwo\n")
    expect(page.get_by_label("Follow")).to_have_count(0)

    page.add_init_script(DRAWN)
    page.goto(page.url.replace("grows", "long"))
    expect(output).to_contain_text("100000\ncannot compile\n")
    at_end = "box => box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 1"
    assert output.evaluate(at_end), "the end is what one sees"
    assert page.evaluate("() => window.was_at_end"), "and what one saw from the first"
    screens(page, "plan-output")
    before = len(output.inner_text())
    page.get_by_role("button", name="Older lines").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("before => document.querySelector('.printed pre').textContent.length > before", arg=before)

    page.goto(page.url.replace("long", "late"))
    expect(page.get_by_role("region", name="About task/late")).to_contain_text("needs task/long, which failed")
    expect(page.get_by_role("heading", name="Output")).to_have_count(0)


def test_the_full_message_of_a_failure_is_shown(prints: Kept, page: Page) -> None:
    page.goto(prints.links.at("/plan/task/gives-up"))
    about = page.get_by_role("region", name="About task/gives-up")
    expect(about).to_contain_text("the key is missing\nnobody has one\nask for it", use_inner_text=True)
    expect(item(page, "gives-up")).to_contain_text("the key is missing …")
    about.locator("summary").filter(has_text="Conditions").click()
    expect(about.get_by_role("row", name="Ready")).to_contain_text("ask for it")
