"""Many agents, few files, a judge that rules as it likes, crashes anywhere: the laws of conflicts hold at every record.

A law is looked at after each record of the log, so what held only between two of them is seen too.
"""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from planloop.controllers.agent.conflicts import decide
from planloop.controllers.shared.leases.lock_paths import paths_overlap
from planloop.reconciler.engine.reconcile import Reconciler
from planloop.schemas import limits
from planloop.schemas.objects.conflict import (
    PERSON,
    ConflictSpec,
    ConflictStatus,
    conflict_from_json,
    conflict_number,
    conflict_status_from_json,
)
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject, MemoryView, ModelReply, ModelRequest, OnDelta, Record, encode_text
from tests.simulation.harness import Crash, Edit, Story, simulate
from tests.simulation.product import Parts, product

FILES = ("src/a.py", "src/b.py", "src/**", "docs/c.md")
CHILDREN = ("ann", "bob", "eve", "dan")
WAYS = ("release", "sequence", "merge", "cancel")


class Judge(ScriptedModels):
    """Resolves every conflict that reaches it, or randomly none."""

    def __init__(self, seed: int) -> None:
        super().__init__([])
        self._chance = random.Random(seed)

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        said = "\n".join(str(json.loads(one).get("content") or "") for one in request.messages[-1:])
        brought = re.search(r"^\[conflict .*\n(conflict/\d+): (.*)$", said, re.MULTILINE)
        reply: JsonObject = {"text": "They work."}
        if brought is not None and self._chance.random() < 0.8:
            named = re.findall(r"`([a-z/]+)`", brought[2])
            parties = [one for one in named if one.rpartition("/")[2] in CHILDREN]
            about = self._chance.choice(["", *parties])
            given = {"conflict": brought[1], "how": self._chance.choice(WAYS), "for_agent": about}
            reply = {"calls": [{"name": "resolve", "arguments": given}]}
        return await ScriptedModels([{"model": "*", "reply": reply}]).complete(request, on_delta)


def steps(chance: random.Random) -> Iterator[JsonObject]:
    """What one agent does: takes, writes, contests, lets go, naps; nothing that fails ends it."""
    for _ in range(chance.randrange(3, 7)):
        match chance.randrange(5):
            case 0:
                yield {"call": {"lock": {"paths": chance.sample(FILES, chance.randrange(1, 3))}}}
            case 1 | 2:
                yield {
                    "call": {"write": {"path": chance.choice(("src/a.py", "src/b.py", "docs/c.md")), "content": "x"}}
                }
            case 3:
                yield {"call": {"contest": {"paths": [chance.choice(FILES)], "intent": "mine"}}}
            case _:
                yield {"call": {"release": {}}}
        yield {"expect": {}}
        if chance.random() < 0.5:
            yield {"sleep": chance.randrange(1, 150)}
    yield {"call": {"release": {}}}
    yield {"expect": {}}
    yield {"done": "x"}


def plan(seed: int, edited: Mapping[str, JsonObject] | None = None) -> str:
    """A root that judges, two children of it and two of a group with a judge of its own; `edited` is laid over them."""
    chance = random.Random(seed)
    child: JsonObject = {name: {"goal": name, "agent": {"script": list(steps(chance))}} for name in CHILDREN}
    for name, more in (edited or {}).items():
        child[name] |= more
    group: JsonObject = {"goal": "two", "agent": judge(), "tasks": {name: child[name] for name in CHILDREN[2:]}}
    tree: JsonObject = {"tasks": {**{name: child[name] for name in CHILDREN[:2]}, "team": group}, "agent": judge()}
    return "\n".join(f"{name}: {encode_text(value)}" for name, value in tree.items()) + "\n"


def judge() -> JsonObject:
    return {"model": "test/judge", "tools": ["read"]}


def built(parts: Parts, seed: int) -> Sequence[Reconciler]:
    return product(parts, Judge(seed))


def played(seed: int, *crashes: Crash, edits: Sequence[Edit] = ()) -> Story:
    return simulate(plan(seed), seed=seed, crashes=crashes, edits=edits, build=partial(built, seed=seed))


def check_always(log: Sequence[Record]) -> int:
    """The laws after every record; returns how many conflicts there were."""
    view, newest = MemoryView(), 0
    for record in log:
        changed = view.fold(record)
        if not any(address.startswith(("conflict/", "approval/")) for address in changed):
            continue
        listed = view.list("conflict")
        newest = max([newest, *(conflict_number(one.address) for one in listed)])
        assert len(listed) <= limits.CONFLICTS_KEPT_MAX
        standing = [(conflict_from_json(one.spec), conflict_status_from_json(one.status)) for one in listed]
        standing = [(spec, status) for spec, status in standing if status.is_open]
        for index, (spec, status) in enumerate(standing):
            check_one(view, spec, status)
            for other, more in standing[:index]:
                is_same = set(other.parties) == set(spec.parties)
                shared = any(paths_overlap(one, two) for one in status.paths for two in more.paths)
                assert not (is_same and shared), "one conflict for a pair and its files"
        persons = {f"conflict-{conflict_number(one.address)}" for one in listed if is_before_a_person(one.status)}
        assert {one.address.partition("/")[2] for one in view.list("approval")} == persons
    return newest


def is_before_a_person(raw: JsonObject) -> bool:
    status = conflict_status_from_json(raw)
    return status.state == "open" and status.before == PERSON


def check_one(view: MemoryView, spec: ConflictSpec, status: ConflictStatus) -> None:
    assert spec.wants != spec.holds
    assert status.raised <= limits.CONFLICT_RAISED_MAX
    if status.before not in ("", PERSON):
        assert decide.is_ancestor_of_both(status.before, *spec.parties)
    if status.before == PERSON:
        assert status.state == "ruled" or status.due_at is None


def check_in_the_end(story: Story) -> None:
    left: dict[str, Any] = {one.address: one.status for one in story.objects.values()}
    assert {one.state for one in story.objects.values() if one.kind == "conflict"} <= {"over"}, left
    assert [one.address for one in story.objects.values() if one.kind in ("call", "lock", "approval")] == [], left
    assert set(story.states("task").values()) <= {"done", "cancelled", "failed"}, story.states("task", "agent")


@pytest.mark.sweep(keep=3)
@pytest.mark.parametrize("seed", range(24))
def test_no_agent_waits_forever_and_each_conflict_is_one_for_any_agents_and_judges(seed: int) -> None:
    story = played(seed)
    check_always(story.log)
    check_in_the_end(story)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6))
def test_the_same_with_an_owner_that_dies_again_and_again(seed: int) -> None:
    commits = played(seed).commits
    for first in range(3):
        story = played(seed, *(Crash(commit, "after-commit") for commit in range(3 + first, commits, 9)))
        check_always(story.log)
        check_in_the_end(story)


@pytest.mark.sweep(keep=2)
@pytest.mark.parametrize("seed", range(12))
def test_invariants_hold_while_an_operator_restarts_pauses_and_cancels(seed: int) -> None:
    chance = random.Random(seed)
    first, second = chance.sample(CHILDREN, 2)
    edits = (
        Edit(8.0 + chance.randrange(20), plan(seed, {first: {"again": 1}, second: {"pause": True}})),
        Edit(120.0, plan(seed, {first: {"again": 1}})),
        Edit(150.0 + chance.randrange(60), plan(seed, {first: {"again": 2}, second: {"cancel": True}})),
    )
    story = played(seed, *(Crash(commit, "after-commit") for commit in range(20, 200, 31)), edits=edits)
    check_always(story.log)
    check_in_the_end(story)


def test_random_stories_contain_conflicts() -> None:
    assert sum(check_always(played(seed).log) for seed in range(2)) > 0
