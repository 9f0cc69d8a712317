"""Each ruling, played from the conflict to its end by agents: what it is a patch of, and what it brings about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena

pytestmark = pytest.mark.anyio

TEAM = """
    agent:
      script:
        - when: {{message: stands between}}
          say: noticed
        - when: {{message: "conflict/1"}}
          call: {{resolve: {{conflict: conflict/1, {ruling}}}}}
        - expect: ok
        - when: {{children: ended}}
          done: x
    tasks:
      front:
        goal: the page
        agent:
          script:
            - call: {{lock: {{paths: [src/api.py], reason: I move it}}}}
            - {{send: {{to: parent, text: front has it}}}}
            {front}
      back:
        goal: the server
        agent:
          script:
            {back}
"""


async def over(here: Arena, number: int = 1) -> None:
    await here.until(lambda: here.state(f"conflict/{number}") == "over")


async def test_release_the_holder_lets_go_and_the_one_that_asked_has_it(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - when: {message: "conflict/1"}
                  call: {resolve: {conflict: conflict/1, how: release, plan: "it is quick"}}
                - expect: ok
                - when: {children: ended}
                  done: x
            tasks:
              front:
                goal: the page
                agent:
                  script:
                    - call: {lock: {paths: [src/api.py], reason: I move it}}
                    - when: {message: "let go"}
                      call: {release: {}}
                    - when: {message: "done with it"}
                      done: x
              back:
                goal: the server
                agent:
                  topology: {talk-to: [parent]}
                  script:
                    - when: {message: go}
                      call: {contest: {paths: [src/api.py], intent: a new field, proposal: you first}}
                    - expect: ok
                    - when: {message: over}
                      call: {lock: {paths: [src/api.py]}}
                    - expect: {contains: you hold}
                    - done: x
        """)
        await here.until(lambda: (one := here.find("lock/src/api.py")) is not None and bool(one.status["holders"]))
        await here.tell("agent/back", "go", "m1")
        await over(here)
        conflict = here.get("conflict/1")
        assert conflict.status["ruling"][0]["how"] == "release"
        assert here.get("task/front").spec["rulings"] == [
            "conflict-1: let go of `src/api.py` now with `release`: `back` has it next. it is quick"
        ]
