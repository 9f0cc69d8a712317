"""First failures: a failed test runs once more, alone in a fresh process, and both outcomes are printed.

A test that fails twice is red, and so is one whose second run is skipped. A test that passes the second time does not
stop a landing, but it is a bug to find: it is printed at the end of the output and appended to reports/flaky.jsonl.
Red without a second run are a failed law, more than MOST first failures, and more than MOST_OVER_BUDGET tests that are
over their budget.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

MOST: Final = 3
MOST_OVER_BUDGET: Final = 20
"""A second run of each would take as long as the whole run if an import of all tests became slow."""
RERUN: Final = "PLANLOOP_RERUN"
"""Set in the process that runs one test again."""
LOG: Final = Path("reports", "flaky.jsonl")
"""Below the root of the repository."""
RERUN_TIMEOUT_S: Final = 900
MESSAGE_CHARS: Final = 300
TEXT_LINES: Final = 80
"""How much of pytest's report of a failure is printed: its end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failure of a test in this run."""

    nodeid: str
    message: str
    is_assertion: bool
    is_over_budget: bool = False
    text: str = ""
    """Pytest's report of the failure."""

    @property
    def is_law(self) -> bool:
        """Return whether a law of docs/contribute/architecture.md failed. Such a test is not run again."""
        return self.is_assertion and "::test_law_" in self.nodeid


@dataclass(frozen=True, slots=True)
class Second:
    """How the same test ended alone in a fresh process."""

    is_passed: bool
    output: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A first failure with its second run; `second` is None if it was not run again."""

    failure: Failure
    second: Second | None

    @property
    def is_red(self) -> bool:
        return self.second is None or not self.second.is_passed


def is_timeout(error: BaseException) -> bool:
    """Whether pytest-timeout ended the test. It raises what `pytest.fail` raises."""
    return isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout (>")


def judged(failures: Sequence[Failure], options: Sequence[str], root: Path) -> list[Outcome]:
    """Run each failed test again, except laws; none if too many failed, since the run is red anyway."""
    if too_many(failures):
        return [Outcome(failure, None) for failure in failures]
    return [Outcome(failure, None if failure.is_law else rerun(failure.nodeid, options, root)) for failure in failures]


def too_many(failures: Sequence[Failure]) -> str:
    """Why no test is run again; the empty string if each is.

    Tests that only cost too much have their own limit, since a busy machine makes several of them cost more.
    """
    over_budget = sum(failure.is_over_budget for failure in failures)
    if len(failures) - over_budget > MOST:
        return f"more than {MOST} tests failed"
    if over_budget > MOST_OVER_BUDGET:
        return f"more than {MOST_OVER_BUDGET} tests are over their budget"
    return ""


def rerun(nodeid: str, options: Sequence[str], root: Path) -> Second:
    """Run one test alone in a fresh process in `root`, with the `options` of this run."""
    words = [sys.executable, "-m", "pytest", nodeid, "-p", "no:cacheprovider", "-rfEs", *options]
    environment = {**os.environ, RERUN: "1"}  # noqa: TID251 - the same test in the same environment
    environment.pop("PYTEST_ADDOPTS", None)
    try:
        done = subprocess.run(
            words, cwd=root, env=environment, capture_output=True, text=True, timeout=RERUN_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Second(is_passed=False, output=f"not done after {RERUN_TIMEOUT_S} s")
    return Second(done.returncode == 0, (done.stdout + done.stderr).strip())


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines that are printed at the end: each first failure with both outcomes, and how many are red."""
    for outcome in outcomes:
        failure = outcome.failure
        yield failure.nodeid
        yield f"  first:  {failure.message}"
        if outcome.second is None:
            why = "a law failed" if failure.is_law else too_many([each.failure for each in outcomes])
            yield f"  second: not run, because {why}"
        elif failure.is_over_budget and outcome.second.is_passed:
            yield "  second: kept its budget alone in a fresh process"
        elif outcome.second.is_passed:
            yield "  second: passed alone in a fresh process. This is a bug to find: see CONTRIBUTING.md, Flaky tests"
            yield from (f"    {line}" for line in failure.text.splitlines()[-TEXT_LINES:])
        else:
            yield "  second: failed alone in a fresh process:"
            yield from (f"    {line}" for line in outcome.second.output.splitlines()[-TEXT_LINES:])
    red = sum(outcome.is_red for outcome in outcomes)
    yield f"first failures: {len(outcomes)}, of which red: {red}"


def append_to_log(outcomes: Sequence[Outcome], facts: Mapping[str, object], log: Path) -> list[str]:
    """Append one line of JSON for each test that failed and passed the second time, and return those lines.

    A test that was over its budget and keeps it alone shows how busy the machine was, not a bug.
    """
    found = [
        json.dumps({"test": one.failure.nodeid, "message": one.failure.message, **facts}, ensure_ascii=False)
        for one in outcomes
        if not one.is_red and not one.failure.is_over_budget
    ]
    if found:
        log.parent.mkdir(exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in found)
    return found
