"""The Benchmarks page with real runs: suites, running and finished runs, cases and comparisons."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import command
from tests.e2e.folder import Folder, Owner
from tests.e2e.page.conftest import Axe, Opened, Serve, Shot
from tests.product import canonical_bytes, sha256_hex

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SUITE = """\
suite: notes
about: Does it write the requested text?
defaults: {budget: {turns: 20}, soft: [churn]}
cases:
  greeting:
    prompts: ["write {{nonce.word}} into a.txt", "a.txt should say {{nonce.word}}"]
    tags: {kind: files}
    checks:
      there: {require-file: a.txt}
      right: {contains: {path: a.txt, text: "{{nonce.word}}"}}
      shown: {sh: "echo seen: $(cat a.txt)"}
    proof: {oracles: {plain: {files: {a.txt: "{{nonce.word}}"}}}}
  answer:
    prompts: ["what is six times seven? into a.txt"]
    tags: {kind: sums}
    checks: {right: {contains: {path: a.txt, text: "42"}}}
    proof: {oracles: {plain: {files: {a.txt: "42"}}}}
"""
HASTY = '"*": [{say: I just write something.}, {call: {write: {path: a.txt, content: "42"}}}, {done: ok}]\n'
WAITS = (
    '"*": [{call: {shell: {command: "until test -e go; do sleep 0.05; done"}}},'
    ' {call: {write: {path: a.txt, content: "42"}}}, {done: ok}]\n'
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder without a plan, with a suite and two runs of it."""
    folder = Folder(tmp_path_factory.mktemp("notes"))
    folder.write("suite.yaml", SUITE)
    folder.write("hasty.yaml", HASTY)
    for name, models in (("first", ("script:hasty.yaml", "oracle", "nop")), ("second", ("script:hasty.yaml",))):
        words = [word for model in models for word in ("--model", model)]
        said = folder.run("bench", "run", "suite.yaml", *words, "--trials", "2", "--name", name)
        assert said.code == 0, said.text
    return folder


def test_suites_and_runs_are_listed_without_a_plan(
    done: Folder, served: Serve, page: Page, shot: Shot, axe: Axe
) -> None:
    page.goto(served(done).read_url)

    expect(page.get_by_role("navigation", name="Pages").get_by_role("link")).to_have_count(1)
    runs = page.get_by_role("region", name="Runs")
    expect(runs.get_by_role("link", name="notes/first")).to_be_visible()
    expect(runs.get_by_role("row").filter(has_text="notes/first")).to_contain_text("hasty 50.0 %")
    suites = page.get_by_role("region", name="Suites")
    expect(suites.get_by_role("row").filter(has_text="tool-calling")).to_contain_text("planloop")
    expect(suites.get_by_role("row").filter(has_text="suite.yaml")).to_contain_text("not validated")
    shot(page, "benchmarks")
    axe(page)

    suites.get_by_role("link", name="notes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("notes")
    expect(page.get_by_role("row").filter(has_text="greeting")).to_contain_text("1 oracle")
    shot(page, "benchmarks-suite")
    axe(page)


def test_a_run_shows_rates_with_intervals_and_links_each_verdict_to_its_trial(
    done: Folder, served: Serve, page: Page, shot: Shot, axe: Axe
) -> None:
    report = json.loads(done.run("bench", "report", "notes/first", "-o", "json").out)["suites"]["notes"]
    low, high = next(one for one in report["models"] if one["label"] == "hasty")["interval_by_case"]
    page.goto(served(done).at("/benchmarks/run/notes/first"))

    rates = page.get_by_role("region", name="Pass rate")
    expect(rates.get_by_role("row").filter(has_text="hasty")).to_contain_text(f"{low:.1%} to".replace("%", ""))
    expect(rates.get_by_role("row").filter(has_text="hasty")).to_contain_text(f"{100 * high:.1f} %")
    expect(page.get_by_role("img", name=re.compile("Pass rates of notes"))).to_be_visible()
    expect(page.get_by_role("region", name="Slices")).to_contain_text("sums")
    shot(page, "benchmarks-run")
    axe(page)

    page.get_by_role("combobox", name="Show").select_option("differing")
    page.get_by_role("searchbox", name="Case").fill("greet")
    expect(page.get_by_text("1 of 2 cases")).to_be_visible()
    page.get_by_role("link", name="greeting, hasty, trial 1: fail").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("greeting, hasty, trial 1")
    expect(page.get_by_role("heading", level=1)).to_contain_text("fail")
    checks = page.get_by_role("listitem").filter(has_text="right")
    expect(checks.first).to_contain_text("does not contain")
    expect(page.get_by_role("region", name=re.compile("^Conversation of"))).to_contain_text("I just write something.")
    expect(page.get_by_role("region", name="Calls")).to_contain_text("write")
    page.get_by_text("output", exact=False).first.click()
    expect(page.get_by_text("seen: 42")).to_be_visible()
    shot(page, "benchmarks-entry")
    axe(page)

    page.get_by_role("link", name="greeting", exact=True).click()
    expect(page.get_by_role("region", name="Results")).to_contain_text("oracle")
    expect(page.get_by_text("a.txt should say {{nonce.word}}")).to_be_visible()
    shot(page, "benchmarks-case")
    axe(page)


def test_runs_are_compared_with_paired_differences(
    done: Folder, served: Serve, opened: Opened, shot: Shot, axe: Axe
) -> None:
    links = served(done)
    page = opened(links.at("/benchmarks"), color_scheme="dark")
    page.get_by_role("checkbox", name="Compare notes/first").check()
    page.get_by_role("checkbox", name="Compare notes/second").check()
    page.get_by_role("link", name="Compare 2 runs").click()

    pairs = page.get_by_role("region", name="Pairwise comparison")
    expect(pairs).to_contain_text("hasty (first)")
    expect(pairs).to_contain_text("0 won, 0 lost, 2 tied of 2 cases")
    expect(pairs).to_contain_text("not distinguishable at this size")
    plot = page.get_by_role("img", name=re.compile("Pairs of models in notes"))
    expect(plot).to_be_visible()
    assert plot.evaluate("plot => plot.querySelectorAll('path.interval').length") == 1
    shot(page, "benchmarks-comparison-dark")
    axe(page)

    place = "/benchmarks/compare/notes/first/notes/second"
    narrow = opened(links.at(place), viewport={"width": 360, "height": 780})
    expect(narrow.get_by_role("region", name="Pairwise comparison")).to_be_visible()
    wide = narrow.evaluate("document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth")
    assert wide <= 0, "the page fits a narrow screen"
    shot(narrow, "benchmarks-comparison-narrow")
    axe(narrow)


@contextmanager
def _going(folder: Folder, *words: str) -> Iterator[Owner]:
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with command.start("bench", "run", *words, cwd=folder.path, stdout=pipe, stderr=both) as process:
        try:
            yield Owner(process)
        finally:
            process.kill()


def test_a_running_run_is_followed_live(folder: Folder, served: Serve, page: Page, shot: Shot, axe: Axe) -> None:
    """The page shows new events and figures without a reload."""
    folder.write("suite.yaml", SUITE)
    folder.write("waits.yaml", WAITS)
    (folder.path / "reports").mkdir()
    links = served(folder)
    page.goto(links.url)
    expect(page.get_by_text("No runs yet")).to_be_visible()
    with _going(folder, "suite.yaml", "--model", "script:waits.yaml", "--model", "nop", "--name", "now") as run:
        run.until("nop 1")
        page.goto(links.at("/benchmarks/run/notes/now"))
        expect(page.get_by_role("heading", level=1)).to_contain_text("live")
        events = page.get_by_role("log", name="Events")
        expect(events).to_contain_text("calls shell")
        expect(page.get_by_role("meter", name="finished")).to_have_attribute("aria-valuetext", "2 of 4")
        expect(page.get_by_role("link", name="answer, waits, trial 1: running")).to_be_visible()
        shot(page, "benchmarks-live")
        axe(page)

        for workspace in (folder.path / "reports" / "notes" / "now" / "work").glob("*waits*"):
            (workspace / "go").touch()
        expect(page.get_by_role("link", name="answer, waits, trial 1: pass")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_contain_text("complete")
        assert run.ended() == 0, run.text


def test_a_case_and_a_comparison_are_followed_to_their_end(
    folder: Folder, served: Serve, page: Page, opened: Opened, shot: Shot
) -> None:
    """Both pages update while the run continues, without a reload."""
    folder.write("suite.yaml", SUITE)
    folder.write("waits.yaml", WAITS)
    (folder.path / "reports").mkdir()
    links = served(folder)
    with _going(folder, "suite.yaml", "--model", "script:waits.yaml", "--model", "nop", "--name", "now") as run:
        run.until("nop 1")
        page.goto(links.at("/benchmarks/run/notes/now/answer"))
        row = page.get_by_role("row").filter(has_text="waits")
        expect(row).to_contain_text("running")
        comparison = opened(links.at("/benchmarks/compare/notes/now"))
        expect(comparison.get_by_role("link", name="answer, waits, trial 1: running")).to_be_visible()

        for workspace in (folder.path / "reports" / "notes" / "now" / "work").glob("*waits*"):
            (workspace / "go").touch()
        expect(row).to_contain_text("pass")
        expect(comparison.get_by_role("link", name="answer, waits, trial 1: pass")).to_be_visible()
        expect(comparison.get_by_role("link", name="greeting, waits, trial 1: fail")).to_be_visible()
        shot(page, "benchmarks-case-ended")
        assert run.ended() == 0, run.text


DRAWN = """\
suite: pages
about: Does it show a page?
defaults: {{budget: {{turns: 20}}}}
cases:
  hello:
    prompts: [a page that says hello]
    checks: {{seen: {{web: {{url: "{url}", can: [{{open: /}}, {{see: /hello there/}}]}}}}}}
    proof: {{oracles: {{plain: {{files: {{a.txt: done}}}}}}}}
"""


@contextmanager
def _site(body: str, place: Path) -> Iterator[str]:
    """Serve a page with that body until the block ends, and yield its address."""
    (place / "index.html").write_text(f"<!doctype html><html lang=en><title>hi</title><body>{body}")
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(place)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        found = re.search(r"port (\d+)", process.stdout.readline())
        assert found is not None
        try:
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.kill()


def test_the_screenshot_of_a_web_check_is_shown(
    folder: Folder, served: Serve, page: Page, tmp_path_factory: pytest.TempPathFactory, shot: Shot, axe: Axe
) -> None:
    """A real check takes the screenshot, with a real browser and a served page."""
    with _site("<h1>hello there</h1>", tmp_path_factory.mktemp("site")) as url:
        folder.write("suite.yaml", DRAWN.format(url=url))
        said = folder.run("bench", "run", "suite.yaml", "--model", "oracle", "--name", "drawn", timeout_s=90)
    assert said.code == 0, said.text
    page.goto(served(folder).at("/benchmarks/run/pages/drawn/hello/oracle/1"))

    expect(page.get_by_role("heading", level=1)).to_contain_text("pass")
    image = page.get_by_role("img", name="screenshot.png, recorded by the check seen")
    expect(image).to_be_visible()
    page.wait_for_function("image => image.naturalWidth > 300 && image.naturalHeight > 200", arg=image.element_handle())
    page.locator("summary").filter(has_text="tree.txt").click()
    expect(page.locator(".blob pre")).to_contain_text("hello there")
    shot(page, "benchmarks-web-check")
    axe(page)


def test_a_recorded_page_is_shown_as_text_and_never_run(
    done: Folder, served: Serve, page: Page, shot: Shot, console_errors: list[str]
) -> None:
    """Agents wrote the files that checks recorded: the page shows them and never runs them."""
    events = done.path / "reports" / "notes" / "second" / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    picture, script = _png(120, 80), b"<script>document.title = 'run'</script>" + "ü\n".encode() * 40_000
    blobs = done.path / "reports" / "notes" / "second" / "blobs"
    blobs.mkdir(exist_ok=True)
    for content in (picture, script):
        (blobs / sha256_hex(content)).write_bytes(content)
    for one in lines:
        if one["type"] == "check/result" and one["case"] == "answer":
            one["data"]["blobs"] = {"screenshot": sha256_hex(picture), "page": sha256_hex(script)}
    events.write_bytes(b"".join(canonical_bytes(one) + b"\n" for one in lines))
    page.goto(served(done).at("/benchmarks/run/notes/second/answer/hasty/1"))

    image = page.get_by_role("img", name="screenshot, recorded by the check right")
    expect(image).to_be_visible()
    expect(image).to_have_js_property("naturalWidth", 120)
    page.locator("summary").filter(has_text="page").click()
    expect(page.locator(".blob pre")).to_contain_text("<script>document.title = 'run'</script>")
    expect(page.get_by_text("… and 45.1 kB more.")).to_be_visible()
    assert page.title() != "run"
    shot(page, "benchmarks-screenshot")


def _png(width: int, height: int) -> bytes:
    """Return a PNG picture in one colour."""
    rows = b"".join(b"\0" + b"\x20\x70\xd0" * width for _ in range(height))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
