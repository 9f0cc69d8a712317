"""The Edit page with a running plan: edits take effect, errors change nothing, and no change is lost."""

from __future__ import annotations

import re
from itertools import permutations
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.folder import Folder
from tests.e2e.page.browsing import Kept
from tests.e2e.page.conftest import Axe, Keep, Opened, Running, Serve, Shot

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

# `paint` works in steps until its goal changes.
PAINTING = """\
plan: demo  # the name
goal: a picture

tasks:
  paint:
    goal: paint the sky blue
    agent:
      tools: [shell]
      effects: {shell: idempotent}
      script:
        - call: {shell: {command: "echo 1 > painted"}}
        - when: {goal: red}
          call: {shell: {command: "echo told > told"}}
        - done: painted
  wait:
    goal: let it dry   # slowly
    run: sleep 300
"""
GUARDED = """\
plan: demo
tasks:
  kept: {run: sleep 300, protect: true}
  x: {run: sleep 300}
  y: {run: sleep 300}
"""
SHARED = """\
plan: demo
goal: of all
tasks:
  a: {goal: first, run: sleep 300}
  b: {goal: first, run: sleep 300}
  c: {goal: first, run: sleep 300}
"""


@pytest.fixture(scope="module")
def kept(keep: Keep) -> Kept:
    """The plan for the tests that only read it."""
    return keep(PAINTING)


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="The plan")


def begun(page: Page, url: str) -> Page:
    """Open the Edit page and wait for the text."""
    site, _, token = url.partition("/#")
    page.goto(f"{site}/edit#{token}")
    expect(editor(page)).to_contain_text("plan: demo")
    return page


def text_of(page: Page) -> str:
    """Return the text of the editor. The plans here are short enough to be fully visible."""
    lines = editor(page).locator(".cm-line").all_inner_texts()
    return "\n".join("" if line == "\n" else line for line in lines)


def retype(page: Page, old: str, new: str) -> None:
    """Replace the whole text, as a user does by pasting."""
    text = text_of(page)
    assert old in text, text
    editor(page).press("Control+a")
    page.keyboard.insert_text(text.replace(old, new))


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name)


def press_apply(page: Page, reason: str = "") -> None:
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Apply", exact=True).click()


def live(folder: Folder) -> Any:
    """Return the live document."""
    return folder.json("get", "plan/demo")["spec"]


def test_an_edit_in_the_browser_redirects_a_running_agent(
    running: Running, served: Serve, page: Page, shot: Shot, axe: Axe
) -> None:
    folder = running(PAINTING)
    begun(page, served(folder).url)

    retype(page, "sky blue", "sky red")

    effects = part(page, "Effect")
    expect(effects).to_contain_text("task/paint/goal")
    expect(effects).to_contain_text("message")
    shot(page, "edit-preview")
    axe(page)
    press_apply(page, "it is evening")
    expect(page.get_by_role("form", name="Apply").get_by_role("status")).to_contain_text("Applied")
    assert folder.run("wait", "--for", "done", "task/paint").code == 0
    assert (folder.path / "told").read_text() == "told\n"
    assert {task["address"]: task["status"]["incarnation"] for task in folder.json("get", "tasks")}["task/paint"] == 1
    assert "sky blue" in (folder.path / "demo.plan.yaml").read_text(), "the file is not touched unasked"
    (patched,) = [one for one in folder.records() if one["type"] == "plan.patched" and one["actor"] == "human:web"]
    assert patched["data"]["reason"] == "it is evening"
    shot(page, "edit-applied")


def test_an_error_is_shown_with_its_hint_and_nothing_changes(kept: Kept, page: Page, shot: Shot, axe: Axe) -> None:
    begun(page, kept.links.url)
    before = live(kept.folder)

    retype(page, "goal: let it dry", "gaol: let it dry")

    errors = part(page, "Errors")
    expect(errors.get_by_role("listitem")).to_have_count(1)
    expect(errors).to_contain_text("a task has no field `gaol`")
    expect(errors).to_contain_text("did you mean `goal`?")
    expect(editor(page).locator(".cm-lintRange-error")).to_have_text("gaol")
    expect(page.get_by_role("button", name="Apply", exact=True)).to_be_disabled()
    shot(page, "edit-fault")
    axe(page)
    errors.get_by_role("button", name="Line 16").click()
    expect(editor(page)).to_be_focused()
    assert live(kept.folder) == before

    page.keyboard.insert_text("goal")  # The jump has selected the wrong word.
    expect(errors).to_have_count(0)
    expect(page.get_by_text(re.compile("No (unapplied changes|changes to apply)")).first).to_be_visible()


def test_fields_and_names_are_completed_and_described(kept: Kept, page: Page, shot: Shot) -> None:
    begun(page, kept.links.url)
    editor(page).press("Control+End")

    page.keyboard.type("    need")
    expect(page.get_by_role("listbox")).to_contain_text("needs")
    expect(page.get_by_text("Tasks that must be done first", exact=False)).to_be_visible()
    page.get_by_role("option", name="needs").click()  # A list that has just opened ignores keys.
    page.keyboard.type("[pa")
    expect(page.get_by_role("option", name="paint")).to_be_visible()
    shot(page, "edit-completion")
    page.get_by_role("option", name="paint").click()
    page.keyboard.type("]")
    expect(editor(page)).to_contain_text("needs: [paint]")
    page.keyboard.press("Escape")

    editor(page).get_by_text("needs", exact=False).last.hover()
    expect(page.get_by_text("Tasks that must be done first", exact=False)).to_be_visible()


def test_a_draft_survives_a_reload_a_lost_server_and_another_page(
    kept: Kept, page: Page, console_errors: list[str]
) -> None:
    begun(page, kept.links.url)
    retype(page, "let it dry", "let it dry well")
    expect(part(page, "Effect")).to_contain_text("task/wait/goal")

    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="Edit").click()
    expect(editor(page)).to_contain_text("let it dry well")
    page.reload()
    expect(editor(page)).to_contain_text("let it dry well")
    expect(part(page, "Effect")).to_contain_text("task/wait/goal")

    page.context.set_offline(True)
    retype(page, "dry well", "dry very well")
    expect(page.get_by_text("The server does not answer")).to_be_visible()
    page.context.set_offline(False)
    editor(page).press("Control+End")
    page.keyboard.type("# the end")
    expect(page.get_by_text("1 change, not applied")).to_be_visible()
    expect(editor(page)).to_contain_text("dry very well")

    page.get_by_role("button", name="Reset to the live plan").click()
    expect(editor(page)).not_to_contain_text("very")
    part(page, "Unapplied drafts").get_by_role("button", name="Restore").click()
    expect(editor(page)).to_contain_text("dry very well")
    console_errors.clear()  # Errors about the lost connection.


def test_typed_text_stays_when_another_change_arrives_and_is_merged(
    running: Running, served: Serve, page: Page
) -> None:
    folder = running(SHARED)
    begun(page, served(folder).url)
    held_up: list[Route] = []

    def hold_up(route: Route) -> None:
        held_up.append(route)

    page.route("**/edit", hold_up, times=1)
    with page.expect_request("**/edit"):
        assert folder.run("patch", "task/a", "goal=by another").code == 0

    retype(page, "of all", "of mine")
    expect(page.get_by_text("1 change, not applied")).to_be_visible()
    with page.expect_response("**/edit"):
        held_up[0].continue_()

    others = part(page, "Changes by others")
    expect(others).to_contain_text("by another")
    assert "goal: of mine" in text_of(page)
    expect(page.get_by_text("Unapplied drafts")).to_have_count(0)
    others.get_by_role("button", name="Merge into my text").click()
    expect(editor(page)).to_contain_text("by another")
    expect(editor(page)).to_contain_text("of mine")


def test_bidirectional_control_characters_are_shown_escaped(running: Running, served: Serve, page: Page) -> None:
    folder = running(PAINTING.replace("let it dry", "let \u202eit\u2068 dry"))
    begun(page, served(folder).url)
    expect(editor(page)).to_contain_text("goal: let \\u202eit\\u2068 dry")

    editor(page).press("Control+a")
    page.keyboard.insert_text(PAINTING.replace("goal: let it dry", "\u202egoal: let it dry"))
    page.locator(".cm-lint-marker-error").hover()  # Positions in right-to-left text are unreliable.
    expect(page.locator(".cm-diagnostic")).to_contain_text("`\\u202egoal`")


def test_the_file_is_written_on_request_and_not_if_it_has_changed(running: Running, served: Serve, page: Page) -> None:
    folder = running(PAINTING)
    file = folder.path / "demo.plan.yaml"
    begun(page, served(folder).url)

    retype(page, "let it dry   # slowly", "let it dry well   # in the sun")
    page.get_by_role("checkbox", name="Also write to demo.plan.yaml").check()
    press_apply(page)

    expect(page.get_by_text("Wrote the live plan to demo.plan.yaml.")).to_be_visible()
    assert file.read_text() == PAINTING.replace("let it dry   # slowly", "let it dry well   # in the sun")

    retype(page, "# the name", "# its name")
    expect(page.get_by_text("No changes to apply. Comments and layout may differ.")).to_be_visible()
    page.get_by_role("button", name="Write to demo.plan.yaml").click()
    expect(page.get_by_text("No unapplied changes.")).to_be_visible()
    assert "plan: demo  # its name\n" in file.read_text()

    broken = file.read_text() + "  oops\n"
    file.write_text(broken)
    expect(part(page, "The plan file")).to_contain_text("has errors, so the live plan is unchanged")
    retype(page, "dry well", "dry very well")
    press_apply(page)
    expect(page.get_by_role("alert")).to_contain_text("changes that are not applied")
    assert file.read_text() == broken
    assert live(folder)["tasks"]["wait"]["goal"] == "let it dry very well"


def test_a_refused_or_held_edit_shows_the_reason_and_the_fix(
    running: Running, served: Serve, page: Page, shot: Shot, axe: Axe
) -> None:
    folder = running(GUARDED)
    begun(page, served(folder).url)
    said = page.get_by_role("form", name="Apply").get_by_role("status")

    retype(page, "  kept: {run: sleep 300, protect: true}\n", "")
    expect(part(page, "Effect")).to_contain_text("This edit will be rejected")
    press_apply(page)
    expect(said).to_contain_text("task/kept is protected and cannot be removed")
    expect(said).to_contain_text("remove the protection first")
    shot(page, "edit-refused")
    assert list(live(folder)["tasks"]) == ["kept", "x", "y"]

    retype(page, "  x: {run: sleep 300}\n  y: {run: sleep 300}", "  kept: {run: sleep 300, protect: true}")
    expect(part(page, "Effect")).to_contain_text("Needs approval")
    press_apply(page)
    expect(said).to_contain_text("Held for approval")
    shot(page, "edit-held")
    axe(page)
    assert list(live(folder)["tasks"]) == ["kept", "x", "y"]
    link = said.get_by_role("link", name="Open the approval").get_attribute("href") or ""
    assert folder.run("approve", f"approval/{link.rpartition('/')[2]}").code == 0
    expect(page.get_by_text(re.compile("No (unapplied changes|changes to apply)")).first).to_be_visible()
    assert list(live(folder)["tasks"]) == ["kept"]


def test_a_read_only_link_shows_the_text_and_cannot_change_it(kept: Kept, page: Page) -> None:
    begun(page, kept.links.read_url)

    editor(page).press("Control+End")
    page.keyboard.type("nothing")

    expect(editor(page)).not_to_contain_text("nothing")
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)


@pytest.mark.parametrize("order", [*permutations(("one", "other", "file"))], ids="-".join)
def test_two_browsers_and_the_file_at_once_end_in_one_plan_with_nothing_lost(
    order: tuple[str, ...], running: Running, served: Serve, opened: Opened, shot: Shot
) -> None:
    """Each changes its own goal and the goal of the plan, before any change is applied."""
    folder = running(SHARED)
    link = served(folder).url
    pages = {"one": begun(opened(), link), "other": begun(opened(), link)}
    watching = begun(opened(), link)  # Without typing, the text follows the live plan.
    tasks = {"one": "a", "other": "b", "file": "c"}
    for name, page in pages.items():
        retype(page, f"{tasks[name]}: {{goal: first", f"{tasks[name]}: {{goal: by {name}")
        retype(page, "of all", f"of {name}")
        expect(page.get_by_text("2 changes, not applied")).to_be_visible()
    shown: dict[str, str] = {}  # Where the page reported an overwritten goal of the plan, by its author.

    before = ""
    for name in order:
        if name == "file":
            folder.write(
                "demo.plan.yaml", SHARED.replace("c: {goal: first", "c: {goal: by file").replace("of all", "of file")
            )
            expect(editor(watching)).to_contain_text("of file")
            if before:
                for page in pages.values():
                    expect(part(page, "The plan file")).to_contain_text("overwrote changes in the live plan")
                shown[before] = "the file's save says what it took"
        else:
            page = pages[name]
            if before:
                clash = part(page, "Conflicts").get_by_role("group")
                expect(clash).to_have_count(1)
                for side in ("of all", f"of {name}", f"of {before}"):
                    expect(clash).to_contain_text(side)
                shot(page, f"edit-conflict-{'-'.join(order)}")
                clash.get_by_role("radio", name="Mine").check()
                shown[before] = "the conflict was chosen in"
            press_apply(page, f"by {name}")
            expect(page.get_by_role("form", name="Apply").get_by_role("status")).to_contain_text("Applied")
        before = name

    document = live(folder)
    assert {task: document["tasks"][task]["goal"] for task in "abc"} == {t: f"by {who}" for who, t in tasks.items()}
    assert document["goal"] == f"of {order[-1]}"
    assert set(shown) == set(order[:-1])
    for page in pages.values():
        expect(editor(page)).to_contain_text(f"of {order[-1]}")
        for task, who in (("a", "one"), ("b", "other"), ("c", "file")):
            expect(editor(page)).to_contain_text(f"{task}: {{goal: by {who}")


def test_a_narrow_dark_screen_shows_everything(
    running: Running, served: Serve, opened: Opened, shot: Shot, axe: Axe
) -> None:
    link = served(running(PAINTING)).url
    page = begun(opened(color_scheme="dark", viewport={"width": 360, "height": 740}), link)
    other = begun(opened(), link)
    retype(page, "let it dry", "let it dry well")
    retype(other, "let it dry", "let it dry elsewhere")
    retype(other, "a picture", "a large picture")
    expect(other.get_by_text("2 changes, not applied")).to_be_visible()
    press_apply(other)

    expect(part(page, "Conflicts")).to_be_visible()
    expect(part(page, "Changes by others")).to_contain_text("a large picture")

    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    axe(page)
    part(page, "Conflicts").scroll_into_view_if_needed()
    shot(page, "edit-narrow-dark")
    part(page, "Conflicts").get_by_role("radio", name="Live").check()
    part(page, "Changes by others").get_by_role("button", name="Merge into my text").click()
    expect(editor(page)).to_contain_text("a large picture")
    expect(editor(page)).to_contain_text("let it dry elsewhere   # slowly")
