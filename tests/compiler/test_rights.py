"""Law 6: rights only narrow. Properties of the meet, then what plans say about it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from planloop.client.plan_sources import FolderSources
from planloop.compiler.plan_compiler import compile_source
from planloop.compiler.resolve.rights import RightsLine, hand_down_rights, narrow_rights
from planloop.schemas.objects.agent import AgentSpec, agent_from_json
from planloop.schemas.rights import Covers, Rights, covers_call, covers_model, meet_patterns
from planloop.schemas.tools import WRITING_TOOLS
from tests.compiler.compiling import codes, compiled, graph_of, told
from tests.compiler.lattice import (
    COVERINGS,
    EVERYTHING,
    NESTED,
    allowed,
    is_within,
    lines,
    lists,
    nested,
    nested_rights,
    rights,
)


def _same(one: Rights, other: Rights) -> bool:
    return is_within(one, other) and is_within(other, one)


@given(rights, lines)
def test_law_6_a_line_never_widens_anything(parent: Rights, line: RightsLine) -> None:
    assert is_within(narrow_rights(parent, line), parent)


@given(rights, lines)
def test_law_6_applying_a_line_twice_is_no_narrower_than_once(parent: Rights, line: RightsLine) -> None:
    once = narrow_rights(parent, line)
    assert _same(narrow_rights(once, line), once)


@given(nested_rights, nested, nested)
def test_law_6_the_order_of_lines_makes_no_difference(parent: Rights, one: RightsLine, other: RightsLine) -> None:
    assert _same(narrow_rights(narrow_rights(parent, one), other), narrow_rights(narrow_rights(parent, other), one))


@given(rights, lines, lines)
def test_law_6_in_any_order_no_line_is_passed(parent: Rights, one: RightsLine, other: RightsLine) -> None:
    # Patterns that merely overlap are left out where they meet, so the order may decide how much is left: each line is
    # held to what it alone leaves of everything.
    for result in (narrow_rights(narrow_rights(parent, one), other), narrow_rights(narrow_rights(parent, other), one)):
        for bound in (parent, narrow_rights(EVERYTHING, one), narrow_rights(EVERYTHING, other)):
            assert is_within(result, bound)


@given(rights, lines)
def test_law_6_what_a_child_may_use_and_grant_is_what_its_parent_may_grant(parent: Rights, line: RightsLine) -> None:
    child = narrow_rights(hand_down_rights(parent), line)
    for name, covers in (("tools", covers_call), ("models", covers_model)):
        given_on = allowed(getattr(parent, f"grant_{name}"), covers)
        assert allowed(getattr(child, name), covers) | allowed(getattr(child, f"grant_{name}"), covers) <= given_on
    assert parent.depth is None or (child.depth is not None and child.depth <= max(0, parent.depth - 1))


@given(COVERINGS, st.data())
def test_the_meet_allows_nothing_that_either_side_does_not(covers: Covers, data: st.DataObject) -> None:
    one, other = (data.draw(lists(covers)) for _ in range(2))
    both = meet_patterns(one, other, covers)
    assert allowed(both, covers) <= allowed(one, covers) & allowed(other, covers)
    assert allowed(both, covers) == allowed(meet_patterns(other, one, covers), covers)


@given(COVERINGS, st.data())
def test_the_meet_of_patterns_that_nest_is_associative(covers: Covers, data: st.DataObject) -> None:
    one, other, third = (data.draw(lists(covers, NESTED)) for _ in range(3))
    left, right = (
        meet_patterns(meet_patterns(one, other, covers), third, covers),
        meet_patterns(one, meet_patterns(other, third, covers), covers),
    )
    assert allowed(left, covers) == allowed(right, covers)


@given(COVERINGS, st.data())
def test_the_meet_with_itself_and_with_everything_is_itself(covers: Covers, data: st.DataObject) -> None:
    one = data.draw(lists(covers))
    assert allowed(meet_patterns(one, one, covers), covers) == allowed(one, covers)
    assert meet_patterns(one, None, covers) == one
    assert meet_patterns(None, one, covers) == one


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


def test_line_narrows_the_rights_to_hand_on_too_unless_it_states_them() -> None:
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


def test_the_budget_of_the_last_tier_bounds_every_deeper_agent() -> None:
    text = """
    rights: {tiers: [{}, {budget: {turns: 5}}]}
    tasks: {t: {tasks: {u: {tasks: {v: {goal: x, agent: {script: [{done: ok}]}}}}}}}
    """
    cap = _agent(text, "agent/t/u/v").cap
    assert (cap.budget.turns, cap.at) == (5, "rights.tiers.1.budget")


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


def test_tool_refused_in_a_named_agent_is_reported_where_it_is_written() -> None:
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


def test_law_6_agent_cannot_write_the_files_that_define_it(tmp_path: Path) -> None:
    (tmp_path / "proto.yaml").write_text("tools: [read]")
    (tmp_path / "words.md").write_text("be brief")
    (tmp_path / "shared.yaml").write_text("toolsets: {look: {tools: [read]}}")
    text = b"""
    plan: demo
    use: [shared.yaml]
    prompts: {p: "file:words.md"}
    tasks:
      t: {goal: x, agent: {extends: "file:proto.yaml", prompt: p, python: "minds/a.py:go"}, tasks: {u: {goal: y}}}
      v: {goal: z, agent: {script: [{done: ok}]}}
    """
    result = compile_source(text, file="demo.yaml", sources=FolderSources(tmp_path))
    assert result.graph is not None, told(result.diagnostics)
    denied = {
        name: {f"{tool}({file})" for tool in WRITING_TOOLS for file in files}
        for name, files in {
            "t": ("shared.yaml", "proto.yaml", "words.md", "minds/a.py"),
            "t/u": ("shared.yaml", "proto.yaml", "words.md", "minds/a.py"),
            "v": ("shared.yaml",),
        }.items()
    }
    specs = {name: agent_from_json(result.graph.objects[f"agent/{name}"].spec) for name in denied}
    assert {name: set(spec.rights.deny) for name, spec in specs.items()} == denied


def test_the_example_on_the_page_about_rights_compiles() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "rights.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    assert codes(f"mcp: {{files: {{command: [server]}}}}\nrun: make\n{example}") == ["P0411"]


def test_agent_cannot_write_files_that_the_plan_or_its_servers_are_made_from(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "more.yaml").write_text("agents: {w: {script: [{done: ok}], prompt: 'file:p.md'}}\n")
    (tmp_path / "p.md").write_text("Be kind.\n")
    text = """plan: demo
use: ["file:parts/more.yaml"]
mcp: {own: {command: [python3, tools/server.py]}, other: {url: "http://localhost:1/mcp"}}
agent: w
tasks: {a: {goal: a, agent: {script: [{done: ok}]}}}
"""
    compiled = compile_source(text.encode(), file="demo.plan.yaml", sources=FolderSources(tmp_path))
    assert compiled.graph is not None, compiled.diagnostics
    for agent in ("agent/.", "agent/a"):
        guarded = compiled.graph.objects[agent].spec["rights"]["guarded"]
        files = {"parts/more.yaml", "p.md", "tools/server.py"}
        assert set(guarded) == {f"{tool}({file})" for file in files for tool in WRITING_TOOLS}
