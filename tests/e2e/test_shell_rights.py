"""Ways around `shell(git status)`, tried by scripted agents under the real command: none runs anything else."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import chain
from typing import Any

import pytest
import yaml

from tests import needs
from tests.e2e import command_escapes
from tests.e2e.folder import Folder
from tests.product import CommandExit as Exit

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

TOOLS = ["plan_patch", "read", "write", "shell(git status)"]
Steps = list[dict[str, Any]]


def agent(steps: Steps, **more: object) -> dict[str, Any]:
    script = [*steps, {"done": "ok"}]
    return {"goal": "g", "rights": {"tools": TOOLS}, "agent": {"tools": TOOLS, "script": script}, **more}


def applied(folder: Folder, tasks: dict[str, Any]) -> str:
    """What `plan apply` prints of a plan of `tasks`, all of which end well."""
    folder.write("p.plan.yaml", yaml.safe_dump({"plan": "p", "goal": "x", "tasks": tasks}, sort_keys=False))
    said = folder.run("apply", "p.plan.yaml", "--yes")
    assert said.code == Exit.DONE, said.text
    return said.text


def added(task: Any, expected: str) -> Steps:
    """The agent adds `task` below its own, and reads `expected` in the answer."""
    op = {"op": "add", "path": "/tasks/a/tasks", "value": {"x": task}}
    return [{"call": {"plan_patch": {"ops": [op]}}}, {"expect": {"ok": False, "contains": expected}}]


def what_ran(folder: Folder) -> list[str]:
    return [str(path.relative_to(folder.path)) for path in folder.path.rglob("ran")]


def test_law_6_other_lines_are_not_run(folder: Folder) -> None:
    needs.git()
    folder.write("evil", command_escapes.SCRIPT).chmod(0o755)
    folder.write("git", command_escapes.SCRIPT).chmod(0o755)
    steps: Steps = list(
        chain.from_iterable(
            ({"call": {"shell": {"command": line}}}, {"expect": {"error": "Denied"}})
            for line in command_escapes.LINES.values()
        )
    )

    applied(folder, {"a": agent(steps)})

    assert what_ran(folder) == []


def test_law_6_child_gets_no_variable_that_steers_programs(folder: Folder) -> None:
    steps = list(
        chain.from_iterable(
            added({"run": "git status", "env": {name: "touch ran"}}, f"a changed `{name}`")
            for name in command_escapes.VARIABLES
        )
    )
    script = [{"call": {"shell": {"command": "git status"}}}, {"done": "x"}]
    steps += added({"goal": "x", "agent": {"script": script}, "env": {"GIT_DIR": "."}}, "a changed `GIT_DIR`")

    applied(folder, {"a": agent(steps)})

    assert what_ran(folder) == []


def test_law_6_child_has_no_other_command(folder: Folder) -> None:
    folder.write("evil", command_escapes.SCRIPT).chmod(0o755)
    steps = list(
        chain.from_iterable(
            added(task, "you may neither run nor grant that") for task in command_escapes.COMMANDS.values()
        )
    )

    applied(folder, {"a": agent(steps)})

    assert what_ran(folder) == []


def test_law_6_git_runs_no_file_that_an_agent_writes(folder: Folder) -> None:
    needs.git()
    subprocess.run(["git", "init", "-q", "."], cwd=folder.path, check=True)
    tasks = {}
    for at, one in enumerate(command_escapes.REPOSITORIES):
        place = f"r{at}"
        steps: Steps = []
        for path, content in one.files.items():
            if path in one.has:
                steps.append({"call": {"read": {"path": path}}})
            steps.append({"call": {"write": {"path": path, "content": content}}})
            steps.append({"expect": {"error": "Denied"} if path in one.refused else "ok"})
        own(folder, place, one)
        steps += [{"call": {"shell": {"command": "git status"}}}, {"expect": {"not": "Denied"}}]
        tasks[place] = agent(steps, cwd=place)

    applied(folder, tasks)

    assert what_ran(folder) == []
    armed = [f"r{at}" for at, one in enumerate(command_escapes.REPOSITORIES) if one.is_armed]
    for place in armed:
        os.utime(folder.path / place / "f", (2, 2))
        subprocess.run(["git", "status"], cwd=folder.path / place, env={"PATH": os.defpath}, check=False)
    assert sorted(what_ran(folder)) == [f"{place}/ran" for place in armed], "without us, each would have run"


def own(folder: Folder, place: str, one: command_escapes.Repository) -> None:
    """Makes what the owner has in the folder `place`; its file `f` looks changed, so that git writes its index."""
    for path, content in {"f": "x\n", **one.has}.items():
        file = folder.path / place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o755)
    if not one.files.keys() & {"HEAD"}:
        git(folder, place, "init", "-q", ".")
        git(folder, place, "add", "f")
        os.utime(folder.path / place / "f", (1, 1))
    for name, value in one.settings.items():
        git(folder, place, "config", name, value)


def git(folder: Folder, place: str, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder.path / place, check=True)


def test_there_are_enough_escapes_and_each_has_its_name() -> None:
    names = [name for name, _ in command_escapes.table()]

    assert len(names) >= 30 and len(names) == len(set(names))


def test_other_variables_are_passed_and_a_bare_shell_passes_all(folder: Folder) -> None:
    needs.git()
    op = {"op": "add", "path": "/tasks/{}/tasks", "value": {"x": {"run": "env > seen", "env": {"DEBUG": "1"}}}}
    narrow, wide = json.loads(json.dumps(op)), json.loads(json.dumps(op))
    subprocess.run(["git", "init", "-q", "."], cwd=folder.path, check=True)
    narrow["path"], wide["path"] = "/tasks/a/tasks", "/tasks/b/tasks"
    narrow["value"]["x"]["run"] = "git status"
    wide["value"]["x"]["env"] = {"PAGER": "more", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b"}
    wide["value"]["x"]["env"]["GIT_CONFIG_VALUE_0"] = "c"
    wide["value"]["x"]["run"] = "git config a.b > seen; git config core.hooksPath >> seen; echo $PAGER >> seen"
    bare = {"tools": ["plan_patch", "shell"]}
    call = {"call": {"plan_patch": {"ops": [wide]}}}

    applied(
        folder,
        {
            "a": agent([{"call": {"plan_patch": {"ops": [narrow]}}}, {"expect": "ok"}, {"sleep": 1}]),
            "b": {"goal": "g", "rights": bare, "agent": {**bare, "script": [call, {"sleep": 2}, {"done": "ok"}]}},
        },
    )

    assert (folder.path / "seen").read_text().split() == ["c", ".git/hooks", "more"]
