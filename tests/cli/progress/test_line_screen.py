"""Lines that `plan apply` prints about a container that keeps failing."""

from __future__ import annotations

from planloop.cli.progress.line_screen import TroubleFilter
from tests.product import JsonObject, Resource, Uid


def container(state: str, why: str = "", *, name: str = "a", **status: object) -> Resource:
    told: JsonObject = {"status": "False", "reason": "R", "message": why, "since": 0.0, "observed_generation": 1}
    if why:
        status |= {"why": why, "retry_at": 1.0}
    return Resource(f"container/{name}", Uid("u"), 1, {}, {"state": state, "conditions": {"Ready": told}, **status})


def told(states: list[tuple[float, Resource]]) -> list[float]:
    """When something was told."""
    folding = TroubleFilter()
    return [at for at, item in states if folding.is_told(item, at)]


def test_crash_loop_is_reported_immediately_and_then_less_often() -> None:
    ends = [float(at) for at in range(0, 100, 2)]
    states = [(at + rest, one) for at in ends for rest, one in ((0.0, crashed()), (0.5, container("starting")),
                                                                (1.0, container("running")))]  # fmt: skip

    assert told(states) == [0.0, 10.0, 30.0, 70.0]


def test_crashed_container_is_reported_running_once_it_stays_up() -> None:
    folding = TroubleFilter()
    folding.is_told(crashed(), 0.0)
    assert not folding.is_told(container("running"), 1.0)
    assert folding.due(9.0) == []
    assert not folding.is_told(crashed(), 9.5), "and did not stay so"
    assert not folding.is_holding

    assert not folding.is_told(container("running"), 12.0)
    assert folding.is_holding

    assert folding.due(22.0) == ["container/a"]
    assert folding.due(23.0) == []
    assert folding.is_told(crashed(), 24.0), "it is news again"


def test_new_problem_and_every_end_are_reported_immediately() -> None:
    for end in ("healthy", "completed", "failed", "removed"):
        states = [(0.0, crashed()), (1.0, crashed()), (2.0, container("restarting", "another")), (3.0, container(end))]
        assert told(states) == [0.0, 2.0, 3.0], end


def test_container_that_got_its_port_is_reported_running_immediately() -> None:
    states = [(0.0, container("waiting", "port taken")), (1.0, container("waiting", "port taken")),
              (2.0, container("running"))]  # fmt: skip

    assert told(states) == [0.0, 2.0]


def test_unreachable_engine_is_reported_once_for_all_containers() -> None:
    down = {"reason": "EngineDown", "why": "no answer"}
    states = [(at, container("waiting", name=name, engine=down)) for at, name in ((0.0, "a"), (0.1, "b"), (0.2, "c"))]

    assert told(states) == [0.0]
    assert told([*states, *((1.0 + at, container("running", name=one.address[10:])) for at, one in states)]) == [
        0.0, 1.0, 1.1, 1.2,
    ]  # fmt: skip


def crashed() -> Resource:
    return container("restarting", "it ended with exit code 3")
