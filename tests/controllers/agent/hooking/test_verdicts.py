"""Effects of verdicts on calls, answers and sleep, with Python functions, rules and real processes."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels
from tests.golden_text import said
from tests.product import HUMAN_CLI, RecordDraft

pytestmark = pytest.mark.anyio


def hooks(folder: Path, body: str) -> None:
    """A file with one hook `say(q)`."""
    (folder / "hooks.py").write_text("import json\n\n\ndef say(q):\n" + textwrap.indent(textwrap.dedent(body), "    "))


def plan(on: str, steps: str, more: str = "") -> str:
    head = f'goal: g\nhooks:\n  guard: {{on: [{on}], python: "hooks.py:say"{more}}}\nagent:\n  script:\n'
    return head + textwrap.indent(textwrap.dedent(steps).strip("\n"), "    ") + "\n"


async def run(here: Arena, text: str) -> str:
    """Run the plan to its end. Returns the state of the task."""
    await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    return here.state("task/.")


def verdicts(log: list[RecordDraft]) -> list[dict[str, Any]]:
    """All verdicts of hooks, in order."""
    return [one for draft in log if draft.type == "hook.fired" for one in draft.data["fired"]]


async def test_denied_call_never_starts_and_its_agent_gets_the_hook_and_the_reason(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"decision": "deny", "reason": "no commands"} if q["tool_name"] == "shell" else None')
    steps = """
        - call: {shell: {command: "touch ran"}}
        - expect: {error: Denied, contains: "hook guard: no commands"}
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", steps)) == "done"
        types = [draft.type for draft in await here.log()]
    assert not (tmp_path / "ran").exists()
    assert "call.started" not in types


async def test_match_narrows_what_a_hook_is_asked_about(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"decision": "deny", "reason": "kept"}')
    steps = """
        - call: {write: {path: src/a.txt, content: one}}
        - expect: {error: Denied}
        - call: {write: {path: doc/a.txt, content: one}}
        - expect: ok
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", steps, ', match: "write(src/**)"')) == "done"
        asked = verdicts(await here.log())
    assert [one["tool"] for one in asked] == ["write"]


async def test_deferred_call_has_its_own_class_and_asking_again_is_not_being_stuck(tmp_path: Path) -> None:
    body = """
    n = (q["state"] or 0) + 1
    return {"decision": "defer" if n < 5 else "allow", "reason": "read first", "memory": n}
    """
    hooks(tmp_path, body)
    again = '- call: {shell: {command: "touch ran"}}\n- expect: {error: Deferred, contains: read first}\n'
    steps = again * 4 + '- call: {shell: {command: "touch ran"}}\n- expect: ok\n- done: ok'
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", steps, ", match: shell")) == "done"
        conditions = [draft for draft in await here.log() if "Stuck" in str(draft.changes) and "'True'" in str(draft)]
    assert (tmp_path / "ran").exists()
    assert conditions == []


async def test_a_hook_that_asks_makes_an_approval_and_a_yes_starts_the_call_once(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"decision": "ask", "reason": "is that wise?"}')
    steps = '- call: {shell: {command: "echo x >> ran"}}\n- expect: ok\n- done: ok'
    async with arena(tmp_path) as here:
        await here.apply(plan("before-call", steps, ", match: shell"))
        await here.until_state("agent/.", "blocked")
        (approval,) = here.store.view.list("approval")
        said(approval.spec["why"])
        await here.gate.approve(approval.address, HUMAN_CLI)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        asked = verdicts(await here.log())
    assert (tmp_path / "ran").read_text() == "x\n"
    assert len(asked) == 1


async def test_rewritten_arguments_are_checked_again_and_stored_with_the_original(tmp_path: Path) -> None:
    body = """
    if q["tool_input"]["path"] == "a.txt":
        return {"arguments": {**q["tool_input"], "path": "b.txt"}, "reason": "there is an a already"}
    assert q["tool_input_original"]["path"] == "a.txt"
    return {"comment": "now it is good"}
    """
    hooks(tmp_path, body)
    steps = """
        - call: {write: {path: a.txt, content: one}}
        - expect: {ok: true, contains: "there is an a already"}
        - expect: {contains: now it is good}
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", steps, ", match: write")) == "done"
        log = await here.log()
    assert (tmp_path / "b.txt").exists() and not (tmp_path / "a.txt").exists()
    replied = next(draft for draft in log if draft.type == "model.replied" and draft.data["calls"])
    assert replied.data["calls"][0]["arguments"]["path"] == "a.txt"
    assert [one["key"] for one in verdicts(log)] == ["before-call.0.0.guard", "before-call.0.1.guard"]


async def test_rewriting_cannot_allow_what_the_rights_forbid(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"arguments": {"command": "rm -rf /"}} if "echo" in q["tool_input"]["command"] else None')
    steps = '- call: {shell: {command: echo}}\n- expect: {error: Denied, contains: "from hook guard"}\n- done: ok'
    text = plan("before-call", steps, ", match: shell") + '  rights: {deny: ["shell(rm *)"]}\n'
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"


async def test_hook_that_rewrites_forever_is_an_error(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"arguments": {"command": q["tool_input"]["command"] + "x"}}')
    steps = """
        - call: {shell: {command: "touch ran"}}
        - expect: {error: Denied, contains: "hook guard: the hook failed: it rewrote the arguments more than 3 times"}
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", steps, ", match: shell")) == "done"
        asked = verdicts(await here.log())
    assert len(asked) == 4
    assert not (tmp_path / "ran").exists()


async def test_comment_after_a_call_is_a_separate_part_for_the_model(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"comment": "mind the tests"}')
    text = 'goal: g\nhooks: {guard: {on: [after-call], match: write, python: "hooks.py:say"}}\n'
    text += "agent: {model: test/m, tools: [write]}\n"
    call = {"reply": {"text": "", "calls": [{"name": "write", "arguments": {"path": "a", "content": "x"}}]}}
    models = ScriptedModels([call, {"reply": {"text": "done now"}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
        (result,) = await here.results("write")
    import json

    messages = [json.loads(each) for each in models.asked[-1].messages]
    assert [each["role"] for each in messages] == ["system", "user", "assistant", "tool", "user"]
    assert "mind the tests" not in messages[3]["content"] and "mind the tests" not in result["text"]
    said(messages[4]["content"])


async def test_comment_on_the_input_arrives_before_the_model_is_asked(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"comment": "the goal was: " + q["prompt"]}')
    text = (
        'goal: build it\nhooks: {guard: {on: [on-input], python: "hooks.py:say"}}\nagent: {model: test/m, tools: []}\n'
    )
    models = ScriptedModels([{"reply": {"text": "done now"}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
    import json

    messages = [json.loads(each) for each in models.asked[-1].messages]
    said(messages[-1]["content"])


async def test_polite_words_beside_a_result_do_not_hide_it(tmp_path: Path) -> None:
    rule = "[{when: {reply: {contains: BAD}}, deny: not like that}]"
    text = f"goal: g\nhooks: {{guard: {{on: before-reply, rule: {rule}}}}}\nagent: {{model: test/m, tools: []}}\n"
    calls = [{"name": "done", "arguments": {"result": "BAD"}}]
    models = ScriptedModels([{"reply": {"text": "All is fine.", "calls": calls}}, {"reply": {"text": "good"}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
        assert [one["verdict"].get("reason") for one in verdicts(await here.log())] == ["not like that", None]


async def test_an_answer_is_sent_back_so_often_and_then_taken(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"decision": "deny", "reason": "not good enough: " + q["reply"]}')
    text = 'goal: g\nhooks: {guard: {on: [before-reply], python: "hooks.py:say"}}\nagent: {model: test/m, tools: []}\n'
    models = ScriptedModels([{"reply": {"text": f"answer {n}"}} for n in range(4)])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
        assert here.get("task/.").status["result"]["text"] == "answer 3"
    assert b"not good enough: answer 0" in models.asked[1].messages[-1]


async def test_end_beside_other_calls_is_an_answer_judged_by_their_results(tmp_path: Path) -> None:
    hooks(tmp_path, 'return None if open("a").read() == "good" else {"decision": "deny", "reason": "a is bad"}')
    text = 'goal: g\nhooks: {guard: {on: [before-reply, on-end], python: "hooks.py:say"}}\n'
    text += "agent: {model: test/m, tools: [write]}\n"
    replies = [
        [
            {"name": "write", "arguments": {"path": "a", "content": content}},
            {"name": "done", "arguments": {"result": n}},
        ]
        for n, content in enumerate(("bad", "good"))
    ]
    models = ScriptedModels([{"reply": {"text": "", "calls": each}} for each in replies])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
        assert here.get("task/.").status["result"]["text"] == 1
        points = [one["point"] for one in verdicts(await here.log())]
        assert here.get("agent/.").status["sent_back"] == 0
    assert points == ["before-reply", "before-reply", "on-end"]
    assert b"Your answer was sent back. Continue your work. hook guard: a is bad" in models.asked[1].messages[-1]


async def test_hook_may_keep_an_agent_awake_but_not_forever(tmp_path: Path) -> None:
    hooks(tmp_path, 'return {"comment": "is there nothing to do?"}')
    text = 'goal: g\nhooks: {guard: {on: [on-sleep], python: "hooks.py:say"}}\nagent: {run: "true"}\n'
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("agent/.", "asleep")
        await here.settled()
        types = await here.types()
        assert types.count("turn.started") == 4
        await here.tell("agent/.", "hello", "m1")
        await here.settled()
        assert (await here.types()).count("turn.started") == 8


async def test_hook_keeps_its_memory_quits_and_restarts_with_its_agent(tmp_path: Path) -> None:
    body = """
    n = (q["state"] or {"n": 0})["n"] + 1
    return {"memory": {"n": n}, "is_last": n == 2, "decision": "deny", "reason": f"number {n}"}
    """
    hooks(tmp_path, body)
    call = '- call: {shell: {command: "true"}}\n'
    steps = "".join(f"{call}- expect: {{contains: number {n}}}\n" for n in (1, 2)) + f"{call}- expect: ok\n- done: ok"
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", steps, ", match: shell")) == "done"
        assert here.state("hook/guard") == "over"
        assert here.get("hook/guard").status["memory"] == [{"n": 2}]


async def test_hooks_of_one_call_run_in_parallel_and_the_strictest_wins(tmp_path: Path) -> None:
    rule = "rule: [{deny: never}]"
    text = f"""
goal: g
hooks:
  soft: {{on: [before-call], match: shell, rule: [{{ask: sure}}]}}
  hard: {{on: [before-call], match: shell, {rule}}}
agent:
  script:
    - call: {{shell: {{command: "touch ran"}}}}
    - expect: {{error: Denied, contains: "hook hard: never"}}
    - done: ok
"""
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
        (fired,) = [draft for draft in await here.log() if draft.type == "hook.fired"]
    assert [one["hook"] for one in fired.data["fired"]] == ["hook/soft", "hook/hard"]


@pytest.mark.parametrize("path", ["src/a.txt", "./src/a.txt", "doc/../src/a.txt", "link/a.txt", "HERE/src/a.txt"])
async def test_no_other_name_of_a_file_bypasses_the_hook_that_guards_it(tmp_path: Path, path: str) -> None:
    for name in ("src", "doc"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("src")
    hooks(tmp_path, 'return {"decision": "deny", "reason": "kept"}')
    steps = f"""
        - call: {{write: {{path: "{path.replace("HERE", str(tmp_path))}", content: one}}}}
        - expect: {{error: Denied, contains: kept}}
        - call: {{write: {{path: doc/b.txt, content: one}}}}
        - expect: ok
        - done: ok
    """
    text = plan("before-call", steps, ', match: "write(src/**)"')
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"


@pytest.mark.parametrize(
    ("when", "call"),
    [
        ('{call: "write(src/**)"}', "write: {path: ./src/../src/a.txt, content: one}"),
        ("{arguments: {path: {starts: src/}}}", "write: {path: ./src/a.txt, content: one}"),
        ("{arguments: {path: {starts: src/}}}", "write: {path: link/a.txt, content: one}"),
        ("{arguments: {path: {starts: src/}}}", 'write: {path: "HERE/src/a.txt", content: one}'),
        ("{not: {arguments: {path: {starts: doc/}}}}", "write: {path: doc/../src/a.txt, content: one}"),
        ("{arguments: {content: {contains: one}}}", "write: {path: a.txt, text: one}"),
        ('{arguments: {timeout_s: {">": 60}}}', "shell: {command: 'true', timeout: 90}"),
        ('{arguments: {timeout_s: {">": 60}}}', "shell: {command: 'true', timeout_s: \"90\"}"),
    ],
)
async def test_no_other_name_of_a_file_or_an_argument_bypasses_a_rule(tmp_path: Path, when: str, call: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("src")
    text = f"""
goal: g
hooks: {{guard: {{on: [before-call], rule: [{{when: {when}, deny: kept}}]}}}}
agent:
  script:
    - call: {{{call.replace("HERE", str(tmp_path))}}}
    - expect: {{error: Denied, contains: kept}}
    - done: ok
"""
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"


async def test_rewriting_applies_to_an_argument_under_any_of_its_names(tmp_path: Path) -> None:
    text = """
goal: g
hooks: {guard: {on: [before-call], match: write, rule: [{rewrite: {content: safe}}]}}
agent: {script: [{call: {write: {path: a.txt, text: danger}}}, {done: ok}]}
"""
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
    assert (tmp_path / "a.txt").read_text() == "safe"


QUARREL = """
goal: g
hooks:
  a: {on: [before-call], match: shell, POLICYrule: [{rewrite: {command: "echo a > ran"}}]}
  b: {on: [before-call], match: shell, POLICYrule: [{rewrite: {command: "echo b > ran"}}]}
agent: {script: [{call: {shell: {command: "echo c > ran"}}}, {expect: EXPECT}, {done: ok}]}
"""


@pytest.mark.parametrize("policy", ["", "on-fault: note, "], ids=["deny", "note"])
async def test_hooks_that_want_different_arguments_stop_in_the_end(tmp_path: Path, policy: str) -> None:
    text = QUARREL.replace("POLICY", policy).replace("EXPECT", "{error: Denied, contains: more than 3 times}")
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
        assert len(verdicts(await here.log())) == 8
    assert not (tmp_path / "ran").exists()


async def test_a_hook_that_an_agent_attaches_does_not_undo_what_one_above_it_rewrites(tmp_path: Path) -> None:
    text = """
goal: g
hooks:
  safe: {on: [before-call], match: shell, on-fault: note, rule: [{rewrite: {command: "touch safe"}}]}
agent:
  script:
    - call:
        hook:
          name: mine
          on: [before-call]
          rule: [{when: {arguments: {command: touch safe}}, rewrite: {command: "touch ran"}}]
    - call: {shell: {command: "touch safe"}}
    - expect: {error: Denied}
    - call: {shell: {command: "touch ran"}}
    - expect: {error: Denied}
    - done: ok
"""
    async with arena(tmp_path) as here:
        assert await run(here, text) == "done"
    assert not (tmp_path / "ran").exists()


async def test_a_yes_is_asked_for_the_arguments_that_the_call_will_have(tmp_path: Path) -> None:
    text = """
goal: g
hooks:
  safer: {on: [before-call], match: shell, rule: [{rewrite: {command: "echo safe > ran"}}]}
  sure: {on: [before-call], match: shell, rule: [{ask: "do you mean that?"}]}
agent: {script: [{call: {shell: {command: "echo unsafe > ran"}}}, {expect: ok}, {done: ok}]}
"""
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("agent/.", "blocked")
        (approval,) = here.store.view.list("approval")
        assert approval.spec["what"]["arguments"] == {"command": "echo safe > ran"}
        await here.gate.approve(approval.address, HUMAN_CLI)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
    assert (tmp_path / "ran").read_text() == "safe\n"


async def test_a_no_to_what_a_hook_asks_is_the_calls_result(tmp_path: Path) -> None:
    text = """
goal: g
hooks: {sure: {on: [before-call], match: shell, rule: [{ask: "do you mean that?"}]}}
agent: {script: [{call: {shell: {command: "touch ran"}}}, {expect: {error: Rejected}}, {done: ok}]}
"""
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("agent/.", "blocked")
        (approval,) = here.store.view.list("approval")
        await here.gate.reject(approval.address, HUMAN_CLI, "no")
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
    assert not (tmp_path / "ran").exists()


async def test_hook_removed_during_its_question_is_no_longer_waited_for(tmp_path: Path) -> None:
    (tmp_path / "hook.sh").write_text("echo x > asked; sleep 60\n")
    steps = 'agent: {script: [{call: {shell: {command: "touch ran"}}}, {expect: ok}, {done: ok}]}\n'
    async with arena(tmp_path) as here:
        await here.apply(f"goal: g\nhooks: {{h: {{on: [before-call], run: [sh, hook.sh]}}}}\n{steps}")
        await here.until((tmp_path / "asked").exists)
        await here.apply(f"goal: g\n{steps}")
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("guard", "says"),
    [
        ("{on: [before-call], match: shell, rule: [{deny: not any more}]}", "Denied"),
        ('{on: [before-call], python: "hooks.py:say"}', "Denied"),
        ("{on: [before-call], match: shell, rule: [{ask: really}]}", "asked again"),
        ("{on: [before-call], match: read, rule: [{deny: not any more}]}", "ok"),
    ],
)
@pytest.mark.parametrize("before", ["", "  guard: {on: [before-call], rule: [{allow: true}]}\n"])
async def test_hooks_added_or_changed_during_an_approval_are_asked_before_the_call_starts(
    tmp_path: Path, guard: str, says: str, before: str
) -> None:
    hooks(tmp_path, 'return {"decision": "deny", "reason": "not any more"}')
    head = f"goal: g\napprove: [shell]\nhooks:\n{before}" if before else "goal: g\napprove: [shell]\n"
    answer = "{error: Denied, contains: not any more}" if says == "Denied" else "ok"
    steps = (
        f'agent:\n  script:\n    - call: {{shell: {{command: "touch ran"}}}}\n    - expect: {answer}\n    - done: ok\n'
    )
    async with arena(tmp_path) as here:
        await here.apply(head + steps)
        await here.until(lambda: bool(here.store.view.list("approval")))
        await here.apply(f"goal: g\napprove: [shell]\nhooks:\n  guard: {guard}\n" + steps)
        (first,) = here.store.view.list("approval")
        await here.gate.approve(first.address, HUMAN_CLI)
        if says == "asked again":
            await here.until(lambda: "really" in str([one.spec for one in here.store.view.list("approval")]))
            assert not (tmp_path / "ran").exists()
            await here.gate.approve(first.address, HUMAN_CLI)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
    assert (tmp_path / "ran").exists() == (says != "Denied")
