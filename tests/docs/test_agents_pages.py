"""The README and the pages on agents are true: fragments compile, options exist, providers are the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from planloop.cli.main import cli
from planloop.client.plan_sources import FolderSources
from planloop.compiler import plan_compiler
from planloop.compiler.error_codes import STOPS_APPLY
from planloop.controllers.agent.models.catalog import PROVIDERS
from tests import rows

DOCS = Path(__file__).parents[2] / "docs" / "reference"
PAGES = ("agents.md", "hooks.md", "mixins.md", "models.md", "rights.md", "tool-servers.md", "../../README.md")
HEAD = "plan: page\ngoal: try it\n"
AGENT = "agent: {model: ollama/qwen3:8b}\n"


def blocks(language: str) -> list[str]:
    return [
        one for page in PAGES for one in re.findall(rf"(?ms)^```{language}\n(.*?)^```\n", (DOCS / page).read_text())
    ]


def fragments() -> list[str]:
    """Parts of plans. A plan that is whole is an example, which has tests of its own."""
    return [block for block in blocks("yaml") if not block.startswith("plan:")]


def commands() -> list[list[str]]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("plan ")]


@rows.each("fragment", fragments())
def test_a_fragment_of_a_plan_compiles_and_may_be_applied(fragment: str, tmp_path: Path) -> None:
    text = HEAD + ("" if re.search("(?m)^agent:", fragment) else AGENT) + fragment
    made = plan_compiler.compile_source(text.encode(), file="p.plan.yaml", sources=FolderSources(tmp_path))

    stops = [one for one in made.diagnostics if one.severity == "error" or one.code in STOPS_APPLY]
    assert not stops, stops


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_page_has_these_options(words: list[str]) -> None:
    within = click.Context(cli, **cli.context_settings)  # Its verbs keep the help option of their first context.
    verb = cli.get_command(within, words[0])
    assert verb is not None, words[0]

    _, rest, _ = verb.make_parser(click.Context(verb, within)).parse_args(words[1:])
    assert not rest


def test_the_page_names_every_known_provider_with_its_key() -> None:
    text = (DOCS / "models.md").read_text()

    for name, provider in PROVIDERS.items():
        assert f"`{name}/" in text
        assert not provider.key or f"`{provider.key}`" in text
