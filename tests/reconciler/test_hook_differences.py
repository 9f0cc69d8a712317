"""What an edit does to hooks, in one line for each that the plan states."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.schemas import json_patch
from tests.golden_text import said
from tests.product import HUMAN_FILE, JsonObject, Patch, PatchOp
from tests.reconciler.imagined import Imagined

AGENT: JsonObject = {"script": [{"done": "ok"}]}
GUARD: JsonObject = {"on": ["before-call"], "match": "write(*)", "run": "./guard"}
DOCUMENT: JsonObject = {
    "plan": "p",
    "goal": "all",
    "agent": AGENT,
    "tasks": {"a": {"goal": "a", "agent": AGENT}, "b": {"goal": "b", "agent": AGENT}},
}
WATCHED: JsonObject = {**DOCUMENT, "hooks": {"guard": GUARD}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def _told(folder: Path, before: JsonObject, after: JsonObject) -> list[tuple[str, str, str]]:
    plan = Imagined(folder, before)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), before),), 0))
    ops = tuple(json_patch.diff_values(before, after))
    answer = plan.answer(Patch(HUMAN_FILE, ops, plan.view.rev))
    assert not answer.faults
    return [(one.action, one.address, one.words) for one in answer.differences]


def test_a_hook_that_is_added_is_attached_once_however_many_agents_it_watches(folder: Path) -> None:
    assert _told(folder, DOCUMENT, WATCHED) == [
        ("attach", "hook/guard", "before write(*), runs ./guard; watches 3 agents")
    ]


def test_removed_hook_is_shown_first_as_detached(folder: Path) -> None:
    new = {**DOCUMENT, "hooks": {"other": {"on": ["on-end"], "rule": [{"comment": "x"}], "copy": "none"}}}
    assert _told(folder, WATCHED, new) == [
        ("detach", "hook/guard", "no longer asked before write(*); watches 3 agents"),
        ("attach", "hook/other", "when it ends, a rule, not for child agents"),
    ]


def test_change_of_a_hook_is_shown_with_both_values(folder: Path) -> None:
    new = {**DOCUMENT, "hooks": {"guard": {**GUARD, "match": "write(src/**)", "timeout": 5}}}
    assert _told(folder, WATCHED, new) == [
        (
            "change",
            "hook/guard",
            "match: write(*) → write(src/**), timeout: none → 5 s; takes effect immediately, without a restart; "
            "watches 3 agents",
        )
    ]


def test_hooks_of_an_added_or_removed_agent_are_not_listed(folder: Path) -> None:
    tasks = {"a": WATCHED["tasks"]["a"], "c": {"goal": "c", "agent": AGENT, "hooks": {"mine": GUARD}}}
    told = [(action, address) for action, address, _ in _told(folder, WATCHED, {**WATCHED, "tasks": tasks})]
    assert told == [("cancel", "task/b"), ("attach", "hook/c/mine"), ("start", "task/c")]


def test_hook_that_moves_with_its_task_is_not_a_difference(folder: Path) -> None:
    before = {**DOCUMENT, "tasks": {"a": {"goal": "a", "agent": AGENT, "hooks": {"mine": GUARD}}}}
    after = {**DOCUMENT, "moved": {"a": "z"}, "tasks": {"z": before["tasks"]["a"]}}
    assert [action for action, _, _ in _told(folder, before, after)] == ["move"]


def test_new_prompt_of_the_agent_behind_a_hook_is_shown_for_that_agent(folder: Path) -> None:
    def plan(prompt: str) -> JsonObject:
        agent: JsonObject = {"model": "ollama/x", "prompt": prompt}
        return {**DOCUMENT, "hooks": {"late": {"on": ["on-end"], "agent": agent, "copy": "none"}}}

    ((action, address, words),) = _told(folder, plan("look"), plan("look twice"))
    assert (action, address) == ("continue", "agent/~late")
    said(words)
