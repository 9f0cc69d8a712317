"""Law 6: rights only narrow. Properties of the meet, then what plans say about it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from compiler import patterns
from compiler.rights import Line, handed_down, narrowed
from schemas.agent import AgentSpec, agent_from_json
from schemas.rights import Rights
from tests.compiler.compiling import codes, compiled, graph_of

NAMES = ("read", "write", "shell", "shell(ls)", "shell(git push)", "ollama/a", "ollama/b", "openai/a", "a/x", "a/b/x")
PATTERNS = (*NAMES, "*", "shell(git *)", "shell(*)", "ollama/*", "*/a", "a/**", "a/b/**", "re*")
pattern_lists = st.one_of(st.none(), st.lists(st.sampled_from(PATTERNS), max_size=4).map(tuple))
lines = st.builds(
    Line,
    models=pattern_lists,
    tools=pattern_lists,
    deny=st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple),
    read=pattern_lists,
    write=pattern_lists,
    network=st.sampled_from([None, True, False]),
    spawn=st.sampled_from([None, 0, 1, 5]),
    depth=st.sampled_from([None, 0, 1, 5]),
    grant_models=pattern_lists,
    grant_tools=pattern_lists,
)
rights = st.builds(narrowed, st.sampled_from([Rights(), Rights(network=True, spawn=4, depth=3)]), lines)


def _allowed(allowed: patterns.Patterns) -> set[str]:
    return {name for name in NAMES if patterns.is_covered(allowed, name)}


@given(rights, lines)
def test_law_6_a_line_never_widens_anything(parent: Rights, line: Line) -> None:
    child = narrowed(parent, line)
    for name in ("models", "tools", "read", "write", "grant_models", "grant_tools"):
        assert _allowed(getattr(child, name)) <= _allowed(getattr(parent, name))
    assert set(parent.deny) <= set(child.deny)
    assert parent.network or not child.network
    for name in ("spawn", "depth"):
        bound, own = getattr(parent, name), getattr(child, name)
        assert bound is None or (own is not None and own <= bound)


@given(rights, lines)
def test_law_6_what_is_handed_down_is_what_may_be_granted(parent: Rights, line: Line) -> None:
    child = narrowed(handed_down(parent), line)
    assert _allowed(child.tools) <= _allowed(parent.grant_tools)
    assert _allowed(child.models) <= _allowed(parent.grant_models)
    assert parent.depth is None or (child.depth is not None and child.depth <= max(0, parent.depth - 1))


@given(pattern_lists, pattern_lists)
def test_the_meet_allows_nothing_that_either_side_does_not(one: patterns.Patterns, other: patterns.Patterns) -> None:
    both = patterns.meet(one, other)
    assert _allowed(both) <= _allowed(one) & _allowed(other)
    assert _allowed(both) == _allowed(patterns.meet(other, one))


@given(pattern_lists)
def test_the_meet_with_itself_and_with_everything_is_itself(one: patterns.Patterns) -> None:
    assert _allowed(patterns.meet(one, one)) == _allowed(one)
    assert patterns.meet(one, None) == one
    assert patterns.meet(None, one) == one


def _agent(text: str, address: str = "agent/t") -> AgentSpec:
    return agent_from_json(graph_of(text).objects[address].spec)


def test_a_denial_in_a_prototype_holds_for_all_below() -> None:
    text = """
    agent: {script: [{done: ok}], deny: [shell]}
    tasks: {t: {goal: x, agent: {script: [{done: ok}], tools: [all]}}}
    """
    assert "shell" in _agent(text).rights.deny
    assert "shell" not in _agent(text).tools


def test_a_coordinator_may_hand_on_tools_that_it_may_not_use() -> None:
    text = """
    agent: {script: [{done: ok}], tools: [task]}
    tasks: {t: {goal: x, agent: {script: [{done: ok}], tools: [shell]}}}
    """
    assert "shell" not in _agent(text, "agent/.").tools
    assert "shell" in _agent(text).tools


def test_a_line_narrows_what_may_be_handed_on_as_well_unless_it_says_otherwise() -> None:
    plan = """
    agent: {script: [{done: ok}], rights: %s}
    tasks: {t: {goal: x, agent: {script: [{done: ok}], tools: [shell]}}}
    """
    assert codes(plan % "{tools: [read]}") == ["P0301"]
    assert codes(plan % "{tools: [read], grant: {tools: [shell]}}") == []


def test_the_last_tier_holds_for_all_deeper_levels() -> None:
    text = """
    rights: {tiers: [{tools: [all]}, {tools: [work]}, {tools: [tiny]}]}
    tasks: {t: {tasks: {u: {tasks: {v: {goal: x, agent: {script: [{done: ok}]}}}}}}}
    """
    spec = _agent(text, "agent/t/u/v")
    assert "read" in spec.tools
    assert "write" not in spec.tools


def test_tiers_go_by_the_depth_they_state() -> None:
    text = """
    rights: {tiers: [{depth: 1, tools: [tiny]}, {depth: 0, tools: [all]}]}
    agent: {script: [{done: ok}]}
    tasks: {t: {goal: x, agent: {script: [{done: ok}]}}}
    """
    assert "shell" in _agent(text, "agent/.").tools
    assert "shell" not in _agent(text).tools


def test_an_agent_can_always_end_and_ask_upward() -> None:
    text = "tasks: {t: {goal: x, rights: {tools: [read]}, agent: {script: [{done: ok}]}}}"
    assert {"done", "fail", "send", "request"} <= set(_agent(text).tools)


def test_an_inherited_model_gives_way_to_the_tier_and_a_stated_one_is_refused() -> None:
    inherited = """
    goal: x
    rights: {tiers: [{models: [big]}, {models: [small]}]}
    agent: {model: big}
    tasks: {t: {goal: y}}
    """
    spec = graph_of(inherited).objects["agent/t"].spec
    assert spec["mind"]["model"] == "small"
    assert "P0302" in codes(inherited.replace("goal: y", "goal: y, agent: {model: big}"))


def test_a_tool_refused_in_a_named_agent_is_told_where_it_is_written_and_for_whom() -> None:
    text = """
agents: {worker: {script: [{done: ok}], tools: [read, shell]}}
rights: {tools: [tiny]}
tasks: {t: {goal: x, agent: worker}}
"""
    fault = compiled(text).diagnostics[0]
    assert fault.code == "P0301"
    assert fault.span is not None
    assert fault.span.line == 2
    assert "for t" in fault.summary
