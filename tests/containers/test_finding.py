"""Which engine is meant."""

from __future__ import annotations

import pytest

from planloop.containers.engine.engine import engine_address

HOME = {"HOME": "/u/a", "XDG_RUNTIME_DIR": "/run/user/1"}


@pytest.mark.parametrize(
    ("env", "there", "address"),
    [
        ({"DOCKER_HOST": "tcp://there:2375"}, {"/var/run/docker.sock"}, "tcp://there:2375"),
        ({"DOCKER_HOST": "", **HOME}, {"/var/run/docker.sock"}, "unix:///var/run/docker.sock"),
        (HOME, {"/var/run/docker.sock", "/run/user/1/docker.sock"}, "unix:///var/run/docker.sock"),
        (HOME, {"/run/user/1/docker.sock", "/run/podman/podman.sock"}, "unix:///run/user/1/docker.sock"),
        (HOME, {"/u/a/.docker/run/docker.sock"}, "unix:///u/a/.docker/run/docker.sock"),
        (HOME, {"/run/user/1/podman/podman.sock"}, "unix:///run/user/1/podman/podman.sock"),
        ({}, {"/run/podman/podman.sock"}, "unix:///run/podman/podman.sock"),
        ({}, set(), "unix:///var/run/docker.sock"),
    ],
)
def test_the_environment_names_an_engine_or_the_first_usual_socket_does(
    env: dict[str, str], there: set[str], address: str
) -> None:
    assert engine_address(env, there.__contains__, there.__contains__) == address


def test_a_socket_that_is_closed_to_us_is_passed_over_for_an_open_one() -> None:
    there, own = {"/var/run/docker.sock", "/run/user/1/podman/podman.sock"}, "/run/user/1/podman/podman.sock"

    assert engine_address(HOME, there.__contains__, own.__eq__) == f"unix://{own}"
    assert engine_address(HOME, there.__contains__, lambda _: False) == "unix:///var/run/docker.sock"
