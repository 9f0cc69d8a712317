"""Plans in which `back` wants a file that `front` holds, and an agent above both that may rule."""

from __future__ import annotations

import textwrap

from tests.controllers.agent.arena import Arena

PATH = "src/api.py"
LOCK = f"lock/{PATH}"


def team(ruling: str, *, front: str = "", back: str = "", goes_on: str = "") -> str:
    """A plan with a root agent that makes `ruling` when it gets a conflict, and two child tasks.

    `front` takes the file first; its steps follow. `back` begins with the first message that it hears.
    """
    return f"""
agent:
  script:
    - when: {{message: "resolve("}}
      call: {{resolve: {{conflict: conflict/1, {ruling}}}}}
    - expect: ok
{textwrap.indent(textwrap.dedent(goes_on).strip(), "    ")}
    - when: {{children: ended}}
      done: ruled
tasks:
  front:
    goal: the page
    agent:
      script:
        - call: {{lock: {{paths: [{PATH}], reason: it moves}}}}
{textwrap.indent(textwrap.dedent(front).strip(), "        ")}
  back:
    goal: the server
    agent:
      script:
        - when: {{message: go}}
          say: begins
{textwrap.indent(textwrap.dedent(back).strip(), "        ")}
"""


async def begin(here: Arena, text: str) -> None:
    """Applies the plan; `back` begins when `front` has the file."""
    await here.apply(text)
    await here.until(lambda: holder(here) == "agent/front")
    await here.tell("agent/back", "go", "go")


def holder(here: Arena) -> str:
    """The holder of the file, or empty."""
    lock = here.find(LOCK)
    return next(iter(lock.status.get("holders", {})), "") if lock is not None else ""


async def brought(here: Arena) -> None:
    """Return when the conflict has a judge."""
    await here.until(lambda: bool((one := here.find("conflict/1")) and one.status.get("before")))


async def over(here: Arena, number: int = 1) -> None:
    """Returns when the conflict is over."""
    await here.until(lambda: here.state(f"conflict/{number}") == "over")
