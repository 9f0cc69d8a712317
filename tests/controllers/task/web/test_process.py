"""The browser's process: what it needs, how it ends, and that nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from controllers.task.checking import Bench, Finding, run_check
from controllers.task.checking.web.check import CHILD
from controllers.task.checking.web.child import NO_BROWSER, NO_PACKAGE
from reconciler.clock import RandomIds
from reconciler.effects import process_table
from reconciler.effects.local_processes import LocalProcesses
from schemas.encoding import JsonObject, encode
from schemas.task import CheckSpec
from tests.architecture.tree import ROOT
from tests.controllers.task.served import serving
from tests.controllers.task.web.sites import COUNTER, Page, drawn, served
from tests.controllers.task.yard import ENV

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

SOON: JsonObject = {"can": [{"see": "never said"}], "within": 60}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(LocalProcesses(tmp_path / "run", str(tmp_path), 1, grace_s=0.5), RandomIds(), str(tmp_path), None, ENV)


async def find(bench: Bench, timeout_s: float = 60, **arguments: object) -> Finding:
    return await run_check(CheckSpec("0", "web", arguments, timeout_s), bench)


def living(bench: Bench) -> dict[int, str]:
    """The processes of the check and all below them, with their command lines.

    Chromium writes its own titles over the labels of what it starts, so these are found by who their parent is.
    """
    parents = {int(path.name): _stat(path) for path in Path("/proc").glob("[0-9]*")}
    found = {one.pid for one in process_table.labelled(bench.cwd)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: _command(pid) for pid in found}


def _stat(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def gone(family: dict[int, str], bench: Bench) -> None:
    """Returns when none of them is left; what Chromium started ends by itself when Chromium has."""
    for pid in family:
        await process_table.exited(pid)
    assert living(bench) == {}
    scratch = {
        found
        for command in family.values()
        for found in re.findall(r"--user-data-dir=(\S+?/planloop-browser-\w+)/", command)
    }
    assert len(scratch) == 1
    assert not Path(scratch.pop()).exists()


class Visited:
    """A site that says when somebody is there."""

    def __init__(self, page: Page) -> None:
        self.seen = anyio.Event()
        self.app = web.Application()
        self.app.router.add_get("/{path:.*}", self._show)
        self._page = page

    async def _show(self, _: web.Request) -> web.Response:
        self.seen.set()
        return self._page.answer()


async def test_a_check_answers_with_what_it_saw_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    # The folder is the agent's: a module that it leaves there must not be taken for one of ours.
    (tmp_path / "json.py").write_text("raise SystemExit(0)")
    async with served(drawn(COUNTER)) as url:
        found = await find(bench, url=url, can=[{"press": "plus-button"}, {"see": "/count: 1/"}])

    assert (found.result, found.message) == ("pass", "2 steps done; 1 of 1 target told by a screen reader")
    assert found.probes == 2
    assert found.output == b"way 1:\npress plus-button\nsee /count: 1/"
    assert found.figures == {"accessible": 1.0}
    assert found.evidence["screenshot.png"].startswith(b"\x89PNG")
    assert b"button '+' focusable" in found.evidence["tree.txt"]
    assert found.evidence["accessibility.json"] == encode(
        {"share": 1.0, "targets": {"plus-button": {"by": "role", "spoken": True}}}
    )
    assert living(bench) == {}
    assert [file.suffix for file in (tmp_path / "run").iterdir() if file.suffix == ".out"] == []


async def test_without_a_browser_or_its_package_the_cure_is_told(bench: Bench) -> None:
    found = await find(Bench(bench.processes, bench.ids, bench.cwd, None, {"PATH": "/nowhere"}), url="http://h", **SOON)
    assert (found.result, found.message, found.probes) == ("error", NO_BROWSER, 0)

    asked = encode({"arguments": {"url": "http://h", **SOON}, "nonces": {}, "timeout_s": 1})
    script = f"import sys, runpy; sys.modules['playwright'] = None; runpy.run_module('{CHILD}', run_name='__main__')"
    answer = await anyio.run_process([sys.executable, "-c", script], input=asked, cwd=ROOT)
    assert NO_PACKAGE.encode() in answer.stdout


@pytest.mark.slow
async def test_a_program_that_does_not_answer_fails_and_is_no_error(bench: Bench) -> None:
    found = await find(bench, url="http://127.0.0.1:1", **SOON)

    assert (found.result, found.message) == ("fail", "http://127.0.0.1:1 cannot be opened: unsafe port")


@pytest.mark.slow
@pytest.mark.parametrize("script", ["", "while (true) {}"])
async def test_a_page_that_is_too_slow_fails_in_its_time_also_when_it_hangs(bench: Bench, script: str) -> None:
    async with served(drawn(Page("<p>hi</p>", script))) as url:
        found = await find(bench, timeout_s=2, url=url, **SOON)

    assert (found.result, found.message) == ("fail", "not done after 2 s: the page is too slow")
    assert living(bench) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["--remote-debugging-pipe", "--type=renderer", CHILD])
async def test_a_browser_that_is_killed_from_outside_is_an_error(bench: Bench, part: str) -> None:
    site = Visited(Page("<p>hi</p>"))
    found: list[Finding] = []

    async def look(url: str) -> None:
        found.append(await find(bench, url=url, **SOON))

    async with served(site.app) as url, anyio.create_task_group() as group:
        group.start_soon(look, url)
        await site.seen.wait()
        family = living(bench)
        # Chromium tells its renderers, too, that it is driven over a pipe.
        is_whole = part == "--remote-debugging-pipe"
        victims = [pid for pid, command in family.items() if part in command and "defunct" not in command]
        victims = [pid for pid in victims if "--type=" not in family[pid]] if is_whole else victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    assert victims
    assert found[0].result == "error", found[0].message
    assert found[0].probes == 0
    await gone(family, bench)


@pytest.mark.slow
async def test_a_check_that_is_cancelled_takes_its_browser_along(bench: Bench) -> None:
    site = Visited(Page("<p>hi</p>"))

    async with served(site.app) as url, anyio.create_task_group() as group:
        group.start_soon(lambda: find(bench, url=url, **SOON))
        await site.seen.wait()
        family = living(bench)
        assert any("--type=renderer" in command for command in family.values())
        group.cancel_scope.cancel()

    await gone(family, bench)


@pytest.mark.parametrize(("alone", "words"), [(False, "somebody answered"), (True, "nobody answered")])
async def test_the_page_of_a_program_that_is_graded_reaches_nobody_else(bench: Bench, alone: bool, words: str) -> None:
    async def page(request: web.Request) -> web.Response:
        elsewhere = str(request.url.with_host("localhost").with_path("/other"))
        script = f"""fetch({elsewhere!r}, {{mode: 'no-cors'}})
          .then(() => 'somebody answered', () => 'nobody answered')
          .then(words => document.body.append(words))"""
        return web.Response(text=f"<body><script>{script}</script>", content_type="text/html")

    async def other(_: web.Request) -> web.Response:
        return web.Response(text="me")

    async with serving(("GET", "/", page), ("GET", "/other", other)) as url:
        found = await find(bench, url=url, can=[{"see": words}], within=5, **({"alone": True} if alone else {}))

    assert found.result == "pass", found.message
