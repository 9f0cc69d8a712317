"""Which files of a container are files of this machine too."""

from __future__ import annotations

import pytest

from planloop.controllers.shared.container_exec import ContainerFiles, HostPath, MountedPath

MOUNTS = (
    MountedPath("/in", "/plan"),
    MountedPath("/in/cache"),
    MountedPath("/in/cache/kept", "/plan/kept", is_read_only=True),
    MountedPath("/etc/one", "/plan/one.conf"),
)
PLACE = ContainerFiles("sut", "/in/src", MOUNTS)


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("a", "/in/src/a"),
        ("../a", "/in/a"),
        ("./a//b/", "/in/src/a/b"),
        ("/a", "/a"),
        ("//a", "/a"),
        ("../../../../a", "/a"),
        (".", "/in/src"),
    ],
)
def test_a_path_is_read_from_where_commands_begin(path: str, at: str) -> None:
    assert PLACE.at(path) == at


@pytest.mark.parametrize(
    ("inside", "here"),
    [
        ("/in/a", HostPath("/plan/a", is_read_only=False, is_alone=False)),
        ("/in", HostPath("/plan", is_read_only=False, is_alone=True)),
        ("/in/cache/a", None),
        ("/in/cache", None),
        ("/in/cache/kept/a", HostPath("/plan/kept/a", is_read_only=True, is_alone=False)),
        ("/in/cached", HostPath("/plan/cached", is_read_only=False, is_alone=False)),
        ("/etc/one", HostPath("/plan/one.conf", is_read_only=False, is_alone=True)),
        ("/etc/two", None),
        ("/inside", None),
    ],
)
def test_nearest_mount_decides_who_owns_a_file(inside: str, here: HostPath | None) -> None:
    assert PLACE.here(inside) == here


@pytest.mark.parametrize(
    ("path", "inside"), [("/plan/a", "/in/a"), ("/plan/kept/a", "/in/cache/kept/a"), ("/plans", ""), ("/", "")]
)
def test_a_folder_of_this_machine_is_found_inside(path: str, inside: str) -> None:
    assert PLACE.inside(path) == inside


def test_mount_at_the_root_hides_everything_else() -> None:
    place = ContainerFiles("sut", "/", (MountedPath("/", "/plan"),))

    assert place.here("/a/b") == HostPath("/plan/a/b", is_read_only=False, is_alone=False)
    assert place.inside("/plan/a") == "/a"
