"""`docs/reference/checks-web.md` is what the product says: its examples compile, and its tables are whole."""

from __future__ import annotations

import re
from typing import Any

from planloop.client.plan_sources import FolderSources
from planloop.compiler import plan_compiler
from planloop.compiler.read import read_source
from planloop.compiler.source import SizeLimits
from planloop.schemas.checks.web_parser import VERBS, parse_web_check
from planloop.schemas.checks.web_targets import BUILTIN_NAMES
from tests import rows
from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "reference" / "checks-web.md"
TEXT = PAGE.read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def _yaml(text: str) -> Any:
    return read_source(text.encode(), file="page.yaml", limits=SizeLimits()).value


def test_the_checks_that_the_page_shows_can_be_run() -> None:
    text = f"plan: demo\nrun: make\n{BLOCKS[0]}".encode()

    found = plan_compiler.compile_source(text, file="demo.plan.yaml", sources=FolderSources(ROOT))

    assert [one.summary for one in found.diagnostics] == []


def test_example_meanings_on_the_page_are_readable() -> None:
    lexicon = _yaml(BLOCKS[1])["lexicon"]

    assert parse_web_check({"lexicon": lexicon, "can": [{"see": name} for name in lexicon]})[1] == ()


def test_every_shipped_name_is_on_the_page(is_updating: bool) -> None:
    named = f"Shipped are {', '.join(f'`{name}`' for name in BUILTIN_NAMES)}."
    if is_updating:
        PAGE.write_text(re.sub(r"^(LEXICON|Shipped are .*)$", named, TEXT, flags=re.MULTILINE))
    assert named in PAGE.read_text(), "run `make docs` and look at the difference"


def _rows() -> list[tuple[str, Any]]:
    """Return the verbs and expectations of the tables, with their descriptions."""
    cells = re.findall(r"^\| (`[^|]*`) \|", TEXT, re.MULTILINE)
    shown = [step for cell in cells for step in re.findall(r"`([\w-]+: .+?)`(?= ·| *$)", cell)]
    steps = [(step, _yaml(step)) for step in shown]
    return [(text, step) for text, step in steps if set(step) <= set(VERBS)]


@rows.each(("text", "step"), _rows(), ids=lambda part: part if isinstance(part, str) else "")
def test_every_step_of_the_tables_can_be_read(text: str, step: dict[str, Any]) -> None:
    names = ("counter", "message", "refusal", "login-button", "send-button", "picture", "main")
    own = {"colour-field": {"role": "radio"}, "card": {"role": "img"}, "slot": {"role": "list"}}
    before = [{"grid": {"rows": 3, "cols": 3, "as": "g"}}, {"press": list(names)}]

    assert parse_web_check({"lexicon": own, "can": [*before, step, {"see": "x"}]})[1] == ()


def test_every_verb_is_in_the_tables() -> None:
    assert {verb for _, step in _rows() for verb in step} == set(VERBS)
    assert "`reuse: good-login`" in TEXT
