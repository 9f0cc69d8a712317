"""Rules: each condition and effect, their memory, and what they cannot decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.hooks.facts import CallFact, ChildFact, HookFacts
from planloop.controllers.agent.hooks.rules import FirstClauses, evaluate_first, evaluate_rule, holds_outside_rule
from planloop.controllers.agent.tools import tool
from planloop.schemas import limits
from planloop.schemas.objects.hook import HookAgent, HookPoint, HookRule, HookSpec, HookVerdict, hook_verdict_from_json
from planloop.schemas.objects.message import Message, MessageKind
from tests import rows
from tests.product import CallResult, CallState, Json, JsonObject, encode

AGENT = "agent/web/ui"
CALL = CallFact(
    "call/1", "write", {"path": "src/a.py", "content": "x = 1", "deep": {"n": 5}}, "idempotent", ("src/a.py",)
)


def at(point: HookPoint = "before-call", *, call: CallFact | None = CALL, **more: Any) -> HookFacts:
    return HookFacts(point, AGENT, "task/web/ui", "/w", more.pop("turn", 3), 0.0, call=call, **more)


def said(
    rule: Json, facts: HookFacts | None = None, memory: Json = None, options: JsonObject | None = None
) -> HookVerdict:
    mind = HookRule(tuple(rule if isinstance(rule, list) else [rule]))
    hook = HookSpec("x", AGENT, ("before-call",), mind, options=options or {})
    return evaluate_rule(hook, memory, facts or at())


def holds(when: Json, facts: HookFacts | None = None, memory: Json = None) -> bool:
    verdict = said({"when": when, "comment": "yes"}, facts, memory)
    assert not verdict.fault, verdict
    return verdict.comment == "yes"


def message(body: Json, sender: str = "human:cli", kind: MessageKind = "chat") -> Message:
    return Message("m", kind, sender, AGENT, body, 0.0)


def ended(state: CallState = CallState.SUCCEEDED, text: str = "fine", error: str = "") -> HookFacts:
    return at("after-call", call=replace(CALL, result=CallResult(state, text, error)))


CHILDREN = (
    ChildFact("agent/web/ui/a", "task/web/ui/a", "running", is_live=True, agent_state="running", turns_silent=0),
    ChildFact("agent/web/ui/b", "task/web/ui/b", "done", agent_state="ended", turns_silent=7),
    ChildFact("agent/web/ui/c", "task/web/ui/c", "failed", agent_state="ended", turns_silent=2),
)


@rows.each(
    ("when", "is_so"),
    [
        ({}, True),
        ({"on": "before-call"}, True),
        ({"on": ["on-wake", "after-call"]}, False),
        ({"call": "write"}, True),
        ({"call": "write(src/**)"}, True),
        ({"call": ["shell", "write(*.md)"]}, False),
        ({"call": "*"}, True),
        ({"effect": "idempotent"}, True),
        ({"effect": {"not": ["read", "idempotent"]}}, False),
        ({"arguments": {"path": "src/a.py"}}, True),
        ({"arguments": {"path": {"starts": "src/", "ends": ".py"}}}, True),
        ({"arguments": {"path": {"starts": "src/", "ends": ".md"}}}, False),
        ({"arguments": {"path": {"like": "src/*"}}}, True),
        ({"arguments": {"path": {"like": ["*.md", "*.py"]}}}, True),
        ({"arguments": {"path": {"contains": "SRC"}}}, False),
        ({"arguments": {"path": {"contains": "SRC", "any-case": True}}}, True),
        ({"arguments": {"path": {"matches": r"^src/\w+\.py$"}}}, True),
        ({"arguments": {"path": {"matches": "A.PY", "any-case": True}}}, True),
        ({"arguments": {"content": {"length": {"<": 6}}}}, True),
        ({"arguments": {"deep.n": {">": 4, "<=": 5}}}, True),
        ({"arguments": {"deep": {"length": 1}}}, True),
        ({"arguments": {"deep.n": {"!=": 5}}}, False),
        ({"arguments": {"content": {">": 1}}}, False),
        ({"arguments": {"mode": {"given": False}}}, True),
        ({"arguments": {"mode": {"contains": "x"}}}, False),
        ({"arguments": {"mode": {"length": {">": 0}}}}, False),
        ({"arguments": {"mode": {"not": "x"}}}, True),
        ({"arguments": {"path": ["a", "src/a.py"]}}, True),
        ({"result": {"contains": "x"}}, False),
        ({"turn": {">=": 3}}, True),
        ({"turn": 4}, False),
        ({"any": [{"turn": 9}, {"call": "write"}]}, True),
        ({"all": [{"turn": 9}, {"call": "write"}]}, False),
        ({"not": {"call": "write"}}, False),
        ({"not": {"reply": "x"}}, True),
        ({"call": "write", "turn": 9}, False),
    ],
)
def test_a_condition_on_a_call(when: Json, is_so: bool) -> None:
    assert holds(when) is is_so


@pytest.mark.parametrize(
    ("when", "is_so"),
    [
        ({"outcome": "succeeded"}, True),
        ({"outcome": ["failed", "denied"]}, False),
        ({"result": {"contains": "in"}}, True),
        ({"error": "NotFound"}, False),
    ],
)
def test_a_condition_on_what_came_of_a_call(when: Json, is_so: bool) -> None:
    assert holds(when, ended()) is is_so
    assert holds({"error": "NotFound", "outcome": "failed"}, ended(CallState.FAILED, "no", "NotFound"))


@pytest.mark.parametrize(
    ("wanted", "is_so"),
    [
        ({"live": True}, True),
        ({"live": False, "count": 2}, True),
        ({"quiet": {">=": 5}}, True),
        ({"state": ["done", "failed"], "quiet": {">=": 8}}, False),
        ({"name": "c", "state": "failed"}, True),
        ({"agent": {"not": "ended"}, "count": 1}, True),
        ({"count": 0}, False),
        ({"state": "paused", "count": 0}, True),
        ({">": 2}, True),
        (3, True),
    ],
)
def test_children_are_counted_by_what_they_are(wanted: Json, is_so: bool) -> None:
    assert holds({"children": wanted}, at(children=CHILDREN)) is is_so


@pytest.mark.parametrize(
    ("sender", "who"),
    [
        ("human:cli", "person"),
        ("agent/web", "parent"),
        ("agent/.", "parent"),
        ("agent/web/ui/a", "child"),
        ("agent/other", "other"),
        ("agent/web/ui/a", "a"),
        ("agent/other", "agent/other"),
    ],
)
def test_sender_of_a_message_is_known_by_kinship_name_and_address(sender: str, who: str) -> None:
    facts = at("on-input", call=None, messages=(message("do not push", sender),))

    assert holds({"message": {"from": who, "text": {"contains": "not"}}}, facts)
    assert not holds({"message": {"from": {"not": who}}}, facts)
    assert holds({"messages": {"from": who, "count": 1}}, facts)


def test_answer_to_a_request_is_distinguished_from_other_messages() -> None:
    body: Json = {
        "asked": "approval/web.1",
        "what": {"kind": "plan", "what": "x", "of": "person"},
        "answer": "approved",
    }
    facts = at("on-wake", call=None, messages=(message(body, "controller:agent", "approval"),))

    assert holds({"message": {"kind": "approval", "about": "plan", "answer": "approved"}}, facts)
    assert not holds({"message": {"about": "budget"}}, facts)
    assert not holds({"message": {"answer": "rejected"}}, facts)


def test_levels_are_compared_as_numbers() -> None:
    facts = at(
        depth=2, budget_left={"usd": 0.5}, files_changed={"a": "1"}, requests=("approval/x",), turn_calls={"task": 2}
    )

    assert holds({"depth": 2, "changed": {">": 0}, "requests": 1, "budget": {"usd": {"<": 1}}}, facts)
    assert holds({"calls": {"task": {">": 1}, "write": 0}}, facts)
    assert not holds({"budget": {"tokens": {"<": 1}}}, facts), "what has no bound is never low"


def test_children_that_a_reply_would_start_are_counted_with_running_ones() -> None:
    assert holds({"children-then": 3}, at(children=CHILDREN, begins=2))


def test_a_copy_knows_that_it_is_one() -> None:
    rule = HookRule(({"when": {"is-copy": True}, "comment": "copy"},))
    spec = HookSpec("x", AGENT, ("before-call",), rule)

    assert evaluate_rule(spec, None, at()).comment == ""
    assert evaluate_rule(replace(spec, original="hook/x"), None, at()).comment == "copy"


def test_the_first_clause_that_decides_is_the_last_that_is_read() -> None:
    rule = [{"comment": "a"}, {"when": {"turn": 9}, "ask": "no"}, {"deny": "b"}, {"comment": "c", "count": "n"}]

    assert said(rule) == HookVerdict("deny", "b", comment="a")


@pytest.mark.parametrize("word", ["deny", "defer", "ask", "allow"])
def test_each_decision_may_have_a_reason_or_none(word: str) -> None:
    assert said({word: "why {tool}"}).to_json().get("decision", "allow") == word
    assert said({word: "why {tool}"}).reason == "why write"
    assert said({word: True}).reason == ""


def test_blanks_are_filled_with_what_is_known() -> None:
    text = (
        "{tool} {arguments.path} {arguments.deep.n} {arguments.none}| {children} {changed} {turn} {depth} "
        "{setting.max} {count.n} {turns-since.m} {agent} {task} {{x}}"
    )
    facts = at(children=CHILDREN, files_changed={"b": "2", "a": "1"}, depth=1)
    verdict = said({"when": {"children": {"live": False}}, "comment": text}, facts, options={"max": 4})

    words = "write src/a.py 5 | b, c a, b 3 1 4 0 0 agent/web/ui task/web/ui {x}"
    assert verdict.comment == words


def test_replies_and_results_can_be_quoted() -> None:
    facts = at("on-input", call=None, messages=(message("hello", "agent/web"), message("stop it")), prompt="all")

    rule = {"when": {"message": {"from": "person"}}, "comment": "{message} {prompt}"}
    assert said(rule, facts).comment == "stop it all"
    assert said({"comment": "{result} {reply}"}, ended()).comment == "fine "


def test_a_filled_text_is_clamped() -> None:
    long = at(call=replace(CALL, arguments={"content": "x" * 9_000}))

    assert len(said({"comment": "{arguments.content}"}, long).comment) == limits.RULE_WORDS_CHARS_MAX


def test_rewriting_changes_only_the_named_arguments_and_keeps_types() -> None:
    rewrite: Json = {"path": "out/{arguments.path}", "content": None, "mode": "{arguments.deep.n}", "all": ["{tool}"]}

    assert said({"rewrite": rewrite}).arguments == {
        "path": "out/src/a.py",
        "deep": {"n": 5},
        "mode": 5,
        "all": ["write"],
    }
    assert said([{"rewrite": {"path": "b"}}, {"rewrite": {"path": "src/a.py"}}]).arguments is None, "as it was"


def test_an_argument_is_never_clamped() -> None:
    long = at(call=replace(CALL, arguments={"content": "x" * 9_000}))

    assert said({"rewrite": {"content": "y{arguments.content}"}}, long).arguments == {"content": "y" + "x" * 9_000}


def test_counters_marks_and_resets_are_remembered_and_seen_by_the_next_clause() -> None:
    rule = [
        {"when": {"call": "write"}, "count": "writes", "mark": "wrote"},
        {"when": {"call": "read"}, "reset": ["writes", "wrote"]},
        {"when": {"count": {"writes": {">=": 2}}}, "deny": "{count.writes} in {turns-since.wrote}"},
    ]
    first = said(rule)
    second = said(rule, memory=first.memory)
    read = said(rule, at(call=replace(CALL, tool="read"), turn=8), second.memory)

    assert (first.decision, second.reason) == ("allow", "2 in 0")
    assert read.decision == "allow"
    assert said(rule, memory=read.memory).decision == "allow"
    assert said({"count": {"n": 5}}).memory["counts"] == {"n": 5}


def test_turns_are_counted_from_the_beginning_of_the_hook_until_a_mark_is_set() -> None:
    rule = [{"when": {"turns-since": {"plan": {">=": 3}}}, "comment": "late", "mark": "plan"}]
    begun = said(rule, at(turn=4))

    assert begun.memory["since"] == 4
    assert said(rule, at(turn=6), begun.memory) == HookVerdict()
    late = said(rule, at(turn=7), begun.memory)
    assert late.comment == "late"
    assert said(rule, at(turn=9), late.memory).comment == ""
    assert said(rule, at(turn=10), late.memory).comment == "late"


def test_texts_of_a_clause_use_the_counts_before_its_own_reset() -> None:
    rule = {"when": {"count": {"n": {">": 1}}}, "comment": "{count.n} in {turns-since.m}", "reset": "n", "mark": "m"}
    memory = {"since": 1, "counts": {"n": 2}, "marks": {"m": 3}}
    told = said(rule, at(turn=7), memory)

    assert (told.comment, told.memory) == ("2 in 4", {"since": 1, "marks": {"m": 7}})
    again = said({"count": "n", "reset": "n", "deny": "{count.n}"}, at(turn=7), memory)
    assert (again.reason, again.memory["counts"]) == ("3", {"n": 1})


def test_once_is_once_for_each_text() -> None:
    rule = {"when": {"changed": {">": 0}}, "once": "{versions}", "comment": "{changed}"}
    told = said(rule, at(files_changed={"a": "1"}))

    assert told.comment == "a"
    assert said(rule, at(files_changed={"a": "1"}), told.memory) == HookVerdict()
    assert said(rule, at(files_changed={"a": "2"}), told.memory).comment == "a"


def test_rule_without_memory_stores_nothing() -> None:
    assert said({"when": {"call": "write"}, "deny": "x"}).memory is None


def test_a_rule_can_end_itself() -> None:
    assert said({"when": {"turn": 3}, "quit": True, "comment": "bye"}) == HookVerdict(comment="bye", is_last=True)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"when": {"arguments": {"content": {"matches": "x"}}}, "deny": "no"}, "the limit is"),
        ({"when": {"arguments": {"path": {"matches": "("}}}, "deny": "no"}, "not closed"),
        ({"when": {"tun": 1}, "deny": "no"}, "unknown condition `tun`"),
        ({"when": {"turn": {">": "x"}}, "deny": "no"}, "invalid test"),
        ({"when": {"not": 3}, "deny": "no"}, "a condition must be a map"),
    ],
)
def test_undecidable_rule_is_an_error_and_not_a_verdict(rule: Json, words: str) -> None:
    long = at(call=replace(CALL, arguments={"path": "a", "content": "x" * (limits.RULE_TEXT_CHARS_MAX + 1)}))
    verdict = said(rule, long)

    assert words in verdict.fault
    assert verdict.decision == "allow", "its policy for errors decides, not the rule"


def test_agent_that_invents_names_cannot_make_a_hook_forget_its_own() -> None:
    rule = [{"count": "all"}, {"mark": "asked"}, {"count": "at {arguments.path}", "mark": "{arguments.path}"}]
    memory: Json = None
    for index in range(limits.RULE_NAMES_MAX + 20):
        memory = said(rule, at(call=replace(CALL, arguments={"path": f"{index}" * 9_999})), memory).memory
    assert memory["counts"]["all"] == limits.RULE_NAMES_MAX + 20 and memory["marks"]["asked"] == 3
    assert len(memory["counts"]) == limits.RULE_NAMES_MAX
    assert len(encode(memory)) < limits.HOOK_MEMORY_BYTES_MAX


def test_a_count_stays_a_number_that_the_log_holds() -> None:
    memory: Json = None
    for _ in range(3):
        memory = said({"count": {"x": 1.7e308, "y": -(10**400)}}, memory=memory).memory
    assert memory["counts"] == {"x": limits.RULE_COUNT_MAX, "y": -limits.RULE_COUNT_MAX}


def test_memory_of_a_hook_is_bounded() -> None:
    memory: Json = None
    for number in range(limits.RULE_NAMES_MAX + 10):
        call = replace(CALL, arguments={"path": f"f{number}"})
        memory = said({"count": "{arguments.path}"}, at(call=call), memory).memory

    assert len(memory["counts"]) == limits.RULE_NAMES_MAX
    assert "f0" not in memory["counts"]


def test_a_condition_outside_of_a_rule_is_judged_the_same() -> None:
    hook = HookSpec("x", AGENT, ("before-call",), HookRule(()))

    assert holds_outside_rule({"turn": {">=": 3}}, hook, None, at())
    assert not holds_outside_rule({"nonsense": 1}, hook, None, at())


leaves = st.sampled_from(
    [{"call": "write"}, {"turn": {">": 1}}, {"outcome": "failed"}, {"children": 0}, {"count": {"n": 0}}, {}]
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
    ),
    max_leaves=6,
)


@given(one=conditions, other=conditions)
def test_conditions_obey_the_laws_of_logic(one: Json, other: Json) -> None:
    assert holds({"not": one}) is not holds(one)
    assert holds({"all": [one, other]}) is (holds(one) and holds(other))
    assert holds({"not": {"any": [one, other]}}) is holds({"all": [{"not": one}, {"not": other}]})


@given(
    rule=st.lists(
        st.builds(
            lambda when, effect: {"when": when, **effect},
            conditions,
            st.sampled_from(
                [
                    {"deny": "a"},
                    {"ask": "b"},
                    {"comment": "c"},
                    {"count": "n"},
                    {"mark": "m"},
                    {"quit": True},
                    {"rewrite": {"a": 1}},
                ]
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_same_question_has_the_same_answer_and_verdicts_survive_json(rule: list[Any]) -> None:
    once = said(rule)

    assert said(rule) == once
    assert hook_verdict_from_json(once.to_json()) == once


# Clauses that stand before an agent.


def before(rule: list[Any], facts: HookFacts | None = None, memory: Json = None) -> FirstClauses:
    hook = HookSpec("x", AGENT, ("before-call",), HookAgent("agent/web/~x"), first=tuple(rule))
    return evaluate_first(hook, memory, facts or at())


def test_agent_is_asked_only_if_a_clause_consults_it_and_counters_are_kept() -> None:
    rule = [
        {"count": "n", "note": "{tool} {count.n}"},
        {"when": {"count": {"n": {">": 1}}}, "reset": "n", "consult": True},
    ]
    once = before(rule)
    again = before(rule, memory=once.verdict.memory)

    assert not once.consults
    assert again.consults
    assert again.verdict.memory == {"since": 3, "notes": ["write 1", "write 2"]}


def test_clauses_before_an_agent_may_decide_without_it() -> None:
    assert before([{"deny": "no"}, {"consult": True}]) == FirstClauses(HookVerdict("deny", "no"))
    assert before([{"when": {"turn": 9}, "consult": True}]) == FirstClauses(HookVerdict())
    assert before([{"consult": True}, {"deny": "not read"}]) == FirstClauses(HookVerdict(), consults=True)
    assert before([]).consults, "without any it is always asked"
    assert before([{"when": {"tun": 1}, "consult": True}]).verdict.fault


def test_number_of_kept_notes_is_bounded() -> None:
    memory: Json = None
    for turn in range(limits.RULE_NOTES_MAX + 3):
        memory = before([{"note": "{turn}"}], at(turn=turn), memory).verdict.memory

    assert memory["notes"] == [str(turn) for turn in range(3, limits.RULE_NOTES_MAX + 3)]


# A pattern holds back too much rather than too little, and lets through too little rather than too much.


def shell(command: str) -> HookFacts:
    wide, exact = tool.command_subjects({"command": command}), tool.exact_command_subjects({"command": command})
    return at(call=CallFact("call/2", "shell", {"command": command}, "once", wide, exact))


DISGUISED = ["git status; git push", "git status && git push", "$(git push)", "git status | sh"]


@pytest.mark.parametrize("command", ["git push", "git  push -f", *DISGUISED[:3]])
def test_command_that_may_be_the_denied_call_is_denied(command: str) -> None:
    assert said({"when": {"call": "shell(git push*)"}, "deny": "no"}, shell(command)).decision == "deny"


@pytest.mark.parametrize("command", DISGUISED)
@pytest.mark.parametrize(
    "rule",
    [
        [{"when": {"call": "shell(git status*)"}, "allow": True}, {"deny": "no"}],
        [{"when": {"not": {"call": "shell(git status*)"}}, "deny": "no"}],
        [{"when": {"any": [{"not": {"any": [{"call": "shell(git status*)"}]}}]}, "deny": "no"}],
    ],
    ids=["allow", "not", "deep"],
)
def test_command_that_only_starts_like_an_allowed_one_is_denied(rule: Json, command: str) -> None:
    assert said(rule, shell(command)).decision == "deny"
    assert said(rule, shell("git status -s")).decision == "allow"


def test_a_key_that_is_made_up_does_not_hide_what_is_within_another() -> None:
    made_up: JsonObject = {"options.force": False, "options": {"force": True}}
    call = CallFact("call/4", "git.push", made_up)
    force: JsonObject = {"arguments": {"options.force": True}}

    assert said({"when": force, "deny": "no"}, at(call=call)).decision == "deny"
    assert said([{"when": {"not": force}, "allow": True}, {"deny": "no"}], at(call=call)).decision == "deny"
    gentle = [{"when": {"arguments": {"options.force": False}}, "allow": True}, {"deny": "no"}]
    assert said(gentle, at(call=call)).decision == "deny"
    assert said(gentle, at(call=replace(call, arguments={"options": {"force": False}}))).decision == "allow"


def test_negated_path_must_differ_from_every_name_of_the_path() -> None:
    call = replace(CALL, arguments={"path": "./src/a.py"}, places=("src/a.py", "src/a.py"))

    assert not holds({"arguments": {"path": {"not": "SRC/A.py", "any-case": True}}}, at(call=call))
    assert holds({"arguments": {"path": {"not": "src/b.py"}}}, at(call=call))


def test_a_server_may_be_named_for_all_of_its_tools() -> None:
    call = CallFact("call/3", "files.read_file", {"path": "a"}, "read", ("a",), ("a",))

    assert holds({"call": "files"}, at(call=call))
    assert holds({"call": "files.read_file(a)"}, at(call=call))
    assert not holds({"call": "file"}, at(call=call))
