"""The pytest plugin of this suite: it selects the set, measures and bounds each test, and judges first failures.

`tests/conftest.py` registers it. Without `--set` it only measures: tests named on the command line run as named.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

from tests import sets
from tests.suite import changes, first_failures, processor
from tests.suite.first_failures import Failure, Outcome
from tests.suite.selection import select

TOUCHED = "PLANLOOP_TOUCHED"
"""The names of the touched groups, separated by commas. The controller sets it, its workers inherit it."""
CROWDED = "planloop-crowded"
"""The key of `Suite.crowded` in what a worker sends to the controller."""
SHOWN = 20
FORWARDED = ("--set", "--seed", "--page", "--hypothesis-seed")
"""Options that a second run of a test needs."""


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--set", choices=sets.NAMES, dest="suite_set", help="which tests run: CONTRIBUTING.md, Test sets")


@dataclass(slots=True, eq=False)
class Suite:
    """The state of one run, in each process of it: what tests used, and which failed."""

    config: pytest.Config
    account: processor.Account
    cpu_s: dict[str, float] = field(default_factory=dict)
    above: dict[str, float] = field(default_factory=dict)
    """The budgets of tests that used more, though not so much more that they fail."""
    failures: dict[str, Failure] = field(default_factory=dict)
    is_collected: bool = True
    """Whether every test file could be imported. If not, tests are missing, and no second run can make the run pass."""
    crowded: list[str] = field(default_factory=list)
    """A line for each function with too many items."""
    outcomes: list[Outcome] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    @property
    def is_chosen(self) -> bool:
        """Whether this run is of a set (`--set`), rather than of tests that the user named."""
        return self.config.getoption("suite_set") is not None

    @property
    def is_worker(self) -> bool:
        return hasattr(self.config, "workerinput")

    @property
    def is_rerun(self) -> bool:
        return first_failures.RERUN in os.environ  # noqa: TID251 - set by the run that starts this one

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Print what decides which tests run. Pytest's own header is not shown with `-q`."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if self.is_worker or not self.is_chosen or not isinstance(terminal, TerminalReporter):
            return
        since = changes.base()
        terminal.write_line(
            f"set {sets.name()}, rotation {sets.rotation()}; touched groups: {os.environ[TOUCHED] or 'none'} "  # noqa: TID251
            f"(compared with {since[:8] if since else 'nothing: no base is known'})"
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.is_collected = self.is_collected and not report.failed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self.is_chosen:
            return
        touched = os.environ[TOUCHED].split(",")  # noqa: TID251
        kept = select(items, touched)
        chosen = {*kept}
        self.config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept
        if not sets.is_nightly():
            self.crowded = processor.too_many_items(items)
        if self.is_worker:
            self.config.workeroutput[CROWDED] = self.crowded  # type: ignore[attr-defined] # set by xdist

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker found when it collected: under xdist the controller collects nothing."""
        self.crowded = getattr(node, "workeroutput", {}).get(CROWDED, self.crowded)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        with self.account.fixture(str(fixturedef.scope)):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        self.account.test_begins()
        if not (self.is_rerun and self.is_chosen):
            return None
        # The first test of a process pays for imports that are not its own: only the second pass is measured.
        reports = runtestprotocol(item, log=False, nextitem=None)
        if all(report.passed for report in reports):
            self.account.test_begins()
            return None
        for report in reports:  # It has failed again and is not run a third time.
            item.ihook.pytest_runtest_logreport(report=report)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        facts: dict[str, object] = {}
        if report.failed:
            facts["is_assertion"] = call.excinfo is not None and _is_assertion(call.excinfo.value)
        if report.when == "teardown":
            used, bound = self.account.test_s(), processor.budget(item)
            facts["cpu_s"] = used
            if bound is not None and used > bound:
                facts["budget_s"] = bound
            if bound is not None and used > (most := bound * processor.TOLERANCE) and used > most * processor.pace():
                facts["over_budget"] = f"used {used:.1f} processor seconds, its budget is {bound:g}"
        report.suite = facts  # type: ignore[attr-defined] # xdist carries attributes of a report to the controller
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        facts = getattr(report, "suite", {})
        self.cpu_s[report.nodeid] = self.cpu_s.get(report.nodeid, 0.0) + facts.get("cpu_s", 0.0)
        if "budget_s" in facts:
            self.above[report.nodeid] = facts["budget_s"]
        is_skipped = report.skipped and not hasattr(report, "wasxfail")
        if report.failed or (self.is_rerun and is_skipped):  # A skipped second run shows nothing.
            is_assertion = facts.get("is_assertion", False)
            self._note(Failure(report.nodeid, _message(report), is_assertion, text=report.longreprtext))
        elif "over_budget" in facts and self.is_chosen and not sets.is_nightly():
            self._note(Failure(report.nodeid, facts["over_budget"], is_assertion=False, is_over_budget=True))

    def _note(self, failure: Failure) -> None:
        self.failures.setdefault(failure.nodeid, failure)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_worker or not self.is_chosen:
            return
        if session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        if self.crowded:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not self.failures or self.config.getoption("maxfail"):
            return
        if self.is_rerun:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        self.outcomes = first_failures.judged([*self.failures.values()], self._options(), self.config.rootpath)
        self.logged = first_failures.append_to_log(
            self.outcomes, self._facts(), self.config.rootpath / first_failures.LOG
        )
        is_red = not self.is_collected or self.crowded or any(outcome.is_red for outcome in self.outcomes)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if is_red else pytest.ExitCode.OK
        self._move_reports()

    def _move_reports(self) -> None:
        """Let the closing line count a test that passed the second time as `flaky`, not as failed."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(terminal, TerminalReporter)
        passed = {outcome.failure.nodeid for outcome in self.outcomes if not outcome.is_red}
        for kind in ("failed", "error"):
            reports = terminal.stats.pop(kind, [])
            terminal.stats.setdefault("flaky", []).extend(one for one in reports if one.nodeid in passed)
            if red := [one for one in reports if one.nodeid not in passed]:
                terminal.stats[kind] = red
        if not terminal.stats["flaky"]:
            del terminal.stats["flaky"]

    def _options(self) -> list[str]:
        named = {name: self.config.getoption(name, None) for name in FORWARDED}
        return [f"{name}={value}" for name, value in named.items() if value is not None]

    def _facts(self) -> dict[str, object]:
        return {
            "load": round(os.getloadavg()[0], 1),
            "set": sets.name(),
            "rotation": sets.rotation(),
            "commit": changes.commit()[:8],
            "at": round(time.time()),  # noqa: TID251 - a fact about this run
        }

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self.is_chosen:
            return
        if self.is_rerun:
            for failure in self.failures.values():
                if failure.is_over_budget:
                    terminalreporter.write_line(f"{failure.nodeid}: {failure.message}")
            return
        for title, lines in self._sections():
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.write_line(line)

    def _sections(self) -> Iterator[tuple[str, list[str]]]:
        """What is printed at the end of a run of a set: titles with their lines."""
        expensive = sorted(self.cpu_s.items(), key=lambda each: -each[1])[:SHOWN]
        total = f"processor: {sum(self.cpu_s.values()):.0f} s in {len(self.cpu_s)} tests; the {SHOWN} most expensive"
        yield total, [f"{used:6.1f} s  {nodeid}" for nodeid, used in expensive]
        if self.above:
            above = [
                f"{self.cpu_s[nodeid]:6.1f} s of {bound:g}  {nodeid}" for nodeid, bound in sorted(self.above.items())
            ]
            yield f"{len(above)} tests above their budget", above
        if self.crowded:
            yield "functions with too many items", self.crowded
        if self.outcomes:
            yield "first failures", [*first_failures.lines(self.outcomes)]
        if self.logged:
            yield f"appended to {first_failures.LOG}", self.logged

    def pytest_unconfigure(self) -> None:
        self.account.closed()


def configure(config: pytest.Config) -> None:
    """Fix the set, the rotation and the touched groups for this process and its workers, and register the plugin."""
    environment = os.environ  # noqa: TID251 - how workers, reruns and tests learn of the set
    if chosen := config.getoption("suite_set"):
        environment[sets.SET] = chosen
    environment.setdefault(sets.ROTATION, str(int(changes.commit()[:8] or "0", 16)))
    if TOUCHED not in environment:
        environment[TOUCHED] = ",".join(changes.touched())
    worker = environment.get("PYTEST_XDIST_WORKER", "main")
    is_controller = bool(config.getoption("numprocesses", None)) and worker == "main"
    account = processor.Account() if is_controller else processor.Account.opened(worker)
    config.pluginmanager.register(Suite(config, account), "planloop-suite")


def _is_assertion(error: BaseException) -> bool:
    """Whether an assertion failed, or an expected error was not raised, also as one of a group of errors."""
    if isinstance(error, BaseExceptionGroup):
        return any(_is_assertion(each) for each in error.exceptions)
    return isinstance(error, AssertionError | pytest.fail.Exception) and not first_failures.is_timeout(error)


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return " ".join(text.split())[: first_failures.MESSAGE_CHARS]
