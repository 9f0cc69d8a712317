"""The page of a report in a real browser: nothing sticks out or overlaps on narrow screens, all can be read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from planloop.benchmarks.reporting.html import write_html
from planloop.benchmarks.reporting.report import combine_summaries
from tests import needs
from tests.benchmarks.runs import Outcome, Told, outcomes, summarised

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

LONG = "provider/" + "a-very-long-name-of-a-model-" * 4
SUITES = [
    summarised(outcomes(30, ("acme/large", LONG, "oracle", "nop"), trials=2), Told(report={"pass-at": [1, 2]})),
    summarised([Outcome("a", LONG), Outcome("b", LONG, verdict="error")], Told(suite="a-suite-with-a-long-name-" * 3)),
]

OVERLAPS = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
  const texts = [...svg.querySelectorAll("text")].filter(one => !one.classList.contains("number"));
  const boxes = texts.map(one => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([a, x], i) => boxes.slice(i + 1)
    .filter(([, y]) => x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 3 && y.top < x.bottom - 3)
    .map(([b]) => `${a} / ${b}`));
})"""

FAINT = """() => {
  const of = color => color.match(/[0-9.]+/g).slice(0, 3).map(Number);
  const bright = color => { const [r, g, b] = of(color).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = one => { for (; one; one = one.parentElement) { const color = getComputedStyle(one).backgroundColor;
    if (!/, 0\\)$/.test(color)) return color; } };
  const told = [...document.querySelectorAll("h1, h2, p, td, th, a, li, b, summary, svg text:not(.number)")];
  return told.filter(one => one.textContent.trim()).map(one => {
    const style = getComputedStyle(one), ink = one.closest("svg") ? style.fill : style.color;
    const [x, y] = [bright(ink), bright(behind(one))].sort((a, b) => b - a);
    return [(x + 0.05) / (y + 0.05), one.tagName, one.className.baseVal ?? one.className];
  }).filter(([contrast]) => contrast < 4.5);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = needs.chromium()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


def test_the_page_can_be_read_on_any_screen(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(write_html(combine_summaries(SUITES)))
    page = browser.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda request: faults.append(request.url) if request.url != path.as_uri() else None)

    page.goto(path.as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")

    for width, scheme in product((320, 1200), ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("() => document.documentElement.scrollWidth") == width, (width, scheme)
        assert page.evaluate(OVERLAPS) == [], (width, scheme)
        assert page.evaluate(FAINT) == [], (width, scheme)
    assert faults == []
    page.close()


def test_plots_and_tables_have_accessible_names(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(write_html(combine_summaries(SUITES)))
    page = browser.new_page()

    page.goto(path.as_uri())

    assert page.get_by_role("img", name="Pass rates of tool-calling").count() == 1
    assert page.get_by_role("img", name="Cost and pass rate in tool-calling").count() == 1
    assert page.get_by_role("img", name="Pairwise comparison of models in tool-calling").count() == 1
    assert page.get_by_role("table", name="Pass rate").count() == 2
    assert page.get_by_role("rowheader", name="acme/large").count() >= 3
    page.close()
