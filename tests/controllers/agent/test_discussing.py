"""`discuss`: every speaker speaks once, in order, all hear everything, and no agent can block it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.golden_text import said
from tests.product import JsonObject

pytestmark = pytest.mark.anyio

THREE = """
    agent:
      script:
        - task:
            - {id: ann, goal: a, script: [{done: here}, {when: {message: ready}, say: ann says yes}]}
            - {id: bob, goal: b, script: [{done: here}, {when: {message: ann says}, say: bob heard ann}]}
            - {id: eve, goal: c, script: [{done: here}, {when: {message: bob heard}, say: eve heard bob}]}
        - when: {children: done}
          call: {discuss: {prompt: are you ready, speakers: [ann, bob], listeners: [eve]}}
        - call: {discuss: {prompt: what did you hear, speakers: [eve]}}
        - done: x
"""


async def discussed(here: Arena) -> list[JsonObject]:
    await here.until_state("task/.", "done", "failed")
    assert here.state("task/.") == "done", here.get("task/.").status
    return await here.results("discuss")


async def test_each_speaker_gets_earlier_replies_and_the_call_gets_all_answers(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(THREE)
        first, second = await discussed(here)
        assert first["text"] == "[ann] ann says yes\n\n[bob] bob heard ann"
        assert second["text"] == "[eve] eve heard bob"
        assert here.store.view.list("thread") == []


async def test_listeners_are_not_woken_by_what_they_hear(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    - {id: ann, goal: a, script: [{done: here}, {when: {message: ready}, say: ready}]}
                    - {id: eve, goal: b, script: [{when: {message: go}, done: went}]}
                - when: {child: ann}
                  call: {discuss: {prompt: are you ready, speakers: [ann], listeners: [eve]}}
                - send: {to: eve, text: go}
                - when: {children: done}
                  done: x
        """)
        await discussed(here)
        turns = [draft for draft in await here.log() if draft.type == "turn.started" and draft.subject == "agent/eve"]
        assert len(turns) == 2
        # What it heard is there, in order, when something else wakes it.
        assert [each["body"] for each in here.get("agent/eve").status["memory"][0]["heard"]][:2] == [
            "are you ready",
            "[ann] ready",
        ]


async def test_blank_means_the_last_interlocutors(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task: {id: ann, prompt: a, script: [{done: here}, {when: {message: one}, say: first},
                         {when: {message: two}, say: second}]}
                - call: {discuss: {prompt: one}}
                - expect: "[ann] first"
                - task: {id: bob, prompt: b, script: [{done: here}, {when: {message: one}, say: bob}]}
                - call: {discuss: {prompt: one}}
                - expect: "[bob] bob"
                - call: {discuss: {prompt: two, speakers: [ann]}}
                - call: {discuss: {prompt: three}}
                - expect: "[ann]"
                - done: x
        """)
        await discussed(here)


async def test_a_speaker_that_fails_is_text_like_any_other_answer(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - task:
                    - {id: ann, goal: a, script: [{done: here}, {when: {message: ready}, fail: no idea}]}
                    - {id: bob, goal: b, script: [{done: here}, {when: {message: no idea}, say: nor have I}]}
                - when: {children: done}
                  call: {discuss: {prompt: are you ready, speakers: [ann, bob]}}
                - expect: {ok: true}
                - done: x
        """)
        (result,) = await discussed(here)
        said(result["text"])
        assert here.state("task/ann") == "done"


async def test_speaker_removed_during_its_question_ends_its_turn_immediately(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent: {script: [{when: {message: go}, call: {discuss: {prompt: hello, speakers: [ann, bob]}}}, {done: x}]}
            tasks:
              ann: {goal: a, agent: {script: [{when: {message: never}, say: x}]}}
              bob: {goal: b, agent: {script: [{when: {message: hello}, done: hi}]}}
        """)
        await here.until_state("agent/ann", "asleep")
        await here.until_state("agent/bob", "asleep")
        await here.tell("agent/.", "go", "m")
        await here.until(lambda: bool(here.get("agent/ann").status.get("asked")))
        await here.until_state("agent/.", "asleep")
        await here.patch({"op": "remove", "path": "/tasks/ann"})
        (result,) = await discussed(here)
        said(result["text"])


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("pause: true, agent: {script: [{done: x}]}", "Paused"),
        ("budget: {turns: 0}, agent: {script: [{done: x}]}", "Parked"),
        ("approve: [write], agent: {script: [{call: {write: {path: a, text: x}}}]}", "Blocked"),
        ("cancel: true, agent: {script: [{done: x}]}", "Cancelled"),
    ],
)
async def test_speaker_that_cannot_continue_is_reported_as_such(tmp_path: Path, setting: str, error: str) -> None:
    async with arena(tmp_path) as here:
        await here.apply(f"""
            agent:
              script: [{{when: {{message: go}}, call: {{discuss: {{prompt: hello, speakers: [ann]}}}}}},
                       {{expect: {{error: NoAnswer}}}}, {{fail: x}}]
            tasks:
              ann: {{goal: a, {setting}}}
        """)
        await here.until_state("agent/ann", "asleep", "blocked", "parked", "ended", "idle")
        await here.tell("agent/.", "go", "m")
        await here.until_state("task/.", "failed")
        (result,) = await here.results("discuss")
        assert f"[ann] ({error})" in result["text"]


async def test_more_speakers_than_the_bound_are_refused(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        names = ", ".join(["ann"] * 33)
        await here.apply(f"""
            agent:
              script:
                - task: {{id: ann, prompt: a, script: [{{done: here}}]}}
                - call: {{discuss: {{prompt: one, speakers: [{names}]}}}}
                - expect: {{error: TooMany}}
                - done: x
        """)
        await discussed(here)


async def test_topology_holds_for_speakers_and_listeners(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              ann: {goal: a, agent: {script: [{when: {message: never}, say: x}]}}
              bob:
                goal: b
                agent:
                  script:
                    - call: {discuss: {prompt: hello, speakers: [ann]}}
                    - expect: {error: NotAllowed}
                    - call: {discuss: {prompt: hello, speakers: [bob]}}
                    - expect: {error: NotAllowed}
                    - done: x
        """)
        await here.until_state("task/bob", "done", "failed")
        assert here.state("task/bob") == "done"
        assert here.get("agent/ann").status.get("inbox", {}) == {}
