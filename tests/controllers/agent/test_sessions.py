"""Sessions: `endo` hands over, `meta` takes back, `hook` attaches; who may do it, and no circular waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent.hooks import agent_hooks
from planloop.schemas.objects import plan
from planloop.schemas.objects.hook import OVER
from tests import golden_text
from tests.controllers.agent.arena import PLAN, Arena, arena
from tests.controllers.agent.test_models import call, calls, says
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject

pytestmark = pytest.mark.anyio

PUPIL = "[{when: {message: go}, say: I see}, {when: {message: end}, done: ok}]"
CHILD = f"{{id: pupil, goal: understand, agent: {{script: {PUPIL}}}}}"
NEVER = "{when: {message: never}, done: ok}"


def primary(here: Arena) -> str:
    return plan.primary_agent(here.get(PLAN).status)


def scripted(*steps: str, tools: str = "task, endo, meta, quit, hook, discuss", more: str = "") -> str:
    lines = "\n".join(f"    - {step}" for step in steps)
    return f"goal: teach\nagent:\n  tools: [{tools}]\n  script:\n{lines}\n{more}"


async def results(here: Arena, tool: str) -> list[tuple[str, str]]:
    return [(each.get("error", ""), each["text"]) for each in await here.results(tool)]


async def test_endo_makes_the_caller_a_hook_of_its_child_and_the_child_primary(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(scripted(f"task: {CHILD}", "call: {endo: {subagent: pupil}}", NEVER))
        await here.until(lambda: primary(here) == "agent/pupil")
        await here.settled_but_timers()
        hook = here.get("hook/pupil/by-root")
        assert hook.spec["mind"] == {"kind": "agent", "address": "agent/."}
        assert hook.spec["on"] == ["on-input", "before-reply"] and hook.spec["on_fault"] == "note"
        await here.tell("agent/pupil", "go", "m1")
        await here.until(lambda: "I see" in str(here.get("agent/pupil").status))
        await here.settled_but_timers()
        assert here.get("hook/pupil/by-root").status["fired"] >= 2


async def test_meta_takes_the_session_back_and_endo_hands_it_over_again(tmp_path: Path) -> None:
    steps = (
        f"task: {CHILD}",
        "call: {endo: {subagent: pupil}}",
        "{when: {message: back}, call: {meta: {}}}",
        "{when: {message: again}, call: {endo: {subagent: agent/pupil}}}",
        NEVER,
    )
    async with arena(tmp_path) as here:
        await here.apply(scripted(*steps))
        await here.until(lambda: primary(here) == "agent/pupil")
        await here.tell("agent/.", "back", "m1")
        await here.until(lambda: primary(here) == "agent/.")
        assert here.state("hook/pupil/by-root") == OVER
        await here.tell("agent/.", "again", "m2")
        await here.until(lambda: primary(here) == "agent/pupil")
        await here.settled_but_timers()
        assert here.state("hook/pupil/by-root") == "active"
        await here.tell("agent/pupil", "go", "m3")
        await here.until(lambda: "I see" in str(here.get("agent/pupil").status))


async def test_meta_ends_nothing_but_what_the_agent_handed_over(tmp_path: Path) -> None:
    watched = "tasks: {work: {goal: w, agent: {script: [" + NEVER.strip() + "]}, hooks: {lead: HOOK}}}\n"
    hook = "{on: [before-call], agent: {as: agent/.}}"
    steps = ("call: {endo: {subagent: work}}", "{when: {message: back}, call: {meta: {}}}", NEVER)
    async with arena(tmp_path) as here:
        await here.apply(scripted(*steps, more=watched.replace("HOOK", hook)))
        await here.until(lambda: primary(here) == "agent/work")
        await here.tell("agent/.", "back", "m1")
        await here.until(lambda: primary(here) == "agent/.")
        await here.settled_but_timers()
        assert here.state("hook/work/by-root") == OVER
        assert here.state("hook/work/lead") != OVER


@pytest.mark.parametrize("tools", ["task, endo", "all"])
@pytest.mark.parametrize("rights", ["", "rights: {tools: [task, endo, send]}\n"])
async def test_agent_that_may_hand_over_may_take_back_with_any_tool_list(
    tmp_path: Path, tools: str, rights: str
) -> None:
    steps = (f"task: {CHILD}", "call: {endo: {subagent: pupil}}", "{when: {message: back}, call: {meta: {}}}", NEVER)
    async with arena(tmp_path) as here:
        await here.apply(rights + scripted(*steps, tools=tools))
        await here.until(lambda: primary(here) == "agent/pupil")
        await here.tell("agent/.", "back", "m1")
        await here.until(lambda: primary(here) == "agent/.")


async def test_an_agent_behind_a_hook_that_may_hand_over_may_take_back(tmp_path: Path) -> None:
    text = """
goal: write
agent: {script: [{when: {message: never}, done: ok}]}
hooks:
  mind:
    on: [on-input]
    agent:
      tools: [endo]
      script:
        - {when: {message: hand over}, call: {endo: {subagent: .}}}
        - say: over to you
        - {when: {message: return}, call: {meta: {}}}
"""
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.tell("agent/~mind", "hand over", "m1")
        await here.until(lambda: primary(here) == "agent/.")
        await here.tell("agent/~mind", "return", "m2")
        await here.until(lambda: primary(here) == "agent/~mind")


@pytest.mark.parametrize("denied", ["deny: [meta]", "rights: {deny: ['me*']}"])
async def test_endo_is_refused_where_a_denial_bars_the_way_back(tmp_path: Path, denied: str) -> None:
    steps = (f"task: {CHILD}", "call: {endo: {subagent: pupil}}", "expect: {error: NoWayBack}", "say: so be it")
    async with arena(tmp_path) as here:
        await here.apply(scripted(*steps).replace("agent:\n", f"agent:\n  {denied}\n", 1))
        await here.until_state("agent/.", "asleep")
        ((error, said),) = await results(here, "endo")
        assert error == "NoWayBack" and "me" in said
        assert primary(here) == ""


@pytest.mark.parametrize(
    ("name", "error"),
    [("parent", "NoSuchAgent"), ("other", "NotBelow"), ("nobody", "NoSuchAgent"), (".", "NoSuchAgent")],
)
async def test_endo_is_refused_for_an_agent_that_is_not_below(tmp_path: Path, name: str, error: str) -> None:
    text = f"""
goal: two
tasks:
  left:
    goal: l
    agent: {{tools: [endo], script: [{{call: {{endo: {{subagent: "{name}"}}}}}}, {{expect: {{ok: false}}}}]}}
  other: {{goal: o, agent: {{script: [{{when: {{message: end}}, done: ok}}]}}}}
"""
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until(lambda: here.state("task/left") in ("done", "failed"))
        ((found, _),) = await results(here, "endo")
        assert found in (error, "NotBelow") and primary(here) == ""
        assert not here.store.view.list("hook")


async def test_tools_for_hooks_are_refused_to_others(tmp_path: Path) -> None:
    tools = "meta, quit, verdict"
    steps = ("call: {meta: {}}", "expect: {error: NoHook}", "call: {quit: {}}", "expect: {error: NoHook}")
    more = ("call: {verdict: {decision: deny}}", "expect: {error: NoQuestion}")
    async with arena(tmp_path) as here:
        await here.apply(scripted(*steps, *more, tools=tools))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", here.get("task/.").status


async def test_all_tools_are_not_those_of_hooks(tmp_path: Path) -> None:
    models = ScriptedModels([says("done")])
    async with arena(tmp_path, models=models) as here:
        await here.apply("goal: x\nagent: {model: test/m, tools: [all]}\n")
        await here.until_state("task/.", "done")
        names = here.get("agent/.").spec["tools"]
    assert {"hook", "endo"} <= set(names) and not {"meta", "quit", "verdict"} & set(names)
    assert b'"verdict"' not in models.asked[0].tools


async def test_agent_cannot_become_a_hook_of_its_own_hook(tmp_path: Path) -> None:
    ring = "hooks: {up: {on: [on-end], agent: {as: agent/pupil}}}\n"
    child = "tasks: {pupil: {goal: u, agent: {script: [{when: {message: end}, done: ok}]}}}\n"
    steps = ("call: {endo: {subagent: pupil}}", "expect: {error: Ring}", NEVER)
    async with arena(tmp_path) as here:
        await here.apply(scripted(*steps, more=child + ring))
        await here.until_state("agent/.", "asleep")
        await here.settled_but_timers()
        assert (await results(here, "endo"))[0][0] == "Ring"
        assert primary(here) == ""


async def test_a_hook_that_waits_for_the_agent_itself_is_not_asked(tmp_path: Path) -> None:
    # The teacher asks its pupil with `discuss`: were it asked as a hook meanwhile, each would wait for the other.
    steps = (
        f"task: {CHILD}",
        "call: {endo: {subagent: pupil}}",
        "call: {discuss: {prompt: go, speakers: [pupil]}}",
        NEVER,
    )
    async with arena(tmp_path) as here:
        await here.apply(scripted(*steps))
        await here.until(lambda: "I see" in str(here.get("agent/.").status.get("past")))
        await here.settled_but_timers()
        ((_, said),) = await results(here, "discuss")
        assert said == "[pupil] I see"
        drafts = [draft for draft in await here.log() if draft.type == "hook.fired" and draft.subject == "agent/pupil"]
        faults = {one["verdict"]["fault"] for draft in drafts for one in draft.data["fired"]}
        golden_text.said(faults, "agent/pupil")
        assert not agent_hooks.is_waiting_on(here.store.view, "agent/.", "agent/pupil")


async def test_an_agent_attaches_a_rule_to_its_child_and_the_child_meets_it(tmp_path: Path) -> None:
    rule = "[{deny: not here}]"
    script = "[{when: {message: go}, call: {write: {path: a, content: b}}}]"
    child = f"{{id: part, goal: p, agent: {{tools: [write], script: {script}}}}}"
    steps = (
        f"task: {child}",
        f"call: {{hook: {{name: guard, to: part, on: before-call, rule: {rule}}}}}",
        "send: {to: part, text: go}",
        "{when: {children: ended}, done: ok}",
    )
    async with arena(tmp_path) as here:
        await here.apply(scripted(*steps, tools="task, hook, send, write"))
        await here.until_state("task/.", "done", "failed")
        assert here.gate.present.document["tasks"]["part"]["hooks"]["guard"]["on"] == ["before-call"]
        ((error, text),) = await results(here, "hook")
        assert (error, text) == ("", "accepted")
        assert not (tmp_path / "a").exists()


async def test_a_hook_that_thinks_makes_a_hook_which_its_agent_then_meets(tmp_path: Path) -> None:
    rule = [{"deny": "never"}]
    made = {"name": "hook", "arguments": {"name": "no-a", "on": "before-call", "match": "write(*)", "rule": rule}}
    write = call("write", path="a.txt", content="hello")
    models = ScriptedModels(
        [
            step | {"model": model}
            for model, step in (
                ("worker", calls(write)),
                ("worker", calls(write)),
                ("worker", says("it may not be")),
                ("guard", calls(made)),
                ("guard", says("DENY: it has tried")),
            )
        ]
    )
    text = """
goal: write the file
agent: {model: test/worker, tools: [write, hook]}
hooks:
  watcher: {on: [before-call], match: "write(*)", agent: {model: test/guard, prompt: watch, tools: [hook]}}
"""
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        ((error, said),) = await results(here, "hook")
        assert (error, said) == ("", "accepted")
        assert here.get("hook/no-a").spec["watches"] == "agent/."
        assert not (tmp_path / "a.txt").exists()
        fired = [one for draft in await here.log() if draft.type == "hook.fired" for one in draft.data["fired"]]
    assert any("watcher" in each["hook"] for each in fired)
    assert any("no-a" in each["hook"] and each["verdict"]["decision"] == "deny" for each in fired)


async def test_a_hooks_own_calls_are_seen_by_hooks_without_agents_only(tmp_path: Path) -> None:
    read = call("read", path="notes.txt")
    models = ScriptedModels(
        [
            step | {"model": model}
            for model, step in (
                ("worker", calls(call("write", path="a.txt", content="hello"))),
                ("worker", says("done")),
                ("first", calls(read)),
                ("first", says("ALLOW")),
                ("second", calls(read)),
                ("second", says("ALLOW")),
            )
        ]
    )
    thinking = "on: [before-call, after-call], match: '{}', agent: {{model: test/{}, prompt: watch, tools: [read]}}"
    text = f"""
goal: write the file
agent: {{model: test/worker, tools: [read, write]}}
hooks:
  rule: {{on: [before-call], match: "read(*)", rule: [{{deny: not for you}}]}}
  first: {{{thinking.format("*", "first").replace(", after-call", "")}}}
  second: {{{thinking.format("*", "second").replace(", after-call", "")}}}
"""
    (tmp_path / "notes.txt").write_text("secret")
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.read("a.txt") == "hello"
        assert [said for _, said in await results(here, "read")] == []
        denied = [draft.data for draft in await here.log() if draft.type == "call.authorized" and "~" in draft.subject]
    assert str(denied).count("not for you") == 2, "the rule saw the reading of both"
    assert models.left == [], "neither was asked about the other"


def test_indirect_waits_between_agents_are_found() -> None:
    view = _View(
        {
            "agent/a": [_thing("thread", {"kind": "discuss", "call": "call/1", "speakers": ["agent/b"]}, {"asked": 0})],
            "agent/b": [_thing("call", {}, {"state": "AwaitingChild", "ends": ["task/c"]})],
            "agent/c": [_thing("thread", {"kind": "hook", "call": "", "speakers": ["agent/d"]}, {})],
            "agent/d": [
                _thing("thread", {"kind": "hook", "call": "", "speakers": ["agent/e"]}, {"answers": {"q": []}})
            ],
        }
    )
    for one, other, wanted in (("a", "d", True), ("a", "c", True), ("c", "e", False), ("d", "a", False)):
        assert agent_hooks.is_waiting_on(view, f"agent/{one}", f"agent/{other}") is wanted  # type: ignore[arg-type]


class _Thing:
    def __init__(self, kind: str, spec: JsonObject, status: JsonObject) -> None:
        self.kind, self.spec, self.status, self.state = kind, spec, status, status.get("state", "")


def _thing(kind: str, spec: JsonObject, status: JsonObject) -> _Thing:
    return _Thing(kind, spec, status)


class _View:
    def __init__(self, owned: dict[str, list[Any]]) -> None:
        self._owned = owned

    def owned_by(self, address: str) -> list[Any]:
        return self._owned.get(address, [])

    def get(self, address: str) -> object:
        return address


async def test_agent_consulted_beside_its_own_work_continues_it(tmp_path: Path) -> None:
    lead = [
        {"when": {"last": "Start your task"}, **calls(call("list"))},
        {"when": {"any": "before-call", "not": "of the list"}, **says("ALLOW, and think of the list")},
        {"when": {"last": "Continue"}, **calls(call("write", path="lead.txt", content="x"))},
        {"when": {"after": "list"}, **calls(call("write", path="lead.txt", content="x"))},
        {"when": {"after": "write"}, **says("led")},
    ]
    part = [calls(call("write", path="part.txt", content="x")), says("done")]
    models = ScriptedModels(
        [step | {"model": name} for name, steps in (("lead", lead), ("part", part)) for step in steps]
    )
    text = """
goal: two
tasks:
  lead: {goal: lead, agent: {model: test/lead, tools: [list, write]}}
  part:
    goal: part
    agent: {model: test/part, tools: [write]}
    hooks: {by: {on: [before-call], match: "write(*)", agent: {as: agent/lead}}}
"""
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert here.read("part.txt") == here.read("lead.txt") == "x"
    assert models.left in ([], ["step 3"], ["step 4"]), "it went on with its work, asked before it or in between"


async def test_hook_steps_forward_stays_a_hook_talks_with_its_agent_and_steps_back(tmp_path: Path) -> None:
    text = """
goal: write
agent:
  tools: [write]
  script:
    - call: {write: {path: a.txt, content: a}}
    - {when: {message: how is it}, say: quite well}
    - {when: {message: once more}, call: {write: {path: b.txt, content: b}}}
    - done: written
hooks:
  mind:
    on: [before-call]
    match: write(*)
    agent:
      tools: [meta, endo, discuss, send]
      script:
        - {when: {message: a.txt}, call: {meta: {reason: "ah!"}}}
        - say: ALLOW
        - {when: {message: ask it}, call: {discuss: {prompt: how is it, speakers: [agent/.]}}}
        - {when: {message: go back}, call: {endo: {subagent: .}}}
        - say: back
        - {when: {message: b.txt}, say: ALLOW}
"""
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until(lambda: primary(here) == "agent/~mind")
        await here.settled_but_timers()
        assert here.read("a.txt") == "a", "what it was asked had its answer all the same"
        await here.tell("agent/~mind", "ask it", "m1")
        await here.until(lambda: here.get("agent/~mind").status["turn"] == 4)
        assert [text for _, text in await results(here, "discuss")] == ["[.] quite well"]
        await here.tell("agent/~mind", "go back", "m2")
        await here.until(lambda: primary(here) == "agent/.")
        await here.settled_but_timers()
        assert here.state("hook/mind") == "active"
        assert not [one for one in here.store.view.list("hook") if one.spec["name"] == "by-~mind"]
        await here.tell("agent/.", "once more", "m3")
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done" and here.read("b.txt") == "b"


async def test_agent_made_for_a_hook_hands_over_only_to_the_agent_it_watches(tmp_path: Path) -> None:
    text = """
goal: two below each other
agent: {script: [{when: {message: end}, done: ok}]}
tasks: {low: {goal: low, agent: {script: [{when: {message: end}, done: ok}]}}}
hooks:
  mind:
    on: [on-input]
    copy: none
    agent: {tools: [endo], script: [{when: {message: go}, call: {endo: {subagent: low}}}, {expect: {error: NotBelow}}]}
"""
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.tell("agent/.", "go", "m1")
        await here.until(lambda: here.get("agent/~mind").status.get("turn", 0) >= 2)
        await here.settled_but_timers()
        assert primary(here) == ""
        ((error, said),) = await results(here, "endo")
        assert error == "NotBelow" and "agent/." in said


@pytest.mark.parametrize(("model", "is_made"), [("test/small", True), ("test/dear", False)])
async def test_an_agent_attaches_a_hook_that_thinks_with_a_model_that_it_may_grant(
    tmp_path: Path, model: str, is_made: bool
) -> None:
    hook = {"name": "guard", "to": "part", "on": "before-call", "match": "write(*)", "prompt": "watch", "model": model}
    made = {"name": "hook", "arguments": {**hook, "budget": {"turns": 5}}}
    add = call("task", id="part", goal="p", agent={"model": "test/small", "tools": ["write"]}, needs=[])
    steps = {
        "top": [calls(add, made), {**says("I wait."), "times": "always"}],
        "small": [
            {"when": {"last": "before-call"}, **says("DENY: never")},
            {"delay": 0.3, **calls(call("write", path="a.txt", content="x"))},
            says("it may not be" if is_made else "written"),
        ],
    }
    models = ScriptedModels([{**step, "model": name} for name, each in steps.items() for step in each])
    text = """
goal: split
agent: {model: test/top, tools: [task, hook, write]}
rights: {models: [test/top, test/small], grant: {models: [test/small], tools: [write]}}
"""
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until_state("task/part", "done", "failed")
        await here.until(lambda: here.state("agent/.") != "running")
        ((error, said),) = await results(here, "hook")
        assert (error == "") is is_made, said
        assert (here.find("agent/part/~guard") is not None) is is_made
        if is_made:
            assert here.get("agent/part/~guard").spec["budget"] == {"turns": 5}
            assert not (tmp_path / "a.txt").exists()
        else:
            assert "test/dear" in said


async def test_answers_do_not_reveal_the_hooks_that_watch_an_agent(
    tmp_path: Path,
) -> None:
    hook: JsonObject = {"name": "own", "on": ["on-end"], "rule": [{"comment": "x"}]}
    patches = [
        call("plan_patch", ops=[{"op": "remove", "path": "/hooks/guard"}]),
        call("plan_patch", ops=[{"op": "remove", "path": "/hooks/other"}]),
        call("edit_plan", path="/hooks/guard/on", value=["on-end"]),
        call("edit_plan", path="/hooks/guard/on", value=["on-wake"]),
        call("plan_patch", ops=[{"op": "test", "path": "/agent/hooks", "value": ["lib:planning"]}]),
        call("plan_patch", ops=[{"op": "test", "path": "/agent/hooks", "value": ["lib:spawn-limit"]}]),
    ]
    made: JsonObject = {"name": "hook", "arguments": hook}
    steps = [calls(each) for each in (*patches, made, made)]
    models = ScriptedModels([*steps, says("done")])
    text = """
goal: g
hooks: {guard: {on: on-end, rule: [{comment: x}]}}
agent: {model: test/m, tools: [all], hooks: [lib:spawn-limit]}
"""
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        *refused, first, again = [each["text"] for each in await here.results()][: len(steps)]
    assert all("you may not see or change" in said for said in refused), refused
    assert first == "accepted"
    golden_text.said(again)


async def test_child_is_removed_under_either_name_of_the_children(tmp_path: Path) -> None:
    remove = call("plan_patch", ops=[{"op": "remove", "path": "children/kid"}])
    models = ScriptedModels([calls(call("task", id="kid", goal="k", run="sleep 60")), calls(remove), says("done")])
    async with arena(tmp_path, models=models) as here:
        await here.apply("goal: g\nagent: {model: test/m, tools: [all]}\n")
        await here.until_state("task/.", "done", "failed")
        assert here.find("task/kid") is None
