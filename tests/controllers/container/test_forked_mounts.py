"""A container that is for a task sees what the task sees, also in a fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.engine.names import ContainerNames
from planloop.containers.sandbox.container_sandbox import SandboxContainer
from planloop.controllers.container.start_jobs import SteeringFiles, container_mounts
from planloop.controllers.shared.container_exec import MountRoots, mount_roots, sandbox_container
from planloop.schemas.objects.container import ContainerSpec, Mount
from tests.product import Change, JsonObject, MemoryView, Put, Record, RecordDraft, Uid

TREE = ".plan/p/forks/a"
ROOT = Path("/plan")


def view(fork: JsonObject) -> MemoryView:
    """A plan with a task `a` in a fork, `a/b` below it, and `c` without."""
    found = MemoryView()
    forked = {"task/a": "fork/a", "task/a/b": "fork/a", "task/c": None}
    changes: list[Change] = [Put(name, Uid(name), {"fork": at}) for name, at in forked.items()]
    changes.append(Put("fork/a", Uid("f"), {}, status=fork))
    found.fold(Record(1, 0.0, 1, RecordDraft("object.created", "human:cli", "task/a", tuple(changes))))
    return found


@pytest.mark.parametrize(
    ("task", "written", "state", "start"),
    [
        ("a", ".", "ready", ROOT / TREE),
        ("a/b", "src", "ready", ROOT / TREE),
        ("a", ".", "making", ROOT),
        ("a", "../data", "ready", ROOT),
        ("a", "/data", "ready", ROOT),
        ("a", "~/data", "ready", ROOT),
        ("c", ".", "ready", ROOT),
        ("", ".", "ready", ROOT),
        ("gone", ".", "ready", ROOT),
    ],
)
def test_mounts_of_a_container_are_relative_to_the_fork_of_its_task(
    task: str, written: str, state: str, start: Path
) -> None:
    spec = ContainerSpec(image="i", task=task)
    assert mount_roots(view({"state": state, "folder": TREE}), spec, ROOT).start(written) == start


def test_the_fork_is_mounted_with_its_own_guards_and_what_is_outside_as_ever(tmp_path: Path) -> None:
    tree, data = tmp_path / "plan" / TREE, tmp_path / "data"
    (tree / "src").mkdir(parents=True)
    data.mkdir()
    for folder in (tmp_path / "plan", tree):
        (folder / "p.plan.yaml").write_text("plan: p\n")
    (tree / ".git").write_text("gitdir: elsewhere\n")
    ground, steering = MountRoots(tmp_path / "plan", tree), SteeringFiles(("p.plan.yaml",), ())
    mounts = (Mount("/w", host="."), Mount("/d", host="../data"), Mount("/s", host="src"), Mount("/v", volume="v"))

    spec = ContainerSpec(image="i", mounts=mounts)
    found = {one.target: one for one in container_mounts(spec, ContainerNames("p", "label"), ground, steering)}

    assert {target: one.host for target, one in found.items() if one.host} == {
        "/w": str(tree),
        "/w/.git": str(tree / ".git"),
        "/w/p.plan.yaml": str(tree / "p.plan.yaml"),
        "/d": str(tmp_path / "plan" / "../data"),
        "/s": str(tree / "src"),
    }
    assert found["/w/.git"].is_read_only and found["/w/p.plan.yaml"].is_read_only and found["/v"].volume


def test_agent_in_a_folder_of_the_workspace_works_there_in_a_mounting_container() -> None:
    found, spec = MemoryView(), ContainerSpec(image="i", mounts=(Mount("/d", host="~/data"),))
    put = Put("container/sut", Uid("s"), spec.to_json(), status={"state": "running", "seen": {"id": "x"}})
    found.fold(Record(1, 0.0, 1, RecordDraft("object.created", "human:cli", "container/sut", (put,))))

    room = sandbox_container(found, "sut", ROOT)

    assert isinstance(room, SandboxContainer) and room.place_of(str((Path.home() / "data" / "a").resolve())) == "/d/a"
