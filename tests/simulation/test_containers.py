"""A plan with containers from one seed: whatever dies and whatever others do, it comes to one end, or says why."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from typing import Literal

import pytest

from planloop.containers.engine.engine import ContainerNetwork
from planloop.schemas import limits
from planloop.schemas.frozen import remade
from tests import golden_text
from tests.product import LISTENING, EngineErrorReason, EngineFailed, ProcessCommand, Record, SetStatus
from tests.simulation.container_stories import NAMES, ContainerStory, Death, Outside, simulate_containers
from tests.simulation.harness import Crash, Edit, Point, drawn
from tests.simulation.simulated_engine import SimulatedDaemon, SimulatedEngine

PARTS = 4
STACK = """
containers:
  db:
    image: busybox:1
    cmd: [sh, -c, "sleep 1; touch ok; sleep 10000"]
    health: {cmd: [test, -f, ok]}
  migrate: {image: busybox:1, cmd: [echo, migrated], needs: [db]}
  app: {image: busybox:1, cmd: [sleep, "10000"], needs: {db: healthy, migrate: completed}}
tasks:
  t: {run: "sleep 2; echo t >> effects", containers: [app], effect: idempotent}
"""


HOLDS = """
containers:
  db: {image: busybox:1, cmd: [sleep, "10000"], health: {cmd: [echo, well]}RESTART}
tasks:
  t: {run: "sleep 30", containers: [db], effect: idempotent}
"""
ENDS = """
containers:
  db: {image: busybox:1, cmd: [sh, -c, "echo bye; exit 3"]RESTART}
  app: {image: busybox:1, cmd: [sleep, "10"], needs: {db: completed}}
tasks:
  t: {run: "sleep 5", containers: [app]}
"""
CLEAN = {
    "task/.": "done",
    "task/t": "done",
    "container/db": "removed",
    "container/migrate": "completed",
    "container/app": "removed",
}


def states(story: ContainerStory) -> dict[str, str]:
    return dict(story.states("task", "container"))


def db(daemon: SimulatedDaemon) -> str:
    return NAMES.container("db")


def test_stack_starts_in_order_and_is_removed_when_the_plan_is_over() -> None:
    story = simulate_containers(STACK)

    assert states(story) == CLEAN
    assert story.lines("effects") == ["t"]
    began = [event.labels["planloop.address"] for event in story.daemon.told if event.action == "start"]
    assert began == ["container/db", "container/db", "container/migrate", "container/app"]  # The first one is others'.


def test_one_seed_gives_one_story() -> None:
    first, second = simulate_containers(STACK, seed=7), simulate_containers(STACK, seed=7)

    assert [(record.at, record.draft) for record in first.log] == [(record.at, record.draft) for record in second.log]


@pytest.mark.parametrize("seed", range(1, 6))
def test_law_3_any_order_of_events_ends_in_one_state(seed: int) -> None:
    assert states(simulate_containers(STACK, seed=seed)) == CLEAN


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("part", range(PARTS))
def test_law_5_an_owner_that_dies_at_any_write_leaves_nothing_and_changes_nothing(point: Point, part: int) -> None:
    commits = simulate_containers(STACK).commits

    for commit in range(1 + part, commits + 1, PARTS):
        story = simulate_containers(STACK, crashes=[Crash(commit, point)])
        assert (states(story), story.lines("effects")) == (CLEAN, ["t"]), f"{commit} {point}"


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["before", "after"])
def test_law_5_owner_killed_at_any_engine_call_leaves_and_changes_nothing(
    point: Literal["before", "after"],
) -> None:
    calls = simulate_containers(STACK).calls

    for call in range(1, calls + 1):
        story = simulate_containers(STACK, deaths=[Death(call, point)])
        assert (states(story), story.lines("effects")) == (CLEAN, ["t"]), f"{call} {point}"


@pytest.mark.sweep
def test_container_whose_owner_died_before_it_joined_its_networks_joins_all() -> None:
    text = HOLDS.replace("RESTART", ", networks: [front, back]")
    seen: list[list[str]] = []

    def look(daemon: SimulatedDaemon) -> None:
        found = daemon.find(db(daemon))
        seen.append([] if found is None else list(found.networks))

    for call in range(1, 8):
        simulate_containers(text, deaths=[Death(call)], outside=[Outside(20, look)])

    assert seen == [[NAMES.network("front"), NAMES.network("back")]] * 7


def test_a_secret_that_a_health_check_prints_is_not_in_the_status() -> None:
    secret = "hush-this-is-one"

    def prepare(daemon: SimulatedDaemon) -> None:
        (daemon.folder / ".plan/secrets").mkdir(parents=True)
        (daemon.folder / ".plan/secrets/TOKEN").write_text(secret)

    ill = f"health: {{cmd: [sh, -c, 'echo no {secret}; exit 1']}}, env: {{A: 'secret:TOKEN'}}"
    text = HOLDS.replace("RESTART", "").replace("health: {cmd: [echo, well]}", ill).replace("[db]", "[]")

    story = simulate_containers(text, prepare=prepare)

    golden_text.said(story.objects["container/db"].status["probed"]["said"])


def test_a_secret_that_is_printed_in_two_pieces_is_in_no_file_of_the_plan() -> None:
    found: list[list[str]] = []

    def prepare(daemon: SimulatedDaemon) -> None:
        (daemon.folder / ".plan/secrets").mkdir(parents=True)
        (daemon.folder / ".plan/secrets/TOKEN").write_text("hush-this-\nis-one")

    def look(daemon: SimulatedDaemon) -> None:
        found.append([file.read_text() for file in daemon.folder.rglob("container-db.out")])

    text = HOLDS.replace("RESTART", ", env: {A: 'secret:TOKEN'}").replace(", health: {cmd: [echo, well]}", "")
    text = text.replace('[sleep, "10000"]', "[sh, -c, 'echo hush-this-; sleep 1; echo is-one']").replace("[db]", "[]")

    simulate_containers(text, prepare=prepare, outside=[Outside(20, look)])

    assert found == [["•••\n"]]


def test_a_health_check_that_the_engine_refuses_is_one_that_fails() -> None:
    def refusing(command: ProcessCommand) -> None:
        if command.argv == ("refused",):
            raise EngineFailed(EngineErrorReason.REFUSED, "the engine refused: no")

    text = HOLDS.replace("RESTART", "").replace("[echo, well]", "[refused]").replace("[db]", "[]")

    story = simulate_containers(text, prepare=lambda daemon: daemon.programs.append(refusing))

    assert story.objects["container/db"].status["probed"]["said"] == "the engine refused: no"


@pytest.mark.parametrize(("tells", "state", "at_s"), [("ok", "healthy", (1, 2)), ("never", "unhealthy", (180, 181))])
def test_starting_container_is_probed_soon_and_has_its_intervals_to_start(
    tells: str, state: str, at_s: tuple[float, float]
) -> None:
    health = f"health: {{cmd: [test, -f, {tells}], interval: 60s}}"
    text = STACK.replace("health: {cmd: [test, -f, ok]}", health).replace("containers: [app], ", "")
    story = simulate_containers(text.replace("sleep 2;", "sleep 300;"))

    told = [record for record in story.log if record.draft.subject == "container/db" and record.draft.data]
    began = next(record.at for record in told if record.draft.data["state"] == "preparing")
    assert at_s[0] <= next(record.at for record in told if record.draft.data["state"] == state) - began < at_s[1]


@pytest.mark.parametrize("seed", range(4))
def test_law_5_many_deaths_in_one_life_change_nothing_of_the_end(seed: int) -> None:
    chance = random.Random(seed)
    deaths = [Death(call, chance.choice(("before", "after"))) for call in chance.sample(range(1, 30), 6)]

    story = simulate_containers(STACK, seed=seed, crashes=drawn(chance, 6, 80), deaths=deaths)

    assert story.owners > 3
    assert (states(story), story.lines("effects")) == (CLEAN, ["t"])


def test_edited_container_starts_with_no_failures() -> None:
    text = HOLDS.replace("RESTART", ", restart: always")
    kills = [Outside(at_s, lambda daemon: daemon.kill(db(daemon))) for at_s in (4, 7, 11, 20)]

    story = simulate_containers(
        text, outside=kills, edits=[Edit(16, text.replace(", restart", ", env: {A: b}, restart"))]
    )

    changes = [change for record in story.log for change in record.draft.changes if isinstance(change, SetStatus)]
    assert [change.merge["failures"] for change in changes if change.merge.get("failures")] == [1, 2, 3, 1]


def get_stuck(daemon: SimulatedDaemon) -> None:
    """The engine reports it once, and then never again."""
    daemon.stuck.add(db(daemon))
    daemon.tell(daemon.containers[named(daemon, "db")], "update")


def named(daemon: SimulatedDaemon, name: str) -> str:
    return next(one.id for one in daemon.containers.values() if one.creation.name == NAMES.container(name))


@pytest.mark.parametrize("death", [0, 12])
def test_container_the_engine_does_not_answer_about_delays_no_other(death: int) -> None:
    states_then: list[str] = []
    text = HOLDS.replace("RESTART}", "}\n  app: {image: busybox:1, cmd: [sleep, '10000'], restart: always}")
    outside = [
        Outside(5, get_stuck),
        Outside(8, lambda daemon: daemon.kill(NAMES.container("app"))),
        Outside(20, lambda daemon: states_then.append(daemon.containers[named(daemon, "app")].state)),
        Outside(25, lambda daemon: daemon.stuck.clear()),
    ]

    story = simulate_containers(text, outside=outside, deaths=[Death(death, "after")])

    assert states(story) == {"task/.": "done", "task/t": "done", "container/db": "removed", "container/app": "removed"}
    assert states_then == ["running"]
    changes = [change for record in story.log for change in record.draft.changes if isinstance(change, SetStatus)]
    assert not any(change.merge.get("engine") for change in changes if change.address == "container/app")


def down_for_10_s() -> list[Outside]:
    return [Outside(10, lambda daemon: daemon.go_down()), Outside(20, lambda daemon: daemon.come_back())]


OUTSIDE = {
    "stopped": ([Outside(10, lambda daemon: daemon.kill(db(daemon)))], ", restart: always"),
    "removed": ([Outside(10, lambda daemon: daemon.remove(db(daemon)))], ""),
    "paused": ([Outside(10, lambda daemon: daemon.pause(db(daemon)))], ""),
    "out of memory": ([Outside(10, lambda daemon: daemon.out_of_memory(db(daemon)))], ", restart: on-failure"),
    "engine restarted": (down_for_10_s(), ", restart: always"),
    "engine down at the beginning": (
        [Outside(0, lambda daemon: daemon.go_down()), Outside(50, lambda daemon: daemon.come_back())],
        "",
    ),
}


@pytest.mark.parametrize("what", OUTSIDE)
@pytest.mark.parametrize("death", [0, 6, 9])
def test_external_changes_are_repaired(what: str, death: int) -> None:
    outside, restart = OUTSIDE[what]

    story = simulate_containers(HOLDS.replace("RESTART", restart), outside=outside, deaths=[Death(death, "after")])

    assert states(story) == {"task/.": "done", "task/t": "done", "container/db": "removed"}


async def copied(daemon: SimulatedDaemon) -> None:
    """A user runs an image that `docker commit` created from the container."""
    one, engine = daemon.find("renamed"), SimulatedEngine(daemon)
    assert one is not None
    await engine.start(await engine.create(remade(one.creation, name="copy", network=ContainerNetwork(()))))


def renamed(daemon: SimulatedDaemon) -> None:
    one = daemon.find(db(daemon))
    assert one is not None
    one.creation = remade(one.creation, name="renamed")
    daemon.tell(one, "rename")


@pytest.mark.parametrize("death", [None, *range(6, 12)])
def test_container_with_copied_labels_is_left_and_a_renamed_one_stays_ours(death: int | None) -> None:
    """Under every owner: the one that sees it happen, and one that comes after."""
    outside = [Outside(10, renamed), Outside(12, lambda daemon: daemon.kill("renamed")), Outside(16, copied)]
    deaths = [] if death is None else [Death(death, "after")]

    story = simulate_containers(
        HOLDS.replace("RESTART", ", restart: always"), outside=outside, deaths=deaths, strangers=["copy"]
    )

    assert states(story) == {"task/.": "done", "task/t": "done", "container/db": "removed"}
    made = [one.id for one in story.daemon.told if one.action == "create"]
    assert len(made) == 3, "others', ours, and the copy"


def test_container_ended_by_others_without_restart_has_failed_with_a_reason() -> None:
    story = simulate_containers(HOLDS.replace("RESTART", ""), outside=OUTSIDE["stopped"][0])

    assert states(story)["container/db"] == "failed"
    golden_text.said(story.why("container/db"))


def test_failed_need_fails_its_dependents_with_its_last_words() -> None:
    edit = Edit(60, ENDS.replace("RESTART", "").replace("exit 3", "exit 0"))

    story = simulate_containers(ENDS.replace("RESTART", ""), edits=[edit])

    said = [record.draft.data for record in story.log if record.draft.subject == "container/app"]
    assert {
        "state": "failed",
        "reason": "NeedFailed",
        "why": "container/db is not completed and will not be: bye",
    } in said
    assert states(story)["task/t"] == "done", "it comes back when its need does"
    assert len(story.log) < 120, "a plan that failed with its container rests"


def test_repeatedly_failing_container_is_started_less_and_less_often() -> None:
    edit = Edit(100, ENDS.replace("RESTART", "").replace("exit 3", "exit 0"))

    story = simulate_containers(ENDS.replace("RESTART", ", restart: on-failure"), edits=[edit])

    address = "container/db"
    starts = [one for one in story.daemon.told if one.action == "start" and one.labels["planloop.address"] == address]
    assert 7 <= len(starts) <= 12, "0.5 s, 1 s, 2 s, …, and one after it was fixed"
    assert states(story)["task/t"] == "done"


def test_taken_port_is_reported_and_used_when_it_is_free() -> None:
    text = HOLDS.replace("RESTART", ", ports: {'5432': 80}")
    story = simulate_containers(
        text,
        prepare=lambda daemon: daemon.taken_ports.add(5432),
        outside=[Outside(20, lambda daemon: daemon.taken_ports.clear())],
    )

    assert "PortTaken" in reasons(story)
    assert states(story)["task/t"] == "done"


def test_missing_image_is_reported_once_and_a_newly_named_one_is_tried() -> None:
    text = HOLDS.replace("RESTART", "")
    story = simulate_containers(text.replace("busybox:1", "none:1"), edits=[Edit(60, text)])

    assert reasons(story).count("NoImage") == 1
    assert story.daemon.calls.count("pull") == 1
    assert states(story)["task/t"] == "done"


def reasons(story: ContainerStory) -> list[str]:
    """Those of the states that the container came to."""
    return [
        str(record.draft.data["reason"])
        for record in story.log
        if record.draft.subject == "container/db" and "reason" in record.draft.data
    ]


def test_law_4_an_edit_while_an_image_is_fetched_ends_the_fetching() -> None:
    story = simulate_containers(
        HOLDS.replace("RESTART", "").replace("busybox:1", "slow:1"),
        edits=[Edit(10, HOLDS.replace("RESTART", ""))],
    )

    assert story.log[-1].at - story.log[0].at < 45, "10 s until the edit, 30 s of work"
    assert "slow:1" not in story.daemon.images
    words = [record for record in story.log if _is_progress(record)]
    assert 1 <= len(words) <= 10 / limits.CONTAINER_PROGRESS_S, "the progress is reported from time to time"


def _is_progress(record: Record) -> bool:
    (change, *_) = record.draft.changes or (None,)
    return isinstance(change, SetStatus) and str(change.merge.get("why", "")).endswith("to go")


def test_limits_change_while_it_runs_and_another_image_takes_its_place() -> None:
    hot = HOLDS.replace("RESTART", ", limits: {memory: 64MB}")
    story = simulate_containers(
        HOLDS.replace("RESTART", ""), edits=[Edit(10, hot), Edit(20, hot.replace("10000", "20000"))]
    )

    ours = [one for one in story.daemon.told if one.labels["planloop.plan"] == NAMES.label]
    assert [one.action for one in ours].count("create") == 2
    assert story.daemon.calls.count("update") == 1
    assert states(story)["container/db"] == "removed"


def test_container_removed_while_the_engine_is_down_is_deleted_when_it_is_back() -> None:
    without = "tasks:\n  t: {run: 'sleep 30'}\n"
    story = simulate_containers(HOLDS.replace("RESTART", ""), outside=down_for_10_s(), edits=[Edit(12, without)])

    assert states(story) == {"task/.": "done", "task/t": "done"}
    gone = [record.draft.data for record in story.log if record.draft.subject == "container/db"]
    assert any(data.get("state") == "stopping" and data.get("reason") == "EngineDown" for data in gone)


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["before", "after"])
def test_law_5_owner_killed_during_a_removal_leaves_nothing(
    point: Literal["before", "after"],
) -> None:
    without = Edit(12, "tasks:\n  t: {run: 'sleep 30'}\n")
    calls = simulate_containers(HOLDS.replace("RESTART", ""), edits=[without]).calls

    for call in range(1, calls + 1):
        story = simulate_containers(HOLDS.replace("RESTART", ""), edits=[without], deaths=[Death(call, point)])
        assert states(story) == {"task/.": "done", "task/t": "done"}, f"{call} {point}"


def test_time_to_live_ends_a_container_once() -> None:
    story = simulate_containers(
        HOLDS.replace("RESTART", ", ttl: 5s, restart: always").replace(", containers: [db]", "")
    )

    assert states(story)["container/db"] == "completed"
    assert story.why("container/db") == "Expired: it reached its ttl of 5 s"
    assert [one.action for one in story.daemon.told].count("create") == 2, "others', and ours once"


def test_lost_events_are_compensated() -> None:
    def unheard(daemon: SimulatedDaemon) -> None:
        daemon.remove(db(daemon))
        daemon.told[-2:] = [LISTENING, LISTENING]  # Unrelated to this plan.

    text = HOLDS.replace("RESTART", "").replace(", health: {cmd: [echo, well]}", "").replace("sleep 30", "sleep 200")
    story = simulate_containers(text, outside=[Outside(10, unheard)])

    ours = [one for one in story.daemon.told if one.labels.get("planloop.plan") == NAMES.label]
    assert [one.action for one in ours].count("create") == 2
    assert states(story)["task/t"] == "done"


def test_a_plan_at_rest_writes_nothing_and_asks_nothing() -> None:
    text = HOLDS.replace("RESTART", "").replace("sleep 30", "sleep 500")
    story = simulate_containers(text)

    times = [record.at - story.log[0].at for record in story.log]
    assert [at for at in times if 5 < at < 500] == []
    assert len(story.daemon.calls) < 520, "a probe each second, and nothing else"
