"""Every verb has a page, and what the page shows is what the verb prints: `make docs` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from planloop.cli.main import VERBS, cli
from tests.docs import verb_pages
from tests.docs.sessions import check, settled


def test_every_page_has_the_help_of_its_verb() -> None:
    """In this process and for every verb; below, the command runs for real."""
    pages = {verb: (verb_pages.PAGES / f"{verb}.md").read_text() for verb in VERBS}
    different = [verb for verb, text in pages.items() if f"```\n{_help_of(verb)}\n```" not in text]

    assert different == [], "run `make docs` and look at the difference"


def _help_of(verb: str) -> str:
    width = 78  # The width of a command whose output is a pipe.
    said = CliRunner().invoke(cli, [verb, "--help"], prog_name="plan", terminal_width=width).output
    return settled("\n".join(line.rstrip() for line in said.rstrip().splitlines()))


@pytest.mark.process(keep=5)
@pytest.mark.parametrize("verb", VERBS)
def test_the_page_shows_what_the_verb_prints(verb: str, tmp_path: Path, is_updating: bool) -> None:
    page = verb_pages.page(verb, tmp_path)
    check(page.path, page.text, is_updating=is_updating)


def test_the_list_of_verbs_is_the_commands_own(is_updating: bool) -> None:
    path = verb_pages.PAGES / "index.md"
    if is_updating:
        path.write_text(verb_pages.index())

    assert path.read_text() == verb_pages.index()


def test_there_is_a_page_for_each_verb_and_for_nothing_else() -> None:
    assert {path.stem for path in verb_pages.PAGES.glob("*.md")} - {"index"} == set(VERBS)
