"""Steps that are programs: JSON in, JSON out. They deny, narrow, comment and withhold; they never widen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.golden_text import said_in
from tests.product import JsonObject

pytestmark = pytest.mark.anyio

LOOK = """
import json
def look(told):
    open("told", "a").write(json.dumps(told) + "\\n")
    return ANSWER
"""


def plan(steps: str, call: str = "{write: {path: a.txt, content: one}}", expect: str = "", rights: str = "") -> str:
    expected = f"{{expect: {expect}}}, " if expect else ""
    return f"""
mixins: {{guard: {{{steps}}}}}
{rights}
agent:
  tools: [write, read, shell, list]
  mixins: [guard]
  script: [{{call: {call}}}, {expected}{{done: so}}]
"""


async def outcome(here: Arena, text: str, answer: str = "{}", tool: str = "write") -> JsonObject:
    """The one result of the tool under a guard whose function answers `answer`, a Python expression."""
    (here.folder / "guard.py").write_text(LOOK.replace("ANSWER", answer))
    await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    (result,) = await here.results(tool)
    return result


BEFORE = "before: [{python: 'guard.py:look'}]"


async def test_step_sees_the_call_and_lets_it_pass(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        result = await outcome(here, plan(BEFORE))
        assert result["state"] == "Succeeded" and here.read("a.txt") == "one"
        told = json.loads(here.read("told"))
        assert (told["version"], told["point"], told["on"], told["agent"]) == (1, "before", "call", "agent/.")
        assert told["call"]["arguments"] == {"path": "a.txt", "content": "one"}


async def test_denied_call_has_no_effect_and_names_the_denier(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        result = await outcome(here, plan(BEFORE, expect="{ok: false}"), '{"deny": "not today"}')
        assert result["state"] == "Denied" and "guard" in result["text"] and "not today" in result["text"]
        assert not (tmp_path / "a.txt").exists()


async def test_narrowed_arguments_are_what_runs(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await outcome(here, plan(BEFORE), '{"arguments": {**told["call"]["arguments"], "content": "two"}}')
        assert here.read("a.txt") == "two"


@pytest.mark.parametrize(
    ("arguments", "rights"),
    [
        ('{"path": "secret/b.txt", "content": "x"}', 'rights: {deny: ["write(secret/**)"]}'),
        ('{"path": "b.txt", "content": "x"}', 'rights: {write: ["a.txt"]}'),
        ('{"path": "b.txt", "content": "x"}', 'approve: ["write(b.txt)"]'),
        ('{"path": "../b.txt", "content": "x"}', ""),
        ('{"path": "b.txt", "contents": "x"}', ""),
    ],
)
async def test_law_6_a_rewrite_goes_through_every_denial_again(tmp_path: Path, arguments: str, rights: str) -> None:
    folder = tmp_path / "plan"
    async with arena(folder) as here:
        text = plan(BEFORE, expect="{ok: false}", rights=rights)
        result = await outcome(here, text, f'{{"arguments": {arguments}}}')
        assert result["state"] in ("Denied", "Failed"), result
        assert not list(tmp_path.rglob("b.txt"))


async def test_law_6_an_agent_does_not_write_the_program_that_guards_it(tmp_path: Path) -> None:
    call = "{write: {path: ./guard.py, content: 'def look(told): return {}'}}"
    async with arena(tmp_path) as here:
        text = plan(f"{BEFORE[:-2]}, match: shell}}]", call, "{error: Denied, contains: guard.py}")
        await outcome(here, text, tool="done")
        assert here.state("task/.") == "done"
        assert here.read("guard.py") == LOOK.replace("ANSWER", "{}")


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("match: write, rule: [{when: {arguments: {path: b.txt}}, deny: kept}]", "hook guard: kept"),
        ("match: write(b*), rule: [{ask: sure?}]", "hook guard: sure?"),
        ("match: write(b*), run: ['true']", "hook guard was not asked about these arguments"),
        ("match: write(c*), run: ['false']", ""),
        ("rule: [{when: {arguments: {path: c.txt}}, deny: kept}]", ""),
    ],
)
async def test_law_6_a_rewrite_does_not_get_past_a_hook(tmp_path: Path, hook: str, words: str) -> None:
    async with arena(tmp_path) as here:
        text = plan(
            BEFORE, expect=f"{{ok: {str(not words).lower()}}}", rights=f"hooks: {{guard: {{on: before-call, {hook}}}}}"
        )
        result = await outcome(here, text, '{"arguments": {"path": "b.txt", "content": "x"}}')
        assert words in result["text"]
        assert (tmp_path / "b.txt").exists() is not bool(words)


@pytest.mark.parametrize(
    "program",
    [
        "exit 3",
        "echo '{broken'",
        "echo '{\"allow\": true}'",
        "kill -9 $$",
        "no-such-program",
        "echo '{\"arguments\": 3}'",
    ],
)
async def test_broken_guard_denies_and_an_exit_code_is_not_a_verdict(tmp_path: Path, program: str) -> None:
    steps = f"before: [{{run: {json.dumps(program)}}}]"
    async with arena(tmp_path) as here:
        result = await outcome(here, plan(steps, expect="{ok: false}"))
        assert result["state"] == "Denied" and "failed" in result["text"]
        assert not (tmp_path / "a.txt").exists()


async def test_a_broken_guard_that_may_be_passed_over_is_noted(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        result = await outcome(here, plan("before: [{run: 'exit 3', on-fault: note}]"))
        assert result["state"] == "Succeeded"
        (settled,) = [each for each in await here.log() if each.type == "call.settled" and each.data["tool"] == "write"]
        assert "failed" in settled.data["notes"][0]


async def test_a_comment_is_a_labelled_part_and_what_is_withheld_stays_in_the_log(tmp_path: Path) -> None:
    after = "after: [{python: 'guard.py:look'}]"
    read = "{read: {path: guard.py}}"
    async with arena(tmp_path / "1") as here:
        result = await outcome(here, plan(after, read), '{"comment": "mind the gap"}', "read")
        assert "def look" in result["text"]
        said_in(result["text"])
        assert json.loads(here.read("told"))["result"]["state"] == "Succeeded"
    async with arena(tmp_path / "2") as here:
        result = await outcome(here, plan(after, read), '{"withhold": "private"}', "read")
        assert "def look" not in result["text"] and "private" in result["text"]
        (settled,) = [each for each in await here.log() if each.type == "call.settled" and each.data["tool"] == "read"]
        assert "def look" in settled.data["withheld"]["text"]


async def test_a_guard_also_sees_calls_that_would_run_in_place(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        text = plan("before: [{python: 'guard.py:look', match: done}]", "{list: {}}")
        (here.folder / "guard.py").write_text(LOOK.replace("ANSWER", '{"deny": "not yet"}'))
        await here.apply(text)
        await here.until((here.folder / "told").exists)
        await here.until(lambda: "not yet" in str(here.get("agent/.").status) or here.state("task/.") == "failed")
        assert here.state("task/.") != "done"


async def test_a_turn_can_be_denied_and_its_answer_withheld(tmp_path: Path) -> None:
    for number, (point, answer) in enumerate((("before", "deny"), ("after", "withhold"))):
        async with arena(tmp_path / str(number)) as here:
            (here.folder / "guard.py").write_text(LOOK.replace("ANSWER", f'{{"{answer}": "too late"}}'))
            await here.apply(plan(f"{point}: [{{python: 'guard.py:look', on: turn}}]"))
            await here.until_state("task/.", "done", "failed")
            assert here.state("task/.") == "failed" and "too late" in str(here.get("task/.").status)
            assert not (here.folder / "a.txt").exists()


async def test_denials_of_a_mixin_unite_and_an_heir_cannot_lift_them(tmp_path: Path) -> None:
    text = """
        mixins: {careful: {settings: {calls: ["shell(git *)"]}, before: [{deny: $calls}]}}
        agents: {base: {tools: [shell], mixins: [careful], script: []}}
        agent:
          extends: base
          settings: {careful: {calls: []}}
          script: [{call: {shell: {command: git push}}}, {expect: {ok: false}}, {done: so}]
    """
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.get("agent/.").spec["rights"]["deny"] == ["shell(git *)"]
