"""What agents added is written back into files of every style: at one place, with every other byte as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden_text
from tests.e2e.folder import Folder

# In each of them `boss` adds a child, and another that needs it.
ADDS = (
    "{script: [{task: [{id: one, goal: 'first: part', run: 'true'}, {id: two, needs: [one], run: 'true'}]},"
    " {when: {children: done}, done: split}], tools: [task]}"
)
BLOCK = f"""\
# yaml-language-server: $schema=./.plan/schema.json
plan: p      # the name


tasks:   # what there is to do
  # the boss
  boss:
      goal: "split: it"   # quoted
      agent: {ADDS}
  # after that

  last:
    needs:
    - boss
    run: |
      true   # not a comment of ours
    notes: >-
      folded
      text
# the end
"""
ODD = f"""\
plan:   p
tasks:
       boss:
         agent:   {ADDS}

         goal:   'it''s odd'
       last:   {{run:   "true",   needs:   [ boss ]}}
"""
FLOW = f'{{plan: p, "tasks": {{boss: {{agent: {ADDS}, goal: flow}}, last: {{run: "true"}}}}}}  # all in one line\n'
ANCHORS = f"""\
plan: p
tasks:
  first: &quick
    run: "true"   # said once
    priority: 2
  second: *quick
  boss: {{agent: {ADDS}}}
"""
NO_NEWLINE = f"plan: p\ntasks:\n  boss:\n    agent: {ADDS}"
EDN = """\
;; the plan
{:plan "p"   ; its name
 :tasks {:boss {:goal "split, it"
                :agent {:tools [:task]   ; one is enough
                        :script [{:task [{:id "one" :goal "first" :run "true"} {:id "two" :needs ["one"] :run "true"}]}
                                 {:when {:children "done"} :done "split"}]}}
         #_(:old {:run "false"})
         :last {:run "true", :needs [boss]}}}
; the end
"""
LIST = """\
;; the list spelling
(task "p"
  (task "boss"   ; adds two
    :agent {:tools [:task]
            :script [{:task [{:id "one" :goal "first" :run "true"} {:id "two" :needs ["one"] :run "true"}]}
                     {:when {:children "done"} :done "split"}]})

  (task "last" :run "true"))
"""
FILES = {
    "comments and quotes": ("p.yaml", BLOCK.encode()),
    "odd indentation": ("p.yaml", ODD.encode()),
    "CRLF": ("p.yaml", BLOCK.replace("\n", "\r\n").encode()),
    "a byte order mark": ("p.yaml", b"\xef\xbb\xbf" + BLOCK.encode()),
    "flow style": ("p.yaml", FLOW.encode()),
    "anchors": ("p.yaml", ANCHORS.encode()),
    "no newline at the end": ("p.yaml", NO_NEWLINE.encode()),
    "EDN": ("p.edn", EDN.encode()),
    "EDN with CRLF": ("p.edn", EDN.replace("\n", "\r\n").encode()),
    "EDN as a list": ("p.edn", LIST.encode()),
}

pytestmark = [pytest.mark.process, pytest.mark.timeout(80)]


def inserted(old: bytes, new: bytes) -> bytes:
    """What was put into `old`, at one place, to make it `new`."""
    size = len(new) - len(old)
    at = next((at for at in range(len(old)) if old[at] != new[at]), len(old))
    while at >= 0 and old[at:] != new[at + size :]:
        at -= 1
    assert size > 0 <= at
    assert old == new[:at] + new[at + size :], new.decode()
    return new[at : at + size]


def agrees(folder: Folder, file: Path) -> None:
    """The file says just what is live, and applying it changes nothing."""
    diff = folder.run("diff", file.name)
    assert diff.code == 0, diff.text
    assert "the live plan" not in diff.out
    rev = folder.json("get", "plan/p")["status"]["document_rev"]
    before = file.read_bytes()
    assert folder.run("apply", "--yes", file.name).code == 0
    assert folder.json("get", "plan/p")["status"]["document_rev"] == rev
    golden_text.said_in(folder.run("pull", file.name).out)
    assert file.read_bytes() == before
    assert not file.with_name(f"{file.name}.new").exists()


@pytest.mark.parametrize("style", FILES)
def test_law_9_pull_inserts_what_agents_added_and_touches_no_other_byte(folder: Folder, style: str) -> None:
    name, content = FILES[style]
    file = folder.path / name
    file.write_bytes(content)
    said = folder.run("apply", "--yes", name)
    assert said.code == 0, said.text
    assert folder.states()["task/boss/two"] == "done"
    assert file.read_bytes() == content, "apply writes no file"

    dry = folder.run("pull", name, "--dry-run")
    assert "boss" in dry.out
    assert file.read_bytes() == content
    said = folder.run("pull", name)

    assert said.code == 0, said.text
    added = inserted(content, file.read_bytes())
    assert b"one" in added
    assert b"two" in added
    assert (b"\r\n" in added) == (b"\r\n" in content)
    agrees(folder, file)


@pytest.mark.parametrize("style", FILES)
def test_sync_does_the_same_while_it_runs(folder: Folder, style: str) -> None:
    name, content = FILES[style]
    file = folder.path / name
    file.write_bytes(content)

    said = folder.run("apply", "--yes", "--sync", name)

    assert said.code == 0, said.text
    assert f"{name} written: " in said.out
    assert b"two" in inserted(content, file.read_bytes())
    agrees(folder, file)


def test_patched_value_keeps_its_quotes_and_a_deleted_task_takes_its_lines(folder: Folder) -> None:
    file = folder.write("p.yaml", BLOCK)
    assert folder.run("apply", "--yes", "p.yaml").code == 0
    assert folder.run("pull", "p.yaml").code == 0
    pulled = file.read_text()

    assert folder.run("patch", "task/boss", "goal=no").code == 0
    assert folder.run("patch", "task/last", "priority=3").code == 0
    assert folder.run("pull", "p.yaml").code == 0

    patched = pulled.replace('"split: it"', '"no"').replace("      text\n", "      text\n    priority: 3\n")
    assert file.read_text() == patched
    assert folder.run("delete", "last").code == 0
    assert folder.run("pull", "p.yaml").code == 0
    assert file.read_text() == patched[: patched.index("  last:")] + "# the end\n"
    assert folder.run("diff", "p.yaml").code == 0


def test_change_of_a_value_shared_by_an_alias_goes_to_a_side_file(folder: Folder) -> None:
    file = folder.write("p.yaml", ANCHORS)
    assert folder.run("apply", "--yes", "p.yaml").code == 0
    assert folder.run("patch", "task/second", "priority=9").code == 0

    said = folder.run("pull", "p.yaml")

    assert said.code == 4
    golden_text.said_in(said.err)
    assert "p.yaml.new" in said.err
    assert file.read_text() == ANCHORS
    assert folder.run("diff", "p.yaml.new").code == 0


def test_an_edit_that_was_not_applied_yet_is_kept_by_pull(folder: Folder) -> None:
    file = folder.write("p.yaml", BLOCK)
    assert folder.run("apply", "--yes", "p.yaml").code == 0
    edited = BLOCK.replace("    needs:\n", "    priority: 7   # mine\n    needs:\n").replace("# the end", "# my end")
    file.write_text(edited)

    assert folder.run("pull", "p.yaml").code == 0

    assert b"two" in inserted(edited.encode(), file.read_bytes())
    assert folder.json("get", "task/last")["spec"]["priority"] == 7
    agrees(folder, file)


def test_a_plan_that_was_never_applied_has_nothing_to_pull(folder: Folder) -> None:
    file = folder.write("p.yaml", BLOCK)

    said = folder.run("pull", "p.yaml")

    assert said.code == 6
    assert "help:" in said.err
    assert file.read_text() == BLOCK
