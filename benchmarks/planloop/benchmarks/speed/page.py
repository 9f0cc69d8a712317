"""The page in a real browser: first paint of a plan, delay of an event, and how long the page does not respond.

First paint is the time from opening the link until the tree of tasks is painted, in a browser without cached files. The
delay of an event is measured from the durable revision of a command in the log to the frame that shows its text. A long
task is a time in which the browser's main thread is busy and ignores input: measured while a plan of 10,000 tasks is
loaded, and separately while it is scrolled, searched, navigated, drawn as a graph, and moved back in time.

Floors, in the same run: an empty page from the same gateway for the paint, a frame for the event.
Needs Chromium and Playwright. Tests the built-in page, or the build in the given folder.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

PLAN = (sys.executable, "-m", "planloop")
LOADS, EVENTS = 7, 40
GOAL_PAINT_MS, GOAL_EVENT_MS, GOAL_BUSY_MS = 1_000, 100, 200

PAINTED = """() => new Promise(done => {
  const look = () => document.querySelector('[role=treeitem]')
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))) : requestAnimationFrame(look);
  look();
})"""
EMPTY = (
    """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"""
)
SEEN = """words => new Promise(done => {
  const look = () => document.body.textContent.includes(words) ? done(Date.now()) : requestAnimationFrame(look);
  look();
})"""
BUSY = """() => {
  window.busy = [];
  new PerformanceObserver(list => window.busy.push(...list.getEntries().map(one => [one.startTime, one.duration])))
    .observe({type: 'longtask', buffered: true});
}"""


def plan(tasks: int) -> str:
    """A plan with groups of up to 500 tasks that wait for a task that does not end."""
    lines = ["plan: big", "goal: words 0", "tasks:", "  gate: {run: sleep 3600}"]
    for first in range(0, tasks, 500):
        lines += [f"  g{first}:", "    tasks:"]
        lines += [
            f"      t{n}: {{goal: task {n}, run: 'true', needs: [gate]}}" for n in range(first, min(first + 500, tasks))
        ]
    return "\n".join(lines) + "\n"


@contextmanager
def served(folder: Path, tasks: int, page: str | None) -> Iterator[str]:
    """Run and serve a plan with `tasks` tasks; yield its link."""
    (folder / "big.plan.yaml").write_text(plan(tasks))
    subprocess.run(
        [*PLAN, "apply", "--yes", "--detach", "big.plan.yaml"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    command = [*PLAN, "serve", "--port", "0", *(["--page", page] if page else [])]
    try:
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as gateway:
            assert gateway.stdout is not None
            link = re.search(r"http\S+", gateway.stdout.readline())
            assert link is not None
            try:
                yield link[0]
            finally:
                gateway.terminate()
    finally:
        subprocess.run([*PLAN, "down", "--force"], cwd=folder, check=False, stdout=subprocess.DEVNULL)


def fresh(browser: Browser) -> Page:
    return browser.new_context(viewport={"width": 1280, "height": 800}).new_page()


def load_ms(browser: Browser, url: str, script: str) -> float:
    """Milliseconds from the navigation until `script` resolves, by the page's clock."""
    page = fresh(browser)
    page.goto(url, wait_until="commit")
    found = float(page.evaluate(script))
    page.context.close()
    return found


def events_ms(browser: Browser, url: str, folder: Path) -> list[float]:
    page = fresh(browser)
    page.goto(url)
    page.get_by_role("treeitem").first.wait_for()
    found = []
    for number in range(1, EVENTS + 1):
        page.evaluate(f"() => {{ window.seen = ({SEEN})('words {number}.'); }}")  # Started here, awaited below.
        done = subprocess.run(
            [*PLAN, "patch", ".", f"goal=words {number}."], cwd=folder, check=True, capture_output=True
        )
        assert done.returncode == 0
        seen = float(page.evaluate("() => window.seen"))
        (mirror,) = (folder / ".plan").glob("*/events.jsonl")
        patched = [
            one for one in map(json.loads, mirror.read_text().splitlines()[-50:]) if one["type"] == "plan.patched"
        ]
        found.append(seen - patched[-1]["at"] * 1e3)
    page.context.close()
    return found


def busy_ms(browser: Browser, url: str) -> tuple[float, float]:
    """The longest long task while a plan is loaded, and while it is used."""
    page = fresh(browser)
    page.add_init_script(f"({BUSY})()")
    page.goto(url)
    page.get_by_role("treeitem").first.wait_for()
    page.wait_for_timeout(1500)
    loaded = float(page.evaluate("performance.now()"))
    page.get_by_role("tree").focus()
    for key in ("End", "Home", *["PageDown"] * 20, "ArrowLeft", "ArrowLeft", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    page.mouse.move(300, 400)
    for _ in range(20):
        page.mouse.wheel(0, 5000)
    page.get_by_role("searchbox").press_sequentially("t99")
    page.get_by_role("button", name="Graph").click()
    page.get_by_role("link", name="task/g500,").click()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Tree").click()
    page.get_by_role("button", name="One revision back").click()
    page.get_by_role("button", name="Back to live").click()
    page.wait_for_timeout(1500)
    spent = page.evaluate("window.busy")
    page.context.close()
    before = [duration for start, duration in spent if start < loaded]
    after = [duration for start, duration in spent if start >= loaded]
    return max(before, default=0.0), max(after, default=0.0)


def main() -> None:
    build = sys.argv[1] if len(sys.argv) > 1 else None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        print(f"{'':44}{'ms':>8}  goal", flush=True)
        with tempfile.TemporaryDirectory(prefix="page-") as name, served(Path(name), 1_000, build) as url:
            load_ms(browser, url, PAINTED)  # Warms up Chromium.
            empty = [load_ms(browser, url.replace("/#", "/v1/nothing#"), EMPTY) for _ in range(LOADS)]
            show("an empty page (floor), median", statistics.median(empty))
            paints = [load_ms(browser, url, PAINTED) for _ in range(LOADS)]
            show("first paint, 1,000 tasks, median", statistics.median(paints), GOAL_PAINT_MS)
            events = events_ms(browser, url, Path(name))
            show("event until on screen, median", statistics.median(events), GOAL_EVENT_MS)
            show("event until on screen, p90", statistics.quantiles(events, n=10)[8])
        with tempfile.TemporaryDirectory(prefix="page-") as name, served(Path(name), 10_000, build) as url:
            show(
                "first paint, 10,000 tasks, median", statistics.median(load_ms(browser, url, PAINTED) for _ in range(3))
            )
            loading, using = busy_ms(browser, url)
            show("longest long task while 10,000 tasks load", loading)
            show("longest long task while they are used", using, GOAL_BUSY_MS)
        browser.close()


def show(title: str, ms: float, goal: float | None = None) -> None:
    print(f"{title:44}{ms:>8.0f}" + (f"  under {goal:.0f}" if goal else ""), flush=True)


if __name__ == "__main__":
    main()
