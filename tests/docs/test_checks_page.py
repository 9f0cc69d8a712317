"""The page on `http` and `ws` checks is correct: its plan passes, and it lists every matcher."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from planloop.schemas.checks.matchers import MATCHER_WORDS
from tests.architecture.tree import ROOT
from tests.controllers.task.chats import Echo
from tests.controllers.task.served import serving

pytestmark = pytest.mark.anyio
PAGE = ROOT / "docs" / "reference" / "checks-http.md"
SAID = re.compile(r"(?ms)^```text\n(.*?)^```\n")
TABLE = re.compile(r"(?m)(?<=^\| matcher \| is \|\n\| --- \| --- \|\n)(^.+\n)+")
NONCE = re.compile(r"\b[0-9a-f]{12}\b")
EXAMPLES = ("5c1f0e9ab37d", "0f3b96c2d8e1", "b7d0a4418e6f")
PARALLEL = 5


@pytest.mark.process
@pytest.mark.timeout(120)
async def test_the_plan_of_the_page_finds_what_the_page_says(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    (plan,) = re.findall(r"(?ms)^```yaml\n(plan: .*?)^```\n", text)
    came: list[str] = []
    everybody = anyio.Event()

    async def another(request: web.Request) -> web.Response:
        own = await request.text()
        came.append(own)
        if len(came) == PARALLEL:
            everybody.set()
        await everybody.wait()
        return web.Response(text=next(text for text in came if text != own))

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="up")

    async with serving(("GET", "/health", health), ("POST", "/", another), ("GET", "/chat", Echo().serve)) as url:
        port = url.rpartition(":")[2]
        (tmp_path / "served.plan.yaml").write_text(plan.replace("8080", port))
        argv = [sys.executable, "-m", "planloop", "diff", "--checks", "served.plan.yaml"]
        ran = await anyio.run_process(argv, cwd=tmp_path, check=False)
    said = ran.stdout.decode().partition("checks now")
    shown = "".join(said[1:]).replace(f"localhost:{port}", "localhost:8080")
    for nonce, example in zip(dict.fromkeys(NONCE.findall(shown)), EXAMPLES, strict=True):
        shown = shown.replace(nonce, example)
    now = SAID.sub(lambda _: f"```text\n{shown}```\n", text)

    if is_updating:
        PAGE.write_text(now)
    assert PAGE.read_text() == now, "run `make docs` and look at the difference"


async def test_every_matcher_is_on_the_page_with_its_meaning(is_updating: bool) -> None:
    rows = "".join(f"| `{name}` | {words} |\n" for name, words in MATCHER_WORDS.items())
    now = TABLE.sub(lambda _: rows, PAGE.read_text().replace("MATCHERS\n", "| x |\n"))

    if is_updating:
        PAGE.write_text(now)
    assert rows in PAGE.read_text(), "run `make docs` and look at the difference"
