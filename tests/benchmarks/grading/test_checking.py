"""Checks of an attempt are run where they belong, against nobody but the program that was made."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from benchmarks.checks.contract import Evidence
from benchmarks.grading.checking import Checking
from controllers.task.checking import Bench, run_check
from reconciler.clock import RandomIds
from reconciler.effects.local_processes import LocalProcesses
from schemas.task import CheckSpec
from tests.controllers.task.served import serving


async def right(request: web.Request) -> web.Response:
    return web.Response(text="the answer")


@pytest.mark.anyio
async def test_a_program_cannot_have_another_answer_for_it(tmp_path: Path) -> None:
    bench = Bench(LocalProcesses(tmp_path / "run", str(tmp_path), 1), RandomIds(), str(tmp_path))
    async with serving(("GET", "/x", right)) as other:

        async def away(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{other}/x")

        async with serving(("GET", "/", away)) as url:
            checking = Checking(Evidence(), bench, run_check, url=url)
            found = await checking.check(CheckSpec("0", "http", {"url": "{{url}}/"}, 10.0))

    assert (found.finding.result, found.finding.message) == ("fail", f"{url}/ redirects to another place: {other}/x")
