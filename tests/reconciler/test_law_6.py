"""Law 6: rights only narrow. Whatever an agent patches, nothing outside its subtree changes and it gains nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.schemas import json_patch
from tests import sets
from tests.product import HUMAN_FILE, Json, JsonObject, Patch, PatchOp
from tests.reconciler.imagined import Imagined
from tests.reconciler.plans import agent

SCRIPT: JsonObject = {"script": []}
DOCUMENT: JsonObject = {
    "plan": "p",
    "goal": "all",
    "agent": SCRIPT,
    "rights": {"deny": ["shell(rm *)"]},
    "tasks": {
        "a": {
            "goal": "first",
            "agent": {**SCRIPT, "tools": ["read", "task"]},
            "rights": {"deny": ["write"], "tools": ["read", "task", "plan_patch"]},
            "budget": {"tokens": 10},
            "acceptance": [{"sh": "make"}],
            "cwd": "a",
            "tasks": {"x": {"goal": "part", "agent": SCRIPT, "cwd": "a"}},
        },
        "b": {"goal": "second", "agent": SCRIPT, "protect": True},
    },
}

TOKENS = st.sampled_from(
    ["tasks", "a", "b", "x", "y", "goal", "notes", "agent", "rights", "deny", "tools", "budget", "acceptance", "0", "-"]
)
PATHS = st.lists(TOKENS, max_size=5).map(tuple) | st.lists(TOKENS, max_size=4).map(lambda below: ("tasks", "a", *below))
TASKS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"goal": st.just("n")},
    optional={
        "agent": st.sampled_from(
            [SCRIPT, {**SCRIPT, "tools": ["shell"]}, {**SCRIPT, "from": "x"}, {**SCRIPT, "from": "dump:0"}]
        ),
        "rights": st.sampled_from([{}, {"tools": ["shell"]}, {"deny": []}]),
        "run": st.sampled_from(["true", "rm -rf /"]),
        "cwd": st.sampled_from(["a", "a/b", "b", "."]),
        "acceptance": st.just([]),
        "budget": st.just({"tokens": 99}),
    },
)
VALUES: st.SearchStrategy[Json] = st.one_of(
    st.just("text"), st.just([]), st.just(["shell"]), st.just({}), TASKS, st.dictionaries(TOKENS, TASKS, max_size=2)
)
OPS = st.builds(PatchOp, st.sampled_from(["add", "replace", "remove", "move", "copy"]), PATHS, VALUES, PATHS)


@settings(max_examples=sets.examples(100, 33))
@given(st.lists(st.lists(OPS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_law_6_patches_of_an_agent_never_leave_its_subtree_or_widen_its_rights(patches: list[list[PatchOp]]) -> None:
    plan = Imagined(Path(), DOCUMENT)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), DOCUMENT),), 0))
    before, document = plan.specs, plan.present.document
    for ops in patches:
        plan.submit(Patch(agent("a"), tuple(ops), plan.view.rev))
    _outside_is_untouched(document, plan.present.document)
    _nothing_widened(before, plan.specs)


def _outside_is_untouched(before: JsonObject, after: JsonObject) -> None:
    for op in json_patch.diff_values(before, after):
        assert op.path[:2] == ("tasks", "a") or op.path[0] == "prompts", op
        assert op.path[0] == "prompts" or op.path[2] in ("tasks", "notes", "needs"), op


def _nothing_widened(before: dict[str, JsonObject], after: dict[str, JsonObject]) -> None:
    own: Any = before["agent/a"]["rights"]
    assert after["agent/a"] == before["agent/a"]
    for address, spec in after.items():
        if address.startswith("agent/a/"):
            assert set(spec["rights"]["deny"]) >= set(own["deny"])
            assert set(spec["rights"]["tools"]) <= set(own["tools"])
        if address.startswith("task/a/"):
            assert spec["work"]["kind"] != "run", "the author has no shell"
            assert spec["cwd"].startswith("a")
