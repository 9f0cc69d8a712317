"""The list of mutants fits the sources that it mutates."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import main
from tests.mutants.mutant import ROOT, mutants

PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_each_mutant_changes_one_place_and_its_file_still_parses(part: int) -> None:
    trees = [ast.parse(mutant.source(ROOT)) for mutant in mutants()[part::PARTS]]

    assert len(trees) > 10
    assert all(tree.body for tree in trees)


def test_an_unknown_name_is_an_error_and_not_an_empty_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "admission", "no-such-mutant"]) == 2
    assert "no-such-mutant" in capsys.readouterr().err


def test_no_two_mutants_have_one_id_and_no_near_test_is_missing() -> None:
    found = mutants()
    missing = [(one.id, test) for one in found for test in one.near if not (ROOT / test.partition("::")[0]).exists()]

    assert len({one.id for one in found}) == len(found)
    assert missing == []
