"""The import of BFCL, over rows made up for it that have the shape of the public ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planloop.benchmarks.checks import abstain, calls
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.benchmarks.importers import bfcl
from planloop.benchmarks.suite import Case, ScriptedAct, Suite
from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from planloop.benchmarks.worlds import state, world_file
from planloop.controllers.task.checks.run import CheckFinding
from tests.golden_text import said

KITE = {
    "name": "kite.fly",
    "description": "Flies a kite.",
    "parameters": {
        "type": "dict",
        "properties": {
            "height": {"type": "float", "description": "In metres."},
            "colour": {"type": "string", "description": "Its colour.", "default": "red", "enum": ["blue", "green"]},
            "tails": {"type": "array", "items": {"type": "dict", "properties": {"n": {"type": "integer"}}}},
            "wind": {"type": "dict", "properties": {"from": {"type": "string"}, "gusts": {"type": "boolean"}}},
        },
        "required": ["height"],
    },
}
KEY = {
    "height": [1.5, 2],
    "colour": ["blue", ""],
    "tails": [[{"n": [3]}, {"n": [4, 5]}], ""],
    "wind": [{"from": ["north"], "gusts": [True, ""]}, ""],
}
OTHER_KITE = {**KITE, "description": "Flies another kite."}


def row(id_: str, asked: str, *functions: Any) -> dict[str, Any]:
    return {"id": id_, "question": [[{"role": "user", "content": asked}]], "function": list(functions)}


QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "simple_python": [row("simple_python_0", "Fly it at 1.5 m", KITE), row("simple_python_1", "Again", OTHER_KITE)],
    "parallel": [row("parallel_0", "Fly two kites, at 1 and at 2 m", KITE)],
    "live_simple": [
        {
            "id": "live_simple_0-0-0",
            "question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fly /x/ \u2028 é"}]],
            "function": [KITE],
        },
        row("live_simple_1-0-0", "No key fits", KITE),
        row("live_simple_2-0-0", "No such argument", KITE),
        row("live_simple_3-0-0", "No alternatives", KITE),
        row("live_simple_4-0-0", "No key"),
    ],
    "irrelevance": [row("irrelevance_0", "What is 2 + 2?", KITE)],
    "live_relevance": [row("live_relevance_0", "Fly!", KITE)],
    "simple_java": [row("simple_java_0", "Fly the kite of the variable", {**KITE, "name": "Kite.fly"})],
    "multi_turn_base": [{"id": "multi_turn_base_0", "question": [[], []]}],
}
ANSWERS: dict[str, dict[str, Any]] = {
    "simple_python": {"simple_python_0": [{"kite.fly": KEY}], "simple_python_1": [{"kite.fly": {"height": [1]}}]},
    "parallel": {"parallel_0": [{"kite.fly": {"height": [1]}}, {"kite.fly": {"height": [2]}}]},
    "live_simple": {
        "live_simple_0-0-0": [{"kite.fly": {"height": [9], "colour": ["/x/", ""]}}],
        "live_simple_1-0-0": [{"kite.fly": {"height": ["high"]}}],
        "live_simple_2-0-0": [{"kite.fly": {"length": [1]}}],
        "live_simple_3-0-0": [{"kite.fly": {"height": []}}],
    },
    "simple_java": {"simple_java_0": [{"Kite.fly": {"height": [2.5], "tails": ["myTails"]}}]},
}


def lines(rows: Any) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in rows).encode()


def found() -> bfcl.BfclImport:
    files = {f"BFCL_v4_{name}.json": lines(rows) for name, rows in QUESTIONS.items()}
    for name, keys in ANSWERS.items():
        rows = ({"id": id_, "ground_truth": key} for id_, key in keys.items())
        files[f"possible_answer/BFCL_v4_{name}.json"] = lines(rows)
    return bfcl.convert_bfcl(files | {"README.md": b"no rows", "BFCL_v4_multiple.json": lines([])})


@pytest.fixture
def suites(tmp_path: Path) -> dict[str, Suite]:
    """The suites as parsed from disk, which must be valid."""
    for path, text in found().files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    out = {}
    for folder in sorted(tmp_path.iterdir()):
        read = read_suite((folder / "suite.yaml").read_bytes(), file="suite.yaml", sources=FolderSuiteSources(folder))
        assert read.suite is not None, read.diagnostics
        assert not read.diagnostics
        out[folder.name] = read.suite
    return out


def judged(suite: Suite, case: Case, act: ScriptedAct) -> CheckFinding:
    assert case.setting.world is not None
    world = world_file.world_from_document(suite.worlds[case.setting.world["use"]]).world
    assert world is not None
    emitted = []
    for one in act.calls:
        for tool, arguments in one.items():
            _, answer = state.call_tool(world, tool, arguments)
            emitted.append(EmittedCall(tool, arguments, state="Failed" if answer.error else "Succeeded"))
    judge = {"calls": calls.judge_calls, "abstain": abstain.judge_abstain}[case.checks[0].kind]
    return judge(case.checks[0].arguments, Evidence(tuple(emitted), act.says, frozenset(case.setting.tools or ())))


def acts(suites: dict[str, Suite], kind: str) -> Iterator[tuple[Suite, Case, str, ScriptedAct]]:
    for suite in suites.values():
        for case in suite.cases.values():
            for name, act in getattr(case.proofs, kind).items():
                yield suite, case, name, act


def test_single_turn_categories_become_suites_and_others_are_reported() -> None:
    imported = found()

    assert imported.counts == {
        "irrelevance": 1,
        "live_relevance": 1,
        "live_simple": 1,
        "parallel": 1,
        "simple_java": 1,
        "simple_python": 2,
    }
    assert imported.notes == (
        "live_simple_4-0-0 is not imported: it has no key",
        "live_simple_1-0-0 is not imported: `bfcl.kite_fly` does not accept the arguments in its key:"
        ' height: must be a number, not "high"',
        "live_simple_2-0-0 is not imported: its key names the argument `length`, which `bfcl.kite_fly` does not have",
        "live_simple_3-0-0 is not imported: its key has an argument without alternatives",
        "multi_turn_base is not imported: it needs several turns, or special tools",
        "multiple is not imported: possible_answer/ has no key for it",
    )


def test_the_key_replayed_passes_with_all_arguments_and_with_the_least(suites: dict[str, Suite]) -> None:
    oracles = {(case.id, name): judged(suite, case, act) for suite, case, name, act in acts(suites, "oracles")}

    assert {key: one.message for key, one in oracles.items() if one.result != "pass"} == {}
    assert len(oracles) == 12
    full, least = (
        suites["bfcl-simple-python"].cases["simple_python_0"].proofs.oracles[name] for name in ("full", "least")
    )
    assert full.calls == (
        {
            "bfcl.kite_fly": {
                "height": 1.5,
                "colour": "blue",
                "tails": [{"n": 3}, {"n": 4}],
                "wind": {"from": "north", "gusts": True},
            }
        },
    )
    assert least.calls == ({"bfcl.kite_fly": {"height": 1.5}},)


def test_every_mutant_fails(suites: dict[str, Suite]) -> None:
    results = [judged(suite, case, act).result for suite, case, _, act in acts(suites, "mutants")]

    assert results == ["fail"] * 12


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"height": 2}, "pass"),
        ({"height": 2.5}, "fail"),
        ({}, "fail"),
        ({"height": 2, "colour": "Blue"}, "fail"),  # The tool itself refuses it.
        ({"height": 2, "colour": "green"}, "fail"),
        ({"height": 2, "tails": [{"n": 3}, {"n": 5}]}, "pass"),
        ({"height": 2, "tails": [{"n": 5}, {"n": 3}]}, "fail"),
        ({"height": 2, "tails": [{"n": 3}]}, "fail"),
        ({"height": 2, "tails": []}, "pass"),
        ({"height": 2, "wind": {"from": "north"}}, "pass"),
        ({"height": 2, "wind": {"from": "north", "gusts": False}}, "fail"),
        ({"height": 2, "wind": {"from": "north", "to": "south"}}, "fail"),
        ({"height": 2, "wind": None}, "pass"),
    ],
)
def test_a_key_takes_its_alternatives_and_nothing_else(suites: dict[str, Suite], given: Any, result: str) -> None:
    suite = suites["bfcl-simple-python"]

    act = ScriptedAct(calls=({"bfcl.kite_fly": given},))
    assert judged(suite, suite.cases["simple_python_0"], act).result == result


def test_a_call_more_fails_as_it_does_there(suites: dict[str, Suite]) -> None:
    suite = suites["bfcl-parallel"]
    case = suite.cases["parallel_0"]
    one, two = ({"bfcl.kite_fly": {"height": height}} for height in (1, 2))
    assert case.plan.budget == {"turns": bfcl.TURNS + 2}

    assert judged(suite, case, ScriptedAct(calls=(two, one))).result == "pass"
    assert judged(suite, case, ScriptedAct(calls=(two, one, one))).result == "fail"


def test_two_functions_of_one_name_are_in_different_worlds(suites: dict[str, Suite]) -> None:
    cases = suites["bfcl-simple-python"].cases

    assert [case.setting.world for case in cases.values()] == [{"use": "w0"}, {"use": "w1"}]
    assert [case.setting.tools for case in cases.values()] == [("bfcl.kite_fly",), ("bfcl1.kite_fly",)]


def test_earlier_messages_are_in_the_prompt(suites: dict[str, Suite]) -> None:
    assert suites["bfcl-live-simple"].cases["live_simple_0-0-0"].prompts == ("Be brief.\n\nUser: Fly /x/ \u2028 é",)


def test_large_categories_are_cut_into_suites_that_a_reader_takes() -> None:
    rows = [row(f"irrelevance_{n}", "?", KITE) for n in range(bfcl.SUITE_CASES_MAX + 1)]
    imported = bfcl.convert_bfcl({"BFCL_v4_irrelevance.json": lines(rows)})

    assert [path for path in imported.files if path.endswith("suite.yaml")] == [
        "bfcl-irrelevance-1/suite.yaml",
        "bfcl-irrelevance-2/suite.yaml",
    ]


def test_map_with_too_many_optional_members_is_reported() -> None:
    wide = {f"m{n}": [n, ""] for n in range(bfcl.OPTIONAL_MEMBERS_MAX + 1)}
    tools = {"f": {"properties": {"a": {"type": "object"}}}}

    with pytest.raises(bfcl.BadKey) as caught:
        bfcl.needed_call({"f": {"a": [wide]}}, tools)
    said(str(caught.value))
