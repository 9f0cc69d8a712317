"""Every hint, run as it is printed in a situation that prints it, ends what it was printed for.

`hints.yaml` lists all texts of the product that name a `plan` command, with the test that runs each of them; a text that
is not listed there fails `test_every_text_that_names_a_command_is_listed`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests import hints, rows
from tests.e2e.folder import Folder

LISTED: Final[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("hints.yaml").read_text())


@dataclass(frozen=True, slots=True)
class Situation:
    """A plan, the object that ends up `blocked`, what its hint begins with, and its state once that was run."""

    plan: str
    at: str
    hint: str
    blocked: str = "blocked"
    then: str = "done"
    before: tuple[str, ...] = ()


STEPS = "script: [{call: {list: {}}}, {call: {list: {}}}, {call: {list: {}}}, {done: x}], tools: [list]"
ASKS = "script: [{call: {request: {kind: plan, what: x, why: y, to: person}}}, {when: {message: WORD}, done: x}]"
ONCE = "test -e again || { touch again; kill -9 $PPID; kill -9 $$; }"

SITUATIONS: Final[dict[str, Situation]] = {
    "a budget of a task": Situation(
        f"tasks: {{a: {{goal: x, budget: {{turns: 2}}, agent: {{{STEPS}}}}}}}",
        "task/a",
        "plan patch task/a budget.turns=",
    ),
    "a budget that is granted out of one that is too small": Situation(
        f"tasks: {{g: {{budget: {{turns: 3}}, tasks: {{a: {{goal: x, budget: {{turns: 2}}, agent: {{{STEPS}}}}}}}}}}}",
        "task/g/a",
        "plan patch . tasks.g.budget.turns=",
    ),
    "a budget of an agent with a name": Situation(
        f"agents: {{w: {{budget: {{turns: 2}}, {STEPS}}}}}\ntasks: {{a: {{goal: x, agent: w}}}}",
        "task/a",
        "plan patch . agents.w.budget.turns=",
    ),
    "the cap of a tier": Situation(
        f"rights: {{tiers: [{{}}, {{budget: {{turns: 2}}}}]}}\ntasks: {{a: {{goal: x, agent: {{{STEPS}}}}}}}",
        "task/a",
        "plan patch . rights.tiers.1.budget.turns=",
    ),
    "a budget that nobody has to give": Situation(
        f"budget: {{turns: 5}}\ntasks: {{z: {{goal: w, agent: {{{STEPS}}}}}, a: {{goal: x, needs: z, budget: {{turns: 4}}, "
        f"agent: {{{STEPS}}}}}}}",
        "task/a",
        "plan patch . budget.turns=",
    ),
    "a call that needs a yes": Situation(
        "approve: [list]\ntasks: {a: {goal: x, agent: {tools: [list], script: [{call: {list: {}}}, {done: x}]}}}",
        "task/a",
        "plan approve approval/",
    ),
    "a request": Situation(
        f"tasks: {{a: {{goal: x, agent: {{{ASKS.replace('WORD', 'approved')}}}}}}}", "task/a", "plan approve approval/"
    ),
    "a request that is rejected": Situation(
        f"tasks: {{a: {{goal: x, agent: {{{ASKS.replace('WORD', 'rejected')}}}}}}}", "task/a", "plan reject approval/"
    ),
    "a failure": Situation(
        "tasks: {a: {run: 'test -e again || { touch again; false; }'}}", "task/a", "plan resume task/a", "failed"
    ),
    "a pause": Situation("tasks: {a: {run: 'true', pause: true}}", "task/a", "plan resume task/a", "paused"),
    "a cancellation": Situation(
        "tasks: {a: {run: 'true', cancel: true}}", "task/a", "plan patch task/a cancel=false", "cancelled"
    ),
    "a bound on tasks at work": Situation(
        "limits: {tasks: 1}\ntasks: {z: {run: sleep 60}, a: {run: 'true'}}",
        "task/a",
        "plan patch . limits.tasks=2",
        "",
    ),
    "a lock": Situation(
        "tasks: {z: {run: sleep 60, locks: [f.txt]}, a: {run: 'true', locks: [f.txt]}}",
        "task/a",
        "plan unlock lock/f.txt",
    ),
}


def unblocks(folder: Folder, address: str) -> list[str]:
    """What would end the present state of the object, by its conditions."""
    found = folder.json("get", address)
    one = found[0] if isinstance(found, list) else found
    return [way for raw in (one["status"].get("conditions") or {}).values() for way in raw.get("unblocks", ())]


def state(folder: Folder, address: str) -> str:
    said = folder.run("get", address, "-o", "json")
    found = yaml.safe_load(said.out) if said.code == 0 else {}
    one = found[0] if isinstance(found, list) and found else found
    return str((one or {}).get("status", {}).get("state", ""))


def until(folder: Folder, address: str, wanted: str) -> None:
    """Returns when the object has that state; the test's timeout is the bound."""
    while state(folder, address) != wanted:
        continue


def matching(ways: list[str], hint: str) -> str:
    """The way that begins as `hint`, and ends with its option if it has one."""
    begin, _, option = hint.partition(" --")
    found = [way for way in ways if way.startswith(begin) and way.endswith(option)]
    assert found, (hint, ways)
    return found[0]


@pytest.mark.process
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_hint_ends_what_it_was_printed_for(folder: Folder, name: str) -> None:
    one = SITUATIONS[name]
    with folder.owned("demo.plan.yaml", f"plan: demo\n{one.plan}\n"):
        if one.blocked:
            until(folder, one.at, one.blocked)
            hint = matching(unblocks(folder, one.at), one.hint)
        else:
            # A task that only waits its turn writes nothing: what it waits for is told when somebody looks.
            hint = one.hint
            while hint not in folder.run("describe", one.at).out:
                continue
        said = folder.run(*shlex.split(hint)[1:])
        assert said.code == 0, (hint, said.text)
        until(folder, one.at, one.then)


@pytest.mark.process
@pytest.mark.parametrize("word", ["--happened", "--did-not"])
def test_the_hint_of_a_call_with_an_unknown_outcome_settles_it(folder: Folder, word: str) -> None:
    plan = f"plan: demo\ntasks: {{a: {{run: '{ONCE}'}}}}\n"
    folder.write("demo.plan.yaml", plan)
    with folder.killed("--yes", "demo.plan.yaml") as owner:
        owner.process.wait()
    with folder.owned("demo.plan.yaml", plan):
        until(folder, "task/a", "blocked")
        hint = matching(unblocks(folder, "task/a"), f"plan approve call/ {word}")
        assert folder.run(*shlex.split(hint)[1:]).code == 0
        until(folder, "task/a", "done")


@rows.each("where, text", list(hints.texts()), ids=lambda part: str(part)[:80])
def test_every_text_that_names_a_command_is_listed(where: str, text: str) -> None:
    assert text in hints.listed(LISTED), (
        f"{where}: add it to tests/e2e/hints.yaml, with the test that runs it: {text!r}"
    )
