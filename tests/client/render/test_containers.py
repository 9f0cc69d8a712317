"""Containers in tables, descriptions, trees, events and the lines of a run."""

from __future__ import annotations

import pytest

from planloop.client.render import containers, object_details, object_tables, records, task_tree
from planloop.client.render.budgets import Costs
from planloop.schemas.objects.container import ContainerSpec, Health, Mount, Port
from tests import golden_text
from tests.product import JsonObject, Record, RecordDraft, Resource, SetStatus, Uid

IMAGE = "sha256:" + "5f2c" * 16
RUNNING: JsonObject = {
    "id": "d755cc4ddaf6" + "0" * 52,
    "run": "running",
    "image": IMAGE,
    "started_at": 100.0,
    "addresses": [["default", "172.18.0.2"]],
    "ports": [[6379, 49153]],
}
ENDED = RUNNING | {"run": "exited", "exit_code": 3, "ended_at": 104.0}
REDIS = ContainerSpec(
    image="redis:7",
    cmd=("redis-server", "--save", ""),
    env={"MODE": "test", "PASSWORD": "secret:redis"},
    mounts=(Mount("/data", volume="data"), Mount("/etc/redis", host="conf", is_read_only=True), Mount("/tmp")),
    ports=(Port(6379),),
    health=Health(cmd=("redis-cli", "ping"), interval_s=2),
    cpu=0.5,
    memory_bytes=64 << 20,
    restart="on-failure",
)


def container(name: str, spec: ContainerSpec, **status: object) -> Resource:
    return Resource(f"container/{name}", Uid("u"), 1, spec.to_json(), status)


def ready(reason: str, why: str = "", *unblocks: str) -> JsonObject:
    told = {"status": "False", "reason": reason, "message": why, "since": 99.0, "observed_generation": 1}
    return {"Ready": told | {"unblocks": list(unblocks)}}


def well(name: str = "redis", spec: ContainerSpec = REDIS) -> Resource:
    probed = {"started_at": 100.0, "is_well": True, "said": ""}
    found = {"state": "healthy", "seen": RUNNING, "probed": probed, "starts": 3}
    return container(name, spec, **found, conditions=ready("Healthy"))


def failed() -> Resource:
    why = "it ended with exit code 3: no such file"
    found = {"state": "failed", "why": why, "seen": ENDED, "last": "reading\nno such file\n", "log": "5f2c"}
    return container("bad", ContainerSpec(image=f"bad@{IMAGE}"), **found, conditions=ready("Exited", why))


def test_a_table_has_image_ports_age_restarts_and_what_it_waits_for() -> None:
    need = ContainerSpec(image="app", needs={"redis": "healthy"}, ports=(Port(80, 8080),))
    waits = container("app", need, state="waiting", conditions=ready("AwaitingNeeds", "container/redis is not healthy"))

    lines = object_tables.object_tables_text([waits, failed(), well(), container("new", need)], now=138.0).splitlines()

    assert [line.split() for line in lines] == [
        ["CONTAINER", "STATE", "IMAGE", "PORTS", "FOR", "RESTARTS", "WHAT"],
        ["app", "waiting", "app", "container/redis", "is", "not", "healthy"],
        ["bad", "failed", "bad@sha256:5f2c5f2c5f2c", "4.0", "s", *"it ended with exit code 3: no such file".split()],
        ["redis", "healthy", "redis:7", "49153->6379", "38", "s", "2", "redis-server", "--save", "''"],
        ["new", "waiting", "app"],
    ]


def test_a_narrow_terminal_keeps_the_reason_and_loses_empty_columns() -> None:
    known = [container("bad", ContainerSpec(image="planloop/nothing"), state="failed",
                       conditions=ready("NoImage", "there is no stock image planloop/nothing"))]  # fmt: skip

    narrow = object_tables.object_tables_text(known, now=1.0, width=60).splitlines()

    assert narrow[0].split() == ["CONTAINER", "STATE", "IMAGE", "WHAT"]
    golden_text.said(narrow[1])
    assert "RESTARTS" in object_tables.object_tables_text(known, now=1.0, width=120)
    mixed = object_tables.object_tables_text([*known, well()], now=138.0, width=60).splitlines()
    assert mixed[0].split() == ["CONTAINER", "STATE", "IMAGE", "WHAT"]
    golden_text.said(mixed[1])


def test_headline_counts_running_and_finished_containers() -> None:
    done = container("done", ContainerSpec(image="app"), state="completed")

    assert containers.containers_headline([]) == ""
    golden_text.said(containers.containers_headline([well(), failed()]))
    golden_text.said(containers.containers_headline([well(), done]))


def test_description_shows_the_spec_and_the_state() -> None:
    app = container("app", ContainerSpec(image="app", needs={"redis": "healthy"}), state="running")
    costs = Costs(())

    text = object_details.object_text(well(), [app], costs=costs, now=138.0)

    for line in (
        "image     redis:7   5f2c5f2c5f2c",
        "command   redis-server --save ''",
        "env       PASSWORD=secret:redis",
        "mount     volume data -> /data",
        "mount     conf -> /etc/redis (read-only)",
        "mount     memory -> /tmp",
        "limits    0.5 cpu, 64 MiB memory",
        "life      restart on-failure",
        "health    redis-cli ping, every 2 s, 3 tries: passes",
        "address   172.18.0.2 in default",
        "port      127.0.0.1:49153 -> 6379",
        "runs as   d755cc4ddaf6, running, since 38 s, restarted 2 times",
        "needed by container/app (now running)",
    ):
        assert line in text.splitlines()
    other = object_details.object_text(app, [well()], costs=costs, now=138.0)
    golden_text.said_in(other.splitlines(), "container/redis")
    ended = object_details.object_text(failed(), [], costs=costs, now=138.0).splitlines()
    start = ended.index("exit code 3")
    golden_text.said(ended[start:])


@pytest.mark.parametrize(
    ("tier", "said"),
    [({"tier": 2}, "tier 2 (bubblewrap)"), ({"tier": 3, "container": "redis"}, "tier 3 (container redis)")],
)
@pytest.mark.parametrize("address", ["task/app", "agent/app"])
def test_a_task_and_its_agent_say_which_sandbox_they_run_in(address: str, tier: JsonObject, said: str) -> None:
    one = Resource(address, Uid("u"), 1, {"parent": None, "children": [], "acceptance": []}, {"sandbox": tier})

    assert f"sandbox   {said}" in object_details.object_text(one, [], costs=Costs([one]), now=138.0).splitlines()


def test_killed_container_names_the_possible_killer() -> None:
    killed = container("a", REDIS, state="failed", seen=ENDED | {"exit_code": 137})

    text = object_details.object_text(killed, [], costs=Costs(()), now=138.0)

    golden_text.said_in(text)


def test_unreachable_engine_is_reported_with_its_fix_wherever_containers_are() -> None:
    down = {
        "engine": {"reason": "EngineDown"},
        "conditions": ready("EngineDown", "no container engine (Docker or Podman) answers", "start one"),
    }
    waits = container("a", REDIS, state="waiting", **down)

    golden_text.said_in(object_tables.object_tables_text([waits], now=1.0))
    golden_text.said(str(containers.container_notice(waits, 1.0)))


def test_a_tree_has_containers_below_the_task_that_they_are_for() -> None:
    group: JsonObject = {"acceptance": [], "goal": "", "work": {"kind": "group"}}
    tasks = [
        Resource("task/.", Uid("u"), 1, {**group, "children": ["task/a"]}, {"state": "running"}),
        Resource("task/a", Uid("u"), 1, {**group, "children": [], "parent": "task/."}, {"state": "running"}),
    ]
    own = container("sut", ContainerSpec(image="sut", task="a"), state="unhealthy")

    known = {one.address: one for one in (*tasks, well(), own)}
    found = task_tree.tree_rows(known, now=138.0, costs=Costs(known.values()))

    assert [line.split()[:5] for line in task_tree.tree_lines(found, plain=True)] == [
        ["|-", "*", "container/redis", "healthy", "38"],
        ["`-", "*", "a", "running"],
        ["`-", "#", "container/sut", "unhealthy", "sut"][:4],
    ]
    assert all(len(line) <= 40 for line in task_tree.tree_lines(found, width=40))


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (well(), "after 2.1 s, 127.0.0.1:49153->6379"),
        (failed(), "it ended with exit code 3: no such file"),
        (container("a", REDIS, state="preparing", conditions=ready("Preparing")), None),
        (container("a", REDIS, state="preparing", conditions=ready("Preparing", "8.0 of 40 MB")), "8.0 of 40 MB"),
        (container("a", REDIS, state="waiting", conditions=ready("AwaitingNeeds", "b is not healthy yet")), None),
        (container("a", REDIS, state="waiting", conditions=ready("EngineDown", "no answer")), "no answer"),
        (
            container("a", REDIS, state="waiting", conditions=ready("PortTaken", "taken", "free it"), retry_at=110.1),
            "taken, next in 8.0 s · free it",
        ),
        (
            container(
                "a", REDIS, state="failed", conditions=ready("Exited", "it ended", "plan logs a"), retry_at=110.1
            ),
            "it ended · plan logs a",
        ),
        (container("a", REDIS, state="kept", conditions=ready("Kept", "the plan is over")), None),
        (container("a", REDIS, state="stopping", conditions=ready("Stopping", "the plan is over")), None),
    ],
)
def test_run_shows_what_awaits_an_operator(item: Resource, said: str | None) -> None:
    assert containers.container_notice(item, 102.1) == said


@pytest.mark.parametrize(
    ("merge", "data", "said"),
    [
        ({"state": "failed"}, {"state": "failed", "reason": "Exited", "why": "it ended"}, "failed: it ended"),
        ({"seen": RUNNING}, {}, "the engine has it: d755cc4ddaf6 running"),
        ({"seen": ENDED, "counted": 1}, {}, "the engine has it: d755cc4ddaf6 exited with exit code 3"),
        ({"seen": None}, {}, "the engine does not have it"),
        ({"doing": "image", "why": None}, {}, "looking for the image"),
        ({"doing": "start", "incarnation": 1}, {}, "creating and starting it"),
        ({"probed": {"is_well": False, "said": "exit code 1"}}, {}, "its health check fails: exit code 1"),
        ({"logged": 1.0, "log": "5f2c"}, {}, "output saved"),
        ({"failures": 1, "reason": "PortTaken", "why": "a port is taken"}, {}, "a port is taken"),
        ({"looked": "1"}, {}, "inspected"),
    ],
)
def test_every_record_of_a_container_has_words(merge: JsonObject, data: JsonObject, said: str) -> None:
    change = SetStatus("container/a", Uid("u"), merge)
    draft = RecordDraft("container.observed", "controller:container", "container/a", (change,), data)

    assert records.record_words(draft) == said
    assert records.is_echo(draft) == (not data)


def test_description_shows_only_the_last_of_many_retries() -> None:
    states = [("starting", ""), ("waiting", "port 80 is taken; tried once"), ("starting", ""), ("preparing", ""),
              ("waiting", "port 80 is taken; tried 2 times"), ("starting", ""), ("running", ""), ("failed", "it ended"),
              ("starting", "")]  # fmt: skip
    found = [
        Record(
            rev, float(rev), 1, RecordDraft("container.observed", "c", "container/a", (), {"state": state, "why": why})
        )
        for rev, (state, why) in enumerate(states)
    ]

    told = [records.record_words(one.draft) for one in containers.without_retries(found)]

    golden_text.said(told)
