"""A report says the same in each of its forms, and no name in it can be anything but a name."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from planloop.benchmarks.reporting import report as reporting_report
from planloop.benchmarks.reporting import report_text
from planloop.benchmarks.reporting.html import write_html
from planloop.benchmarks.reporting.markdown import escape_markdown, write_markdown
from planloop.schemas.quantities import cell_width
from tests import sets
from tests.benchmarks.runs import Outcome, Told, outcomes, summarised
from tests.golden_text import said
from tests.product import JsonObject, decode

MODELS = ("acme/large", "acme/small", "oracle", "nop")
FIRST = summarised(outcomes(12, MODELS, trials=2), Told(report={"pass-at": [1, 2], "pass-hat": [2]}))
NIGHT = summarised(outcomes(8, ("acme/large", "nop"), seed=3), Told(suite="coding-agent", run="night"))
OTHER = summarised(outcomes(8, ("acme/large", "acme/small"), seed=5), Told(suite="coding-agent", run="other"))
REPORT = reporting_report.combine_summaries([FIRST, NIGHT, OTHER])
GFM = MarkdownIt("commonmark").enable("table")

HOSTILE = (
    "<script>alert(1)</script> \"'&| `x` *b* _i_ [l](http://e.com) ![i](x) # ~~s~~ \x1b[31m\u202e\n- https://e.com"
)


class Page(HTMLParser):
    """Counts the elements of a page, and holds that what opens is closed."""

    void = ("meta", "br", "line", "circle")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        assert tag in self.void

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def json_of(report: reporting_report.BenchReport) -> JsonObject:
    found: JsonObject = decode(reporting_report.print_report(report))
    return found


def test_the_order_in_which_runs_are_given_changes_nothing() -> None:
    orders = [reporting_report.combine_summaries(order) for order in itertools.permutations([FIRST, NIGHT, OTHER])]

    assert {reporting_report.print_report(one) for one in orders} == {reporting_report.print_report(REPORT)}
    assert {write_html(one) for one in orders} == {write_html(REPORT)}


def test_models_of_several_runs_of_a_suite_stand_side_by_side() -> None:
    suite = json_of(REPORT)["suites"]["coding-agent"]

    assert [one["label"] for one in suite["models"]] == [
        "acme/large (night)",
        "acme/large (other)",
        "acme/small",
        "nop",
    ]
    assert [(one["a"], one["b"], one["keys"]) for one in suite["pairs"]] == [
        ("acme/large (night)", "acme/large (other)", 8),
        ("acme/large (night)", "acme/small", 8),
        ("acme/large (other)", "acme/small", 8),
    ]


def test_pairs_are_made_of_identical_keys_that_both_have_decided() -> None:
    ours = [Outcome(f"c{n}", "m/a", verdict="pass") for n in range(8)]
    theirs = [Outcome(f"c{n}", "m/b", verdict="fail") for n in range(1, 9)]
    theirs[0] = replace(theirs[0], verdict="error")

    (pair,) = json_of(reporting_report.combine_summaries([summarised([*ours, *theirs])]))["suites"]["tool-calling"][
        "pairs"
    ]

    assert [pair[name] for name in ("keys", "undecided", "unpaired", "wins", "losses", "ties")] == [6, 1, 2, 6, 0, 0]
    assert (pair["p"], pair["difference"]) == (0.03125, 1.0)
    said(pair["sentence"])


def test_models_that_are_too_close_are_marked() -> None:
    entries = [
        Outcome(f"c{n}", f"m/{m}", verdict="fail" if (n, m) == (0, "a") else "pass") for n in range(9) for m in "ab"
    ]
    report = reporting_report.combine_summaries([summarised(entries)])

    assert json_of(report)["suites"]["tool-calling"]["pairs"][0]["sentence"] == "not distinguishable at this size"
    assert "not distinguishable at this size" in write_markdown(report)
    assert "not distinguishable at this size" in write_html(report)


def test_run_with_errors_is_marked_incomplete_on_top() -> None:
    entries = [Outcome("a", "m/x"), Outcome("b", "m/x", verdict="error"), Outcome("c", "m/x", touched=True)]
    report = reporting_report.combine_summaries([summarised(entries, Told(planned=[Outcome("d", "m/x")]))])

    for text in (write_markdown(report), Page(write_html(report)).text):
        before = text.index("incomplete: 1 error, 1 missing")
        touched = text.index("a person intervened in 1 entry")
        assert before < touched < text.index("Nop was not run: add --model nop; the oracle was not")
        assert "50.0 to 100.0 %" in text
    assert not json_of(report)["complete"]
    assert "Read this first" not in write_markdown(reporting_report.combine_summaries([FIRST]))


@pytest.mark.parametrize(("validated", "text"), [(None, "not validated"), (False, "invalid suite"), (True, None)])
def test_unvalidated_suite_is_marked_on_top(validated: bool | None, text: str | None) -> None:
    report = reporting_report.combine_summaries([summarised([Outcome("a", "m/x")], Told(validated=validated))])

    assert json_of(report)["suites"]["tool-calling"]["runs"][0]["validated"] is validated
    for shown in (write_markdown(report), Page(write_html(report)).text):
        top = shown.partition("Doing nothing")[0]
        assert ("Read this first" in top, text in top if text else True) == (text is not None, True)


def test_nop_and_oracle_are_shown_beside_every_suite() -> None:
    for text in (write_markdown(REPORT), Page(write_html(REPORT)).text):
        assert "Doing nothing passes 0.0 % (0 of 24); the oracle passes 100.0 % (24 of 24)." in text
        assert "Doing nothing passes 0.0 % (0 of 8); the oracle was not run: add --model oracle." in text


def test_each_model_is_held_against_what_its_own_run_scores() -> None:
    first = [Outcome(f"c{n}", model) for n in range(6) for model in ("m/x", "oracle")]
    edited = [
        Outcome(f"c{n}", m, verdict="pass" if n or m == "m/x" else "fail") for n in range(3) for m in ("m/x", "oracle")
    ]
    report = reporting_report.combine_summaries(
        [summarised(first, Told(run="one")), summarised(edited, Told(run="ed"))]
    )

    assert [row[1:] for row in report_text.overview_table(report).rows] == [
        ("m/x (ed)", "100.0 %", "43.9 to 100.0 %", "–", "66.7 %"),
        ("m/x (one)", "100.0 %", "61.0 to 100.0 %", "–", "100.0 %"),
    ]
    suite = json_of(report)["suites"]["tool-calling"]
    assert (suite["oracle"], {run: ends["oracle"] for run, ends in suite["ends"].items()}) == (
        None,
        {"ed": "oracle (ed)", "one": "oracle (one)"},
    )
    for text in (write_markdown(report), Page(write_html(report)).text):
        for run, passes in (("ed", "66.7 % (2 of 3)"), ("one", "100.0 % (6 of 6)")):
            what = "nop was not run: add --model nop"
            assert f"In {run}: {what}; the oracle passes {passes}." in text
    for line in ("oracle (ed) 66.7 %", "oracle (one) 100.0 %"):
        assert line in write_html(report)


def test_an_oracle_that_was_run_by_itself_counts_for_the_very_same_cases_only() -> None:
    def oracle_of(cases: int) -> str:
        model = summarised([Outcome(f"c{n}", "m/x") for n in range(cases)], Told(run="model"))
        alone = summarised([Outcome(f"c{n}", "oracle") for n in range(3)], Told(run="alone"))
        return report_text.overview_table(reporting_report.combine_summaries([model, alone])).rows[0][-1]

    assert (oracle_of(3), oracle_of(2)) == ("100.0 %", "–")


def test_all_forms_have_the_same_figures() -> None:
    figures = [f"{100 * one['rate']:.1f} %" for suite in json_of(REPORT)["suites"].values() for one in suite["models"]]

    for text in (write_markdown(REPORT), Page(write_html(REPORT)).text):
        assert [figure for figure in figures if figure not in text] == []


def test_tables_of_the_markdown_are_tables_and_fit_a_terminal() -> None:
    text = write_markdown(REPORT)
    tokens = GFM.parse(text)

    assert sum(token.type == "table_open" for token in tokens) == text.count("\n| --") > 8
    assert max(cell_width(line) for line in text.splitlines() if line.startswith("|")) <= 110
    for table in text.split("\n\n"):
        if table.startswith("|"):
            assert len({cell_width(line) for line in table.splitlines()}) == 1


def hostile_report(name: str) -> reporting_report.BenchReport:
    entries = [
        Outcome(name, model, verdict=verdict, language=name, tags={name: name}, soft={name: 1}, checks={name: verdict})
        for model, verdict in ((name, "fail"), ("nop", "pass"), ("cheat:" + name, "pass"), ("oracle", "fail"))
    ]
    entries.append(Outcome(name, "m/b", verdict="error"))
    other = summarised([Outcome(name, "nop", verdict="fail")], Told(suite=name, run=name + "2"))
    return reporting_report.combine_summaries([summarised(entries, Told(suite=name, run=name)), other, FIRST])


@settings(max_examples=sets.examples(25, 6))
@given(st.one_of(st.just(HOSTILE), st.text("<>&\"'|`*_[]()!#~\\-:/.@w x\n\t\x1b\u202e", min_size=1, max_size=24)))
def test_no_name_becomes_markup_a_link_or_a_control_character(name: str) -> None:
    report = hostile_report(name)

    page, plain_page = Page(write_html(report)), Page(write_html(PLAIN))
    assert Counter(page.names) == Counter(plain_page.names)
    assert {key for key, _ in page.attributes} == {key for key, _ in plain_page.attributes}
    text = write_markdown(report)
    assert kinds(text) <= kinds(write_markdown(PLAIN))
    for shown in (text, write_html(report)):
        assert [c for c in shown if not c.isprintable() and c != "\n"] == []


PLAIN = hostile_report("plain")


def kinds(text: str) -> set[str]:
    tokens = GFM.parse(text)
    return {inner.type for token in tokens for inner in _inner(token)} | {token.type for token in tokens}


def _inner(token: Token) -> list[Token]:
    return token.children or []


@given(st.text("<>&\"'|`*_[]()!#~\\-:/.@wx", max_size=24))
def test_escaped_text_is_read_as_intended(name: str) -> None:
    (_, inline, _) = GFM.parse(f"x{escape_markdown(name)}x")

    assert "".join(token.content for token in inline.children or []) == f"x{name}x"


@given(st.text("#>-+=*_1.)`~x ", min_size=1, max_size=9))
def test_escaped_text_starts_no_markup(name: str) -> None:
    assert [token.type for token in GFM.parse(f"- {escape_markdown(name)}x")] == [
        token.type for token in GFM.parse("- x")
    ]


def test_page_needs_no_external_resource_and_runs_no_script() -> None:
    page = Page(write_html(REPORT))

    assert {"script", "link", "img", "iframe", "object"} & set(page.names) == set()
    links = [
        value for name, value in page.attributes if name in ("href", "src", "action", "style") or name.startswith("on")
    ]
    assert links and all(link.startswith("#s") for link in links)
    assert "url(" not in write_html(REPORT) and "@import" not in write_html(REPORT)


def test_every_plot_has_a_title_a_description_and_a_table() -> None:
    text = write_html(REPORT)
    plots = [piece.partition("</svg>")[0] + "</svg>" for piece in text.split("<svg ")[1:]]
    ids = [value for name, value in Page(text).attributes if name == "id"]

    assert len(plots) == 6  # Rates, costs and pairs of two suites.
    assert len(ids) == len(set(ids))
    for plot in plots:
        root = ET.fromstring("<svg " + plot)
        title, about = root[0], root[1]
        assert (title.tag.endswith("title"), about.tag.endswith("desc")) == (True, True)
        assert root.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"
        assert title.text
        assert "%" in str(about.text) or "points" in str(about.text)
        assert "<table>" in text[text.index(plot) :].partition("<figure")[0]


def test_plot_of_costs_counts_tokens_without_any_payment() -> None:
    def page(usd: float, turns: int) -> str:
        return write_html(reporting_report.combine_summaries([summarised([Outcome("a", "m/x", usd=usd, turns=turns)])]))

    assert "m/x $0.01, 100.0 %" in page(0.01, 3)
    assert "m/x 2.82k tokens, 100.0 %" in page(0.0, 3)
    assert "Cost against quality" not in page(0.0, 0)


@pytest.mark.parametrize("entries", [[], [Outcome("a", "m/x", verdict="error")], [Outcome("a", "m/x", usd=0.0)]])
def test_a_run_with_next_to_nothing_has_a_report(entries: list[Outcome]) -> None:
    report = reporting_report.combine_summaries([summarised(entries)])

    assert Page(write_html(report)).names[0] == "html"
    assert write_markdown(report).startswith("# Benchmark report\n")
    assert write_markdown(reporting_report.combine_summaries([])) == "# Benchmark report\n"


def test_totals_are_sums_over_all_suites_and_runs_and_say_what_is_in_them() -> None:
    sections = {section.suite: section for section in REPORT.sections}
    found = {one.model: one for one in REPORT.totals}
    assert set(found) == {"acme/large", "acme/small"}
    large = found["acme/large"]
    columns = [one for section in sections.values() for one in section.columns if one.standing.model == "acme/large"]
    counts = [one.standing.share.counts for one in columns]
    assert large.counts.passed == sum(one.passed for one in counts)
    assert large.counts.decided == sum(one.decided for one in counts)
    assert (large.suites, large.runs) == (tuple(sections), 3)
    assert large.usage.usd == sum(one.standing.usage.usd for one in columns)
    assert large.mean_rate is not None and large.rate is not None
    assert large.mean_rate == pytest.approx(sum(large.rates.values()) / 2)
    assert json_of(REPORT)["totals"]["acme/large"]["entries"]["pass"] == large.counts.passed
    total = report_text.totals_table(REPORT).title
    assert total in write_markdown(REPORT) and total in Page(write_html(REPORT)).text
    alone = reporting_report.combine_summaries([FIRST])
    assert total not in write_markdown(alone) and total not in write_html(alone)


def test_model_missing_from_some_suites_is_marked() -> None:
    report = reporting_report.combine_summaries(
        [FIRST, summarised(outcomes(3, ("acme/tiny",), seed=7), Told(suite="planning"))]
    )
    rows = {row[0]: row[1] for row in report_text.totals_table(report).rows}
    assert rows == {"acme/large": "1 of 2", "acme/small": "1 of 2", "acme/tiny": "1 of 2"}
