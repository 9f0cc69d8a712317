"""Names in an engine: those that it takes, whatever the plan is called."""

from __future__ import annotations

import pytest

from planloop.containers.engine.names import (
    ADDRESS,
    INCARNATION,
    PLAN,
    SPEC,
    UID,
    ContainerNames,
    ContainerTag,
    is_plan_container,
)
from tests.product import FoundContainer


@pytest.mark.parametrize(
    ("plan", "begins"),
    [("web.chat-1", "web.chat-1-db-"), ("grüße", "gre-db-"), ("_x", "x-db-"), ("日本", "plan-db-")],
)
def test_a_plan_of_any_name_has_names_that_engines_take(plan: str, begins: str) -> None:
    name = ContainerNames(plan, "label").container("db")
    assert name.startswith(begins)
    assert name.isascii()
    assert name != ContainerNames(plan, "another").container("db")


NAMES = ContainerNames("p", "p-0123")
TAG = ContainerTag("container/db", "u1", 3, "spec")
OWN = TAG.labels(NAMES, 7)
OURS = NAMES.container("db")


@pytest.mark.parametrize(
    ("name", "labels", "ours"),
    [
        (OURS, OWN, True),
        ("renamed", OWN, False),
        (f"{OURS}-copy", OWN, False),
        (NAMES.container("api"), OWN, False),
        (OURS, {PLAN: NAMES.label}, False),
        (OURS, {**OWN, PLAN: "another"}, False),
        (OURS, {name: value for name, value in OWN.items() if name != PLAN}, False),
        *((OURS, {**OWN, INCARNATION: text}, False) for text in ("", "-1", "x", "²", "9" * 5000)),
        (NAMES.container("."), {**OWN, ADDRESS: "task/."}, False),
        (NAMES.container(""), {**OWN, ADDRESS: ""}, False),
        (OURS, {**OWN, UID: ""}, False),
        (OURS, {**OWN, SPEC: ""}, False),
    ],
)
def test_ours_has_whole_labels_and_the_name_that_its_address_gives_it(
    name: str, labels: dict[str, str], ours: bool
) -> None:
    found = FoundContainer("1", name, "image", "running", labels)
    assert is_plan_container(found, NAMES) is ours
    if labels == OWN:
        assert is_plan_container(found, NAMES, {"1"}), "one that we know is ours under any name"
        assert is_plan_container(found, NAMES, {"2"}) is ours


def test_networks_and_volumes_with_a_copied_label_are_not_ours() -> None:
    network, volume = NAMES.network("a-b"), NAMES.volume("data")
    others = ("mine", NAMES.network(""), f"{network}-copy", ContainerNames("p", "p-4567").network("a-b"), OURS)
    assert NAMES.networks((network, volume, *others)) == (network,)
    assert NAMES.volumes((network, volume, *others)) == (volume,)


@pytest.mark.parametrize(
    ("maker", "taker", "takes"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a", True),
        ("a/b", ".", True),
        ("a", "a/b", False),
        ("a/b", "a/c", False),
        ("ab", "a", False),
        (".", "a", False),
        (None, "a", False),
        (None, ".", False),
        ("a", None, True),
        (None, None, True),
    ],
)
def test_volume_is_adopted_by_operators_its_creator_and_agents_above_the_creator(
    maker: str | None, taker: str | None, takes: bool
) -> None:
    assert (NAMES.of_volume(taker).items() <= NAMES.of_volume(maker).items()) is takes
    assert not ContainerNames("p", "p-4567").of_volume(taker).items() <= NAMES.of_volume(maker).items()
