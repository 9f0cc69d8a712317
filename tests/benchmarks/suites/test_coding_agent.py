"""The suite coding-agent is what it says: every program of its proofs can be started, and every mutant is another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from planloop.benchmarks.grading.containers import find_start_command
from planloop.benchmarks.suite import Case, ScriptedAct, Suite
from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from planloop.containers.images.stock import PREFIX, STOCK
from tests.architecture.tree import ROOT

FOLDER = ROOT / "benchmarks/planloop/benchmarks/suites/coding-agent"
LANGUAGES = ("clojure", "clojurescript", "typescript")
CASES = [f"{case}-{language}" for case in ("echo", "login", "chat", "game") for language in LANGUAGES]


@cache
def suite() -> Suite:
    found = read_suite((FOLDER / "suite.yaml").read_bytes(), file="suite.yaml", sources=FolderSuiteSources(FOLDER))
    assert found.suite is not None, found.diagnostics
    return found.suite


def case(name: str) -> Case:
    return suite().cases[name]


def laid(folder: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_suite_has_every_case_in_every_language() -> None:
    assert sorted(suite().cases) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_case_has_proofs_enough_and_an_image_that_is_made_here(name: str) -> None:
    found = case(name)

    assert len(found.proofs.oracles) >= 3
    assert len(found.proofs.mutants) >= 5
    assert found.setting.image.removeprefix(PREFIX) in STOCK
    assert {check for mutant in found.proofs.mutants.values() for check in mutant.kills} == {
        one.key for one in found.checks
    }


@pytest.mark.parametrize("name", CASES)
def test_prompt_names_the_language_and_none_of_the_checks_tools(name: str) -> None:
    found = case(name)
    said = " ".join([*found.prompts, *found.setting.files.values()])

    assert len(found.prompts) >= 3
    assert all(
        found.language in prompt and "$PORT" in prompt + found.setting.files["README.md"] for prompt in found.prompts
    )
    assert not any(check.key in said for check in found.checks if "-" in check.key)
    assert "{{" not in said


@pytest.mark.parametrize("name", CASES)
def test_the_oracles_are_started_in_different_ways(name: str, tmp_path: Path) -> None:
    starts = {
        oracle: find_start_command(laid(tmp_path / oracle, {**case(name).setting.files, **act.files}), "auto").argv
        for oracle, act in case(name).proofs.oracles.items()
    }

    assert None not in starts.values(), starts
    assert len(set(starts.values())) >= 2


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_a_program_that_no_other_is(name: str, tmp_path: Path) -> None:
    every: dict[str, ScriptedAct] = {**case(name).proofs.oracles, **case(name).proofs.mutants}

    assert len({tuple(sorted(act.files.items())) for act in every.values()}) == len(every)
    for mutant, act in case(name).proofs.mutants.items():
        assert find_start_command(laid(tmp_path / mutant, act.files), "auto").argv is not None
