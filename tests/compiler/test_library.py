"""The library that ships: everything in it compiles by itself and together, and says what this version lacks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from planloop.compiler.explain import field_provenance
from planloop.compiler.resolve.symbols import FOLDERS
from planloop.schemas.tools import BY_NAME, CORE_TOOLS, HOOK_TOOLS, TOOLS
from tests.compiler.compiling import SOURCES, codes, graph_of
from tests.golden_text import said

LIBRARY = Path(__file__).parents[2] / "plans" / "library"
NAMES = {folder: SOURCES.names(folder) for folder in FOLDERS.values()}


def test_the_library_holds_what_the_docs_speak_of() -> None:
    assert set(NAMES["prototypes"]) == {"base", "top", "child", "micro", "websearch"}
    assert set(NAMES["toolsets"]) >= {"base", "code", "tiny", "work", "all"}
    assert set(NAMES["mixins"]) == {"trace", "retry", "concurrency-limit", "denylist", "timeout", "cache"}
    assert set(NAMES["prompts"]) >= {"worker", "orchestrator", "decompose", "reviewer"}
    assert NAMES["bundles"] == ("coding",)
    rules = {"planning", "todo-reminder", "file-changed", "single-minded", "spawn-limit", "idle-children"}
    assert set(NAMES["hooks"]) == rules | {"discussion-limit", "on-your-toes", "repeated-correction"}


@pytest.mark.parametrize("name", NAMES["prototypes"])
def test_every_prototype_can_be_extended(name: str) -> None:
    assert codes(f"agent: {{extends: 'lib:{name}', script: [{{done: ok}}]}}") == []


@pytest.mark.parametrize("name", NAMES["toolsets"])
def test_every_toolset_expands_to_existing_tools(name: str) -> None:
    for written in (name, f"lib:{name}"):
        text = f"agent: {{script: [{{done: ok}}], tools: ['{written}']}}"
        assert codes(text) == []
        assert graph_of(text).objects["agent/."].spec["tools"]


@pytest.mark.parametrize("name", NAMES["mixins"])
def test_every_mixin_reads_all_of_its_settings_and_does_something(name: str) -> None:
    text = f"agent: {{script: [{{done: ok}}], mixins: ['lib:{name}']}}"
    assert codes(text) == []
    spec = graph_of(text).objects["agent/."].spec
    assert spec["mixins"][0]["steps"] or spec["rights"]["deny"]


@pytest.mark.parametrize("name", NAMES["prompts"])
def test_every_prompt_reaches_the_agent(name: str) -> None:
    text = f"agent: {{script: [{{done: ok}}], prompt: 'lib:{name}'}}"
    assert graph_of(text).objects["agent/."].spec["prompt"] == (LIBRARY / "prompts" / f"{name}.md").read_text().strip()


@pytest.mark.parametrize("name", NAMES["hooks"])
def test_every_library_hook_is_built_for_its_agents_and_reads_all_its_settings(name: str) -> None:
    text = f"agent: {{model: test/m}}\nhooks: {{h: 'lib:{name}'}}\ntasks: {{a: {{goal: x}}}}"
    assert codes(text) == []
    spec = graph_of(text).objects["hook/h"].spec
    assert spec["watches"] == "agent/."
    written = (LIBRARY / "hooks" / f"{name}.yaml").read_text()
    assert [one for one in spec["options"] if f"${one}" not in written and f"{{setting.{one}}}" not in written] == []
    assert codes(text.replace(f"'lib:{name}'", f"{{extends: 'lib:{name}', settings: {{nosuch: 1}}}}")) == ["P0213"]


def test_a_bundle_brings_its_agents_and_the_plan_may_redefine_them() -> None:
    text = "use: [lib:coding]\ntasks: {t: {goal: x, agent: {extends: reviewer, script: [{done: ok}]}}}"
    spec = graph_of(text).objects["agent/t"].spec
    assert "write" not in spec["tools"]
    own = text + "\nagents: {reviewer: {run: x, tools: [write]}}"
    assert "write" in graph_of(own).objects["agent/t"].spec["tools"]


def _opened(name: str) -> set[str]:
    return set(graph_of(f"agent: {{script: [{{done: ok}}], tools: ['{name}']}}").objects["agent/."].spec["tools"])


def test_toolsets_grow_from_tiny_to_all() -> None:
    assert all(smaller <= larger for smaller, larger in pairwise(map(_opened, ("base", "tiny", "code", "work", "all"))))


def test_every_tool_is_in_one_set_or_another_and_the_smallest_is_what_everybody_has() -> None:
    sets = {name: _opened(f"lib:{name}") for name in ("base", "tiny", "code", "work", "web", "containers")}
    assert sets["base"] == set(CORE_TOOLS)
    assert sets["base"] < sets["tiny"] < sets["code"] < sets["work"]
    of_hooks = {tool.name for tool in HOOK_TOOLS}
    assert sets["work"] | sets["web"] | sets["containers"] == set(TOOLS) - of_hooks
    assert _opened("lib:all") == set(TOOLS) - BY_NAME, "tools for hooks and containers must be requested"
    changing = {"write", "edit", "shell", "task", "terminate", "plan_patch", "edit_plan", "dump", "restore"}
    assert not changing & (sets["tiny"] | sets["web"])


@pytest.mark.parametrize(
    "written", ["[all, 'lib:containers']", "['lib:containers', all]", "[both]", "['*', container, container_exec]"]
)
def test_tools_outside_all_can_be_listed_beside_it(written: str) -> None:
    both = "toolsets: {both: {tools: [all, 'lib:containers']}}"
    text = f"agent: {{script: [{{done: ok}}], tools: {written}}}\n{both}"
    tools = set(graph_of(text).objects["agent/."].spec["tools"])
    assert tools >= (set(TOOLS) - BY_NAME) | {"container", "container_exec"}
    assert not tools & {"meta", "verdict", "quit"}
    denied = set(graph_of(f"{text}\nrights: {{deny: [container_exec]}}").objects["agent/."].spec["tools"])
    assert tools - denied == {"container_exec"}


def test_order_and_origin_of_mixins_are_reported() -> None:
    graph = graph_of("agent: {script: [{done: ok}], mixins: ['lib:trace', 'lib:retry']}")
    source = field_provenance(graph, "agent/.", "mixins")
    said(str(source))
