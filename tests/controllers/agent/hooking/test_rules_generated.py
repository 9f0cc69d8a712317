"""A valid rule can be evaluated for any facts, and any rule at all can be checked."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planloop.controllers.agent.hooks.facts import CallFact, ChildFact, HookFacts
from planloop.controllers.agent.hooks.rules import evaluate_first, evaluate_rule
from planloop.schemas.objects.hook import HookAgent, HookPoint, HookRule, HookSpec, HookVerdict
from planloop.schemas.objects.message import Message
from planloop.schemas.rules.language import NUMBER_TESTS, RULE_PLACEHOLDERS
from planloop.schemas.rules.validate import RuleScope, condition_problems, rule_problems
from tests import sets
from tests.product import CallResult, CallState, Json, decode, encode

AGENT = "agent/web/ui"
texts = st.text(alphabet='ab/*.({[$"\\n', max_size=6) | st.sampled_from(
    ["shell", "before-call", "read", "write(src/**)"]
)
plain = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
numbers = st.integers(0, 3) | st.dictionaries(st.sampled_from(NUMBER_TESTS), st.integers(-1, 9), min_size=1, max_size=2)
tests = (
    plain
    | st.lists(plain, max_size=2)
    | numbers
    | st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("is", "not", "like", "contains", "starts", "ends"), texts),
            "matches": st.sampled_from(["a+b", "^$", "(a|b)*"]),
            "length": numbers,
            "any-case": st.booleans(),
            "given": st.booleans(),
        },
    )
)
leaves = st.one_of(
    st.fixed_dictionaries({"on": st.sampled_from(get_args(HookPoint))}),
    st.fixed_dictionaries({"call": st.sampled_from(["shell", "write(src/**)", "*"]) | st.just(["read", "edit(*.md)"])}),
    *(st.fixed_dictionaries({name: tests}) for name in ("effect", "result", "outcome", "error", "reply", "prompt")),
    *(
        st.fixed_dictionaries({name: st.dictionaries(texts.filter(bool), tests, min_size=1, max_size=2)})
        for name in ("arguments", "setting")
    ),
    *(
        st.fixed_dictionaries({name: st.dictionaries(texts.filter(bool), numbers, min_size=1, max_size=2)})
        for name in ("budget", "count", "turns-since", "calls")
    ),
    *(
        st.fixed_dictionaries({name: numbers})
        for name in ("changed", "turn", "depth", "requests", "nudges", "sent-back")
    ),
    st.fixed_dictionaries({"message": st.dictionaries(st.sampled_from(["text", "from", "about", "answer"]), tests)}),
    st.fixed_dictionaries({"children": st.fixed_dictionaries({}, optional={"live": st.booleans(), "quiet": numbers})}),
    st.fixed_dictionaries({"messages": numbers}),
)
whens = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=4,
)
said = st.builds(
    "".join, st.lists(st.sampled_from(["a ", "{{", "}}", *(f"{{{name}}}" for name in RULE_PLACEHOLDERS), "{count.n}"]))
)
clauses = st.fixed_dictionaries(
    {"when": whens},
    optional={
        "deny": said | st.just(True),
        "comment": said.filter(bool),
        "rewrite": st.dictionaries(texts, said | plain, min_size=1),
        "count": texts.filter(bool) | st.dictionaries(texts, st.integers(0, 3)),
        "reset": texts.filter(bool),
        "mark": said.filter(bool),
        "note": said.filter(bool),
        "once": said.filter(bool),
        "quit": st.just(True),
        "consult": st.just(True),
    },
).filter(lambda clause: clause.keys() - {"when", "once"})
facts = st.builds(
    HookFacts,
    point=st.sampled_from(get_args(HookPoint)),
    agent=st.just(AGENT),
    task=st.just("task/web/ui"),
    cwd=st.just("/w"),
    turn=st.integers(1, 5),
    now=st.just(0.0),
    call=st.none()
    | st.builds(
        CallFact,
        id=st.just("call/x"),
        tool=st.sampled_from(["shell", "write", "files.read"]),
        arguments=st.dictionaries(texts, values, max_size=3),
        subjects=st.just(("a",)),
        result=st.none() | st.just(CallResult(CallState.FAILED, "no", "NotFound")),
    ),
    reply=texts,
    messages=st.lists(
        st.builds(
            Message,
            id=st.just("m"),
            kind=st.just("chat"),
            sender=st.sampled_from(["human:cli", "agent/web", "agent/web/ui/a", "controller:agent", "hook:x"]),
            receiver=st.just(AGENT),
            body=values,
            sent_at=st.just(0.0),
        ),
        max_size=2,
    ).map(tuple),
    children=st.lists(
        st.builds(ChildFact, agent=st.just("agent/web/ui/a"), task=st.just("task/web/ui/a"), state=texts), max_size=2
    ).map(tuple),
    files_changed=st.dictionaries(texts, texts, max_size=2),
)

kept = values | st.fixed_dictionaries(
    {"since": st.integers(0, 3)}, optional=dict.fromkeys(("counts", "marks", "once", "notes"), values)
)
"""What the hook remembers: nothing, or whatever it kept when it was something else."""


@given(rule=values)
def test_any_rule_is_reported_or_accepted_without_a_crash(rule: Json) -> None:
    for fault in (*rule_problems(rule), *condition_problems(rule)):
        assert fault.hint, fault


@settings(max_examples=sets.examples(400, 45))
@given(rule=st.lists(clauses, min_size=1, max_size=3), asked=st.lists(facts, min_size=1, max_size=3), kept=kept)
def test_valid_rule_answers_any_input_with_a_storable_verdict(
    rule: list[Any], asked: list[HookFacts], kept: Json
) -> None:
    told = rule_problems(rule, RuleScope(is_first=True))
    assume(all(fault.code in ("P0211", "P0212", "P0213", "P0223") for fault in told))
    spec = HookSpec("x", AGENT, ("before-call",), HookRule(tuple(rule)), options={"max": 3})
    front = HookSpec("x", AGENT, ("before-call",), HookAgent("agent/web/~x"), first=tuple(rule), options={"max": 3})
    memory = kept
    for one in asked:
        verdict = evaluate_rule(spec, memory, one)
        assert isinstance(verdict, HookVerdict)
        assert decode(encode(verdict.to_json())) == verdict.to_json()
        assert evaluate_first(front, memory, one).verdict.memory == verdict.memory
        memory = verdict.memory if verdict.memory is not None else memory
