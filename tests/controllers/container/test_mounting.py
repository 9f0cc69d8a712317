"""What is laid into a container, from the folders as they are; and what lies over that."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.engine.names import ContainerNames
from planloop.containers.sandbox import write_guard
from planloop.controllers.container.start_jobs import SteeringFiles, container_mounts, resolve_mount_source
from planloop.controllers.shared.container_exec import MountRoots
from planloop.schemas.objects.container import ContainerSpec, Mount
from tests.golden_text import said
from tests.product import ContainerMount, EngineErrorReason, EngineFailed

FILES = (
    "p.plan.yaml",
    "hooks",
    "hooks/guard.sh",
    "hooks/more/deep.sh",
    "tools/check.py",
    "parts/more.yaml",
    "not/there.sh",
    "odd*1*.py",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plan's folder with all that steers it."""
    at = tmp_path / "plan"
    for name in (".plan/p", ".git/hooks", ".hg", "hooks/more", "tools", "parts", "src/inner/.git", "lib"):
        (at / name).mkdir(parents=True)
    (at / ".plan" / "other").mkdir()
    (at / ".plan" / "other" / "file.json").write_text('{"file": "other.yaml"}')
    (at / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n")
    (at / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n\turl = https://example.org\n')
    for name in (
        "p.plan.yaml",
        "other.yaml",
        "odd(1).py",
        "hooks/guard.sh",
        "hooks/more/deep.sh",
        "tools/check.py",
        "parts/more.yaml",
    ):
        (at / name).write_text("x\n")
    return at


def laid(folder: Path, *mounts: Mount, held: tuple[str, ...] = ()) -> dict[str, ContainerMount]:
    """What is mounted, by where it stands inside."""
    found = container_mounts(
        ContainerSpec(image="i", mounts=mounts),
        ContainerNames("p", "label"),
        MountRoots(folder, folder),
        SteeringFiles(FILES, held),
    )
    assert len({each.target for each in found}) == len(found)
    return {each.target: each for each in found}


def over(found: dict[str, ContainerMount], at: str = "/w") -> dict[str, str]:
    """What lies over the mount at `at`: `ro`, `rw` or `hidden`."""
    below = {target.removeprefix(f"{at}/"): each for target, each in found.items() if target != at}
    return {name: "hidden" if not one.host else "ro" if one.is_read_only else "rw" for name, one in below.items()}


STEERING = {
    **{
        name: "ro"
        for name in (".git", ".hg", ".gitmodules", "lib/.git", "hooks", "p.plan.yaml", "other.yaml", "odd(1).py")
    },
    **{name: "ro" for name in ("tools/check.py", "parts/more.yaml")},
    # Held in their places, so that no other folder takes the place of what is in them.
    **{name: "rw" for name in ("lib", "tools", "parts")},
    ".plan": "hidden",
}


def test_files_that_define_the_plan_are_mounted_over_its_folder(folder: Path) -> None:
    found = laid(folder, Mount("/w", host="."))

    assert over(found) == STEERING
    assert found["/w"] == ContainerMount("/w", host=str(folder))
    assert found["/w/tools/check.py"].host == str(folder / "tools" / "check.py")


def test_folder_around_the_plans_is_guarded_too(folder: Path) -> None:
    found = laid(folder, Mount("/w", host=str(folder.parent)))

    steering = {name.removeprefix("plan/"): how for name, how in over(found).items() if name != "plan"}
    assert steering == STEERING and over(found)["plan"] == "rw"


@pytest.mark.parametrize(
    ("host", "guards"),
    [
        ("src", {}),
        ("src/inner", {".git": "ro"}),
        ("lib", {".git": "ro"}),
        ("tools", {"check.py": "ro"}),
        ("hooks/more", {"deep.sh": "ro"}),
    ],
)
def test_files_that_define_the_plan_are_mounted_over_a_folder_in_it(
    folder: Path, host: str, guards: dict[str, str]
) -> None:
    assert over(laid(folder, Mount("/w", host=host))) == guards


def test_read_only_mount_hides_the_state_and_guards_nothing_else(folder: Path) -> None:
    assert over(laid(folder, Mount("/w", host=".", is_read_only=True))) == {".plan": "hidden"}


def test_explicit_mount_in_the_plan_is_kept_unchanged(folder: Path) -> None:
    found = laid(folder, Mount("/w", host="."), Mount("/w/.git", host=".git"))

    assert found["/w/.git"] == ContainerMount("/w/.git", host=str(folder / ".git"))


def test_folders_that_containers_mount_stay_where_they_are(folder: Path) -> None:
    (folder / "way").symlink_to("src")
    found = laid(folder, Mount("/w", host="."), held=("src/inner", "hooks/more", "way", "p.plan.yaml", "none"))

    assert over(found) == {**STEERING, "src": "rw", "src/inner": "rw"}


def test_volumes_and_memory_are_no_folders_of_this_machine(folder: Path) -> None:
    found = laid(folder, Mount("/data", volume="data"), Mount("/tmp"))

    assert found == {
        "/data": ContainerMount("/data", volume=ContainerNames("p", "label").volume("data")),
        "/tmp": ContainerMount("/tmp"),
    }


@pytest.mark.parametrize("name", ["p.plan.yaml", ".git", "tools", ".plan"])
def test_a_link_in_place_of_what_is_guarded_is_refused_with_what_to_do(folder: Path, name: str) -> None:
    (folder / name).rename(folder / "moved")
    (folder / name).symlink_to("moved")

    with pytest.raises(EngineFailed) as failed:
        laid(folder, Mount("/w", host="."))

    assert failed.value.reason is EngineErrorReason.REFUSED
    said(str(failed.value), f"{name}")
    assert "read-only: true" in failed.value.hint
    hidden = {} if name == ".plan" else {".plan": "hidden"}
    assert over(laid(folder, Mount("/w", host=".", is_read_only=True))) == hidden


@pytest.mark.parametrize("written", ["way", "way/x", "src/../way", "..way/x"])
def test_a_folder_that_is_a_link_is_refused_with_where_it_leads(folder: Path, written: str) -> None:
    (folder / "way").symlink_to("/")
    (folder / "..way").symlink_to("/")

    with pytest.raises(EngineFailed, match="is a link to /"):
        resolve_mount_source(written, folder)


@pytest.mark.parametrize("home", [".", "src"])
def test_a_plans_folder_that_holds_the_owners_home_is_laid_in_only_by_its_whole_name(
    folder: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder / home))

    with pytest.raises(EngineFailed) as failed:
        resolve_mount_source(".", folder)
    said(str(failed.value))

    assert "its own folder" in failed.value.hint and str(folder) in failed.value.hint
    assert resolve_mount_source(str(folder), folder) == folder


def test_writable_mount_without_a_repository_is_recorded(folder: Path) -> None:
    laid(folder, Mount("/w", host="."))
    (folder / ".git" / "hooks").rmdir()
    (folder / ".git").rmdir()
    laid(folder, Mount("/w", host="src"), Mount("/r", host=".", is_read_only=True))
    (folder / ".git").mkdir()
    assert not write_guard.is_repository_untrusted(str(folder))

    (folder / ".git").rmdir()
    laid(folder, Mount("/w", host="."))
    (folder / ".git").mkdir()

    assert write_guard.is_repository_untrusted(str(folder))
