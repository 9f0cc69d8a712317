"""Errors in a rule are reported before it runs: the problem, its position and a fix."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from planloop.controllers.agent.hooks import facts, rules
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import parameters_model
from planloop.schemas.objects.hook import HookPoint
from planloop.schemas.rules.language import (
    CLOSED_WORDS,
    CONDITIONS,
    EFFECTS,
    NUMBER_TESTS,
    RULE_PLACEHOLDERS,
    TEXT_TESTS,
    KnownTools,
)
from planloop.schemas.rules.validate import RuleScope, condition_problems, rule_problems
from planloop.schemas.tools import TOOL_ARGUMENTS, TOOLS
from tests import rows
from tests.golden_text import said
from tests.product import Json

POINTS = get_args(HookPoint)
TOOLS_ALONE = KnownTools(TOOLS.__contains__)

WRONG: list[tuple[Json, str, str]] = [
    ([], "P0210", "without clauses"),
    (["deny"], "P0202", "a clause is a map"),
    ([{"when": {"call": "shell"}}], "P0210", "does nothing"),
    ([{"wen": {}, "deny": "x"}], "P0201", "no `wen`"),
    ([{"deny": "x", "allow": True}], "P0211", "`deny` and `allow`"),
    ([{"deny": 3}], "P0202", "says why"),
    ([{"deny": "no {tol}"}], "P0201", "no `tol`"),
    ([{"comment": "{count}"}], "P0223", "which"),
    ([{"comment": "{setting.max}"}], "P0213", "no setting `max`"),
    ([{"comment": ""}], "P0202", "`comment` is a text"),
    ([{"rewrite": []}], "P0202", "map of arguments"),
    ([{"rewrite": {"command": ["{arg}"]}}], "P0201", "no `arg`"),
    ([{"count": {"n": "x"}}], "P0202", "by a number"),
    ([{"mark": 3}], "P0202", "a name"),
    ([{"quit": "yes"}], "P0202", "true or left out"),
    ([{"when": "shell", "deny": "x"}], "P0202", "a condition is a map"),
    ([{"when": {"tool": "shell"}, "deny": "x"}], "P0201", "no `tool`"),
    ([{"when": {"call": "rm -rf"}, "deny": "x"}], "P0223", "is not a call pattern"),
    ([{"when": {"on": "before-cal"}, "deny": "x"}], "P0201", "no `before-cal`"),
    ([{"when": {"arguments": {"path": {"begins": "x"}}}, "deny": "x"}], "P0201", "no `begins`"),
    ([{"when": {"arguments": {"path": {"matches": "(a"}}}, "deny": "x"}], "P0223", "not a regular expression"),
    ([{"when": {"arguments": {"path": {"starts": 3}}}, "deny": "x"}], "P0202", "`starts` is a text"),
    ([{"when": {"arguments": "x"}, "deny": "x"}], "P0202", "from names to tests"),
    ([{"when": {"turn": {">": "many"}}, "comment": "x"}], "P0202", "compared with a number"),
    ([{"when": {"turn": {"over": 3}}, "comment": "x"}], "P0201", "no `over`"),
    ([{"when": {"children": {"liv": True}}, "comment": "x"}], "P0201", "no `liv`"),
    ([{"when": {"children": {"live": 1}}, "comment": "x"}], "P0202", "true or false"),
    ([{"when": {"message": "hello"}, "comment": "x"}], "P0202", "is a map"),
    ([{"when": {"any": {"turn": 1}}, "comment": "x"}], "P0202", "list of conditions"),
    ([{"when": {"turn": "$max"}, "comment": "x"}], "P0213", "no setting `max`"),
    ({"when": {"not": {"tun": 1}}, "comment": "x"}, "P0201", "no `tun`"),
    ([{"when": {"call": "shel(*)"}, "deny": "x"}], "P0227", "unknown tool `shel`"),
    ([{"when": {"call": ["read", "writ*"]}, "deny": "x"}], "", ""),
    ([{"when": {"call": ["read", "wriet*"]}, "deny": "x"}], "P0227", "unknown tool `wriet*`"),
    ([{"when": {"call": "task(ui)"}, "deny": "x"}], "P0227", "not told apart"),
    ([{"when": {"effect": "write"}, "deny": "x"}], "P0212", "`effect` is never `write`"),
    ([{"when": {"effect": {"not": ["read", "onse"]}}, "deny": "x"}], "P0212", "`effect` is never `onse`"),
    ([{"when": {"outcome": "ok"}, "comment": "x"}], "P0212", "`outcome` is never `ok`"),
    ([{"when": {"outcome": {"is": "FAILED", "any-case": True}}, "comment": "x"}], "", ""),
    ([{"when": {"claim": "finished"}, "comment": "x"}], "P0212", "`claim` is never `finished`"),
    ([{"when": {"error": "denied"}, "comment": "x"}], "P0212", "`error` is never `denied`"),
    ([{"when": {"error": ["OfAServer", "Denied"]}, "comment": "x"}], "", ""),
    ([{"when": {"budget": {"token": {"<": 3}}}, "comment": "x"}], "P0213", "no unit `token`"),
    ([{"when": {"calls": {"shel": 1}}, "deny": "x"}], "P0213", "unknown tool `shel`"),
    ([{"when": {"setting": {"turnz": 1}}, "comment": "x"}], "P0213", "no setting `turnz`"),
    ([{"when": {"call": "shell", "arguments": {"comand": "x"}}, "deny": "x"}], "P0213", "`shell` has no argument"),
    ([{"when": {"arguments": {"comand": "x"}}, "deny": "x"}], "P0213", "no tool has an argument `comand`"),
    (
        [{"when": {"call": ["read", "edit"], "arguments": {"command": "x"}}, "deny": "x"}],
        "P0213",
        "those calls have no",
    ),
    ([{"when": {"call": "task", "arguments": {"budget.usd": {">": 1}}}, "deny": "x"}], "", ""),
    ([{"when": {"any": [{"call": "read"}, {"call": "list"}]}, "deny": "{arguments.command}"}], "P0213", "those calls"),
    ([{"when": {"call": "shell"}, "deny": "{arguments.comand}"}], "P0213", "no argument `comand`"),
    ([{"when": {"all": [{"call": "shell"}]}, "rewrite": {"comand": "x"}}], "P0213", "no argument `comand`"),
    ([{"when": {"not": {"call": "shell"}}, "rewrite": {"path": "x"}}], "", ""),
    (
        [{"when": {"count": {"tries": 1}}, "deny": "x"}, {"count": "trys"}],
        "P0213",
        "no clause of the hook counts `tries`",
    ),
    ([{"when": {"count": {"of shell": 1}}, "deny": "x"}, {"count": "of {tool}"}], "", ""),
    ([{"when": {"turns-since": {"plan": 1}}, "comment": "x", "count": "plan"}], "P0213", "marks `plan`"),
    ([{"comment": "{count.n} {turns-since.m}", "count": {"n": 2}, "mark": ["m"]}], "", ""),
    ([{"comment": "{count.n}"}], "P0213", "counts `n`"),
    ([{"reset": "n", "comment": "x"}], "P0213", "counts or marks `n`"),
]


@rows.each(("rule", "code", "words"), WRONG)
def test_error_has_its_code_and_its_words(rule: Json, code: str, words: str) -> None:
    found = rule_problems(rule, RuleScope(POINTS, ["turns"], TOOLS_ALONE))
    if not code:
        assert found == ()
        return
    (fault,) = found
    assert (fault.code, words in fault.summary) == (code, True), fault
    assert fault.hint, "every problem has a hint"


def test_typo_gets_a_suggestion_and_a_place() -> None:
    (fault,) = rule_problems(
        [{"comment": "x"}, {"when": {"any": [{"efect": "read"}]}, "comment": "x"}], RuleScope(POINTS)
    )

    assert fault.at == ("1", "when", "any", "0", "efect")
    said(fault.hint, "effect")


@pytest.mark.parametrize(
    ("points", "rule", "what"),
    [
        (["on-input"], [{"deny": "no"}], "`deny` has no meaning at on-input"),
        (["after-call"], [{"rewrite": {"a": 1}}], "`rewrite` has no meaning at after-call"),
        (["before-call"], [{"when": {"result": "x"}, "deny": "no"}], "`result` has no meaning at before-call"),
        (["on-wake"], [{"when": {"call": "shell"}, "comment": "x"}], "`call` has no meaning at on-wake"),
        (["before-call"], [{"when": {"on": "on-wake"}, "comment": "x"}], "not asked at `on-wake`"),
    ],
)
def test_clause_without_effect_at_the_hooks_points_is_reported(points: list[HookPoint], rule: Json, what: str) -> None:
    assert what in rule_problems(rule, RuleScope(points))[0].summary


@pytest.mark.parametrize(
    ("when", "hint"),
    [
        ({"call": "shel"}, "did you mean `shell`?"),
        ({"call": "shell", "arguments": {"comand": "x"}}, "did you mean `command`?"),
        ({"effect": "reed"}, "did you mean `read`?"),
        ({"error": "denied"}, "did you mean `Denied`?"),
        ({"budget": {"token": 1}}, "did you mean `tokens`?"),
        ({"count": {"tris": 1}}, "did you mean `tries`?"),
        ({"count": {"other": 1}}, "`count: other` in a clause does"),
    ],
)
def test_unknown_names_get_a_suggestion(when: Json, hint: str) -> None:
    rule: Json = [{"when": when, "comment": "x", "count": "tries"}]

    assert [fault.hint for fault in rule_problems(rule, RuleScope(tools=TOOLS_ALONE))] == [hint]


def test_arguments_known_only_to_a_server_are_left_to_it() -> None:
    """Arguments of its tools, and of whatever a star may stand for."""
    tools = KnownTools(lambda name: name.partition(".")[0] in {*TOOLS, "files"}, ("files",), is_open=True)
    known: Json = [{"when": {"call": "files.read", "arguments": {"anything": "x"}}, "deny": "{arguments.it}"}]
    stars: Json = [{"when": {"call": "f*", "arguments": {"anything": "x"}}, "deny": "x"}, {"rewrite": {"any": 1}}]
    ours: Json = [{"when": {"call": "shell", "arguments": {"anything": "x"}}, "deny": "x"}]

    assert rule_problems(known, RuleScope(tools=tools)) == rule_problems(stars, RuleScope(tools=tools)) == ()
    assert [fault.code for fault in rule_problems(ours, RuleScope(tools=tools))] == ["P0213"]


def test_the_arguments_that_rules_know_are_those_of_the_tools() -> None:
    taken = {
        name: {
            spelled
            for field, row in parameters_model(tool.function).model_fields.items()
            for spelled in _spelled(field, row)
        }
        for name, tool in BUILT_IN_TOOLS.items()
    }

    assert {name: set(arguments) for name, arguments in TOOL_ARGUMENTS.items()} == taken


def _spelled(field: str, row: FieldInfo) -> list[str]:
    others = row.validation_alias.choices if isinstance(row.validation_alias, AliasChoices) else []
    return [field, *(str(other) for other in others)]


def test_all_errors_are_reported_in_one_pass_and_in_order() -> None:
    rule: Any = [{"wen": 1, "deny": "{x}"}, {"when": {"a": 1, "b": 2}, "quit": 1}]

    assert [fault.at for fault in rule_problems(rule)] == [
        ("0", "wen"),
        ("0", "deny"),
        ("1", "when", "a"),
        ("1", "when", "b"),
        ("1", "quit"),
    ]


def test_a_condition_alone_is_checked_as_in_a_rule() -> None:
    assert condition_problems({"turn": {">": 3}}) == ()
    assert [fault.code for fault in condition_problems({"turns": 3})] == ["P0201"]


def test_conditions_without_end_are_refused() -> None:
    nested: Json = {"turn": 1}
    for _ in range(200):
        nested = {"not": nested}

    assert [fault.code for fault in condition_problems(nested)] == ["P0224"]


SOME: dict[str, Json] = {
    "on": "after-call",
    "call": "shell",
    **{name: words[0] for name, words in CLOSED_WORDS.items()},
    "error": "Denied",
    "arguments": {"path": "x"},
    "setting": {"max": 1},
    "budget": {"usd": {"<": 1}},
    "count": {"n": 1},
    "turns-since": {"m": 1},
    "calls": {"task": 1},
    "message": {"from": "person"},
    "is-copy": True,
    "any": [{"turn": 1}],
    "all": [{"turn": 1}],
    "not": {"turn": 1},
}


@rows.each("name", CONDITIONS)
def test_every_keyword_of_the_language_can_be_evaluated(name: str) -> None:
    """Law 10 for rules: what may be said has a reader."""
    when: Json = {name: SOME.get(name, 1)}
    known = rules.ConditionInput(facts.HookFacts("on-wake", "agent/.", "task/.", "/x", 1, 0.0), {}, rules.RuleMemory(1))

    assert condition_problems(when) == ()
    assert rules.condition_matches(when, known) in (True, False)


def test_every_keyword_has_a_description() -> None:
    assert all(text for table in (CONDITIONS, EFFECTS, TEXT_TESTS, RULE_PLACEHOLDERS) for text in table.values())
    assert not set(NUMBER_TESTS) & set(TEXT_TESTS)
