"""`log` checks: each rule passes for logs that meet it, and describes the problem of others."""

from __future__ import annotations

from typing import Any

import pytest

from planloop.benchmarks.checks.evidence import Evidence
from planloop.benchmarks.checks.log import RULES, judge_log, log_check_problems
from planloop.schemas.spec.tables import TABLE_BY_NAME
from tests import rows
from tests.product import Json, JsonObject


def made(task: str, by: str | None = "", **more: Any) -> JsonObject:
    plain: JsonObject = {"goal": task, "needs": [], "budget": False, "checks": 0}
    return {"what": "made", "task": task, "by": by, **plain, **more}


def state(task: str, state: str) -> JsonObject:
    return {"what": "state", "task": task, "state": state}


def removed(task: str) -> JsonObject:
    return {"what": "removed", "task": task}


def call(tool: str, arguments: Json = None, state: str = "Succeeded", by: str = "", **more: Any) -> list[JsonObject]:
    id_ = f"call/{by}-{tool}-{arguments}-{more.get('n', 0)}"
    opened = {"what": "call", "by": by, "call": id_, "tool": tool, "arguments": arguments or {}, "fault": ""}
    ended = {"what": "settled", "call": id_, "state": state, "text": "why not", "violated": bool(more.get("violated"))}
    return [opened, ended]


def read(text: str) -> JsonObject:
    return {"what": "read", "by": "", "text": text}


ENTRY = [made("", by=None), state("", "running")]
DONE = call("done", {"result": "ready"})
TWO = [
    *ENTRY,
    made("draft", goal="write the draft"),
    state("draft", "running"),
    state("draft", "done"),
    made("print", needs=["draft"], budget=True, checks=1),
    state("print", "running"),
    state("print", "done"),
]
SAID = call("send", {"to": "draft", "text": "blue"})
FLAKY = [*ENTRY, made("fetch"), state("fetch", "running"), state("fetch", "failed")]
DENIED = call("write", {"path": "secret"}, "Denied")

HOLDS = [
    ("two tasks, all done", {"children": {"at-least": 2, "at-most": 2, "done": "all", "needs": 1}}, TWO),
    ("one in order", {"order": [["draft", "print"]]}, TWO),
    ("by their goals", {"order": [["/the draft/", "pri*"]], "ends": {"/print/": "done"}}, TWO),
    ("moments", {"order": [[{"made": "draft"}, {"begun": "print"}, {"claims": True}]]}, [*TWO, *DONE]),
    ("a message and a call", {"order": [[{"reads": "/blue/"}, {"call": "wri*", "has": "sea"}]]},
     [*ENTRY, read("make it blue"), *call("write", {"text": "sea"})]),
    ("none left running", {"never": ["left-running", "children"]}, [*ENTRY, *DONE]),
    ("one removed before", {"never": ["left-running"]}, [*ENTRY, made("x"), removed("x"), *DONE]),
    ("a removed one need not be done", {"children": {"done": "all"}}, [*TWO, made("x"), removed("x")]),
    ("one refusal is not two", {"never": ["refused-again"]}, [*ENTRY, *DENIED]),
    ("refusals of helpers of the plan", {"never": ["refused"]},
     [*ENTRY, made("helper", by=None), *call("write", {}, "Denied", by="helper")]),
    ("calls", {"calls": {"send": {"at-least": 1, "at-most": 1}, "shell": {"at-most": 0}}}, [*ENTRY, *call("send")]),
    ("again", {"recovers": {"from": "fetch", "by": ["again"]}},
     [*FLAKY, state("fetch", "running"), state("fetch", "done")]),
    ("another", {"recovers": {"from": "fetch", "by": ["another"]}},
     [*FLAKY, made("fetch-2"), state("fetch-2", "done")]),
    ("another of the same name", {"recovers": {"from": "fetch"}},
     [*FLAKY, removed("fetch"), made("fetch"), state("fetch", "done")]),
    ("itself", {"recovers": {"from": "fetch", "by": ["itself"]}}, [*FLAKY, *call("write", {"path": "a"})]),
    ("told by a message", {"tells": [{"to": "draft", "has": "/blue/"}]}, [*TWO, *SAID]),
    ("told by an edit", {"tells": [{"to": "draft", "has": "/blue/"}]},
     [*TWO, *call("edit_plan", {"path": "tasks/draft/goal", "value": "in blue"})]),
    ("told as one of all", {"tells": [{"to": "draft"}]}, [*TWO, *call("send", {"to": "children", "text": "go"})]),
]  # fmt: skip

TELLS = [
    ({"children": {"at-least": 3}}, TWO, "2 tasks added; expected at least 3"),
    ({"children": {"at-most": 1}}, TWO, "2 tasks added; expected at most 1"),
    ({"children": {"done": "all"}}, FLAKY, "`fetch` is failed at the end"),
    ({"children": {"budget": True}}, TWO, "`draft` has no budget"),
    ({"children": {"checks": True}}, TWO, "`draft` has no checks"),
    ({"children": {"needs": 2}}, TWO, "1 of the added tasks have `needs`; expected at least 2"),
    ({"children": {"at-least": 1}}, [*ENTRY, made("helper", by=None)], "0 tasks added"),
    ({"order": [["print", "draft"]]}, TWO, "`draft` begun came before `print` done"),
    ({"order": [["draft", "ship"]]}, TWO, "`ship` begun never happened"),
    ({"order": [[{"reads": "/x/"}, "draft"]]}, TWO, "reads `/x/` never happened"),
    ({"never": ["children"]}, TWO, "a task was added: `draft`"),
    ({"never": ["left-running"]}, [*ENTRY, made("x"), state("x", "running"), *DONE], "while `x` was running"),
    ({"never": ["refused"]}, [*ENTRY, *DENIED], "`write` was refused: why not"),
    ({"never": ["refused"]}, [*ENTRY, {"what": "refused", "by": "", "why": "no rights"}], "rejected: no rights"),
    ({"never": ["refused"]}, [*ENTRY, made("x"), *call("write", {}, "Denied", by="x")], "was refused"),
    ({"never": ["refused-again"]}, [*ENTRY, *DENIED, *call("write", {"path": "secret"}, "Denied", n=1)], "again with"),
    ({"never": ["over-budget"]}, [*ENTRY, {"what": "parked", "by": ""}], "the budget of the agent was used up"),
    ({"never": ["lock-violated"]}, [*ENTRY, *call("shell", {}, violated=True)], "files that others had locked"),
    ({"never": [{"call": "shell"}]}, [*ENTRY, *call("shell")], "call `shell` happened, but must not"),
    ({"ends": {"draft": "failed"}}, TWO, "`draft` is done at the end, not failed"),
    ({"ends": {"ship": "done"}}, TWO, "there was no task `ship`"),
    ({"calls": {"send": {"at-least": 1}}}, ENTRY, "0 calls of `send`"),
    ({"recovers": {"from": "fetch"}}, FLAKY, "`fetch` failed, and the agent did not recover"),
    ({"recovers": {"from": "draft"}}, TWO, "`draft` never failed"),
    ({"recovers": {"from": "fetch", "by": ["again"]}}, [*FLAKY, *call("write")], "did not recover (again)"),
    ({"tells": [{"to": "draft", "has": "/blue/"}]}, [*TWO, *call("send", {"to": "print", "text": "blue"})],
     "`draft` never got a message that matches /blue/"),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "rows"), [row[1:] for row in HOLDS], ids=[row[0] for row in HOLDS])
def test_facts_in_the_log_hold(rules: JsonObject, rows: list[JsonObject]) -> None:
    judged = judge_log(rules, Evidence(records=tuple(rows)))

    assert (judged.result, judged.probes > 0) == ("pass", True), judged.message


@rows.each(("rules", "rows", "words"), TELLS)
def test_difference_in_the_log_is_reported(rules: JsonObject, rows: list[JsonObject], words: str) -> None:
    judged = judge_log(rules, Evidence(records=tuple(rows)))

    assert judged.result == "fail" and words in judged.message


def test_unobserved_log_is_not_evidence() -> None:
    assert judge_log({"never": ["refused"]}, Evidence()).probes == 0


def test_a_check_that_cannot_be_asked_is_an_error() -> None:
    assert judge_log({"order": [["/(/", "x"]]}, Evidence(records=tuple(TWO))).result == "error"
    assert judge_log({"orders": []}, Evidence(records=tuple(TWO))).result == "error"


def test_unsearchable_names_are_reported_with_their_places() -> None:
    found = list(
        log_check_problems(
            {"order": [["/(/", {"done": "x"}]], "tells": [{"to": "x", "has": "/[/"}], "ends": {"/)/": "done"}}
        )
    )

    assert [one.at for one in found] == [("order", "0", "0"), ("tells", "0", "has"), ("ends", "/)/")]


def test_every_word_of_the_vocabulary_is_judged() -> None:
    assert {row.name for row in TABLE_BY_NAME["log"].fields} == set(RULES)
