"""Checks of an attempt run in their place, and only against the program of the attempt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aiohttp import web

from planloop.benchmarks.checks.evidence import Evidence
from planloop.benchmarks.grading.grade import (
    CheckRunner,
    count_work_errors,
    has_command,
    judge_command_exit,
    without_address,
)
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, run_check
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests import golden_text
from tests.controllers.task.served import serving
from tests.product import CheckSpec, ExitCause, JsonObject, RandomIds
from tests.product import ProcessExit as Exit


async def right(request: web.Request) -> web.Response:
    return web.Response(text="the answer")


@pytest.mark.anyio
async def test_a_program_cannot_have_another_answer_for_it(tmp_path: Path) -> None:
    bench = CheckEnvironment(LocalProcesses(tmp_path / "run", str(tmp_path), 1), RandomIds(), str(tmp_path), None)
    async with serving(("GET", "/x", right)) as other:

        async def away(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{other}/x")

        async with serving(("GET", "/", away)) as url:
            checking = CheckRunner(Evidence(), bench, run_check, url=url)
            found = await checking.check(CheckSpec("0", "http", {"url": "{{url}}/"}, 10.0))

    assert found.result == "fail"
    golden_text.said(found.message, f"{other}")


def test_findings_of_a_check_contain_no_address_that_differs_between_runs() -> None:
    said = "Cannot connect to host 172.27.0.2:8080 [Connect call failed ('172.27.0.2', 8080)]"
    evidence = {"tree.txt": b"http://172.27.0.2:8080/a\n172.27.0.2:80801", "screenshot.png": b"\x89PNG\xff"}

    found = without_address(CheckFinding("fail", said, evidence=evidence), "http://172.27.0.2:8080")

    golden_text.said(found.message)
    assert found.evidence == {
        "tree.txt": b"http://program/a\n172.27.0.2:80801",
        "screenshot.png": b"\x89PNG\xff",
    }


JSON: JsonObject = {"subset": {"a": 1}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("sh", {"shell": "exit 3"}, "exit code 3"),
        ("sh", {"shell": "no-such-program"}, "exit code 127"),
        ("sh", {"shell": "sleep 600"}, "not done after"),
        ("sh", {"argv": ["./not-made"]}, "program not found"),
        ("json", JSON | {"shell": "echo '{\"a\": 1}'; exit 3"}, "exit code 3"),
        ("json", JSON | {"shell": "sh not-made"}, "exit code"),
        ("json", JSON | {"shell": "sleep 600"}, "not done after"),
        ("json", JSON | {"argv": ["./not-made"]}, "program not found"),
        ("json", JSON | {"shell": "echo '{\"a\": 2}'"}, "/a is 2, not 1"),
    ],
)
async def test_command_that_does_not_end_well_fails_in_every_kind_of_check(
    tmp_path: Path, kind: str, arguments: JsonObject, words: str
) -> None:
    bench = CheckEnvironment(LocalProcesses(tmp_path / "run", str(tmp_path), 1), RandomIds(), str(tmp_path), None)

    found = await CheckRunner(Evidence(), bench, run_check).check(CheckSpec("0", kind, arguments, 2.0))

    assert found.result == "fail", found.message
    assert words in found.message


@pytest.mark.anyio
@pytest.mark.process
async def test_text_that_a_slow_pattern_never_finishes_fails_and_names_the_pattern(tmp_path: Path) -> None:
    bench = CheckEnvironment(LocalProcesses(tmp_path / "run", str(tmp_path), 1), RandomIds(), str(tmp_path), None)
    (tmp_path / "out.txt").write_text("a" * 40 + "!")
    spec = CheckSpec("0", "contains", {"path": "out.txt", "pattern": r"\A(\w+\s?)+\Z"}, 0.5)

    found = await CheckRunner(Evidence(), bench, run_check).check(spec)

    assert found.result == "fail"
    golden_text.said(re.sub(r"\d\.\d s", "{time}", found.message))  # What was left of the check's half second.
    assert (await run_check(spec, bench)).result == "error"


@pytest.mark.parametrize(("is_own", "result"), [(True, "fail"), (False, "error")])
def test_an_error_counts_when_the_work_can_bring_it_about(is_own: bool, result: str) -> None:
    found = count_work_errors(
        CheckSpec("0", "contains", {"path": "a"}, 1.0), CheckFinding("error", "oh", is_own=is_own)
    )

    assert found.result == result


@pytest.mark.parametrize(
    ("argv", "is_inside", "result"),
    [("node a.js", False, "error"), ("/opt/node a.js", False, "error"), ("node a.js", True, "fail")],
)
def test_program_missing_on_this_machine_only_is_not_the_works_failure(argv: str, is_inside: bool, result: str) -> None:
    spec = CheckSpec("0", "sh", {"argv": argv.split()}, 1.0)

    found = judge_command_exit(spec, Exit(ExitCause.NOT_STARTED, None, b""), is_inside=is_inside)

    assert found.result == result


@pytest.mark.parametrize(
    ("kind", "arguments", "is_one"),
    [
        ("sh", {"shell": "true"}, True),
        ("json", {"shell": "true"}, True),
        ("json", {"argv": ["true"]}, True),
        ("json", {"path": "a.json"}, False),
        ("contains", {"path": "a.txt", "text": "a"}, False),
    ],
)
def test_every_check_that_runs_a_command_is_known_as_one(kind: str, arguments: JsonObject, is_one: bool) -> None:
    assert has_command(CheckSpec("0", kind, arguments, 1.0)) is is_one
