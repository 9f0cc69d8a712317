"""Verdicts merge the same in any order, the strictest counts, and the policy decides about failed ones."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.hooks import verdicts
from planloop.controllers.agent.hooks.programs import parse_hook_output, verdict_from_json
from planloop.controllers.agent.hooks.verdicts import CountedVerdict
from planloop.schemas.objects.hook import (
    STRICTNESS,
    HookFunction,
    HookPoint,
    HookProgram,
    HookSpec,
    HookVerdict,
    OnError,
    default_on_error,
    hook_verdict_from_json,
)
from tests import rows

VERDICTS = st.builds(
    HookVerdict,
    decision=st.sampled_from(STRICTNESS),
    reason=st.text(max_size=8),
    comment=st.text(max_size=8),
    arguments=st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
SAID = st.lists(VERDICTS, max_size=6).map(lambda each: [CountedVerdict(f"h{at}", one) for at, one in enumerate(each)])


@given(SAID, st.randoms())
def test_the_order_in_which_hooks_answer_does_not_matter(said: list[CountedVerdict], chance: object) -> None:
    mixed = list(said)
    chance.shuffle(mixed)  # type: ignore[attr-defined]

    assert verdicts.merge_verdicts(mixed) == verdicts.merge_verdicts(said)


@given(SAID)
def test_strictest_verdict_wins_with_the_reasons_of_all_equally_strict_ones(said: list[CountedVerdict]) -> None:
    merged = verdicts.merge_verdicts(said)
    ranks = [STRICTNESS.index(one.verdict.decision) for one in said]

    assert STRICTNESS.index(merged.decision) == max(ranks, default=0)
    as_strict = [one for one in said if one.verdict.decision == merged.decision != "allow"]
    assert len(merged.reasons) == len(as_strict)


@given(SAID, SAID)
def test_more_verdicts_are_never_less_strict(few: list[CountedVerdict], more: list[CountedVerdict]) -> None:
    both = verdicts.merge_verdicts([*few, *(CountedVerdict(f"x{one.hook}", one.verdict) for one in more)])

    assert STRICTNESS.index(both.decision) >= STRICTNESS.index(verdicts.merge_verdicts(few).decision)


def test_deny_is_before_defer_before_ask_before_allow() -> None:
    for order in permutations(STRICTNESS):
        said = [CountedVerdict(name, HookVerdict(name)) for name in order]
        assert verdicts.merge_verdicts(said).decision == "deny"
        assert verdicts.merge_verdicts([one for one in said if one.hook != "deny"]).decision == "defer"
        assert verdicts.merge_verdicts([one for one in said if one.hook in ("ask", "allow")]).decision == "ask"


@given(VERDICTS)
def test_printed_verdict_is_read_back(verdict: HookVerdict) -> None:
    assert hook_verdict_from_json(verdict.to_json()) == verdict
    assert verdict_from_json({"version": 1, **verdict.to_json()}) == verdict


@given(st.binary(max_size=200))
def test_any_program_output_is_a_verdict_or_an_error(output: bytes) -> None:
    verdict = parse_hook_output(output)

    assert verdict.fault or verdict.decision in STRICTNESS
    assert not (verdict.fault and verdict != HookVerdict(fault=verdict.fault))


@rows.each("point", ["before-call", "on-patch", "before-reply", "on-input", "after-call", "on-sleep"])
@rows.each("policy", [None, "deny", "note"])
@rows.each("contract", ["planloop", "claude-code"])
def test_error_becomes_a_marked_denial_or_note(point: HookPoint, policy: OnError | None, contract: str) -> None:
    mind = HookProgram(("x",), "claude-code") if contract == "claude-code" else HookFunction("a.py:b")
    spec = HookSpec("h", "agent/.", (point,), mind, on_fault=policy)
    counts = verdicts.effective_verdict(HookVerdict(fault="it died"), spec, point)
    default = "note" if contract == "claude-code" else default_on_error(point)

    assert counts.fault == "it died"
    assert counts.decision == ("deny" if (policy or default) == "deny" else "allow")
    assert verdicts.effective_verdict(HookVerdict("defer", "later"), spec, point) == HookVerdict("defer", "later")


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        (b"", HookVerdict()),
        (b'remark\n{"decision": "deny", "reason": "x"}\nanother', HookVerdict("deny", "x")),
        (b'{"decision": "allow"}\n{"decision": "ask"}', HookVerdict("ask")),
        (b'{"decision": "deny", "reason": "x"}\n{"decision": "allow"}', HookVerdict("deny", "x")),
        (b'{"decision": "deny"}\n{"level": "info"}', HookVerdict("deny")),
        (b'{"decision": "allow"}\n{"comment": "x"}', HookVerdict(comment="x")),
        (b'{\n  "decision": "defer"\n}', HookVerdict("defer")),
        (b'{"say": "hello"}', HookVerdict(comment="hello")),
        (b'{"state": [1], "is_last": true}', HookVerdict(memory=[1], is_last=True)),
    ],
)
def test_verdict_is_the_whole_output_or_the_strictest_of_its_json_lines(output: bytes, verdict: HookVerdict) -> None:
    assert parse_hook_output(output) == verdict
