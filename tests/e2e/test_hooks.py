"""Hooks with the real command, over HTTP: they block, rewrite, comment, break, are late, loop, quit and make others."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.folder import Folder
from tests.fakes.model_server.running import StartedServer, started

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

Step = dict[str, Any]


def calls(name: str, **arguments: Any) -> Step:
    return {"reply": {"calls": [{"name": name, "arguments": arguments}]}}


def says(text: str) -> Step:
    return {"reply": {"text": text}}


@contextmanager
def models(folder: Folder, hooks: str, *steps: Step, more: str = "") -> Iterator[StartedServer]:
    """A plan whose one agent thinks with these steps and is watched by these hooks; with the server that it asks."""
    with started(list(steps), folder.path) as server:
        lines = [
            "plan: demo",
            "goal: do it",
            "agent: {model: ollama/m, tools: [all]}",
            "hooks:",
            textwrap.indent(textwrap.dedent(hooks).strip(), "  "),
            f"models: {{ollama: {{url: {server.url}}}}}",
        ]
        folder.write("demo.plan.yaml", "\n".join(lines) + "\n" + textwrap.dedent(more))
        yield server


def told(server: StartedServer, index: int = -1) -> str:
    """All that the model read in one request."""
    return "\n".join(str(message.get("content")) for message in server.asked[index]["messages"])


def applied(folder: Folder) -> None:
    """Runs the plan to its end, and once more on what the log has of it: verdicts too are taken from there."""
    said = folder.run("apply", "--yes", "demo.plan.yaml")
    assert said.code == 0, said.text
    again = folder.run("replay", "--tree")
    assert again.code == 0, again.text


def verdicts(folder: Folder, hook: str = "it") -> list[dict[str, Any]]:
    """What the hook said, in order, with the points."""
    steps = [one for record in folder.records() for one in (record, *record.get("also", ()))]
    fired = [one for step in steps if step["type"] == "hook.fired" for one in step["data"]["fired"]]
    return [{"point": one["point"], **one["verdict"]} for one in fired if one["hook"].endswith(hook)]


def test_a_call_is_blocked_another_rewritten_and_a_result_commented(folder: Folder) -> None:
    hooks = """
    it:
      on: [before-call, after-call]
      match: shell
      rule:
        - when: {on: before-call, call: "shell(git push*)"}
          deny: "Not `{arguments.command}`: leave pushing to people."
        - when: {on: before-call, arguments: {command: {not: "echo safe", starts: echo}}}
          rewrite: {command: echo safe}
          comment: Echo says safe things only.
        - when: {on: after-call, result: {contains: safe}}
          comment: That is how it should be.
    """
    steps = [calls("shell", command="git push"), calls("shell", command="echo danger"), says("done")]
    with models(folder, hooks, *steps) as server:
        applied(folder)
        blocked, result = told(server, 1), told(server, 2)
        assert server.stop() == 0

    assert "Not `git push`: leave pushing to people." in blocked
    assert "safe" in result and "That is how it should be." in result
    assert "Echo says safe things only." in result
    settled = [
        one["data"] for one in folder.records() if one["type"] == "call.settled" and one["data"]["tool"] == "shell"
    ]
    assert [one["result"]["text"].strip() for one in settled] == ["safe"], "danger was never echoed"
    assert "hook" in folder.run("events").out


CRASH = """
import json, sys
asked = json.load(sys.stdin)
if asked["tool_name"] == "shell":
    sys.exit(2)
print(json.dumps({"comment": "looked at " + asked["tool_name"]}))
"""


def test_crashing_hook_denies_what_it_guards_and_is_only_noted_elsewhere(folder: Folder) -> None:
    folder.write("look.py", CRASH)
    hooks = """
    it: {on: [before-call], run: [python3, look.py]}
    other: {on: [after-call], run: [python3, none.py]}
    """
    steps = [calls("shell", command="echo hi > a"), calls("list"), says("done")]
    with models(folder, hooks, *steps) as server:
        applied(folder)
        denied, commented = told(server, 1), told(server, 2)
        assert server.stop() == 0

    assert not (folder.path / "a").exists()
    assert "hook it" in denied and "exit 2" in denied
    assert "looked at list" in commented
    assert "none.py" not in commented, "a broken hook that only comments blocks no call"
    faults = [one["fault"] for one in verdicts(folder, "other")]
    assert faults and all("none.py" in fault for fault in faults)


def test_a_hook_that_is_slow_is_not_waited_for_longer_than_it_may_think(folder: Folder) -> None:
    hooks = """
    it: {on: [before-call], match: shell, run: [sleep, "60"], timeout: 300ms}
    kind: {on: [before-call], match: list, run: [sleep, "60"], timeout: 300ms, on-fault: note}
    """
    steps = [calls("shell", command="echo hi > a"), calls("list"), says("done")]
    with models(folder, hooks, *steps) as server:
        applied(folder)
        denied, listed = told(server, 1), told(server, 2)
        assert server.stop() == 0

    assert not (folder.path / "a").exists()
    assert "within 0.3 s" in denied
    assert "demo.plan.yaml" in listed.rpartition("within 0.3 s")[2], "it was listed though the other hook was late"
    assert folder.processes() == []


def test_hook_that_rewrites_without_end_is_stopped_and_reported(folder: Folder) -> None:
    hooks = """
    it: {on: [before-call], match: shell, rule: [{rewrite: {command: "echo {arguments.command}"}}]}
    """
    with models(folder, hooks, calls("shell", command="touch a"), says("done")) as server:
        applied(folder)
        stopped = told(server, 1)
        assert server.stop() == 0

    assert not (folder.path / "a").exists()
    assert "rewrote the arguments more than" in stopped


def test_hook_that_returns_every_answer_or_wakes_forever_is_bounded(folder: Folder) -> None:
    hooks = """
    it: {on: [before-reply], rule: [{deny: Not good enough.}]}
    again: {on: [on-sleep, on-end], rule: [{comment: One more thing.}]}
    """
    with models(folder, hooks, {"times": "always"} | says("here it is")) as server:
        applied(folder)
        assert 2 <= len(server.asked) < 20
        assert "Not good enough." in told(server)
        server.stop()

    assert folder.states() == {"task/.": "done"}


QUIT = """
import json, sys
asked = json.load(sys.stdin)
count = (asked["state"] or 0) + 1
print(json.dumps({"memory": count, "comment": f"look {count}", "is_last": count == 2}))
"""


def test_a_hook_that_remembers_and_quits_is_asked_no_more(folder: Folder) -> None:
    folder.write("look.py", QUIT)
    hooks = "it: {on: [after-call], run: [python3, look.py]}"
    steps = [calls("list"), calls("list", path="."), calls("list", glob="*"), says("done")]
    with models(folder, hooks, *steps) as server:
        applied(folder)
        text = told(server)
        assert server.stop() == 0

    assert [one["comment"] for one in verdicts(folder)] == ["look 1", "look 2"]
    assert text.count("look 1") == text.count("look 2") == 1
    (hook,) = folder.json("get", "hooks")
    assert hook["status"]["state"] == "over"


def test_llm_hook_ends_when_the_plan_says_so_and_in_a_replay_too(folder: Folder) -> None:
    asked = "{when: {message: before-call}, say: ALLOW}"
    hooks = f"it: {{on: before-call, match: list, agent: {{script: [{asked}]}}, expires: {{when: {{turn: 1}}}}}}"
    with models(folder, hooks, calls("list"), calls("list"), says("done")) as server:
        applied(folder)
        assert server.stop() == 0

    assert [one.get("is_last") for one in verdicts(folder)] == [True]


def test_hook_turns_repeated_corrections_by_operators_into_a_hook(folder: Folder) -> None:
    rule = [{"when": {"call": "shell(touch *)"}, "deny": "People asked you not to touch files."}]
    made = calls("hook", on=["before-call"], rule=rule, reason="said twice")
    made["reply"]["calls"][0]["arguments"]["name"] = "no-touch"
    maker = {"system": "People have corrected"}
    steps: list[Step] = [
        {"when": maker | {"not": "accepted"}} | made,
        {"when": maker} | says("I made a hook for that."),
        {"when": {"any": "People asked you"}} | calls("fail", reason="I was not allowed to"),
        {"when": {"any": "I made a hook"}} | calls("shell", command="touch a"),
        {"when": {"not": "accepted"}}
        | calls("task", id="a", goal="x", agent={"script": [{"when": "never", "done": "x"}]}),
        {"times": "always"} | says("I wait."),
    ]
    hooks = "it: {extends: 'lib:repeated-correction', settings: {after: 2}}"
    with models(folder, hooks, *steps) as server, folder.started("--yes", "demo.plan.yaml") as owner:
        owner.until("task/a +started|running +task/a|added")
        assert "I wait." in folder.run("send", "agent/.", "do not touch files", "--ask").out
        assert folder.run("send", "agent/.", "I said: do not touch files").code == 0
        assert owner.ended() == 10
        server.stop()
    assert folder.run("replay", "--tree").code == 0

    assert not (folder.path / "a").exists()
    hook = next(one for one in folder.json("get", "hooks") if one["address"] == "hook/no-touch")
    assert hook["spec"]["watches"] == "agent/."


HANGS_ONCE = """
import json, pathlib, sys, time
asked, seen = json.load(sys.stdin), pathlib.Path("seen")
ids = seen.read_text().split() if seen.exists() else []
seen.write_text(" ".join([*ids, asked["id"]]))
if not ids:
    with open("begun", "w") as pipe:
        pipe.write("x")
    time.sleep(60)
print(json.dumps({"comment": "looked"}))
"""


def test_question_of_a_killed_owner_is_asked_again_under_its_id_and_counts_once(folder: Folder) -> None:
    folder.write("look.py", HANGS_ONCE)
    os.mkfifo(folder.path / "begun")
    hooks = "it: {on: [before-call], match: shell, run: [python3, look.py]}"
    with models(folder, hooks, calls("shell", command="echo hi >> a"), says("done")) as server:
        with folder.killed("--yes", "demo.plan.yaml"):
            assert (folder.path / "begun").read_text() == "x"
        applied(folder)
        assert server.stop() == 0

    first, second = (folder.path / "seen").read_text().split()
    assert first == second
    assert [one["comment"] for one in verdicts(folder)] == ["looked"]
    assert (folder.path / "a").read_text() == "hi\n"
    assert folder.processes() == []


GUARD = """
import json, sys
asked = json.load(sys.stdin)
if asked["tool_name"] == "Bash" and "rm" in asked["tool_input"]["command"]:
    print("rm is not for you", file=sys.stderr)
    sys.exit(2)
"""


def test_a_script_that_was_written_for_claude_code_runs_as_it_is(folder: Folder) -> None:
    folder.write("guard.py", GUARD)
    hooks = "it: {on: [before-call], match: Bash, run: [python3, guard.py], contract: claude-code}"
    steps = [calls("shell", command="rm demo.plan.yaml"), calls("shell", command="echo fine > a"), says("done")]
    with models(folder, hooks, *steps) as server:
        applied(folder)
        denied = told(server, 1)
        assert server.stop() == 0

    assert "rm is not for you" in denied
    assert (folder.path / "a").read_text() == "fine\n"


def test_planning_ends_when_an_operator_approves_the_plan_on_the_command_line(folder: Folder) -> None:
    request = calls("request", kind="plan", what="write a.txt", why="it is the goal", to="person")
    steps: list[Step] = [
        {"when": {"any": "Your plan is approved", "not": "written"}} | calls("write", path="a.txt", content="hello"),
        {"when": {"any": "Your plan is approved"}} | says("done"),
        {"when": {"not": "approval/"}} | request,
        {"times": "always"} | says("I wait."),
    ]
    with (
        models(folder, "it: lib:planning", *steps) as server,
        folder.started("--yes", "demo.plan.yaml") as owner,
    ):
        owner.until("running")
        assert "I wait." in folder.run("send", "agent/.", "are you waiting?", "--ask").out
        assert not (folder.path / "a.txt").exists()
        assert "write a.txt" in folder.run("get", "approvals", "-o", "json").out
        assert folder.run("approve", "approval/root.1").code == 0
        assert owner.ended() == 0, owner.text
        server.stop()
    assert folder.run("replay", "--tree").code == 0

    assert (folder.path / "a.txt").read_text() == "hello"


def test_agent_cannot_remove_or_see_what_watches_it_from_the_root(folder: Folder) -> None:
    hooks = "secret-guard: {on: [before-call], match: shell, rule: [{deny: No shell here.}], copy: same}"
    child = {"goal": "part", "agent": {"model": "ollama/n"}}
    shed = [
        calls("plan_patch", ops=[{"op": "remove", "path": "/hooks/secret-guard"}]),
        calls(
            "edit_plan",
            path="/tasks/part/hooks",
            value={"secret-guard": {"on": ["on-end"], "rule": [{"comment": "x"}]}},
        ),
        calls("plan_view"),
        calls("shell", command="touch a"),
        says("I could not"),
    ]
    steps = [
        *({"model": "n"} | step for step in shed),
        {"model": "m"} | calls("task", id="part", wait=True, **child),
        {"model": "m"} | says("done"),
    ]
    with models(folder, hooks, *steps) as server:
        applied(folder)
        mine = [body for body in server.asked if body["model"] == "n"]
        server.stop()

    assert not (folder.path / "a").exists()
    assert "No shell here." in json.dumps(mine[-1])
    views = json.dumps(mine[3]["messages"][-1])
    assert "secret-guard" not in views.replace("No shell", ""), "it does not see what it cannot shed"
    assert "hooks" in json.loads(folder.run("get", "plan", "-o", "json").out)[0]["spec"]
