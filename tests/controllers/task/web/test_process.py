"""The browser's process: what it needs, how it ends, and that nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Final

import anyio
import pytest
from aiohttp import web

from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, run_check
from planloop.controllers.task.checks.web.check import BROWSER_PROGRAM
from planloop.controllers.task.checks.web.child import NO_BROWSER, NO_PACKAGE
from planloop.reconciler.effects import process_table
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests.architecture.tree import ROOT
from tests.controllers.task.harness import ENV
from tests.controllers.task.served import serving
from tests.controllers.task.web.sites import COUNTER, CRASH, Page, drawn, served
from tests.golden_text import said
from tests.product import CheckSpec, JsonObject, RandomIds, encode

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

SOON: JsonObject = {"can": [{"see": "never said"}], "within": 60}


@pytest.fixture
def bench(tmp_path: Path) -> CheckEnvironment:
    return CheckEnvironment(
        LocalProcesses(tmp_path / "run", str(tmp_path), 1, grace_s=0.5), RandomIds(), str(tmp_path), None, ENV
    )


async def find(bench: CheckEnvironment, timeout_s: float = 60, **arguments: object) -> CheckFinding:
    return await run_check(CheckSpec("0", "web", arguments, timeout_s), bench)


def living(bench: CheckEnvironment) -> dict[int, str]:
    """The processes of the check and all below them, with their command lines.

    Chromium writes its own titles over the labels of what it starts, so these are found by who their parent is.
    """
    parents = {int(path.name): _stat(path) for path in Path("/proc").glob("[0-9]*")}
    found = {one.pid for one in process_table.labelled_processes(bench.cwd)}
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


async def gone(family: dict[int, str], bench: CheckEnvironment) -> None:
    """Returns when none of them is left; what Chromium started ends by itself when Chromium has."""
    for pid in family:
        await process_table.wait_for_exit(pid)
    assert living(bench) == {}
    scratch = {
        found
        for command in family.values()
        for found in re.findall(r"--user-data-dir=(\S+?/planloop-browser-\w+)/", command)
    }
    assert len(scratch) == 1
    assert not Path(scratch.pop()).exists()


class Visited:
    """A site that reports when a user is present."""

    def __init__(self, page: Page) -> None:
        self.seen = anyio.Event()
        self.app = web.Application()
        self.app.router.add_get("/{path:.*}", self._show)
        self._page = page

    async def _show(self, _: web.Request) -> web.Response:
        self.seen.set()
        return self._page.answer()


SAY: Final = "const say = word => fetch('/say', {method: 'POST', body: word});"
CRASHES_SAYING: Final = f"await say(field.value); {CRASH}"


class Crashing:
    """A site whose script, an `async` one, is told how often the page was seen before (`visit`), and may say words.

    It also gets the time when the page was first seen (`begun`), in the milliseconds of its own clock.
    """

    def __init__(self, script: str) -> None:
        self.visits = 0
        self.words: list[str] = []
        self.heard = anyio.Event()
        self.app = web.Application()
        self.app.router.add_get("/", self._show)
        self.app.router.add_post("/say", self._hear)
        self._script = script
        self._begun = 0.0

    async def _show(self, _: web.Request) -> web.Response:
        self._begun = self._begun or time.time() * 1_000  # noqa: TID251 - compared with the Date of the page
        known = f"const visit = {self.visits}, begun = {self._begun};"
        script = f"(async () => {{ {known} {self._script} }})()"
        self.visits += 1
        return Page("<label>Message <input id=field></label>", script).answer()

    async def _hear(self, request: web.Request) -> web.Response:
        self.words.append(await request.text())
        self.heard.set()
        return web.Response()


def kill(family: dict[int, str], part: str) -> None:
    """Kills those in whose command line `part` stands."""
    victims = [pid for pid, command in family.items() if part in command and "defunct" not in command]
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.browser
@pytest.mark.smoke
async def test_a_check_answers_with_what_it_saw_and_leaves_nothing(bench: CheckEnvironment, tmp_path: Path) -> None:
    # The folder is the agent's: a module that it leaves there must not be taken for one of ours.
    (tmp_path / "json.py").write_text("raise SystemExit(0)")
    async with served(drawn(COUNTER)) as url:
        found = await find(bench, url=url, can=[{"press": "plus-button"}, {"see": "/count: 1/"}])

    assert found.result == "pass"
    said(found.message)
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


@pytest.mark.process
@pytest.mark.needs("chromium")
async def test_missing_browser_or_package_is_reported_with_its_fix(bench: CheckEnvironment) -> None:
    found = await find(
        CheckEnvironment(bench.processes, bench.ids, bench.cwd, None, {"PATH": "/nowhere"}), url="http://h", **SOON
    )
    assert (found.result, found.message, found.probes) == ("error", NO_BROWSER, 0)

    asked = encode({"arguments": {"url": "http://h", **SOON}, "nonces": {}, "timeout_s": 1})
    run = f"runpy.run_module('{BROWSER_PROGRAM}', run_name='__main__')"
    script = f"import sys, runpy; sys.modules['playwright'] = None; {run}"
    answer = await anyio.run_process([sys.executable, "-c", script], input=asked, cwd=ROOT)
    assert NO_PACKAGE.encode() in answer.stdout


@pytest.mark.browser
async def test_unresponsive_program_fails_and_is_not_an_error(bench: CheckEnvironment) -> None:
    found = await find(bench, url="http://127.0.0.1:1", **SOON)

    assert found.result == "fail"
    said(found.message)


@pytest.mark.browser
@pytest.mark.parametrize("script", ["", "while (true) {}"])
async def test_a_page_that_is_too_slow_fails_in_its_time_also_when_it_hangs(
    bench: CheckEnvironment, script: str
) -> None:
    async with served(drawn(Page("<p>hi</p>", script))) as url:
        found = await find(bench, timeout_s=2, url=url, **SOON)

    assert found.result == "fail"
    said(found.message, "2 s")
    assert living(bench) == {}


@pytest.mark.browser
@pytest.mark.parametrize("part", ["--remote-debugging-pipe", BROWSER_PROGRAM])
async def test_a_browser_that_is_killed_from_outside_is_an_error(bench: CheckEnvironment, part: str) -> None:
    site = Visited(Page("<p>hi</p>"))
    found: list[CheckFinding] = []

    async def look(url: str) -> None:
        found.append(await find(bench, url=url, **SOON))

    async with served(site.app) as url, anyio.create_task_group() as group:
        group.start_soon(look, url)
        await site.seen.wait()
        family = living(bench)
        # Chromium tells its renderers, too, that it is driven over a pipe.
        kill({pid: command for pid, command in family.items() if "--type=" not in command}, part)

    assert found[0].result == "error", found[0].message
    assert found[0].probes == 0
    await gone(family, bench)


@pytest.mark.browser
async def test_a_tab_that_is_killed_from_outside_is_looked_at_again(bench: CheckEnvironment) -> None:
    site = Crashing(f"{SAY} if (visit) document.body.append('and again'); await say('here');")
    found: list[CheckFinding] = []

    async def look(url: str) -> None:
        found.append(await find(bench, url=url, can=[{"see": "and again"}], within=60))

    async with served(site.app) as url, anyio.create_task_group() as group:
        group.start_soon(look, url)
        await site.heard.wait()
        kill(living(bench), "--type=renderer")

    assert (found[0].result, site.visits) == ("pass", 2), found[0].message


@pytest.mark.browser
async def test_a_page_that_makes_its_tab_crash_fails_after_one_more_look_with_other_nonces(
    bench: CheckEnvironment,
) -> None:
    site = Crashing(f"{SAY} field.oninput = async () => {{ if (field.value.length < 12) return; {CRASHES_SAYING} }};")
    steps: list[JsonObject] = [{"fill": {"message-field": "{{nonce.word}}"}}, {"see": "never said"}]
    async with served(site.app) as url:
        found = await find(bench, url=url, can=steps, within=20, nonces={"word": "0123456789ab"})

    assert (found.result, found.probes) == ("fail", 2)
    said(found.message)
    assert (site.visits, len(set(site.words)), site.words[0]) == (2, 2, "0123456789ab")
    assert living(bench) == {}


@pytest.mark.browser
async def test_a_page_whose_tab_crashes_once_holds_when_it_holds_in_the_second_look(bench: CheckEnvironment) -> None:
    site = Crashing(f"if (!visit) {{ {CRASH} }} document.body.append('fine')")
    async with served(site.app) as url:
        found = await find(bench, url=url, can=[{"see": "fine"}], within=20)

    assert (found.result, found.message, site.visits) == ("pass", "1 step done", 2)


@pytest.mark.browser
async def test_second_look_has_the_remaining_time_of_the_first(bench: CheckEnvironment) -> None:
    # The page is fine a second after the check's time is over: soon enough for a look that began later and had it all.
    fine = "setTimeout(() => document.body.append('fine'), begun + 16_000 - Date.now())"
    site = Crashing(f"{SAY} if (visit) {fine}; else setTimeout(() => say('here'), 2000)")
    found: list[CheckFinding] = []

    async def look(url: str) -> None:
        found.append(await find(bench, timeout_s=15, url=url, can=[{"see": "fine"}], within=60))

    async with served(site.app) as url, anyio.create_task_group() as group:
        group.start_soon(look, url)
        await site.heard.wait()
        kill(living(bench), "--type=renderer")

    assert (found[0].result, found[0].message) == ("fail", "not done after 15 s: the page is too slow")
    assert site.visits == 2


@pytest.mark.browser
async def test_a_check_that_is_cancelled_takes_its_browser_along(bench: CheckEnvironment) -> None:
    site = Visited(Page("<p>hi</p>"))

    async with served(site.app) as url, anyio.create_task_group() as group:
        group.start_soon(lambda: find(bench, url=url, **SOON))
        await site.seen.wait()
        family = living(bench)
        assert any("--type=renderer" in command for command in family.values())
        group.cancel_scope.cancel()

    await gone(family, bench)


@pytest.mark.browser(keep=2)
@pytest.mark.parametrize(("alone", "words"), [(False, "a server answered"), (True, "no server answered")])
async def test_page_of_a_graded_program_reaches_no_other_host(bench: CheckEnvironment, alone: bool, words: str) -> None:
    async def page(request: web.Request) -> web.Response:
        elsewhere = str(request.url.with_host("localhost").with_path("/other"))
        script = f"""fetch({elsewhere!r}, {{mode: 'no-cors'}})
          .then(() => 'a server answered', () => 'no server answered')
          .then(words => document.body.append(words))"""
        return web.Response(text=f"<body><script>{script}</script>", content_type="text/html")

    async def other(_: web.Request) -> web.Response:
        return web.Response(text="me")

    async with serving(("GET", "/", page), ("GET", "/other", other)) as url:
        found = await find(bench, url=url, can=[{"see": words}], within=5, **({"alone": True} if alone else {}))

    assert found.result == "pass", found.message
