"""What `docs/reference/worlds.md` shows can be written so, and it names all that there is."""

from __future__ import annotations

import re
from pathlib import Path

from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from planloop.benchmarks.worlds.arguments import WORDS
from planloop.benchmarks.worlds.state import call_tool
from planloop.benchmarks.worlds.verbs import OPERATIONS, OPERATORS, VERBS
from planloop.benchmarks.worlds.world_file import read_world
from planloop.client.plan_sources import FolderSources
from planloop.compiler import plan_compiler
from tests import rows
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "worlds.md").read_text()
WORLD, PLAN, SUITE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_example_world_of_the_page_is_valid_and_answers() -> None:
    read = read_world(WORLD.encode(), file="desk.yaml")
    assert read.world is not None, read.diagnostics
    world, answer = call_tool(read.world, "notes.add", {"title": "Plants"})
    assert answer.value["owner"] == "ada@orchard.example"
    assert [row["id"] for row in call_tool(world, "notes.find", {"title": "plant"})[1].value["notes"]] == ["note-2"]


def test_the_plan_of_the_page_compiles(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(WORLD)
    sources = FolderSources(tmp_path)
    found = plan_compiler.compile_source(f"plan: demo\n{PLAN}".encode(), file="demo.plan.yaml", sources=sources)
    assert not found.diagnostics


def test_the_suite_of_the_page_is_sound(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(WORLD)
    (tmp_path / "others.yaml").write_text("pool: others\ntools: {notes.burn: {}, songs.play: {}}\n")
    read = read_suite(SUITE.encode(), file="suite.yaml", sources=FolderSuiteSources(tmp_path))
    assert read.suite is not None, read.diagnostics


@rows.each("word", sorted({*VERBS, *OPERATORS, *OPERATIONS, *WORDS}))
def test_the_page_names_it(word: str) -> None:
    assert re.search(rf"[`{{ ]{re.escape(word)}[`: ]", PAGE.replace("\n", " "))
