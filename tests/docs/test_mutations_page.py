"""The page of mutation tables shows every case, check and mutant of the suites, all valid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

import anyio.to_thread
import pytest

from planloop.benchmarks.suite import Case
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.server.bench import suites
from tests import sets
from tests.architecture.tree import ROOT
from tests.containers.images.stocked import stocked
from tests.docs.sessions import shell

PAGE = ROOT / "docs" / "benchmarks" / "mutations.md"
SHIPPED = suites.shipped_suites()
PROGRAMS = "?[ch]*-typescript"  # Echo and chat: all of coding-agent takes twenty minutes.
KEPT = 2  # Cases of a suite in the set change.
SHOWN = re.findall(r"(?m)^## (\S+)$", PAGE.read_text())


def section(text: str, suite: str) -> str:
    """Return the section of `suite`."""
    return next(part for part in text.split("\n## ") if part.startswith(f"{suite}\n"))


def blocks(text: str, suite: str) -> list[str]:
    """Return the block of each case of `suite`."""
    return section(text, suite).partition("```text\n")[2].partition("\n```")[0].split("\n\n")


def row(text: str, suite: str) -> str:
    """The sums of `suite`, as the page has them before all matrices."""
    return next(line for line in text.splitlines() if line.startswith(f"| {suite} |"))


def shown(case: Case) -> tuple[str, list[str], list[str]]:
    return f"{case.id}: valid", [check.key for check in case.checks], list(case.proofs.mutants)


def read(block: str) -> tuple[str, list[str], list[str]]:
    """The same from the page: the head of a case, its rows, the names below its columns."""
    lines = block.split("\n")
    rows = [found[1] for line in lines if (found := re.match(r"  (\S+) +[✗x·!?][ ✗x·!?]*$", line))]
    return lines[0], rows, re.findall(r"\b\d+ ([A-Za-z][^\s,]*)(?=,|$)", "\n".join(lines[1:-3]), re.MULTILINE)


def test_suites_that_need_no_engine_are_on_the_page() -> None:
    needs_none = {
        name
        for name, path in SHIPPED.items()
        if not any(case.setting.image for case in suites.require_suite(path).suite.cases.values())
    }

    assert needs_none <= set(SHOWN) <= set(SHIPPED)


@pytest.mark.parametrize("suite", SHOWN)
def test_the_page_shows_every_case_check_and_mutant_of_the_suite(suite: str) -> None:
    cases = suites.require_suite(SHIPPED[suite]).suite.cases

    assert [read(block) for block in blocks(PAGE.read_text(), suite)] == [shown(case) for case in cases.values()], (
        "plan bench validate --all -o md > docs/benchmarks/mutations.md"
    )


@pytest.mark.parametrize("suite", SHOWN)
def test_the_sums_on_the_page_are_those_of_the_suite(suite: str) -> None:
    cases = suites.require_suite(SHIPPED[suite]).suite.cases.values()
    checks = sum(len(case.checks) for case in cases)
    oracles, mutants = sum(len(case.proofs.oracles) for case in cases), sum(len(case.proofs.mutants) for case in cases)

    assert row(PAGE.read_text(), suite).startswith(
        f"| {suite} | {len(cases)} | {checks} | {oracles} of {oracles} | {mutants} of {mutants} |"
    )


@pytest.mark.sweep
@pytest.mark.needs("bubblewrap")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("suite", ["planning", "tool-calling"])
def test_the_matrix_of_a_suite_is_what_validating_prints(suite: str, tmp_path: Path, is_updating: bool) -> None:
    if sets.is_nightly() or is_updating:
        check_whole_matrix(suite, tmp_path, is_updating)
    else:
        for case in sets.points([*suites.require_suite(SHIPPED[suite]).suite.cases], KEPT, f"matrix of {suite}"):
            check_matrix_of(suite, case, tmp_path)


def check_whole_matrix(suite: str, folder: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    printed, code = shell(f"plan bench validate {suite} -o md", folder, timeout_s=280)

    now = text.replace(section(text, suite).rstrip(), section(printed, suite).rstrip()).replace(
        row(text, suite), row(printed, suite)
    )

    if is_updating:
        PAGE.write_text(now)
    assert code == 0 and PAGE.read_text() == now, "run `make docs` and look at the difference"


def check_matrix_of(suite: str, case: str, folder: Path) -> None:
    """Compare the block of one case; the page has it under the same first line."""
    printed, code = shell(f"plan bench validate {suite} --cases '{case}' -o md", folder, timeout_s=60)

    (block,) = blocks(printed, suite)
    assert code == 0
    assert block in blocks(PAGE.read_text(), suite), "run `make docs` and look at the difference"


@pytest.mark.network  # Makes the image of TypeScript.
@pytest.mark.engine
@pytest.mark.browser
@pytest.mark.anyio
@pytest.mark.timeout(600)
async def test_matrix_of_http_websocket_and_browser_programs_matches_validation(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, engine: DockerEngine, is_updating: bool
) -> None:
    await stocked("typescript", engine, tmp_path_factory)
    command = f"plan bench validate coding-agent --cases '{PROGRAMS}' -o md"
    printed, code = await anyio.to_thread.run_sync(lambda: shell(command, tmp_path, timeout_s=580))

    text = PAGE.read_text()
    now = text
    for block in blocks(printed, "coding-agent"):
        (there,) = (one for one in blocks(text, "coding-agent") if read(one)[0] == read(block)[0])
        now = now.replace(there, block)

    if is_updating:
        PAGE.write_text(now)
    assert code == 0 and PAGE.read_text() == now, "run `make docs` and look at the difference"


def test_checks_cover_the_programs_in_every_kind() -> None:
    cases = suites.require_suite(SHIPPED["coding-agent"]).suite.cases.values()

    def kinds(some: Iterable[Case]) -> set[str]:
        return {check.kind for case in some for check in case.checks}

    assert kinds(case for case in cases if fnmatch(case.id, PROGRAMS)) == kinds(cases) == {"http", "web", "ws"}
