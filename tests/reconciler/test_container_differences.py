"""What an edit does to containers, in words, told by what the container is at."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.schemas import json_patch
from tests.product import HUMAN_FILE, Json, JsonObject, Patch, PatchOp
from tests.reconciler.imagined import Imagined

REDIS: JsonObject = {
    "image": "redis:7",
    "cmd": ["redis-server", "--save", ""],
    "env": {"A": "1", "B": "2"},
    "ports": {"6379": 6379},
    "mounts": [{"volume": "data", "container": "/data"}],
    "health": {"cmd": ["redis-cli", "ping"]},
    "limits": {"memory": 64_000_000},
}
DOCUMENT: JsonObject = {
    "plan": "p",
    "goal": "all",
    "containers": {"redis": REDIS},
    "tasks": {"integrate": {"run": "make", "containers": ["redis"]}},
}
UP: JsonObject = {"id": "1", "run": "running", "started_at": 100.0}
AGAIN = "stopped, removed and recreated"


def _told(folder: Path, before: JsonObject, after: JsonObject, seen: Json = UP) -> list[tuple[str, str, str]]:
    """Action, address and words of each difference, where `redis` is as the engine was `seen` to have it."""
    plan = Imagined(folder, before)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), before),), 0))
    plan.status("container/redis", {"state": "running", "seen": seen})
    ops = tuple(json_patch.diff_values(before, after))
    answer = plan.answer(Patch(HUMAN_FILE, ops, plan.view.rev))
    assert not answer.faults
    return [(one.action, one.address, one.words) for one in answer.differences]


def _edited(redis: JsonObject) -> JsonObject:
    return {**DOCUMENT, "containers": {"redis": {**REDIS, **redis}}}


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({}, "redis:7, healthy before task/integrate"),
        ({"redis": {"image": "redis:7"}}, "redis:7, up before task/integrate"),
        (
            {"app": {"image": "app", "needs": ["redis"]}, "b": {"image": "b", "needs": {"redis": "started"}}},
            "redis:7, healthy before container/app, started before container/b, healthy before task/integrate",
        ),
        ({"redis": {"build": "docker", "task": "integrate"}}, "built from docker, while task/integrate runs, up"),
        ({"redis": {"rootfs": "root.tar"}}, "built from root.tar, up before task/integrate"),
    ],
)
def test_new_container_is_shown_with_its_image_and_its_dependents(
    tmp_path: Path, others: JsonObject, words: str
) -> None:
    new = {**DOCUMENT, "containers": {**DOCUMENT["containers"], **others}}
    told = {address: said for _, address, said in _told(tmp_path, {"plan": "p", "goal": "all"}, new)}
    assert told["container/redis"].startswith(words)


def test_plan_of_containers_alone_waits_for_all_of_them_silently(tmp_path: Path) -> None:
    new = {"plan": "p", "containers": {"redis": REDIS}}
    answer = Imagined(tmp_path, new).answer(Patch(HUMAN_FILE, (PatchOp("add", (), new),), 0))
    told = [(one.action, one.address, one.words) for one in answer.differences]
    assert told == [("start", "container/redis", "redis:7"), ("start", "task/.", "its container")]


@pytest.mark.parametrize(
    ("change", "action", "words"),
    [
        ({"image": "redis:8"}, "replace", f"image: redis:7 → redis:8; {AGAIN}"),
        ({"env": {"A": "hush", "C": "3"}}, "replace", f"env: A, + C, - B; {AGAIN}"),
        ({"ports": {"6380": 6379}}, "replace", f"ports: 6379:6379 → 6380:6379; {AGAIN}"),
        ({"ports": [{"container": 6379}]}, "replace", f"ports: 6379:6379 → any:6379; {AGAIN}"),
        ({"cmd": ["redis-server"]}, "replace", f'cmd: redis-server --save "" → redis-server; {AGAIN}'),
        ({"mounts": [{"volume": "new", "container": "/data"}]}, "replace", f"mounts: data:/data → new:/data; {AGAIN}"),
        ({"networks": ["internal"]}, "replace", f"networks: + internal; {AGAIN}"),
        ({"read-only": True, "limits": {"cpu": 1}}, "replace", "read-only: false → true; " + AGAIN),
        ({"limits": {"memory": "32MB"}}, "continue", "limits.memory: 64 MB → 32 MB; changed while it runs"),
        ({"limits": {"cpu": 2, "memory": "64MB"}}, "continue", "limits.cpu: none → 2; changed while it runs"),
        ({"labels": {"team": "x"}}, "none", "labels: + team; applies to the next container, not to the running one"),
        ({"logs": 4096}, "none", "logs.max: 10 MB → 4 KiB; applies to the next container, not to the running one"),
        ({"keep": "always"}, "continue", "keep: never → always; takes effect immediately, without a restart"),
        ({"ttl": "1h"}, "continue", "ttl: none → 3600 s; takes effect immediately, without a restart"),
        ({"restart": "always"}, "continue", "restart: no → always; takes effect immediately, without a restart"),
        ({"health": {"tcp": 6379}}, "continue", "health changed; takes effect immediately, without a restart"),
    ],
)
def test_edit_shows_whether_running_containers_are_replaced_changed_or_kept(
    tmp_path: Path, change: JsonObject, action: str, words: str
) -> None:
    assert _told(tmp_path, DOCUMENT, _edited(change)) == [(action, "container/redis", words)]


def test_a_need_counts_when_the_container_that_has_it_is_started_next(tmp_path: Path) -> None:
    before = {**DOCUMENT, "containers": {"redis": REDIS, "db": {"image": "db"}}}
    after = {**DOCUMENT, "containers": {"redis": {**REDIS, "needs": ["db"]}, "db": {"image": "db"}}}
    words = "needs: none → db started; takes effect at its next start"
    assert _told(tmp_path, before, after) == [("continue", "container/redis", words)]


@pytest.mark.parametrize(
    ("seen", "action", "words"),
    [
        (None, "continue", "image: redis:7 → redis:8; takes effect when it starts"),
        ({**UP, "run": "exited"}, "replace", "image: redis:7 → redis:8; removed and recreated"),
    ],
)
def test_container_that_does_not_run_is_not_stopped(tmp_path: Path, seen: Json, action: str, words: str) -> None:
    assert _told(tmp_path, DOCUMENT, _edited({"image": "redis:8"}), seen) == [(action, "container/redis", words)]


def test_a_container_that_is_taken_out_is_removed_and_its_volumes_stay(tmp_path: Path) -> None:
    after = {**DOCUMENT, "containers": {}, "tasks": {"integrate": {"run": "make"}}}
    words = "no longer in the plan; stopped and removed; its volumes are kept: data"
    assert _told(tmp_path, DOCUMENT, after)[0] == ("cancel", "container/redis", words)
