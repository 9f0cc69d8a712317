"""Each hook of the library on agents with the scripted model: what it says, when it speaks and when it stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.test_models import asked, call, calls, says
from tests.fakes.scripted_models import ScriptedModels
from tests.golden_text import said_in
from tests.product import HUMAN_CLI

pytestmark = pytest.mark.anyio


def plan(hook: str, tools: str = "all", more: str = "") -> str:
    return f"goal: do it\nagent: {{model: test/m, tools: [{tools}]}}\nhooks: {{it: {hook}}}\n{more}"


def shown(models: ScriptedModels, index: int = -1) -> str:
    """The whole text of one request to the model."""
    return "\n".join(str(message["content"]) for message in asked(models, index))


async def ended(here: Arena, text: str) -> str:
    verdict = await here.apply(text)
    assert type(verdict).__name__ == "PatchAccepted", verdict
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    return here.state("task/.")


async def results(here: Arena, tool: str) -> list[tuple[str, str]]:
    return [(each["state"], each["text"]) for each in await here.results(tool)]


async def test_planning_is_read_only_until_an_operator_approves_the_plan(tmp_path: Path) -> None:
    write = call("write", path="a.txt", content="hello")
    request = call("request", kind="plan", what="write a.txt", why="it is the goal", to="person")
    models = ScriptedModels(
        [
            calls(write),
            calls(call("list")),
            says("it is done"),
            calls(request),
            says("I wait."),
            calls(write),
            says("written"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan("lib:planning", "read, write, list"))
        await here.until(lambda: here.state("approval/root.1") == "waiting" and here.state("agent/.") == "blocked")
        assert not (tmp_path / "a.txt").exists()
        await here.gate.approve("approval/root.1", HUMAN_CLI)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert here.read("a.txt") == "hello"
        assert [each[0] for each in await results(here, "list")] == ["Succeeded"]
        assert here.state("hook/it") == "over"
    assert models.left == []
    assert "until your plan is approved" in shown(models, 1)
    said_in(shown(models, 1), "write")
    assert "Your plan is not approved yet" in shown(models, 3)
    assert "Your plan is approved" in shown(models, 5)


async def test_planning_is_not_ended_by_a_no_and_binds_those_below(tmp_path: Path) -> None:
    request = call("request", kind="plan", what="write a.txt", why="it is the goal", to="person")
    top = [
        {"when": {"any": "still too short"}} | calls(call("fail", reason="nobody wants it")),
        {"when": {"any": "too short", "not": "root.2"}} | calls(request),
        {"when": {"not": "root.1"}} | calls(request),
        {"times": "always"} | says("I wait."),
    ]
    below = [calls(call("write", path="b.txt", content="x")), says("b.txt has to be written")]
    models = ScriptedModels([step | {"model": "m"} for step in top] + [step | {"model": "n"} for step in below])
    async with arena(tmp_path, models=models) as here:
        child = "tasks: {part: {goal: write it, agent: {model: test/n, tools: [write]}}}"
        await here.apply(plan("lib:planning", "read", child))
        await here.until_state("task/part", "done")
        await here.until(lambda: here.state("approval/root.1") == "waiting" and here.state("agent/.") == "blocked")
        await here.gate.reject("approval/root.1", HUMAN_CLI, "too short")
        await here.until(lambda: here.state("approval/root.2") == "waiting" and here.state("agent/.") == "blocked")
        assert here.get("hook/part/it").spec["is_read_only"]
        assert here.state("hook/it") != "over"
        await here.gate.reject("approval/root.2", HUMAN_CLI, "still too short")
        await here.until_state("task/.", "failed")
    assert not (tmp_path / "b.txt").exists()
    assert "the plan of the agent above you" in shown(models, [one.model for one in models.asked].index("test/n", 2))
    assert "Your plan is not approved" in shown(models)
    assert "too short" in shown(models)


async def test_the_agent_above_may_say_yes_to_a_plan_and_only_that_agent_is_freed(tmp_path: Path) -> None:
    write, request = (
        call("write", path="a.txt", content="hello"),
        call("request", kind="plan", what="a.txt", why="goal"),
    )
    models = ScriptedModels(
        [
            {"model": "m", "when": {"any": "approval/part.1", "not": "rejected; the asker\ngranted"}, "times": 1}
            | calls(call("answer", to="approval/part.1", answer="yes", why="good plan")),
            {"model": "m", "when": {"any": "task/part is done"}} | says("all done"),
            {"model": "m", "times": "always"} | says("I wait."),
            {"model": "n", "when": {"any": "Your plan is approved", "not": "`a.txt` written"}} | calls(write),
            {"model": "n", "when": {"any": "Your plan is approved"}} | says("written"),
            {"model": "n", "when": {"not": "approval/part.1"}} | calls(request),
            {"model": "n", "times": "always"} | says("I wait."),
        ]
    )
    text = """
        goal: do it
        agent: {model: test/m, tools: [read]}
        tasks:
          part: {goal: write it, agent: {model: test/n, tools: [write]}, hooks: {first: lib:planning}}
    """
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, text) == "done"
        assert here.read("a.txt") == "hello"
        assert here.state("hook/part/first") == "over"
    assert models.left == []


async def test_operator_ends_planning_by_approving_the_hook_itself(tmp_path: Path) -> None:
    write = call("write", path="a.txt", content="hello")
    request = call("request", kind="plan", what="a.txt", why="goal", to="person")
    models = ScriptedModels(
        [calls(request), says("I wait."), {"when": {"last": "go on"}} | calls(write), says("written"), says("I wait.")]
    )
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan("lib:planning", "write"))
        await here.until(lambda: here.state("approval/root.1") == "waiting" and here.state("agent/.") == "blocked")
        await here.gate.approve("hook/it", HUMAN_CLI)
        await here.until_state("hook/it", "over")
        await here.tell("agent/.", "go on", "m1")
        await here.until((tmp_path / "a.txt").exists)


async def test_hook_agent_of_a_planning_agent_may_give_its_verdict(tmp_path: Path) -> None:
    """Hooks that are agents are watched by rules themselves: planning must not keep them from their verdict."""
    toes = {"system": "You see an answer"}
    request = call("request", kind="plan", what="a.txt", why="goal", to="person")
    models = ScriptedModels(
        [
            {"when": toes, "times": "always"} | calls(call("verdict", decision="allow")),
            {"when": {"any": "You are right"}} | says("it is done"),
            {"when": {"not": "approval/root.1"}} | calls(request),
            {"times": "always"} | says("You are wrong."),
        ]
    )
    more = "hooks: {it: lib:planning, toes: lib:on-your-toes}"
    async with arena(tmp_path, models=models) as here:
        await here.apply(f"goal: do it\nagent: {{model: test/m, tools: [read]}}\n{more}")
        await here.until(lambda: here.state("approval/root.1") == "waiting" and here.state("agent/.") == "blocked")
        fired = [one for draft in await here.log() if draft.type == "hook.fired" for one in draft.data["fired"]]
    of_toes = [one["verdict"] for one in fired if one["hook"] == "hook/toes"]
    assert of_toes and not any(one.get("fault") for one in of_toes), of_toes


async def test_untouched_plan_causes_a_reminder_after_a_number_of_turns(tmp_path: Path) -> None:
    touch = call("write", path="todo.md", content="- all of it")
    steps = [calls(call("list"))] * 3 + [calls(touch)] + [calls(call("list"))] * 4 + [says("done")]
    models = ScriptedModels(steps)
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan("{extends: 'lib:todo-reminder', settings: {turns: 2}}", "write, list")) == "done"
    told = [shown(models, index).count("You have not touched your plan") for index in range(len(models.asked))]
    # Told with the results of the third turn, and then two turns after the plan was touched, and two after that.
    assert told == [0, 0, 0, 1, 1, 1, 2, 2, 3]
    assert shown(models).count("You have not touched your plan or notes for 2 turns.") == 3


async def test_external_file_change_is_reported_once_to_affected_agents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    change = call("shell", command="echo new > a.txt")
    models = ScriptedModels(
        [
            calls(call("read", path="a.txt")),
            calls(call("list")),
            calls(change),
            calls(call("list")),
            calls(call("read", path="a.txt")),
            calls(call("list")),
            says("done"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan("lib:file-changed", "read, list, shell")) == "done"
    told = [shown(models, index).count("Changed on disk since") for index in range(len(models.asked))]
    assert told == [0, 0, 0, 1, 1, 1, 1]
    assert "Changed on disk since you last read them: a.txt." in shown(models)


async def test_change_is_reported_only_to_the_agent_that_has_not_seen_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "b.txt").write_text("old")
    read, write = call("read", path="a.txt"), call("write", path="a.txt", content="new")
    models = ScriptedModels(
        [
            {"model": "m", "when": {"not": "old"}} | calls(read),
            {"model": "m", "when": {"not": "go on"}, "times": "always"} | says("I wait."),
            {"model": "m"} | says("seen"),
            {"model": "n", "when": {"not": "old"}} | calls(read),
            {"model": "n", "when": {"not": "written"}} | calls(write),
            {"model": "n", "when": {"not": "no files"}} | calls(call("list", glob="*.md")),
            {"model": "n"} | says("written"),
        ]
    )
    text = """
        goal: wait
        hooks: {it: lib:file-changed}
        agent: {model: test/m, tools: [read]}
        tasks:
          late: {goal: never, pause: true, run: "true"}
          other: {goal: write it, agent: {model: test/n, tools: [read, write, list]}, needs: [first]}
          first: {goal: begin, run: "while ! test -e begun; do sleep 0.02; done"}
    """
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until(lambda: here.state("agent/.") == "asleep" and "a.txt" in here.get("agent/.").status["files"])
        (tmp_path / "begun").touch()
        await here.until_state("task/other", "done")
        await here.until(lambda: here.state("agent/.") == "asleep")
        await here.tell("agent/.", "go on", "m1")
        await here.until(lambda: models.asked[-1].model == "test/m" and "go on" in shown(models))
        await here.until(lambda: here.state("agent/.") == "asleep")
    told = {one.model: 0 for one in models.asked}
    for index, one in enumerate(models.asked):
        told[one.model] = shown(models, index).count("Changed on disk since you last read them: a.txt.")
    assert told == {"test/m": 1, "test/n": 0}


CHILD = {"goal": "a part", "agent": {"model": "test/n"}}


def child(name: str) -> dict[str, Any]:
    return CHILD | {"id": name}


async def test_single_minded_agent_has_one_subagent_at_a_time(tmp_path: Path) -> None:
    both = call("task", tasks=[child("a"), child("b")])
    by_patch = [
        call("plan_patch", ops=[{"op": "add", "path": "tasks/c", "value": CHILD}]),
        call("plan_patch", ops=[{"op": "add", "path": "children/c", "value": CHILD}]),
        call("plan_patch", ops=[{"op": "replace", "path": "/tasks", "value": {"c": CHILD}}]),
        call("plan_patch", ops=[{"op": "copy", "from": "tasks/a", "path": "tasks/c"}]),
        call("edit_plan", path="children/c", value=CHILD),
    ]
    models = ScriptedModels(
        [
            {"model": "m"} | calls(both),
            {"model": "m"} | calls(*by_patch),
            {"model": "m"} | calls(call("task", **child("a"))),
            {"model": "m"} | calls(call("task", **child("b"))),
            {"model": "m"} | says("I wait for a."),
            {"model": "m", "when": {"any": "task/a is done"}} | calls(call("task", **child("b"))),
            {"model": "m"} | says("I wait for b."),
            {"model": "m", "when": {"any": "task/b is done"}} | says("both are done"),
            {"model": "n", "delay": 0.3, "times": "always"} | says("it is done"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan("lib:single-minded")) == "done"
        assert {"task/a", "task/b"} <= {each.address for each in here.store.view.list("task")}
        assert here.find("task/c") is None
    assert models.left == []
    mine = [request for request in models.asked if request.model == "test/m"]
    words = "\n".join(str(one) for one in mine[-1].messages)
    assert words.count("Start one of these now") == 1
    assert words.count("not with a patch of the plan") == len(by_patch)
    said_in(words)


async def test_spawning_is_bounded_in_depth_and_number(tmp_path: Path) -> None:
    pair = [child("b")], [child("b"), child("c")]
    models = ScriptedModels(
        [
            {"model": "m"} | calls(call("task", tasks=[child("a"), child("b"), child("c")])),
            {"model": "m"} | calls(call("task", **child("a"))),
            {"model": "m"} | calls(call("task", tasks=pair[1])),
            {"model": "m"} | calls(call("task", tasks=pair[0])),
            {"model": "m"} | calls(call("plan_patch", ops=[{"op": "add", "path": "tasks/c", "value": CHILD}])),
            {"model": "m", "times": "always"} | says("I wait."),
            {"model": "n", "when": {"not": "may not delegate"}, "delay": 0.3, "times": 2}
            | calls(call("task", **child("d"))),
            {"model": "n", "times": 2} | says("I did it myself"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        hook = "{extends: 'lib:spawn-limit', settings: {depth: 1, children: 2}}"
        assert await ended(here, plan(hook)) == "done"
        assert {each.address for each in here.store.view.list("task")} == {"task/.", "task/a", "task/b"}
    top = "\n".join(shown(models, index) for index, one in enumerate(models.asked) if one.model == "test/m")
    said_in(top)
    said_in(top)
    assert "so that they are counted" in top
    said_in("\n".join(shown(models, index) for index in range(len(models.asked))))


async def test_idle_children_are_reported_after_a_long_time_without_messages(tmp_path: Path) -> None:
    models = ScriptedModels(
        [
            {"model": "m"} | calls(call("task", **child("a"), wait=True)),
            *[{"model": "m"} | calls(call("list"))] * 5,
            {"model": "m"} | calls({"name": "terminate", "arguments": {"name": "a"}}),
            {"model": "m"} | calls(call("list")),
            {"model": "m"} | says("done"),
            {"model": "n"} | says("it is done"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        hook = "{extends: 'lib:idle-children', settings: {turns: 3}}"
        assert await ended(here, plan(hook)) == "done"
        assert here.find("task/a") is None
    told = [
        shown(models, index).count("Idle, and you have not talked to them for 3 turns or more: a.")
        for index, request in enumerate(models.asked)
        if request.model == "test/m"
    ]
    assert told[:4] == [0, 0, 0, 0], "not at once"
    assert told[-1] == 1, "and once"


# Those that think.


def of(models: ScriptedModels, system: str) -> list[str]:
    """The last message of each request of the agent with these words in its instructions."""
    requests = [asked(models, index) for index in range(len(models.asked))]
    return [str(one[-1]["content"]) for one in requests if system in str(one[0]["content"])]


async def test_first_discussions_are_only_counted_and_later_ones_judged_by_a_model(tmp_path: Path) -> None:
    talk = call("discuss", prompt="tabs or spaces?", speakers=["a"])
    judge = {"system": "hold another discussion"}
    models = ScriptedModels(
        [
            {"model": "n", "times": "always"} | says("spaces"),
            {"when": judge} | says("DENY: You all said spaces. Use spaces."),
            {"when": {"not": "Use spaces"}, "times": 3} | calls(talk),
            {"when": {"any": "Use spaces"}} | says("spaces it is"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        hook = "{extends: 'lib:discussion-limit', settings: {after: 2}}"
        child = "tasks: {a: {goal: have a view, agent: {model: test/n}}}"
        await here.apply(plan(hook, "discuss", child))
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert len(await here.results("discuss")) == 2
        fired = [draft.data["fired"][0] for draft in await here.log() if draft.type == "hook.fired"]
    assert [one["verdict"].get("decision", "allow") for one in fired] == ["allow", "allow", "deny"]
    (question,) = of(models, "hold another discussion")
    assert "tabs or spaces?" in question
    assert models.left == []


async def test_an_answer_that_disagrees_is_sent_back_until_it_meets_the_other_side(tmp_path: Path) -> None:
    toes = {"system": "You see an answer"}
    models = ScriptedModels(
        [
            {"when": toes | {"last": "You are wrong"}} | says("DENY: They may have measured it. Ask for the numbers."),
            {"when": toes | {"last": "If you have measured"}} | says("ALLOW"),
            {"when": {"any": "Ask for the numbers"}} | says("If you have measured it, show me; else keep the index."),
            says("You are wrong."),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan("lib:on-your-toes", "read")) == "done"
        assert here.get("task/.").status["result"]["text"].startswith("If you have measured")
    assert len(of(models, "You see an answer")) == 2
    assert models.left == []


async def test_agent_corrected_repeatedly_gets_a_hook_made_for_it(tmp_path: Path) -> None:
    maker = {"system": "People have corrected"}
    push = call("shell", command="git push")
    deny = {"when": {"call": "shell(git push*)"}, "deny": "People asked you not to push."}
    made = call("hook", reason="asked twice", on=["before-call"], rule=[deny])
    made["arguments"]["name"] = "no-push"
    models = ScriptedModels(
        [
            {"when": maker | {"not": "accepted"}} | calls(made),
            {"when": maker} | says("I made a hook that keeps you from pushing."),
            {"when": {"last": "do not push"}} | calls(call("send", to="nobody", text="sorry")),
            {"when": {"any": "try now"}, "times": 1} | calls(push),
            {"when": {"any": "asked you not to push"}} | says("I did not push"),
            {"times": "always"} | says("I wait."),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        hook = "{extends: 'lib:repeated-correction', settings: {after: 2}}"
        child = "tasks: {a: {goal: wait, agent: {script: [{when: {message: never}, done: x}]}}}"
        await here.apply(plan(hook, "shell", child))
        for number, words in enumerate(("please do not push", "I said: do not push")):
            await here.until(lambda: here.state("agent/.") == "asleep")
            await here.tell("agent/.", words, f"m{number}")
            await here.until(lambda: not here.get("agent/.").status.get("inbox"))
        await here.until(lambda: here.find("hook/no-push") is not None and here.state("agent/.") == "asleep")
        await here.tell("agent/.", "try now", "m9")
        await here.until(
            lambda: bool(here.get("hook/no-push").status.get("fired")) and here.state("agent/.") == "asleep"
        )
        assert here.get("hook/no-push").spec["watches"] == "agent/."
    words = "\n".join(shown(models, index) for index in range(len(models.asked)))
    assert "I made a hook that keeps you from pushing." in words
    said_in(words)
    (first, _) = of(models, "People have corrected")
    assert "please do not push" in first and "I said: do not push" in first, "what was said before was noted for it"


@pytest.mark.parametrize("path", ["b.txt", "src/../b.txt", "link/b.txt", "./b.txt"])
async def test_no_other_name_of_a_file_passes_a_rule_that_allows_some(tmp_path: Path, path: str) -> None:
    for name in ("src", "doc"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "link").symlink_to("../doc")
    (tmp_path / "link").symlink_to("doc")
    rule = "[{when: {call: 'write(src/**)'}, allow: true}, {when: {call: write}, deny: only below src}]"
    steps = [
        calls(call("write", path=path, content="x")),
        calls(call("write", path="src/link/c.txt", content="x")),
        calls(call("write", path="src/a.txt", content="x")),
        says("done"),
    ]
    models = ScriptedModels(steps)
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan(f"{{on: before-call, rule: {rule}}}", "write")) == "done"
    assert shown(models).count("only below src") == 2
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.txt")) == ["src/a.txt"]


async def test_agent_that_writes_an_invalid_rule_gets_the_error_and_a_fix(tmp_path: Path) -> None:
    def hook(when: dict[str, Any]) -> dict[str, Any]:
        rule = [{"when": when, "deny": "I said I would not."}]
        return {"name": "hook", "arguments": {"name": "promise", "on": ["before-call"], "rule": rule}}

    models = ScriptedModels(
        [
            calls(hook({"cal": "shell"})),
            calls(hook({"call": "shell"})),
            calls(call("shell", command="touch a")),
            says("done"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, "goal: do it\nagent: {model: test/m, tools: [shell, hook]}\n") == "done"
        assert not (tmp_path / "a").exists()
    said_in(shown(models, 1), "cal")
    said_in(shown(models, 1), "call")
    assert "I said I would not." in shown(models)


EVERY = ("planning", "todo-reminder", "file-changed", "single-minded", "spawn-limit", "idle-children")
SMART = ("discussion-limit", "on-your-toes", "repeated-correction")


async def test_all_library_hooks_together_allow_work_once_the_plan_is_approved(tmp_path: Path) -> None:
    toes = {"system": "You see an answer"}
    request = call("request", kind="plan", what="one child writes a.txt", why="it is the goal", to="person")
    child = {"goal": "write it", "agent": {"model": "test/n", "tools": ["write", "read"]}}
    models = ScriptedModels(
        [
            {"when": toes, "times": "always"} | says("ALLOW"),
            {"model": "n", "when": {"not": "written"}} | calls(call("write", path="a.txt", content="hello")),
            {"model": "n"} | says("a.txt is written"),
            {"when": {"not": "approval/root.1"}} | calls(request),
            {"when": {"not": "is approved"}} | says("I wait for a yes."),
            {"when": {"any": "is approved", "not": "a.txt is written"}}
            | calls(call("task", id="part", wait=True, **child)),
            {"when": {"any": "a.txt is written", "not": "hello"}} | calls(call("read", path="a.txt")),
            {"when": {"any": "hello"}} | says("it says hello"),
        ]
    )
    hooks = "".join(f"  {name}: lib:{name}\n" for name in (*EVERY, *SMART))
    async with arena(tmp_path, models=models) as here:
        await here.apply(f"goal: do it\nagent: {{model: test/m, tools: [all]}}\nhooks:\n{hooks}")
        await here.until(lambda: here.state("approval/root.1") == "waiting" and here.state("agent/.") == "blocked")
        await here.gate.approve("approval/root.1", HUMAN_CLI)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done", here.get("task/.").status
        assert here.read("a.txt") == "hello"
        fired = [one for draft in await here.log() if draft.type == "hook.fired" for one in draft.data["fired"]]
    assert not any(one["verdict"].get("fault") for one in fired)
    inner = [one for one in fired if "/~" in one["hook"]]
    assert {one["point"] for one in inner} <= {"before-call", "after-call"}, "they do not handle the text of a hook"
    assert len(of(models, "You see an answer")) == 3, "each answer is judged once"
    assert models.left == []
