"""Law 6 and containers: what agents make reaches no further than they may, belongs to them, and is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden_text, rows
from tests.product import HUMAN_CLI, HUMAN_FILE, Author, Json, JsonObject, Patch, PatchOp
from tests.reconciler.imagined import Imagined

FOLDER = Path(__file__).parent / "powers"
TOOLS = ["container", "container_exec(sut: npm *)", "plan_patch", "task"]
DOCUMENT: JsonObject = {
    "plan": "p",
    "agents": {"worker": {"run": "true", "tools": ["container", "plan_patch", "task"]}},
    "rights": {"ports": [8080], "network": "all", "deny": ["container(evil/*)", "write(a/out/kept/**)"]},
    "containers": {
        "sut": {"image": "busybox", "mounts": [{"volume": "data", "container": "/data"}]},
        "given": {"image": "busybox", "task": "a", "mounts": [{"volume": "given", "container": "/data"}]},
    },
    "tasks": {
        "a": {
            "goal": "first",
            "cwd": "a",
            "agent": {"extends": "worker", "sandbox": {"memory": 10_000_000}},
            "rights": {"tools": TOOLS, "containers": 2, "ports": [], "write": ["a/out/**"], "network": "none"},
            "tasks": {"x": {"goal": "part", "cwd": "a", "run": "true"}},
        },
        "b": {"goal": "second", "agent": {"run": "true", "tools": ["plan_patch"]}, "rights": {"tools": ["plan_patch"]}},
        "c": {"goal": "third", "agent": "worker"},
    },
}
A, B, C = (Author("agent", name) for name in "abc")
FINE: JsonObject = {
    "image": "node",
    "task": "a",
    "networks": ["internal"],
    "limits": {"memory": 8_000_000, "pids": 100},
}


@pytest.fixture
def plan() -> Imagined:
    made = Imagined(FOLDER, DOCUMENT)
    assert refusal(made, HUMAN_FILE, PatchOp("add", (), DOCUMENT)) == ""
    return made


Y: JsonObject = {"goal": "other", "cwd": "a", "agent": {"script": []}}


def refusal(plan: Imagined, author: Author, *ops: PatchOp) -> str:
    """Does it, and says why not."""
    patch = Patch(author, ops, plan.present.rev)
    why = " ".join(plan.faults(patch))
    assert plan.submit(patch) is not bool(why)
    return why


def new(name: str = "new", /, **fields: Json) -> PatchOp:
    return PatchOp("add", ("containers", name), {**FINE, **fields})


def mounted(host: str, **fields: Json) -> PatchOp:
    return new(mounts=[{"host": host, "container": "/work", **fields}])


WAYS: dict[str, tuple[PatchOp, str]] = {
    "for the whole plan": (
        PatchOp("add", ("containers", "new"), {**FINE, "task": None} | {"task": "b"}),
        "outlive your task",
    ),
    "a denied image": (new(image="evil/x"), "`container(evil/*)` denies it"),
    "a folder outside": (mounted("b"), "`b` is outside your workspace `a`"),
    "a folder beside, by steps": (mounted("a/../b"), "outside your workspace"),
    "an absolute folder": (mounted("/etc"), "`/etc` is outside"),
    "the home folder": (mounted("~/x"), "`~/x` is outside"),
    "what is denied, by its name": (mounted("a/out/kept"), "denied by `write(a/out/kept/**)`"),
    "the repository": (mounted("a/out/.git"), "and git runs programs from there"),
    "a part of the repository, by steps": (mounted("a/out/x/../.git/hooks"), "and git runs programs from there"),
    "more than may be written": (mounted("a"), "it would write `a/**`"),
    "a volume of others": (new(mounts=[{"volume": "data", "container": "/d"}]), "`data` belongs to container/sut"),
    "a volume that people made for its task": (
        new(mounts=[{"volume": "given", "container": "/d"}]),
        "`given` belongs to container/given",
    ),
    "a folder laid into a volume": (
        new(mounts=[{"volume": "own", "container": "/l"}, {"host": "a/out", "container": "/l/work"}]),
        "`a/out` would be mounted inside the volume `own`",
    ),
    "a port of the machine": (
        new(ports=[{"container": 80, "host": 8080}]),
        "your rights do not allow port 8080 of this machine",
    ),
    "the network": (new(networks=["default"]), "it would have network access"),
    "a probe where it has no network": (new(networks=["none"], health={"tcp": 22}), "the check cannot reach `new`"),
    "the network beside none": (new(networks=["none", "default"]), "`none` cannot be combined with other networks"),
    "a way out beside the other": (new(networks=["internal", "default"]), "it would have network access"),
    "a build, which asks the network": (
        PatchOp("add", ("containers", "new"), {"build": "a", **{k: v for k, v in FINE.items() if k != "image"}}),
        "the build would use the network",
    ),
    "a probe of elsewhere": (new(health={"http": "http://169.254.169.254/"}), "its health check would connect to"),
    "a capability": (new(**{"cap-add": ["NET_ADMIN"]}), "capabilities"),
    "all capabilities": (new(**{"cap-drop": []}), "capabilities"),
    "a variable of the owner": (new(env={"X": "env:HOME"}), "`env:HOME` as `X`"),
    "a secret": (new(env={"X": "secret:KEY"}), "`secret:KEY` as `X`"),
    "to stay": (new(keep="always"), "it would be kept after its task"),
    "more memory than its commands": (
        new(limits={"memory": 20_000_000}),
        "its `memory` must not exceed yours, 10000000",
    ),
    "processes without end": (new(limits={"memory": 8_000_000}), "its `processes` must not exceed yours, 1024"),
    "memory without end": (new(limits={}), "its `memory` must not exceed yours, 10000000"),
    "another user's": (PatchOp("replace", ("containers", "sut", "image"), "node"), "only people may change it"),
    "to take away another user's": (PatchOp("remove", ("containers", "sut")), "only people may change it"),
    "a command that it may not run inside": (
        PatchOp(
            "add", ("tasks", "a", "tasks", "x", "acceptance"), [{"run-in": {"container": "sut", "sh": "rm -rf /"}}]
        ),
        "would run `rm -rf /` in `sut`",
    ),
}


@pytest.mark.parametrize(
    ("url", "is_its_own"),
    [
        *((":80/", True), ("http://localhost:80/", True), ("http://127.0.0.1:80/", True), ("http://[::1]:80/", True)),
        *(("http://127.0.0.2:80/", False), ("http://0.0.0.0:80/", False), ("http://localhost.:80/", False)),
        *(("http://sut:80/", False), ("http://[x]:80/", False)),
    ],
)
def test_health_checks_of_networked_agents_reach_only_their_own_containers(url: str, is_its_own: bool) -> None:
    reached: JsonObject = {**DOCUMENT["tasks"]["a"], "rights": {**DOCUMENT["tasks"]["a"]["rights"], "network": "all"}}
    document: JsonObject = {**DOCUMENT, "tasks": {**DOCUMENT["tasks"], "a": reached}}
    plan = Imagined(FOLDER, document)
    assert refusal(plan, HUMAN_FILE, PatchOp("add", (), document)) == ""

    said = refusal(plan, A, new(health={"http": url}))

    assert said == "" if is_its_own else "its health check would connect to" in said


@rows.each("way", WAYS)
def test_container_of_an_agent_has_only_what_the_agent_may_have(plan: Imagined, way: str) -> None:
    op, words = WAYS[way]

    assert words in refusal(plan, A, op)


@pytest.mark.parametrize(
    "op",
    [
        new(),
        new(networks=["none"]),
        mounted("a/out"),
        mounted("a", **{"read-only": True}),
        new(ports=[{"container": 80}], health={"http": ":80/"}, env={"CI": "1"}),
        new(task="a/x"),
        PatchOp(
            "add", ("tasks", "a", "tasks", "x", "acceptance"), [{"run-in": {"container": "sut", "sh": "npm test"}}]
        ),
    ],
    ids=["bare", "alone", "written", "read", "reached", "below", "checked"],
)
def test_agent_has_the_containers_within_its_rights(plan: Imagined, op: PatchOp) -> None:
    assert refusal(plan, A, op) == ""


def test_agent_without_container_tools_cannot_create_one_with_a_patch(plan: Imagined) -> None:
    golden_text.said(refusal(plan, B, new(task="b")), "container")


def test_number_of_containers_is_bounded_and_created_ones_are_the_agents(plan: Imagined) -> None:
    assert refusal(plan, A, new("one"), new("two")) == ""
    assert "its rights allow 2" in refusal(plan, A, new("three"))
    golden_text.said(refusal(plan, C, PatchOp("remove", ("containers", "one"))))
    assert refusal(plan, A, PatchOp("remove", ("containers", "one")), new("three")) == ""


def test_containers_of_agents_go_with_their_task_and_operators_containers_stay(plan: Imagined) -> None:
    assert refusal(plan, A, new("one"), new("two", task="a/x"), PatchOp("add", ("tasks", "a", "tasks", "y"), Y)) == ""
    assert refusal(plan, A, new("two", task="a/y")) == ""

    assert refusal(plan, A, PatchOp("remove", ("tasks", "a", "tasks", "y"))) == ""
    assert set(plan.document["containers"]) == {"sut", "given", "one"}
    without = PatchOp("remove", ("containers", "given"))
    assert refusal(plan, HUMAN_CLI, without, PatchOp("remove", ("tasks", "a"))) == ""
    assert set(plan.document["containers"]) == {"sut"}
