"""The suite `planning`: it reads, every case has proofs enough, and its page says what is there."""

from __future__ import annotations

import re

import yaml

from planloop.benchmarks.checks.log import NEVER_RULES, RULES, log_check_problems
from planloop.benchmarks.importers.exercism import TRACKS
from planloop.benchmarks.suite import Suite
from planloop.compiler.normalise import Normalisation, normalise_document
from planloop.compiler.problems import Problems
from planloop.compiler.read import read_source
from planloop.schemas.spec.suite import NEVER
from planloop.schemas.spec.tables import TABLE_BY_NAME
from planloop.server.bench import suites
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "benchmarks" / "planning.md").read_text()


def _suite() -> Suite:
    return suites.require_suite(suites.shipped_suites()["planning"]).suite


def _first_cells(heading: str) -> list[str]:
    """The first column of the table that begins so."""
    rows = PAGE[PAGE.index(heading) :].split("\n\n", 1)[0].splitlines()[2:]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_every_case_has_oracles_in_three_styles_and_mutants_that_name_their_checks() -> None:
    for case in _suite().cases.values():
        killed = {check for act in case.proofs.mutants.values() for check in act.kills}
        assert len(case.proofs.oracles) >= 3 and len(case.proofs.mutants) >= 3, case.id
        assert killed == {check.key for check in case.checks}, case.id
        assert any(check.kind == "log" for check in case.checks), case.id


def test_the_page_lists_the_cases_with_what_they_are_there_for() -> None:
    written = yaml.safe_load((suites.shipped_suites()["planning"]).read_text())["cases"]

    assert _first_cells("| case |") == list(_suite().cases)
    assert all(f"| {name} | {case['about']} |" in PAGE for name, case in written.items())


def test_the_page_has_every_word_of_the_vocabulary() -> None:
    assert _first_cells("| rule |") == list(RULES)
    assert _first_cells("| word of `never` |") == list(NEVER) == list(NEVER_RULES)
    words = {
        row.name for table in ("log-children", "log-moment", "log-recovery") for row in TABLE_BY_NAME[table].fields
    }
    assert words <= set(re.findall(r"[a-z-]+", PAGE))


def test_the_example_of_the_page_is_a_check() -> None:
    (text,) = re.findall(r"(?ms)^```yaml\n(log:.*?)^```\n", PAGE)
    tree, work = read_source(text.encode(), file="x.yaml"), Normalisation(Problems(), {})
    assert tree.value is not None

    check = normalise_document(tree.value["log"], "log", work)

    assert not work.faults.found and not list(log_check_problems(check))


def test_page_names_the_exercises_that_are_known_to_fail() -> None:
    assert all(
        f"| {name} | {slug} | {why} |" in PAGE for name, track in TRACKS.items() for slug, why in track.known.items()
    )
