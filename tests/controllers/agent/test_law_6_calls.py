"""Law 6 for calls: allowed patterns, denials and paths, with real files and commands; denials override all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.test_calls import answer
from tests.golden_text import said
from tests.product import JsonObject

pytestmark = pytest.mark.anyio


async def _outcomes(here: Arena) -> dict[str, str]:
    """The result of each call in order: its state, and the reason of a denial."""
    found: dict[str, str] = {}
    for draft in await here.log():
        if draft.type == "call.authorized":
            found |= {address: str(words) for address, words in draft.data.items()}
        elif draft.type == "call.settled":
            found[draft.subject] = str(draft.data["result"]["state"])
    return found


async def _states(here: Arena, *wanted: JsonObject, agent: str) -> list[str]:
    """The state of each call of one reply, of an agent with these fields."""
    fields = f"      {agent}\n      script: [{{call: {list(wanted)}}}, {{done: x}}]\n"
    await here.apply(f"tasks:\n  t:\n    cwd: work\n    agent:\n{fields}")
    await here.until_state("task/t", "done", "failed")
    return [words.partition(":")[0] for words in (await _outcomes(here)).values()][: len(wanted)]


async def test_law_6_only_allowed_commands_run(tmp_path: Path) -> None:
    lines = [
        "echo a > ../out",
        "echo b; touch ../out",
        "echo $(touch ../out)",
        "echo c",
        "touch ../out",
        "echo d && echo e",
    ]
    async with arena(tmp_path) as here:
        found = await _states(here, *[{"shell": {"command": one}} for one in lines], agent='tools: ["shell(echo *)"]')
        assert found == ["Denied", "Denied", "Denied", "Succeeded", "Denied", "Succeeded"]
        said(next(iter((await _outcomes(here)).values())), "shell(echo *)")
    assert not (tmp_path / "out").exists()


async def test_law_6_only_allowed_paths_are_written_wherever_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "work" / "docs").mkdir(parents=True)
    (tmp_path / "work" / "code").mkdir()
    (tmp_path / "work" / "docs" / "link").symlink_to("../code")
    (tmp_path / "work" / "docs" / "out").symlink_to("/tmp")
    paths = [
        "docs/a", "docs/../code/a", "docs/link/a", "docs/out/a", "code/a", "./docs//b", "docs/", "DOCS/a", "/etc/a",
        str(tmp_path / "work" / "docs" / "c"), str(tmp_path / "work" / "code" / "c"), "docs/deep/a",
    ]  # fmt: skip
    async with arena(tmp_path) as here:
        calls: list[JsonObject] = [{"write": {"path": one, "text": "x"}} for one in paths]
        found = await _states(here, *calls, agent='tools: ["write(work/docs/*)"]')
        taken = [path for path, state in zip(paths, found, strict=True) if state == "Succeeded"]
        assert taken == ["docs/a", "./docs//b", str(tmp_path / "work" / "docs" / "c")]
    assert list((tmp_path / "work" / "code").iterdir()) == []


async def test_law_6_what_is_listed_and_searched_is_what_may_be(tmp_path: Path) -> None:
    for name in ("docs", "code", "secret"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "a.txt").write_text(f"needle in {name}")
    allowed = 'tools: ["list(work/docs/**)", search]\n      deny: ["search(work/secret/**)"]'
    async with arena(tmp_path) as here:
        await _states(here, {"list": {"path": "."}}, {"search": {"text": "needle", "path": "."}}, agent=allowed)
        listed, hits = [result["text"] for result in (await here.results())[:2]]
    assert "docs/a.txt" in listed
    assert "code" not in listed
    assert "secret" not in listed + hits
    assert "code/a.txt" in hits


async def test_law_6_denial_overrides_permission_by_name_by_pattern_and_by_approval(tmp_path: Path) -> None:
    # Seen elsewhere: allowances were looked at first, and a yes for the session was one for all.
    async with arena(tmp_path) as here:
        await here.apply("""
            approve: [shell]
            rights: {deny: ["shell(touch b)"]}
            agent:
              tools: [all, shell, "shell(touch *)"]
              script:
                - call: {shell: {command: touch a}}
                - call: {shell: {command: touch b}}
                - expect: {error: Denied}
                - done: x
        """)
        await here.until(lambda: bool(here.store.view.list("approval")))
        await answer(here, here.store.view.list("approval")[0].address, "approved")
        await here.until_state("task/.", "done")
        assert [result["state"] for result in await here.results("shell")] == ["Succeeded"]
        assert not (tmp_path / "b").exists()


async def test_law_6_a_yes_does_not_start_what_was_denied_while_it_was_waited_for(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        text = """
            approve: [shell]
            DENY
            agent:
              tools: [shell]
              script:
                - call: {shell: {command: touch a}}
                - expect: {error: Denied}
                - done: x
        """
        await here.apply(text.replace("DENY", ""))
        await here.until(lambda: bool(here.store.view.list("approval")))
        await here.apply(text.replace("DENY", 'rights: {deny: ["shell(touch *)"]}'))
        await answer(here, here.store.view.list("approval")[0].address, "approved")
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
    assert not (tmp_path / "a").exists()


async def test_law_6_children_do_not_shed_what_is_denied_above_them(tmp_path: Path) -> None:
    # Seen elsewhere: the children of an agent did not have what held for itself.
    async with arena(tmp_path) as here:
        await here.apply("""
            rights: {deny: ["shell(touch *)"]}
            agent:
              tools: [all]
              script:
                - task:
                    id: kid
                    goal: g
                    agent: {deny: [], mixins: []}
                    tools: [all]
                    script: [{call: {shell: {command: touch a}}}, {done: x}]
                - {when: {children: ended}, done: x}
        """)
        await here.until_state("task/.", "done", "failed")
        said("".join((await _outcomes(here)).values()), "shell(touch *)")
    assert not (tmp_path / "a").exists()


async def test_law_6_the_network_is_asked_only_with_the_right_to_it(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        found = await _states(here, {"fetch": {"url": "http://127.0.0.1:9/"}}, agent="tools: [fetch]")
        assert found == ["Denied"]


WATCHED = """
goal: g
hooks:
  k: {on: [on-end], agent: {script: [{done: ALLOW}]}}
agent:
  script: [STEPS{done: x}]
tasks: {c: {goal: x, agent: {script: [{done: x}]}}}
"""


async def test_law_6_no_tool_reaches_the_agent_behind_a_hook_by_its_name(tmp_path: Path) -> None:
    calls: list[JsonObject] = []
    for name in ("~k", "agent/~k", "./~k", "c/~k", "agent/c/~k"):
        calls += [
            {"send": {"to": name, "text": "allow it"}},
            {"discuss": {"speakers": [name], "prompt": "allow it"}},
            {"discuss": {"speakers": ["c"], "listeners": [name], "prompt": "allow it"}},
            {"bridge": {"members": [name, "c"]}},
            {"dump": {"name": name, "path": "dumped"}},
            {"endo": {"subagent": name}},
            {"plan_view": {"path": name}},
            {"hook": {"name": "new", "to": name, "on": "on-end", "rule": [{"comment": "x"}]}},
        ]
    steps = "".join(f"{{call: {one}}}, {{expect: {{ok: false}}}}, " for one in calls)
    async with arena(tmp_path) as here:
        await here.apply(WATCHED.replace("STEPS", steps))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", here.get("agent/.").status["claim"]
    assert not (tmp_path / "dumped").exists()
