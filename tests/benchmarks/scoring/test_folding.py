"""A run folds to the same summary, whatever happened to it on the way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.benchmarks.events.reader import BenchEvent, read_events
from planloop.benchmarks.scoring.fold import BadRun, RunFold
from planloop.benchmarks.scoring.summary import print_summary, summarise_run
from tests import sets
from tests.benchmarks.runs import Outcome, Told, file_of, outcomes, summarised, told
from tests.product import JsonObject, canonical_bytes, decode

OUTCOMES = outcomes(9, ("oracle", "nop", "script:a", "acme/b"), trials=2)
PLAIN = Told(parallel=1, report={"pass-at": [1, 2], "pass-hat": [1, 2]})


def of(entries: list[Outcome], how: Told | None = None) -> JsonObject:
    found: JsonObject = summarised(entries, how).to_json()
    return found


def without_timing(summary: bytes) -> JsonObject:
    found: JsonObject = decode(summary)
    del found["timing"]
    return found


@settings(max_examples=sets.examples(40, 20))
@given(st.integers(0, 1 << 30), st.integers(1, 9), st.integers(0, 5), st.integers(0, 4))
def test_order_attempts_and_resumes_leave_no_trace_but_in_timing(
    seed: int, parallel: int, lost: int, erring: int
) -> None:
    how = Told(seed=seed, parallel=parallel, lost=lost, erring=erring, report=PLAIN.report)

    found, plain = summarised(OUTCOMES, how), summarised(OUTCOMES, PLAIN)

    assert canonical_bytes(without_timing(print_summary(found))) == canonical_bytes(
        without_timing(print_summary(plain))
    )


def test_a_summary_is_made_again_byte_for_byte() -> None:
    file = file_of(told(OUTCOMES, Told(lost=3, erring=2)))

    first, second = (print_summary(summarise_run(RunFold().add_all(read_events(file).events))) for _ in range(2))

    assert first == second
    assert first.endswith(b"}\n")


def test_reading_a_fold_before_its_end_changes_nothing() -> None:
    events, watched = told(OUTCOMES), RunFold()
    for event in events:
        watched.add(event)
        watched.entries()

    assert print_summary(summarise_run(watched)) == print_summary(summarise_run(RunFold().add_all(events)))


def test_only_the_last_end_of_an_entry_counts() -> None:
    one = Outcome("login", "acme/b", verdict="fail")
    start, first, second = _end(one, 1, "error"), _end(one, 2, "fail"), _end(one, 3, "pass")

    for events in ([start, first, second], [second, start, first]):
        (entry,) = RunFold().add_all(events).entries()
        assert entry.verdict == "pass"


def test_an_attempt_that_has_no_end_takes_nothing_away() -> None:
    one = Outcome("login", "acme/b")
    start = BenchEvent(9, 50.0, "case/start", "s", one.case, one.model, 1, 2, one.key, {"variant": 0})

    (entry,) = RunFold().add_all([_end(one, 1, "pass"), start]).entries()

    assert (entry.verdict, entry.times.began) == ("pass", 50.0)


def test_a_run_is_complete_when_nothing_is_missing_and_nothing_went_wrong() -> None:
    passed, other = Outcome("login", "acme/b"), Outcome("echo", "acme/b")

    assert of([passed, other])["complete"]
    assert not of([passed], Told(planned=[other]))["complete"]
    assert not of([passed, Outcome("echo", "acme/b", verdict="error")])["complete"]
    # Another attempt of an invalid entry would end the same way: it is counted, and the suite must be corrected.
    invalid = of([passed, Outcome("echo", "acme/b", verdict="invalid")])
    assert (invalid["complete"], invalid["entries"]["invalid"]) == (True, 1)


def test_undecided_entry_is_in_no_rate_and_in_the_bounds() -> None:
    entries = [
        Outcome(f"c{n}", "acme/b", verdict=verdict) for n, verdict in enumerate(["pass", "fail", "error", "invalid"])
    ]

    model = of(entries, Told(planned=[Outcome("c9", "acme/b")]))["models"]["acme/b"]

    assert {name: model[name] for name in ("pass", "fail", "error", "invalid", "missing")} == {
        "pass": 1,
        "fail": 1,
        "error": 1,
        "invalid": 1,
        "missing": 1,
    }
    assert (model["rate"], model["bounds"], model["cases"]) == (0.5, [0.2, 0.8], 5)
    assert model["pass_at"] == [{"k": 1, "value": 0.5, "cases": 2, "undecided": ["c2", "c3", "c9"]}]


def test_pass_at_k_and_pass_hat_k_are_means_over_cases_with_enough_trials() -> None:
    verdicts = {"a": ["pass", "pass", "fail"], "b": ["fail", "fail", "fail"], "c": ["pass", "error", "pass"]}
    entries = [
        Outcome(case, "m/x", trial, verdict)
        for case, tries in verdicts.items()
        for trial, verdict in enumerate(tries, 1)
    ]

    model = of(entries, Told(report={"pass-at": [3, 1], "pass-hat": [2, 3]}))["models"]["m/x"]

    assert model["pass_at"] == [
        {"k": 1, "value": round((2 / 3 + 0 + 1) / 3, 6), "cases": 3, "undecided": []},
        {"k": 3, "value": 0.5, "cases": 2, "undecided": ["c"]},
    ]
    assert model["pass_hat"] == [
        {"k": 2, "value": round((1 / 3 + 0 + 1) / 3, 6), "cases": 3, "undecided": []},
        {"k": 3, "value": 0.0, "cases": 2, "undecided": ["c"]},
    ]
    assert model["interval_by_case"] is not None


def test_slices_are_by_language_variant_and_tag() -> None:
    entries = [
        Outcome("a", "m/x", 1, "pass", language="clojure", variant=0, tags={"kind": ["near", "long"]}),
        Outcome("b", "m/x", 1, "fail", language="typescript", variant=1, tags={"kind": "near"}),
    ]

    slices = of(entries)["models"]["m/x"]["slices"]

    rates = {by: {value: one["rate"] for value, one in values.items()} for by, values in slices.items()}
    assert rates == {
        "language": {"clojure": 1.0, "typescript": 0.0},
        "variant": {"0": 1.0, "1": 0.0},
        "tag:kind": {"near": 0.5, "long": 1.0},
    }


def test_the_interval_of_a_slice_does_not_take_trials_of_a_case_for_cases() -> None:
    entries = [Outcome(case, "m/x", trial, "pass", tags={"kind": "near"}) for case in "ab" for trial in range(1, 9)]

    near = of(entries)["models"]["m/x"]["slices"]["tag:kind"]["near"]

    assert (near["pass"], near["interval"]) == (16, [0.34238, 1.0])  # Of two, not of sixteen.


def test_soft_figures_are_of_those_that_passed_and_of_all() -> None:
    entries = [
        Outcome("a", "m/x", 1, "pass", soft={"lint": 2}),
        Outcome("b", "m/x", 1, "fail", soft={"lint": 9}),
        Outcome("c", "m/x", 1, "error", soft={"lint": 100}),
    ]

    found = of(entries)

    assert found["models"]["m/x"]["soft"]["lint"] == {
        "passed": {"count": 1, "mean": 2.0, "median": 2.0},
        "all": {"count": 2, "mean": 5.5, "median": 5.5},
    }
    assert found["timing"]["models"]["m/x"]["soft"]["runtime"]["passed"]["median"] == 0.2


def test_medians_are_of_decided_entries_and_sums_of_the_ends_that_count() -> None:
    entries = [Outcome(f"c{n}", "m/x", usd=usd, turns=n) for n, usd in enumerate([0.1, 0.2, 0.7])]

    model = of(entries)["models"]["m/x"]

    assert model["median"] == {"usd": 0.2, "turns": 1.0, "calls": 2.0, "tokens": 940.0}
    assert model["usage"] == {"tokens_in": 2700, "tokens_out": 120, "usd": 1.0, "calls": 6, "turns": 3}


def test_checks_that_may_be_wrong_are_named() -> None:
    all_fail = {"works": "fail", "safe": "pass"}
    entries = [
        Outcome("hard", "m/x", 1, "fail", checks=all_fail),
        Outcome("hard", "m/y", 1, "fail", checks={"works": "fail", "safe": "fail"}),
        Outcome("easy", "m/x"),
        Outcome("easy", "nop"),
        Outcome("easy", "oracle:form", 1, "fail"),
        Outcome("leaky", "m/x", 1, "fail", checks={"works": "fail"}),
        Outcome("leaky", "cheat:printed-pass"),
        Outcome("untested", "oracle"),
    ]

    assert of(entries)["suspects"] == {
        "failed_by_all": {"hard": ["works"], "leaky": ["works"]},
        "passed_by_cheats_only": ["leaky"],
        "failed_by_oracle": ["easy"],
        "passed_by_nop": ["easy"],
    }


def test_nop_and_oracle_stand_beside() -> None:
    found = of(
        [Outcome("a", "oracle:form"), Outcome("a", "oracle"), Outcome("a", "nop", 1, "fail"), Outcome("a", "m/x")]
    )

    assert (found["beside"]["oracle"]["rate"], found["beside"]["nop"]["rate"]) == (1.0, 0.0)
    assert [found["models"][name]["kind"] for name in ("oracle", "oracle:form", "nop", "m/x")] == [
        "oracle",
        "oracle",
        "nop",
        "tested",
    ]
    assert of([Outcome("a", "m/x")])["beside"] == {"nop": None, "oracle": None}


def test_entry_edited_by_an_operator_is_named() -> None:
    found = of([Outcome("a", "m/x", touched=True), Outcome("b", "m/x")])

    assert (found["touched"], found["models"]["m/x"]["touched"]) == ([["a", "m/x", 1]], 1)


def test_each_case_has_its_verdicts_by_model_and_trial() -> None:
    found = of([Outcome("a", "m/x", 1), Outcome("a", "m/x", 2, "fail", tags={"kind": "near"})])["cases"]["a"]

    trials = found["models"]["m/x"]
    assert [(trial, one["verdict"]) for trial, one in trials.items()] == [("1", "pass"), ("2", "fail")]
    assert (trials["2"]["why"], "why" in trials["1"]) == ("works: it does not", False)


def test_a_run_without_events_has_a_summary() -> None:
    assert of([])["models"] == {}
    assert summarise_run(RunFold()).to_json()["entries"]["total"] == 0


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (
            BenchEvent(3, 0.0, "case/end", "s", "a", "m", 1, 1, "k", {"verdict": "great"}),
            "seq 3: invalid case/end",
        ),
        (BenchEvent(4, 0.0, "case/end", "s", "a", None, 1, 1, "k", {"verdict": "pass"}), "seq 4.*names no entry"),
        (BenchEvent(5, 0.0, "run/open", "s", None, None, None, None, None, {}), "seq 5: invalid run/open"),
    ],
)
def test_unknown_events_are_reported_with_their_place(event: BenchEvent, what: str) -> None:
    with pytest.raises(BadRun, match=what):
        RunFold().add(event)


def _end(one: Outcome, attempt: int, verdict: str) -> BenchEvent:
    data = {"verdict": verdict, "why": "", "soft": {}, "usage": {}, "touched": False, "timing": {"s": 1.0}}
    return BenchEvent(attempt, 1.0, "case/end", "s", one.case, one.model, one.trial, attempt, one.key, data)
