"""Who is measured, as agents of a plan."""

from __future__ import annotations

from planloop.benchmarks.runs.contestants import script_for_act
from planloop.benchmarks.suite import ScriptedAct


def test_a_proof_reads_what_it_writes_over() -> None:
    act = ScriptedAct(files={"stub.clj": "(done)", "new.clj": "(new)"}, says="ok")

    calls = [step["call"] for step in script_for_act(act, {"stub.clj": "(todo)"}) if "call" in step]

    assert [next(iter(call)) for call in calls] == ["read", "write", "write"]
    assert [call[next(iter(call))]["path"] for call in calls] == ["stub.clj", "stub.clj", "new.clj"]
