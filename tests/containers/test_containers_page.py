"""The page on containers is true: its sessions print what it shows, on a real engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planloop.compiler.error_codes import CODES
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import arguments_schema
from planloop.schemas.spec.field import ChangeClass
from planloop.schemas.spec.tables import TABLES
from planloop.schemas.tools import CONTAINER_TOOLS
from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal, check, replayed
from tests.product import EngineErrorReason

PAGE = ROOT / "docs" / "reference" / "containers.md"
AGENTS_PAGE = ROOT / "docs" / "reference" / "containers-agents.md"
PLAN = re.compile(r"(?ms)^```yaml\n(plan: shop\n.*?)^```\n")


@pytest.mark.engine
@pytest.mark.timeout(240)
def test_the_sessions_of_the_page_are_real(engine: DockerEngine, tmp_path: Path, apt: str, is_updating: bool) -> None:
    text = PAGE.read_text()
    plan = PLAN.search(text)
    assert plan is not None
    (tmp_path / "shop.plan.yaml").write_text(plan[1])
    terminal = Terminal(tmp_path, timeout_s=60)
    terminal.type(f"{apt}; plan image make shell")
    try:
        now = replayed(text, terminal)
    finally:
        terminal.type("plan down --volumes")
    check(PAGE, now, is_updating=is_updating, is_ordered=False)


def test_the_table_of_changes_is_that_of_the_code() -> None:
    rows = {row.split("|")[2].strip(): row.split("|")[1] for row in PAGE.read_text().splitlines() if row[:3] == "| `"}
    replaced = re.findall(r"`([a-z-]+)`", rows["the container is stopped and removed, and a new one is started"])
    later = re.findall(r"`([a-z-]+)`", rows["used for the next container; the running one does not change"])
    fields = TABLES["container"].fields
    assert sorted(replaced) == sorted(row.name for row in fields if row.change is ChangeClass.REPLACE)
    assert sorted(later) == sorted(row.name for row in fields if row.change is ChangeClass.NONE)


def test_every_engine_reason_and_error_code_is_documented() -> None:
    text = PAGE.read_text()
    told = set(re.findall(r"`([A-Z]\w+)`", "".join(line for line in text.splitlines() if line.startswith("| `"))))
    assert told >= set(map(str, EngineErrorReason))
    codes = set(re.findall(r"P\d{4}", text))
    assert codes and codes <= set(CODES)


def test_the_tools_take_what_their_page_says() -> None:
    rows = [row.split("|")[1:3] for row in AGENTS_PAGE.read_text().splitlines() if row[:3] == "| `"]
    told = {
        (tool, name) for names, tools in rows for tool in _tools(tools) for name in re.findall("`([a-z_]+)`", names)
    }
    schemas = {tool.name: arguments_schema(BUILT_IN_TOOLS[tool.name].function) for tool in CONTAINER_TOOLS}
    assert told == {(tool, name) for tool, schema in schemas.items() for name in schema["properties"]}


def _tools(said: str) -> set[str]:
    names = {tool.name for tool in CONTAINER_TOOLS}
    found = set(re.findall("`([a-z_]+)`", said)) & names
    return names - found if "all but" in said else found


@pytest.mark.engine
@pytest.mark.timeout(240)
def test_an_agent_makes_the_calls_of_its_page(engine: DockerEngine, tmp_path: Path, apt: str) -> None:
    (plan,) = re.findall(r"(?ms)^```yaml\n(plan: lab\n.*?)^```\n", AGENTS_PAGE.read_text())
    assert {tool.name for tool in CONTAINER_TOOLS} <= set(re.findall(r"(?m)^ {4}(?:- call: \{| {4})([a-z_]+):", plan))
    (tmp_path / "lab.plan.yaml").write_text(plan)
    terminal = Terminal(tmp_path, timeout_s=60)
    terminal.type(f"{apt}; plan image make shell")
    try:
        said, code = terminal.type("plan apply lab.plan.yaml")
        assert (code, "done" in said) == (0, True), said
    finally:
        terminal.type("plan down --volumes")
