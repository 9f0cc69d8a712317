"""Which groups of version 2 commands may be bounded in, by what the kernel's files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.sandbox import cgroups

ALL = "cpu memory pids"


@pytest.mark.parametrize(
    ("own", "files", "where"),
    [
        ("/", {"cgroup.controllers": ALL, "cgroup.subtree_control": ""}, ""),
        ("/", {"cgroup.controllers": "hugetlb", "cgroup.subtree_control": ""}, None),
        ("/", {"cgroup.controllers": ALL, "cgroup.subtree_control": "", "cgroup.type": "domain"}, None),
        ("/", {"cgroup.controllers": ALL, "cgroup.subtree_control": ALL, "cgroup.type": "domain"}, ""),
        ("/a.scope", {"cgroup.controllers": ALL, "a.scope/cgroup.subtree_control": ""}, None),
        ("/a.scope", {"cgroup.controllers": ALL, "a.scope/cgroup.subtree_control": "memory"}, None),
        ("/a.scope", {"cgroup.controllers": ALL, "a.scope/cgroup.subtree_control": ALL}, "a.scope"),
        ("/", {}, None),
    ],
    ids=["root", "hybrid", "container", "container-delegated", "session", "half", "delegated", "version-1"],
)
def test_commands_are_bounded_where_a_group_hands_down_memory_and_processes(
    own: str, files: dict[str, str], where: str | None, tmp_path: Path
) -> None:
    root, told = tmp_path / "cgroup", tmp_path / "own"
    root.mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"{text}\n")
    told.write_text(f"0::{own}\n")

    found = cgroups.find_cgroups("p", root, told)

    wanted = None if where is None else {(kind, root / where / cgroups.OURS / "p") for kind in cgroups.NEEDED}
    assert (None if found is None else set(found.places)) == wanted
