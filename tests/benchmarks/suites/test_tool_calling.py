"""The suite `tool-calling`: its proofs walked through its worlds and checks, without a plan around them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from planloop.benchmarks.checks import abstain, calls, state
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.benchmarks.runs.contestants import case_cheats
from planloop.benchmarks.runs.run_compiler import draw_decoys
from planloop.benchmarks.suite import Case, ScriptedAct, Suite
from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from planloop.benchmarks.worlds import state as world_state
from planloop.benchmarks.worlds import world_file
from planloop.benchmarks.worlds.world import SimulatedWorld
from planloop.controllers.task.checks.run import CheckFinding
from tests import rows
from tests.product import JsonObject

FOLDER = Path(__file__).parents[3] / "benchmarks/planloop/benchmarks/suites/tool-calling"
JUDGES = {"calls": calls.judge_calls, "state": state.judge_state, "abstain": abstain.judge_abstain}


@lru_cache
def suite() -> Suite:
    content = (FOLDER / "suite.yaml").read_bytes()
    read = read_suite(content, file="suite.yaml", sources=FolderSuiteSources(FOLDER))
    assert read.suite is not None, read.diagnostics
    assert not read.diagnostics
    return read.suite


CASES = rows.each("name", sorted(suite().cases))


@lru_cache
def world_named(name: str) -> SimulatedWorld:
    document = world_file.add_tools(suite().worlds[name], suite().pools["decoys"]["tools"])
    found = world_file.world_from_document(document)
    assert found.world is not None, found.diagnostics
    return found.world


def world_of(case: Case) -> SimulatedWorld:
    assert case.setting.world is not None
    return world_file.overlay_tables(world_named(case.setting.world["use"]), case.setting.world.get("with", {}))


def evidence(case: Case, act: ScriptedAct) -> Evidence:
    """What is known once `act` has been done in the world of `case`; a tool that is not offered is not there."""
    decoys = case.setting.decoys or {}
    pool = suite().pools[decoys["pool"]]["tools"]
    drawn = draw_decoys(suite().seed, case.id, pool, case.setting.tools or (), pick=decoys["pick"], near=decoys["near"])
    offered = {*(case.setting.tools or ()), *drawn.near, *drawn.far}
    world = start = world_of(case)
    emitted = []
    for one in done(act):
        tool, arguments = one
        if arguments is None:
            emitted.append(EmittedCall(tool, {}, fault="no call"))
            continue
        error, text = "UnknownTool", ""
        if tool in offered:
            world, answer = world_state.call_tool(world, tool, arguments)
            error, text = answer.error, answer.text
        emitted.append(EmittedCall(tool, arguments, state="Failed" if error else "Succeeded", result=text))
    near, far = frozenset(drawn.near), frozenset(drawn.far)
    return Evidence(tuple(emitted), act.says or said(act), frozenset(offered), near, far, start, world)


def done(act: ScriptedAct) -> list[tuple[str, JsonObject | None]]:
    """The calls of `act` in order; a call without arguments stands for a malformed call."""
    if act.script is None:
        return [next(iter(one.items())) for one in act.calls]
    return [("?", None) for step in act.script if "call" in step]


def said(act: ScriptedAct) -> str:
    return next((str(step["done"]) for step in act.script or () if "done" in step), "")


def judged(case: Case, act: ScriptedAct) -> Mapping[str, CheckFinding]:
    seen = evidence(case, act)
    return {check.key: JUDGES[check.kind](check.arguments, seen) for check in case.checks}


def told(case: Case, act: ScriptedAct) -> list[str]:
    """The checks that fail; all must have been able to look."""
    found = judged(case, act)
    assert all(one.result in ("pass", "fail") and one.probes for one in found.values()), found
    return [key for key, one in found.items() if one.result == "fail"]


@CASES
def test_every_oracle_passes_and_there_are_three_styles_of_them(name: str) -> None:
    case = suite().cases[name]
    found = {
        ref: {key: one.message for key, one in judged(case, act).items() if one.result != "pass"}
        for ref, act in case.proofs.oracles.items()
    }

    assert found == {ref: {} for ref in case.proofs.oracles}
    assert len(case.proofs.oracles) >= 3
    assert len({str(act.calls) + act.says for act in case.proofs.oracles.values()}) == len(case.proofs.oracles)


@CASES
def test_every_mutant_is_killed_by_the_checks_that_it_names(name: str) -> None:
    case = suite().cases[name]
    missed = {ref: set(act.kills) - set(told(case, act)) for ref, act in case.proofs.mutants.items()}

    assert missed == {ref: set() for ref in case.proofs.mutants}
    assert len(case.proofs.mutants) >= 3


@CASES
def test_every_check_kills_a_mutant(name: str) -> None:
    case = suite().cases[name]

    assert {check for act in case.proofs.mutants.values() for check in told(case, act)} == {
        check.key for check in case.checks
    }


@CASES
def test_doing_nothing_and_cheating_fail(name: str) -> None:
    case = suite().cases[name]

    assert {ref for ref, act in {"nop": ScriptedAct(), **case_cheats(case)}.items() if not told(case, act)} == set()


@CASES
def test_prompts_are_phrased_in_more_than_one_way(name: str) -> None:
    assert len(set(suite().cases[name].prompts)) >= 2


def test_the_suite_has_every_kind_of_case() -> None:
    kinds = [case.tags["kind"] for case in suite().cases.values()]

    assert len(kinds) >= 40
    assert set(kinds) == {
        *("single", "several", "ordered", "chain", "near", "question"),
        *("abstain", "refused", "forbidden", "retry", "state"),
    }
