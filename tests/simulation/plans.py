"""Plans of simulations, with the words of the simulated shell, and what they must come to."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.harness import Edit


@dataclass(frozen=True, slots=True)
class Play:
    """A plan, what is saved while it runs, and the lines that its effects leave in the file `effects`."""

    text: str
    effects: tuple[str, ...]
    states: dict[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()


COMMANDS = Play(
    """
goal: commands that depend on each other
tasks:
  first: {run: "sleep 1; echo first >> effects"}
  second: {run: "sleep 2; echo second >> effects", needs: [first]}
  beside:
    run: "sleep 1; echo beside >> effects"
    acceptance: [{sh: "test -f effects"}]
  group:
    needs: [second]
    tasks:
      a: {run: "echo a >> effects"}
      b: {run: "sleep 3; echo b >> effects", acceptance: [{sh: "sleep 1; test -s effects"}]}
  broken: {run: "echo broken >> effects; exit 1", retries: 1}
""",
    ("a", "b", "beside", "broken", "broken", "first", "second"),
    {"task/.": "failed", "task/broken": "failed", "task/group/b": "done"},
)

AGENTS = Play(
    """
goal: an agent that delegates, waits, acts on what it hears and ends
agent:
  tools: [all]
  script:
    - say: I split this in two.
    - task:
        - id: left
          goal: the left half
          agent:
            tools: [shell, write]
            script:
              - call: {shell: {command: "sleep 1; echo left >> effects"}}
              - call: {write: {path: notes.txt, content: "all is well"}}
              - done: the left half
          acceptance: [{sh: "test -f effects"}]
        - id: right
          goal: the right half
          agent: {tools: [shell], script: [{call: {shell: {command: "sleep 2; echo right >> effects"}}}, {done: it}]}
          needs: [left]
    - when: {children: done}
      call: {shell: {command: "echo joined >> effects"}}
    - done: all of it
acceptance: [{sh: "sleep 1; test -s effects"}]
""",
    ("joined", "left", "right"),
    {"task/.": "done", "agent/.": "ended", "task/left": "done"},
)

_EDITED = """
goal: {goal}
tasks:
  kept:
    goal: {goal}
    agent:
      tools: [shell]
      script:
        - call: {{shell: {{command: "sleep 20; echo kept >> effects"}}}}
        - done: it
    acceptance: [{{sh: "{check}"}}]
{more}
"""
REDIRECTED = Play(
    _EDITED.format(
        goal="before",
        check="true",
        more='  dropped: {run: "sleep 30; echo dropped >> effects"}\n'
        '  late: {run: "echo late >> effects", needs: [kept]}',
    ),
    ("added", "kept", "late"),
    {"task/.": "done", "task/kept": "done", "task/added": "done"},
    (
        Edit(
            5.0,
            _EDITED.format(
                goal="after",
                check="test -f effects",
                more='  late: {run: "echo late >> effects", needs: [kept]}\n'
                '  added: {run: "sleep 1; echo added >> effects"}',
            ),
        ),
    ),
)

LOCKED = Play(
    """
goal: two who need the same files, and one who waits for neither
tasks:
  one: {run: "sleep 3; echo one >> effects", locks: ["shared/**"]}
  two: {run: "sleep 3; echo two >> effects", locks: ["shared/**"]}
  free: {run: "sleep 1; echo free >> effects"}
""",
    ("free", "one", "two"),
    {"task/.": "done"},
)

STEERED = Play(
    """
goal: commands that are changed, called off and held while they run
tasks:
  changed: {run: "sleep 30; echo old >> effects"}
  called-off: {run: "sleep 30; echo no >> effects"}
  held: {run: "sleep 4; echo held >> effects", needs: [short]}
  short: {run: "sleep 6; echo short >> effects"}
""",
    ("held", "new", "short"),
    {"task/changed": "done", "task/called-off": "cancelled", "task/held": "done"},
    (
        Edit(
            5.0,
            """
goal: commands that are changed, called off and held while they run
tasks:
  changed: {run: "sleep 2; echo new >> effects"}
  called-off: {run: "sleep 30; echo no >> effects", cancel: true}
  held: {run: "sleep 4; echo held >> effects", needs: [short], pause: true}
  short: {run: "sleep 6; echo short >> effects"}
""",
        ),
        Edit(
            60.0,
            """
goal: commands that are changed, called off and held while they run
tasks:
  changed: {run: "sleep 2; echo new >> effects"}
  called-off: {run: "sleep 30; echo no >> effects", cancel: true}
  held: {run: "sleep 4; echo held >> effects", needs: [short]}
  short: {run: "sleep 6; echo short >> effects"}
""",
        ),
    ),
)

PLAYS = {"commands": COMMANDS, "agents": AGENTS, "redirected": REDIRECTED, "locked": LOCKED, "steered": STEERED}
