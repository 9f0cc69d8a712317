"""Soft figures that a suite defines: a command's output becomes a number, limits become shares, bad values are
reported."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from planloop.benchmarks.checks import soft_figures
from planloop.benchmarks.checks.soft_figures import SoftFigure
from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from planloop.controllers.task.checks.run import CheckFinding
from tests.product import Json

ESLINT = '[{"errorCount": 2, "messages": [1, 2]}, {"errorCount": 1, "messages": [3]}]'


def measured(figure: SoftFigure, folder: Path) -> dict[str, float]:
    """The figures of one entry whose work is in `folder`."""
    line = figure.check.arguments["shell"]
    ended = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, check=False)
    found = CheckFinding("pass" if ended.returncode == 0 else "fail", "", ended.stdout + ended.stderr)
    return dict(figure.with_limits(figure.read_from(found)))


@pytest.mark.process
@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"sh": "echo 3 of 12.5"}, {"own": 12.5}),
        ({"sh": "echo -4; exit 3"}, {"own": -4.0}),
        ({"sh": "printf 'a\\n\\nb\\n'", "read": "lines"}, {"own": 2.0}),
        ({"sh": "true", "read": "lines"}, {"own": 0.0}),
        ({"sh": "exit 7", "read": "passes"}, {"own": 0.0}),
        ({"sh": "true", "read": "passes", "min": 1}, {"own": 1.0, "own at least 1": 1.0}),
        ({"sh": f"echo '{ESLINT}'; exit 1", "read": "/*/errorCount", "max": 2}, {"own": 3.0, "own at most 2": 0.0}),
        ({"sh": f"echo '{ESLINT}'", "read": "/*/messages"}, {"own": 3.0}),
        ({"sh": f"echo '{ESLINT}'", "read": "/1/errorCount"}, {"own": 1.0}),
        ({"sh": "echo '[]'", "read": "/*/errorCount", "max": 0}, {"own": 0.0, "own at most 0": 1.0}),
        ({"sh": "echo noise 5 >&2; echo 6"}, {"own": 6.0}),
        ({"sh": "no-such-linter 1"}, {"own not measured": 1.0}),
        ({"sh": "no-such-linter 1", "read": "lines"}, {"own not measured": 1.0}),
        ({"sh": "no-such-linter", "read": "passes", "max": 0}, {"own not measured": 1.0}),
        ({"sh": "echo none"}, {"own not measured": 1.0}),
        ({"sh": "echo 1e999"}, {"own not measured": 1.0}),
        ({"sh": "echo '[1e308, 1e308]'", "read": "/*"}, {"own not measured": 1.0}),
        ({"sh": f"echo '[1{'0' * 400}]'", "read": "/0"}, {"own not measured": 1.0}),
        ({"sh": "echo none", "read": "/a"}, {"own not measured": 1.0}),
        ({"sh": "echo '{}'", "read": "/a"}, {"own not measured": 1.0}),
    ],
)
def test_figure_is_its_commands_output_and_a_failed_command_measures_nothing(
    tmp_path: Path, fields: dict[str, Json], wanted: dict[str, float]
) -> None:
    (figure,) = soft_figures.parse_soft_figures([{"own": fields}])
    assert measured(figure, tmp_path) == wanted


def test_a_command_that_was_cut_off_measures_nothing() -> None:
    (figure,) = soft_figures.parse_soft_figures([{"own": {"sh": "slow"}}])
    assert figure.read_from(CheckFinding("fail", "took too long", b"12\n")) is None


def test_existing_figure_may_have_a_limit() -> None:
    churn, complexity = soft_figures.parse_soft_figures(["churn", {"complexity": {"max": 20}}])
    assert dict(churn.limits(5)) == {}
    assert dict(complexity.limits(20)) == {"complexity at most 20": 1.0}
    assert dict(complexity.limits(21)) == {"complexity at most 20": 0.0}


SUITE = """\
suite: demo
cases:
  one:
    language: [clojure, typescript]
    prompts: [go]
    checks: {right: {require-file: a}}
    soft:
"""
FAULTS = [
    ("chrun", "P0213"),
    ("eslint", "P0213"),
    ("{complexity: {sh: radon}}", "P0211"),
    ("{own: {sh: x, read: count}}", "P0223"),
    ("{own: {sh: x, max: 1, min: 3}}", "P0212"),
    ("{lint: {read: number}}", "P0211"),
    ("{own: {sh: ' '}}", "P0210"),
    ("{malformed: {sh: x}}", "P0208"),
    ("{own: {sh: x, max: many}}", "P0202"),
    ("{own: {sh: x, lmiit: 3}}", "P0201"),
    ("{churn: 3}\n      - churn", "P0208"),
]


@pytest.mark.parametrize(("written", "code"), FAULTS)
def test_bad_soft_figure_is_reported_once_with_a_fix(tmp_path: Path, written: str, code: str) -> None:
    text = f"{SUITE}      - {written}\n"
    read = read_suite(text.encode(), file="suite.yaml", sources=FolderSuiteSources(tmp_path))
    assert [one.code for one in read.diagnostics] == [code], read.diagnostics
    assert read.diagnostics[0].hint and read.diagnostics[0].span is not None
    assert read.diagnostics[0].span.line >= 8


def test_figures_are_written_as_words_maps_and_limits(tmp_path: Path) -> None:
    text = f"{SUITE}      - churn\n      - complexity: 20\n      - own: {{sh: make count, max: 3}}\n"
    suite = read_suite(text.encode(), file="suite.yaml", sources=FolderSuiteSources(tmp_path)).suite
    assert suite is not None
    found = soft_figures.parse_soft_figures(suite.cases["one-clojure"].soft)
    assert [(one.name, one.sh, one.max) for one in found] == [
        ("churn", "", None),
        ("complexity", "", 20.0),
        ("own", "make count", 3.0),
    ]
