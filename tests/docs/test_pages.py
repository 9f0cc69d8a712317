"""The pages of docs/start and docs/how-to work as they are written: a reader who follows them gets what they show."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from planloop.client.plan_sources import FolderSources
from planloop.compiler import plan_compiler
from planloop.compiler.error_codes import STOPS_APPLY
from tests.architecture.tree import ROOT
from tests.docs import page_setups, pages
from tests.docs.sessions import Terminal, check

PAGES = {path.relative_to(pages.DOCS).as_posix(): path for path in pages.pages()}
CONTAINERS = "how-to/containers.md"
HEAD = "plan: page\ngoal: try it\n"
UNORDERED = {
    "how-to/review-team.md",
    "how-to/many-repositories.md",
    "how-to/overnight.md",
    "how-to/research.md",
    CONTAINERS,
}
"""Pages whose tasks run at the same time, so that revisions differ."""
NOT_RUN = {
    "start/anthropic.md": 1,
    "start/install.md": 3,
    "start/ollama.md": 1,
    "start/openai.md": 1,
    "start/openrouter.md": 1,
    "how-to/containers.md": 1,
    "how-to/from-argo-workflows.md": 1,
    "how-to/from-claude-code-subagents.md": 1,
    "how-to/from-github-actions.md": 2,
    "how-to/from-langgraph.md": 1,
}
AGENT = "agent: {model: ollama/qwen3:8b}\n"


@pytest.mark.process(keep=3)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", [name for name in PAGES if name != CONTAINERS])
def test_a_page_can_be_followed_to_its_end(name: str, tmp_path: Path, is_updating: bool) -> None:
    _follow(name, tmp_path, is_updating=is_updating)


@pytest.mark.engine
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("engine")
def test_the_page_on_containers_can_be_followed_to_its_end(tmp_path: Path, apt: str, is_updating: bool) -> None:
    # As root the folder belongs to root, and the user of the image may not write to it.
    _follow(CONTAINERS, tmp_path, is_updating=is_updating, before=f"{apt}; plan image make shell; chmod 777 .")


def _follow(name: str, tmp_path: Path, *, is_updating: bool, before: str = "") -> None:
    path = PAGES[name]
    text = path.read_text()
    folder, beside = tmp_path / "work", tmp_path / "beside"
    folder.mkdir()
    beside.mkdir()
    with page_setups.setup_of(name)(beside) as setup:
        terminal = Terminal(folder, timeout_s=40, env=setup.env, replaced=setup.replaced)
        terminal.type(setup.before or before or ":")
        try:
            now = pages.follow(text, terminal, setup.more)
        finally:
            if "--detach" in text:
                terminal.stop_plans()

    check(path, now, is_updating=is_updating, is_ordered=name not in UNORDERED)


def test_each_block_of_a_page_is_run_or_states_why_not() -> None:
    unmarked = [
        (name, block.text)
        for name, path in PAGES.items()
        for block in pages.blocks(path.read_text())
        if block.kind == "unmarked"
    ]

    assert unmarked == []


def test_blocks_that_are_not_run_are_counted() -> None:
    """A block is not run only if it needs what a test cannot have. Raise a number with care."""
    found = Counter(
        name for name, path in PAGES.items() for block in pages.blocks(path.read_text()) if block.kind == "not run"
    )

    assert found == NOT_RUN


def test_reasons_on_a_page_are_those_of_the_product() -> None:
    sources = [*ROOT.glob("*/planloop/**/*.py")]
    known = set(re.findall(r'"([A-Z][A-Za-z]+)"', "".join(path.read_text() for path in sources)))
    named = {
        reason
        for name, path in PAGES.items()
        if "/from-" not in name
        for reason in re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", path.read_text())
    }

    assert named and named <= known, sorted(named - known)


def test_a_part_of_a_plan_compiles_and_may_be_applied(tmp_path: Path) -> None:
    stops = []
    for name, path in PAGES.items():
        for block in pages.blocks(path.read_text()):
            if block.kind == "fragment":
                text = HEAD + ("" if "\nagent:" in f"\n{block.text}" else AGENT) + block.text
                made = plan_compiler.compile_source(text.encode(), file="p.yaml", sources=FolderSources(tmp_path))
                stops += [(name, one) for one in made.diagnostics if one.severity == "error" or one.code in STOPS_APPLY]

    assert stops == []
