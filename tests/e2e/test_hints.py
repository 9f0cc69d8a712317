"""Every hint, run as it is printed in a situation that prints it, ends what it was printed for.

`hints.yaml` lists all texts of the product that name a `plan` command, with the test that runs each of them. A text
that is not listed fails `test_every_text_that_names_a_command_is_listed`.
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
from tests.fakes.model_server.running import started

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
    "a budget over what is left above": Situation(
        f"budget: {{turns: 5}}\ntasks:\n  z: {{goal: w, agent: {{{STEPS}}}}}\n"
        f"  a: {{goal: x, needs: z, budget: {{turns: 4}}, agent: {{{STEPS}}}}}",
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
            # A task that only waits its turn writes nothing: what it waits for is computed by `plan describe`.
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
        refused = folder.run("approve", "task/a")
        assert refused.code != 0 and hint in refused.text
        assert folder.run(*shlex.split(hint)[1:]).code == 0
        until(folder, "task/a", "done")


@pytest.mark.process
def test_the_hint_of_an_unknown_price_has_the_model_asked(folder: Folder) -> None:
    plan = "plan: demo\nbudget: {usd: 5}\ngoal: x\nagent: {model: openai/no-such}\n"
    with folder.owned("demo.plan.yaml", plan):
        until(folder, "task/.", "blocked")
        hint = matching(unblocks(folder, "agent/."), "plan patch . limits.unknown-price=estimate")
        assert folder.run(*shlex.split(hint)[1:]).code == 0
        until_asked(folder)


@pytest.mark.process
def test_the_hint_of_a_model_that_refuses_has_it_asked_again(folder: Folder) -> None:
    steps = [{"status": 401, "reply": {"text": "no"}}, {"reply": {"text": "There."}}]
    with started(steps, folder.path) as server:
        plan = f"plan: demo\nmodels: {{house: {{url: '{server.url}'}}}}\ngoal: x\nagent: {{model: house/m}}\n"
        with folder.owned("demo.plan.yaml", plan):
            until(folder, "task/.", "blocked")
            hint = matching(unblocks(folder, "agent/."), "plan resume task/.")
            assert folder.run(*shlex.split(hint)[1:]).code == 0
            until(folder, "task/.", "done")


@pytest.mark.process
@pytest.mark.parametrize("written", ["task/a/goal=go on", "a/goal=go on", "a.goal=go on"])
def test_the_hint_for_a_field_in_one_word_with_its_task_changes_it(folder: Folder, written: str) -> None:
    folder.done("plan: demo\ntasks: {a: {run: 'true'}}\n")

    refused = folder.run("patch", written)

    hint = refused.text.partition("help: ")[2].strip()
    assert refused.code == 2 and folder.run(*shlex.split(hint)[1:]).code == 0
    assert folder.json("get", "task/a")["spec"]["goal"] == "go on"


@pytest.mark.process
def test_the_hints_of_a_failed_plan_run_in_a_folder_with_two_plans(folder: Folder) -> None:
    folder.done("plan: other\ntasks: {a: {run: 'true'}}\n")
    folder.write("demo.plan.yaml", "plan: demo\ntasks: {a: {run: 'false'}}\n")

    hints = [line for line in folder.run("apply", "demo.plan.yaml").text.splitlines() if line.startswith("help: plan ")]

    printed = [part for line in hints for part in line.removeprefix("help: ").partition(", then")[0].split(" · ")]
    assert [line.split()[1] for line in printed] == ["describe", "logs", "resume"]
    assert {line: said.text for line in printed if (said := folder.run(*shlex.split(line)[1:])).code} == {}


def until_asked(folder: Folder) -> None:
    while not any(record["type"] == "model.requested" for record in folder.records()):
        continue


@pytest.mark.process
def test_hint_of_a_protected_task_allows_its_removal(folder: Folder) -> None:
    text = "plan: demo\ntasks:\n  z: {run: sleep 60}\n  a: {run: 'true', protect: true}\n"
    with folder.owned("demo.plan.yaml", text):
        until(folder, "task/a", "done")
        refused = folder.run("patch", "--json", '[{"op": "remove", "path": "/tasks/a"}]')
        assert refused.code != 0
        hint = next(line for line in refused.text.splitlines() if "protect=false" in line).partition("plan patch")[2]
        assert folder.run("patch", *shlex.split(hint)).code == 0
        assert folder.run("patch", "--json", '[{"op": "remove", "path": "/tasks/a"}]').code == 0


AT_WORK: Final = """\
plan: demo
tasks:
  a:
    goal: x
    agent: {tools: [list], script: [{call: {list: {}}}, {when: {message: never}, done: x}]}
"""


@pytest.mark.process
def test_commands_that_show_something_run_in_a_plan_at_work(folder: Folder) -> None:
    with folder.owned("demo.plan.yaml", AT_WORK):
        until(folder, "agent/a", "asleep")
        failed = {line: said.text for line in LISTED["look"] if (said := folder.run(*shlex.split(line)[1:])).code}
    assert not failed


TELLING: Final = ("doctor", "diff")
"""Commands whose exit code says what they found."""


@pytest.mark.process
def test_commands_that_start_or_end_something_run_one_after_the_other(folder: Folder) -> None:
    folder.write("demo.plan.yaml", "plan: demo\ntasks: {a: {run: 'true'}}\n")
    failed: dict[str, str] = {}
    for line in LISTED["begin"]:
        where = Folder(folder.path / "new") if line.startswith("plan init") else folder
        where.path.mkdir(exist_ok=True)
        said = where.run(*shlex.split(line)[1:])
        if said.code and line.split()[1] not in TELLING:
            failed[line] = said.text
    assert not failed


@rows.each("test", list(LISTED["run"]))
def test_tests_named_in_the_list_exist(test: str) -> None:
    file, _, name = test.partition("::")
    function, _, situation = name.partition("[")
    assert f"def {function}(" in (hints.ROOT / file).read_text()
    assert not situation or situation.removesuffix("]") in SITUATIONS


def test_list_has_no_obsolete_text() -> None:
    assert hints.listed(LISTED) <= frozenset(hints.texts())


@rows.each(("where", "text"), list(hints.texts()), ids=lambda part: str(part)[:80])
def test_every_text_that_names_a_command_is_listed(where: str, text: str) -> None:
    assert (where, text) in hints.listed(LISTED), "add it to tests/e2e/hints.yaml, with the test that runs it"
