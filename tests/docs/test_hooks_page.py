"""The page on hooks is correct: its example prints the shown output, and it lists every word of the language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from planloop.compiler import explain
from planloop.controllers.agent.hooks import facts, programs
from planloop.controllers.agent.hooks.facts import CallFact, HookFacts
from planloop.schemas.objects.hook import HookPoint
from planloop.schemas.rules.language import CONDITIONS, EFFECTS, NUMBER_TESTS, RULE_PLACEHOLDERS, TEXT_TESTS
from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal, check, replayed
from tests.product import CallResult, CallState

PAGE = ROOT / "docs" / "reference" / "hooks.md"
LIBRARY = ROOT / "plans" / "library" / "hooks"


@pytest.mark.process
@pytest.mark.timeout(120)
def test_the_session_of_the_page_is_real(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    (plan,) = re.findall(r"(?ms)^```yaml\n(plan: .*?)^```\n", text)
    (tmp_path / "careful.plan.yaml").write_text(plan)

    now = replayed(text, Terminal(tmp_path))

    check(PAGE, now, is_updating=is_updating)


@pytest.mark.parametrize(
    "table", [EFFECTS, CONDITIONS, TEXT_TESTS, RULE_PLACEHOLDERS], ids=["effects", "when", "tests", "blanks"]
)
def test_page_explains_every_keyword_of_rules(table: dict[str, str], is_updating: bool) -> None:
    text = PAGE.read_text()
    if is_updating:
        rows = "".join(f"| `{name}` | {words} |\n" for name, words in table.items())
        old = next(
            one for one in re.findall(r"(?:^\| `.*\n)+", text, re.MULTILINE) if f"| `{next(iter(table))}` |" in one
        )
        text = text.replace(old, rows)
        PAGE.write_text(text)

    assert [name for name, words in table.items() if f"| `{name}` | {words} |\n" not in text] == []


@pytest.mark.parametrize("topic", ["rule", "rules", "when"])
def test_command_explains_the_same_keywords(topic: str) -> None:
    text = explain.explain_topic(topic) or ""

    words = (name for table in (EFFECTS, CONDITIONS, TEXT_TESTS, RULE_PLACEHOLDERS) for name in table)
    assert [name for name in words if f"\n  {name} " not in text] == []


def test_every_point_and_comparison_is_named() -> None:
    text = PAGE.read_text()

    assert [name for name in (*get_args(HookPoint), *NUMBER_TESTS) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("file", sorted(LIBRARY.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_library_hook_is_documented_with_its_settings(file: Path) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `lib:{file.stem}`")]

    assert [name for name in yaml.safe_load(file.read_text()).get("settings", {}) if f"`{name}`" not in row] == []


def test_every_member_of_a_question_and_an_answer_is_on_the_page() -> None:
    call = CallFact("call/1", "write", {}, original={}, result=CallResult(CallState.SUCCEEDED, "ok"))
    everything = HookFacts(
        "after-call", "agent/.", "task/.", "/w", 1, 0.0, call=call, prompt="p", reply="r", claim="done"
    )
    asked = facts.question_json(everything, "id", {"notes": ["n"]}, {})
    text = PAGE.read_text()

    # The answer of a function is `comment`, and `state` is part of its request.
    assert [name for name in (*asked, *programs.VERDICT_MEMBERS - {"say"}) if f"`{name}" not in text] == []
