"""The examples, each run in a copy of its folder, and `redirect` changed while it runs as its comments promise."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from tests import golden_text
from tests.e2e.folder import Folder, Owner

EXAMPLES = Path(__file__).parents[2] / "plans/examples"

MADE = {
    "quickstart": {"greet.py": "hello, ", "greeting.txt": "hello, everybody\n"},
    "failure": {"plan-b.txt": "hopeless failed", "tried.txt": "", "word.txt": "right\n"},
    "webchat": {"frontend/index.html": "<form>", "backend/chat.py": "WebSocket", "integration.py": "the chat works"},
    "redirect": {"sky-3.txt": "sky 3\n", "framed.txt": "sky 1\nsky 2\nsky 3\n"},
    "locks": {"guide.md": "How to begin", "out/handbook.txt": "# Handbook"},
}
DONE = {
    "quickstart": {"task/.", "task/write", "task/deliver", "task/count"},
    "failure": {"task/.", "task/flaky", "task/repaired", "task/after"},
    "webchat": {"task/.", "task/frontend", "task/backend"},
    "redirect": {"task/.", "task/paint", "task/wait", "task/frame"},
    "locks": {"task/.", "task/guide", "task/title", "task/print"},
}

pytestmark = [pytest.mark.process, pytest.mark.timeout(100)]


def copied(folder: Folder, example: str) -> Path:
    shutil.copytree(EXAMPLES / example, folder.path, dirs_exist_ok=True)
    return folder.path / f"{example}.plan.yaml"


def save(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_every_example_is_tested() -> None:
    elsewhere = {"team", "socratic", "containers"}  # In test_team.py, test_socratic.py, and below.
    assert {path.name for path in EXAMPLES.iterdir()} == MADE.keys() | elsewhere


@pytest.mark.parametrize("example", MADE)
def test_an_example_ends_done_with_its_files(folder: Folder, example: str) -> None:
    file = copied(folder, example)
    file.write_text(re.sub(r"sleep: 5s|sleep 20", lambda found: found[0].rstrip("s025") + "0.1", file.read_text()))
    before = file.read_bytes()

    said = folder.run("apply", "--yes", file.name)

    assert said.code == 0, said.text
    assert folder.states() == dict.fromkeys(DONE[example], "done")
    for name, text in MADE[example].items():
        assert text in (folder.path / name).read_text()
    assert file.read_bytes() == before
    assert folder.run("diff", file.name).code == 0
    replayed = folder.run("replay", "--tree")
    assert replayed.code == 0, replayed.text
    assert folder.processes() == []


def test_edn_spelling_of_webchat_runs_too(folder: Folder) -> None:
    copied(folder, "webchat")

    assert folder.run("apply", "--yes", "webchat.plan.edn").code == 0
    assert folder.states() == dict.fromkeys(DONE["webchat"], "done")


def test_failure_shows_what_failed_and_its_consequences(folder: Folder) -> None:
    copied(folder, "failure")

    said = folder.run("apply", "--yes", "failure.plan.yaml").out

    assert "the tool does not exist" in said
    assert re.search(r"gone +task/hopeless", said)
    assert said.count("  running    task/flaky") == 2
    assert said.count("  running    task/repaired") == 2


@pytest.mark.timeout(240)
def test_containers_start_in_order_are_checked_inside_and_leave_only_their_data(
    folder: Folder, engine: DockerEngine
) -> None:
    file = copied(folder, "containers")
    save(file, "sleep 5", "sleep 0")
    made = folder.run("image", "make", "shell")
    assert made.code == 0, made.text

    said = folder.run("apply", "--yes", file.name).out

    came = re.findall(r"(completed|healthy|done) +(container/\w+|task/ask)", said)
    ups = [("completed", "container/writer"), ("healthy", "container/server"), ("done", "task/ask")]
    assert came[: len(ups)] == ups, said
    assert re.search(r"removed +container/server", said)
    golden_text.said_in(said)
    assert folder.states() == {"task/.": "done", "task/ask": "done"}
    assert "response:200" in folder.run("logs", "container/server").out
    checks = folder.run("describe", "task/ask").out
    assert re.search(r"check +1: pass +run-in server", checks)
    assert folder.run("down", "--volumes").code == 0


def slowed(folder: Folder) -> Path:
    """`redirect` with pipes where it paints its second line: the test says when that step ends, and hears it end."""
    file = copied(folder, "redirect")
    os.mkfifo(folder.path / "brush")
    os.mkfifo(folder.path / "dry")
    save(file, 'echo "sky 2" > sky-2.txt', "cat brush > sky-2.txt; echo dry > dry")
    save(file, "sleep: 5s", "sleep: 0.1")
    save(file, "sleep 20", "touch wet; sleep 300")
    return file


def painting(owner: Owner) -> None:
    while {"task/paint", "task/wait"} - set(re.findall(r"running +(task/\w+)", owner.text)):
        owner.until("running")


def test_redirect_follows_every_edit_its_comments_promise(folder: Folder) -> None:
    file = slowed(folder)
    with folder.started("--yes", file.name) as owner:
        painting(owner)
        with (folder.path / "brush").open("w") as brush:  # Returns when the agent is in its second step.
            save(file, "paint the sky blue", "paint the sky red")
            owner.until("task/paint/goal")

            save(file, "touch wet; sleep 300", "touch damp; sleep 300")
            owner.until(r"running +task/wait")

            save(file, "\n  frame:", "\n  sign: {goal: sign it, run: touch signed}\n\n  frame:")
            owner.until(r"done +task/sign")

            save(file, "    goal: paint", "    pause: true\n    goal: paint")
            owner.until(r"paused +task/paint")
            brush.write("sky 2\n")

        assert (folder.path / "dry").read_text() == "dry\n"  # The step in which it was paused goes on to its end.
        assert (folder.path / "signed").exists()
        assert (folder.path / "sky-2.txt").read_text() == "sky 2\n"
        assert not (folder.path / "sky-3.txt").exists()

        save(file, "    pause: true\n", "")
        owner.until(r"done +task/paint")

        text = file.read_text()
        file.write_text(re.sub(r"  wait:\n(    .*\n)+", "", text))
        owner.until(r"gone +task/wait")
        assert owner.ended() == 0

    assert (folder.path / "wet").exists()
    assert (folder.path / "damp").exists()
    assert (folder.path / "framed.txt").read_text().count("sky") == 3
    assert folder.processes() == []
    (paint,) = [task for task in folder.json("get", "tasks") if task["address"] == "task/paint"]
    assert paint["status"]["incarnation"] == 1
    turns = [record["data"] for record in folder.records() if record["type"] == "turn.started"]
    assert any("goal" in turn["reasons"] for turn in turns), "it was told"
