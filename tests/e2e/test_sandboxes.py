"""Sandboxes as a person sees them, with the real command."""

from __future__ import annotations

import shutil

import pytest

from tests import golden_text, needs
from tests.e2e.folder import Folder
from tests.product import CommandExit as Exit

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PLAN = """\
plan: p
hooks:
  guard: {on: [before-call], run: ./guard.sh}
agent:
  script: [{call: {shell: {command: "%s"}}}, {done: tried}]
  hooks: [guard]
  sandbox: 2
"""
GUARD = '#!/bin/sh\necho \'{"decision": "allow"}\'\n'


def guarded(folder: Folder, line: str) -> dict[str, str]:
    folder.write("p.plan.yaml", PLAN % line)
    folder.write("guard.sh", GUARD).chmod(0o755)
    return {name: (folder.path / name).read_text() for name in ("p.plan.yaml", "guard.sh")}


@pytest.mark.parametrize(
    "line", ["echo 'plan: p' > p.plan.yaml", "sed -i /hooks/d p.plan.yaml", "echo exit 0 > guard.sh"]
)
def test_a_shell_cannot_shed_the_hooks_above_it(folder: Folder, line: str) -> None:
    needs.bubblewrap()
    before = guarded(folder, f"{line}; touch tried")

    said = folder.run("apply", "p.plan.yaml", "--yes")

    assert said.code == Exit.DONE, said.text
    assert (folder.path / "tried").exists()
    assert {name: (folder.path / name).read_text() for name in before} == before
    assert "tier: 2" in folder.run("get", "task/.", "-o", "yaml").out


def test_checks_and_commands_of_children_are_enclosed_too(folder: Folder) -> None:
    needs.bubblewrap()
    folder.write(
        "p.plan.yaml",
        "plan: p\nagent: {script: [{done: x}], sandbox: 2}\nacceptance: [{sh: 'touch ok && ! test -e .plan/p'}]\n"
        "tasks:\n  made: {run: 'touch made; touch ../out; true'}\n",
    )

    said = folder.run("apply", "p.plan.yaml", "--yes")

    assert said.code == Exit.DONE, said.text
    assert (folder.path / "made").exists() and not (folder.path.parent / "out").exists()


def test_preview_encloses_checks_as_the_run_does_or_states_why_it_skips_them(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    needs.bubblewrap()
    own = "touch here ../out; ! touch p.plan.yaml && ! touch .plan/p"
    file = folder.write(
        "p.plan.yaml",
        "plan: p\nacceptance: [{sh: 'touch free'}]\ntasks:\n  shut:\n    agent: {script: [{done: x}], sandbox: 2}\n"
        f"    tasks: {{below: {{run: 'true', acceptance: [{{sh: '{own}'}}]}}}}\n",
    )
    before = file.stat().st_mtime_ns

    golden_text.said_in(folder.run("diff", "--checks", "p.plan.yaml").out)
    assert (folder.path / "here").exists() and not (folder.path.parent / "out").exists()
    assert file.stat().st_mtime_ns == before

    programs = tmp_path_factory.mktemp("programs")
    for name in ("sh", "touch"):
        (programs / name).symlink_to(shutil.which(name) or "")
    for name in ("here", "free"):
        (folder.path / name).unlink()
    said = folder.run("diff", "--checks", "p.plan.yaml", path=str(programs)).out
    golden_text.said_in(said)
    assert "install bubblewrap" in said
    golden_text.said_in(said, "task/shut/below")
    assert (folder.path / "free").exists() and not (folder.path / "here").exists()


def test_task_with_an_unavailable_sandbox_reports_why_and_starts_once_it_exists(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.bubblewrap()
    bwrap = shutil.which("bwrap") or ""
    programs, outside = folder.path / "programs", tmp_path_factory.mktemp("outside")
    programs.mkdir()
    for name in ("sh", "touch"):
        (programs / name).symlink_to(shutil.which(name) or "")
    guarded(folder, "touch tried")

    monkeypatch.setenv("PATH", f"{programs}:{outside}")
    with folder.started("p.plan.yaml", "--yes") as owner:
        said = owner.until("blocked")
        described = folder.run("describe", "task/.").out
        was_tried = (folder.path / "tried").exists()
        (outside / "bwrap").symlink_to(bwrap)
        owner.until("done")

    assert "bwrap is not installed" in said
    assert not was_tried and (folder.path / "tried").exists()
    assert "NoSandbox" in described and "tries again" in described


LED_OUT = """\
plan: p
tasks:
  t:
    cwd: runs/t
    agent:
      sandbox: {alone: true}
      script:
        - call: {shell: {command: "%s"}}
        - task: {id: h, goal: g, wait: true, cwd: runs/t/out, %s}
        - expect: {ok: false}
        - done: tried
    acceptance: [{sh: "! grep -rs zebra ."}]
"""
HELPER = (
    'script: [{call: {shell: {command: "cat plan.json ../plan.json > $HOME/x; cp plan.json t/; true"}}}, {done: x}]'
)


@pytest.mark.parametrize(
    "line", ["ln -s .. out", "ln -s ../.. out", "mkdir in && ln -s ../.. in/up && ln -s in/up out"]
)
@pytest.mark.parametrize(
    "work", [HELPER, "run: cp plan.json t/", "run: ls, acceptance: [{contains: {path: plan.json, text: zebra}}]"]
)
def test_child_of_an_isolated_agent_sees_no_more_of_the_plan_through_its_links(
    folder: Folder, line: str, work: str
) -> None:
    needs.bubblewrap()
    (folder.path / "runs").mkdir()
    for name in ("plan.json", "runs/plan.json"):
        folder.write(name, "zebra")
    folder.write("p.plan.yaml", LED_OUT % (line, work))

    said = folder.run("apply", "p.plan.yaml", "--yes")

    assert said.code == Exit.FINISHED_WITH_FAILURES, said.text
    described = folder.run("describe", "task/t/h").out
    assert "FolderLeadsOut" in described and "remove the link" in described
    golden_text.said_in(described, "agent/t")
    assert "call.started" not in folder.run("events", "task/t/h").out
    assert sorted(path.name for path in (folder.path / "runs/t").iterdir()) == sorted(
        {"out", *(["in"] if "in" in line.split() else [])}
    )
    (folder.path / "runs/t/out").unlink()  # What a replay finds on disk is not what was found then.
    replayed = folder.run("replay", "--tree")
    assert replayed.code == Exit.DONE, replayed.text
