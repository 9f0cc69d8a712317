"""`plan replay --tree`: real runs make the same decisions again, and differences are reported."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from planloop.client import plan_paths
from planloop.owner import build
from planloop.owner.replay import history, play
from planloop.owner.replay.play import ReplayOutcome
from tests import golden_text
from tests.e2e.folder import Folder
from tests.fakes.model_server.running import started
from tests.product import CommandExit as Exit
from tests.product import SetStatus
from tests.simulation.plans import PLAYS

AGENTS = """\
plan: demo
goal: two agents and a file
agent:
  tools: [all]
  script:
    - task:
        id: child
        goal: write it
        agent:
          tools: [shell, write, read]
          script:
            - when: {message: go}
              call: {shell: {command: "echo said > said"}}
            - call: {read: {path: said}}
            - call: {write: {path: made, content: "one"}}
            - done: it is written
        acceptance: [{require-file: made}]
    - when: {children: done}
      done: all of it
"""

DUMPS = """\
plan: demo
goal: itself in a file
agent:
  tools: [all]
  script:
    - call: {dump: {path: me.jsonl}}
    - done: written
"""

HOOKS = """\
plan: demo
goal: two agents with hooks
hooks:
  program: {on: [before-call, after-call], match: shell, run: [sh, hook.sh]}
  changed:
    on: [after-call]
    rule: [{when: {changed: {">=": 1}}, comment: "look at {changed}"}, {when: {call: read}, count: reads}]
agent:
  tools: [all]
  script:
    - call: {write: {path: made, content: "one"}}
    - call: {shell: {command: "echo two > made"}}
    - expect: {contains: heard}
    - call: {read: {path: made}}
    - done: all of it
"""

VIOLATION = """\
plan: demo
tasks:
  holds:
    agent:
      tools: [lock, write, send]
      topology: {talk-to: [intrudes]}
      script:
        - call: {lock: {paths: [held], reason: mine}}
        - call: {write: {path: held, content: "mine"}}
        - call: {send: {to: intrudes, text: go}}
        - when: {message: go}
          done: held
  intrudes:
    agent:
      tools: [shell, send]
      topology: {talk-to: [holds]}
      script:
        - when: {message: go}
          call: {shell: {command: "echo theirs > held"}}
        - call: {shell: {command: "true"}}
        - call: {send: {to: holds, text: go}}
        - done: intruded
"""


def _play(folder: Folder) -> ReplayOutcome:
    place = plan_paths.find_plan(None, folder.path)
    return play.replay_plan(build.replay_setup(place))


def _is_same(found: ReplayOutcome) -> bool:
    assert found.verdict == "same", found
    assert not found.notes, [(one.rev, one.type, one.differences) for one in found.notes]
    return True


@pytest.mark.process
@pytest.mark.parametrize("name", PLAYS)
def test_a_run_of_every_play_is_the_same_again(folder: Folder, name: str) -> None:
    text = PLAYS[name].text.replace("sleep 30", "sleep 1").replace("sleep 20", "sleep 1")
    folder.write("sim.plan.yaml", f"plan: sim\n{text}")
    folder.run("apply", "sim.plan.yaml")
    files = _files(folder)
    assert _is_same(_play(folder))
    assert _files(folder) == files, "it touches nothing"


@pytest.mark.process
def test_a_run_in_which_a_request_waited_for_its_slot_is_the_same_again(folder: Folder) -> None:
    # A reply whose record has no next step, because another agent was working, is compared as it is.
    child = {"id": "aide", "goal": "help", "agent": {"script": [{"sleep": 6}, {"done": "helped"}]}}
    steps = [
        {"when": {"after": "task"}, "times": 2, "delay": 1, "reply": {"text": "I wait"}},
        {"when": {"any": "aide"}, "times": "always", "reply": {"text": "so"}},
        {"times": 2, "delay": 1, "reply": {"text": "first", "calls": [{"name": "task", "arguments": child}]}},
    ]
    with started(steps, folder.path) as server:
        head = f"plan: demo\nmodels: {{test: {{url: '{server.url}'}}}}\nlimits: {{models: {{test/*: 1}}}}\ntasks:\n"
        tasks = "".join(f"  {name}: {{goal: say so, agent: {{model: test/m, tools: [task]}}}}\n" for name in "ab")
        folder.write("demo.plan.yaml", head + tasks)
        assert folder.run("apply", "demo.plan.yaml").code == 0
        server.stop()
    records = history.read_history(plan_paths.find_plan(None, folder.path)).records
    changes = [each for one in records for each in one.draft.changes if isinstance(each, SetStatus)]
    waits = [(change.merge.get("open") or {}).get("waited_s") or 0.0 for change in changes]
    assert max(waits, default=0.0) > 0.2, "one had the slot while the other waited"

    assert _is_same(_play(folder))


@pytest.mark.process
def test_a_replay_writes_no_dump(folder: Folder) -> None:
    folder.write("demo.plan.yaml", DUMPS)
    assert folder.run("apply", "demo.plan.yaml").code == 0
    (folder.path / "me.jsonl").unlink()
    assert _is_same(_play(folder))
    assert not (folder.path / "me.jsonl").exists()


@pytest.mark.process
def test_messages_patches_and_edits_are_replayed_at_their_places(folder: Folder) -> None:
    folder.write("demo.plan.yaml", AGENTS)
    with folder.started("demo.plan.yaml") as owner:
        owner.until("running +task/child")
        assert folder.run("patch", "child", "notes=be quick").code == 0
        folder.write("demo.plan.yaml", AGENTS.replace("two agents", "three agents"))
        owner.until("edited")
        assert folder.run("patch", "nobody", "notes=x").code != 0
        folder.send("child", "go")
        assert owner.ended() == 0
    said = folder.run("replay", "--tree")
    assert said.code == 0, said.text
    assert "same" in said.out
    assert _is_same(_play(folder))


@pytest.mark.process
def test_a_plan_whose_owner_was_killed_is_the_same_again(folder: Folder) -> None:
    folder.write("demo.plan.yaml", AGENTS)
    with folder.started("demo.plan.yaml") as owner:
        owner.until("running +task/child")
    with folder.started("demo.plan.yaml") as owner:
        owner.until("goes on|rev")
        folder.send("child", "go")
        assert owner.ended() == 0
    assert _play(folder).verdict == "same"


@pytest.mark.process
def test_command_that_changed_a_locked_file_has_the_same_consequences_again(folder: Folder) -> None:
    folder.done(VIOLATION)
    assert [one["data"]["violated"] for one in folder.records() if "violated" in one["data"]] == [
        {"held": "agent/holds"}
    ]
    _is_same(_play(folder))


def test_held_edits_and_the_answers_to_them_are_decided_again(folder: Folder) -> None:
    text = 'plan: demo\ntasks:\n  one: {run: "sleep 2", protect: true}\n  two: {run: "true"}\n'
    folder.write("demo.plan.yaml", text)
    with folder.started("demo.plan.yaml") as owner:
        owner.until("one")
        assert folder.run("delete", "one").code in (0, Exit.REFUSED)
        for approval in folder.json("get", "approvals"):
            assert folder.run("reject", approval["address"]).code == 0
        assert owner.ended() == 0
    assert _is_same(_play(folder))


@pytest.mark.process
def test_version_that_decides_otherwise_is_reported_where_it_diverges(folder: Folder) -> None:
    folder.write("demo.plan.yaml", 'plan: demo\ntasks:\n  one: {run: "exit 3", retries: 1}\n')
    folder.run("apply", "demo.plan.yaml")
    rewrite(folder, lambda record: record["type"] == "call.settled", _succeed)
    said = folder.run("replay", "--tree", "-o", "json")
    found = json.loads(said.out)
    assert (said.code, found["verdict"]) == (Exit.FAILED, "diverged")
    assert found["at"]["type"] == "call.started", "a command that ended well is not retried"


@pytest.mark.process
def test_a_missing_recording_stops_before_anything(folder: Folder) -> None:
    folder.write("demo.plan.yaml", 'plan: demo\ntasks:\n  one: {run: "echo hello"}\n')
    assert folder.run("apply", "demo.plan.yaml").code == 0
    with closing(sqlite3.connect(log_of(folder))) as connection, connection:
        connection.execute("DELETE FROM blobs WHERE content = ?", (b"hello\n",))
    said = folder.run("replay", "--tree")
    assert said.code == Exit.NOT_FOUND
    golden_text.said_in(said.out)
    assert "blob" in said.out


def _files(folder: Folder) -> dict[Path, int]:
    """Return when each file was written, except files that every reader of an SQLite log creates."""
    found = [path for path in folder.path.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    return {path: path.stat().st_mtime_ns for path in found}


def log_of(folder: Folder) -> Path:
    (log,) = (folder.path / ".plan").glob("*/log.db")
    return log


def _succeed(record: dict[str, Any]) -> None:
    record["data"]["result"] |= {"state": "Succeeded", "exit_code": 0}
    record["data"]["result"].pop("error", None)


def rewrite(folder: Folder, fits: Any, change: Any) -> None:
    """Changes records of the log and its checksums with them: a world in which something else came of it."""

    def first_changed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        change(next(record for record in records if fits(record)))
        return records

    rewrite_all(folder, first_changed)


def rewrite_all(folder: Folder, change: Any) -> None:
    """Write the records that `change` returns, renumbered, with matching checksums."""
    from planloop.reconciler.store import log_reader
    from tests.product import encode_text

    with closing(sqlite3.connect(log_of(folder))) as connection, connection:
        checksum = log_reader.GENESIS
        bodies = connection.execute("SELECT body FROM log ORDER BY rev").fetchall()
        for rev, record in enumerate(change([json.loads(body) for (body,) in bodies]), 1):
            text = encode_text(record | {"rev": rev})
            checksum = log_reader.next_checksum(checksum, text.encode())
            head = (record["at"], record["epoch"], record["type"], record["subject"])
            words = "UPDATE log SET at = ?, epoch = ?, type = ?, subject = ?, body = ?, checksum = ? WHERE rev = ?"
            connection.execute(words, (*head, text, checksum, rev))
        connection.execute("DELETE FROM objects")


@pytest.mark.process
def test_law_1_records_between_a_patch_and_the_end_of_its_call_replay_in_place(
    folder: Folder,
) -> None:
    kid = {"script": [*[{"sleep": 0.1}] * 4, {"done": "x"}]}
    script = [{"task": {"id": "kid", "goal": "to rest", "agent": kid}}, {"when": {"children": "done"}, "done": "it is"}]
    folder.write("demo.plan.yaml", json.dumps({"plan": "demo", "agent": {"tools": ["all"], "script": script}}))
    assert folder.run("apply", "demo.plan.yaml").code == 0

    rewrite_all(folder, _with_the_end_later)

    found = _play(folder)
    assert _is_same(found)
    assert found.taken_over == ()


@pytest.mark.process
def test_a_log_with_explanations_in_other_words_replays_as_the_same(folder: Folder) -> None:
    folder.write("demo.plan.yaml", "plan: demo\ntasks:\n  a: {run: 'false'}\n")
    assert folder.run("apply", "demo.plan.yaml").code == 10

    rewrite_all(folder, lambda records: [json.loads(json.dumps(one).replace("exit code 1", "1")) for one in records])

    found = _play(folder)
    assert (found.verdict, found.end) == ("same", ()), found
    assert found.reworded > 0 and found.notes


@pytest.mark.process
def test_a_log_with_another_state_at_its_end_diverges(folder: Folder) -> None:
    folder.write("demo.plan.yaml", "plan: demo\ntasks:\n  a: {run: 'false'}\n")
    assert folder.run("apply", "demo.plan.yaml").code == 10

    rewrite_all(
        folder, lambda records: [json.loads(json.dumps(one).replace("CommandFailed", "Lost")) for one in records]
    )

    found = _play(folder)
    assert found.verdict == "diverged", found


def _with_the_end_later(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the parent did after its patch, after the child has slept: as if the parent's process had been slow."""
    slept = [index for index, one in enumerate(records) if one["subject"] == "agent/kid" and "slept" in _steps(one)]
    patch = next(index for index, one in enumerate(records) if one["actor"] == "agent:.")
    between = records[patch + 1 : slept[-1] + 1]
    parents = [one for one in between if one["actor"] == "agent:." or one["subject"] == "agent/."]
    others = [one for one in between if one not in parents]
    assert parents and len(others) > 5, [one["subject"] for one in between]
    return [*records[: patch + 1], *others, *parents, *records[slept[-1] + 1 :]]


def _steps(record: dict[str, Any]) -> str:
    return " ".join([record["type"], *(also["type"] for also in record.get("also", ()))])


@pytest.mark.process
def test_verdicts_of_hooks_are_recorded_and_no_hook_is_asked_again(folder: Folder) -> None:
    folder.write("demo.plan.yaml", HOOKS)
    folder.write("hook.sh", """echo asked >> asked; echo '{"comment": "heard"}'""")
    assert folder.run("apply", "demo.plan.yaml").code == 0
    asked = (folder.path / "asked").read_text()
    folder.write("made", "other content, of which no rule may hear")
    folder.write("hook.sh", "exit 3")
    assert _is_same(_play(folder))
    assert (folder.path / "asked").read_text() == asked == "asked\nasked\n"
