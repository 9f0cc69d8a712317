"""What is live goes back into the file, and what the file says wrongly stays out of the plan."""

from __future__ import annotations

import pytest

from tests.e2e.folder import Folder

COMMENTED = """\
# Mine.
plan: p   # the name
tasks:
  talk:
    goal: "the first words"   # quoted

    agent: {script: [{say: hello}, {sleep: 300}, {done: over}]}
"""


@pytest.mark.process
def test_pull_writes_what_was_patched_and_touches_no_other_byte(folder: Folder) -> None:
    file = folder.write("p.plan.yaml", COMMENTED)
    with folder.started("p.plan.yaml") as owner:
        owner.until("its agent is working")
        assert folder.run("patch", "talk", "goal=patched").code == 0

        said = folder.run("pull", "p.plan.yaml")

        assert said.code == 0, said.err
        assert file.read_text() == COMMENTED.replace("the first words", "patched")
        assert folder.run("diff", "p.plan.yaml").code == 0


@pytest.mark.process
def test_sync_writes_what_was_patched_into_the_file_by_itself(folder: Folder) -> None:
    file = folder.write("p.plan.yaml", COMMENTED)
    with folder.started("p.plan.yaml", "--sync") as owner:
        owner.until("its agent is working")
        folder.run("patch", "talk", "goal=patched")
        owner.until("p.plan.yaml written")

        assert file.read_text() == COMMENTED.replace("the first words", "patched")


@pytest.mark.process
def test_a_save_from_an_editor_that_shows_an_older_text_loses_nothing(folder: Folder) -> None:
    file = folder.write("p.plan.yaml", COMMENTED)
    with folder.started("p.plan.yaml", "--sync") as owner:
        owner.until("its agent is working")
        folder.run("patch", "talk", "notes=from the side")
        owner.until("p.plan.yaml written")

        file.write_text(COMMENTED.replace("# Mine.", "# Mine.\ngoal: new"))
        owner.until("saved from an older text")
        owner.until("p.plan.yaml written")

        document = folder.json("get", "plan/p")["spec"]
        assert document["goal"] == "new"
        assert document["tasks"]["talk"]["notes"] == "from the side"
        assert "notes: from the side" in file.read_text()


@pytest.mark.process
def test_broken_save_is_a_condition_of_the_plan_until_it_is_fixed(folder: Folder) -> None:
    file = folder.write("p.plan.yaml", COMMENTED)
    with folder.started("p.plan.yaml") as owner:
        owner.until("its agent is working")
        file.write_text(COMMENTED.replace("goal:", "gaol:"))
        owner.until("P0201")
        broken = folder.json("get", "plan/p")["status"]["conditions"]["FileInvalid"]
        file.write_text(COMMENTED.replace("first", "second"))
        owner.until("edited ")
        mended = folder.json("get", "plan/p")["status"]["conditions"]["FileInvalid"]

    assert (broken["status"], mended["status"]) == ("True", "False")
    assert "P0201" in broken["message"]


@pytest.mark.process
def test_rollback_holds_the_file_back_until_it_changes(folder: Folder) -> None:
    file = folder.write("p.plan.yaml", COMMENTED)
    with folder.started("p.plan.yaml") as owner:
        owner.until("its agent is working")
        file.write_text(COMMENTED.replace("the first words", "a mistake"))
        owner.until("edited ")
        first = folder.run("history", "-o", "name").out.split()[0]

        assert folder.run("rollback", first).code == 0
        owner.until("edited ")
        assert folder.json("get", "task/talk")["spec"]["goal"] == "the first words"

        file.write_text(COMMENTED.replace("the first words", "a better idea"))
        owner.until("edited ")
        assert folder.json("get", "task/talk")["spec"]["goal"] == "a better idea"


@pytest.mark.process
def test_a_saved_preview_is_refused_once_the_plan_has_moved(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ntasks:\n  a: {goal: x, run: 'true'}\n")
    folder.run("apply", "p.plan.yaml")
    folder.write("p.plan.yaml", "plan: p\ntasks:\n  a: {goal: later, run: 'true'}\n")
    assert folder.run("apply", "p.plan.yaml", "--out", "saved.json").code == 0
    assert folder.run("patch", ".", "goal=moved").code == 0

    said = folder.run("apply", "--plan-file", "saved.json")

    assert said.code == 4, said.text
    assert "preview was made at" in said.err
