"""Where a task works: nowhere that an agent could lead it by links out of where that agent works."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.shared.workspace import WorkspaceFault, is_git_outside, resolve_workspace, workspace_fault
from tests.golden_text import said
from tests.product import MemoryView, Resource, Uid


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("work/sub/deep", "other", ".plan/p"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def objects(**places: str) -> MemoryView:
    """Tasks with agents, by their paths with `_` between names, and where they work."""
    paths = [(name.replace("_", "/") if name != "root" else ".", cwd) for name, cwd in places.items()]
    tasks = [Resource(f"task/{path}", Uid(path), 1, {"cwd": cwd}, {}) for path, cwd in paths]
    return MemoryView([*tasks, *(Resource(f"agent/{path}", Uid(f"a{path}"), 1, {}, {}) for path, _ in paths)])


WORKER = objects(t="work")


@pytest.mark.parametrize("cwd", [".", "work", "work/sub", "work/none/yet", "other"])
def test_a_folder_without_links_is_where_it_is_written(folder: Path, cwd: str) -> None:
    assert resolve_workspace(WORKER, cwd, folder) == folder / cwd


@pytest.mark.parametrize("target", ["sub", "sub/deep", ".", "sub/..", "none", "{own}/sub"])
def test_a_link_that_stays_where_the_agent_above_works_is_followed(folder: Path, target: str) -> None:
    (folder / "work/way").symlink_to(target.format(own=folder / "work"))

    found = resolve_workspace(WORKER, "work/way", folder)

    assert found == (folder / "work/way").resolve()


@pytest.mark.parametrize(
    "target", ["..", "../other", "../workshop", "{here}", "{here}/other", "/", "/etc", "sub/../.."]
)
def test_link_out_of_an_agents_folder_is_not_allowed(folder: Path, target: str) -> None:
    (folder / "work/way").symlink_to(target.format(here=folder))

    found = {
        cwd: resolve_workspace(WORKER, cwd, folder)
        for cwd in ("work/way", "work/way/below", "work/sub/../way", "./work/way")
    }

    assert [cwd for cwd, one in found.items() if not isinstance(one, WorkspaceFault)] == []


def test_folder_that_leads_out_is_reported_with_its_agent_and_a_fix(folder: Path) -> None:
    (folder / "work/way").symlink_to("..")

    found = resolve_workspace(WORKER, "work/way", folder)

    assert isinstance(found, WorkspaceFault)
    said(found.words, "work/way", "agent/t")
    assert "remove the link" in found.cure


def test_every_agent_counts_even_where_one_below_it_is_redirected(folder: Path) -> None:
    view = objects(root=".", t="work", t_u="work/way")
    (folder / "work/way").symlink_to("../other")

    for cwd in ("work/way", "work/way/x"):
        assert isinstance(resolve_workspace(view, cwd, folder), WorkspaceFault)


def test_links_elsewhere_in_the_plans_folder_are_the_operators(folder: Path) -> None:
    (folder / "way").symlink_to("other")

    view = objects(root=".", t="work")
    assert resolve_workspace(view, "way", folder) == folder / "other" and workspace_fault(view, "way", folder) is None


def test_folder_redirected_by_an_operator_is_worked_in(folder: Path) -> None:
    (folder / "way").symlink_to("work")
    (folder / "work/up").symlink_to("..")
    view = objects(t="way")

    assert resolve_workspace(view, "way/sub", folder) == folder / "work/sub"
    assert isinstance(resolve_workspace(view, "way/up", folder), WorkspaceFault)


@pytest.mark.parametrize("cwd", ["way", "way/x", "../x", "/etc"])
def test_folder_outside_the_plans_folder_is_not_allowed(folder: Path, cwd: str) -> None:
    (folder / "way").symlink_to("/etc")

    for view in (objects(), objects(root=".")):
        found = resolve_workspace(view, cwd, folder)
        assert isinstance(found, WorkspaceFault)
        said(found.words)


@pytest.mark.parametrize("cwd", [".plan", ".plan/p", ".PLAN", "way", "work/way", "work/.plan/q"])
def test_state_of_plans_is_not_a_folder_to_work_in(folder: Path, cwd: str) -> None:
    (folder / "way").symlink_to(".plan")
    (folder / "work/way").symlink_to("../.plan/p")

    found = resolve_workspace(objects(root="."), cwd, folder)

    assert isinstance(found, WorkspaceFault)
    said(found.words)


def test_fork_is_its_own_folder_wherever_it_is_kept(folder: Path) -> None:
    tree = folder / ".plan/p/forks/t"
    (tree / "work/sub").mkdir(parents=True)
    (tree / "work/up").symlink_to("..")

    assert resolve_workspace(WORKER, "work/sub", tree) == tree / "work/sub"
    assert isinstance(resolve_workspace(WORKER, "work/up", tree), WorkspaceFault)


def test_circular_links_are_tolerated(folder: Path) -> None:
    (folder / "work/a").symlink_to("b")
    (folder / "work/b").symlink_to("a")

    found = resolve_workspace(WORKER, "work/a", folder)

    assert isinstance(found, WorkspaceFault)
    said(found.words, "work/a")
    assert (
        isinstance(workspace_fault(WORKER, "work/a", folder), WorkspaceFault)
        and workspace_fault(objects(), "work/a", folder) is None
    )


@pytest.mark.parametrize("target", ["..", "../..", "../other", "/etc"])
def test_agent_cannot_redirect_a_sibling_that_works_in_its_folder(folder: Path, target: str) -> None:
    view = objects(x="work", y="work/sub")
    (folder / "work/sub").rename(folder / "work/away")
    (folder / "work/sub").symlink_to(target.replace("/etc", str(folder)))

    for cwd in ("work/sub", "work/sub/below"):
        assert isinstance(resolve_workspace(view, cwd, folder), WorkspaceFault)
        astray = workspace_fault(view, cwd, folder)
        assert astray is not None
        said(astray.words, "work", "agent/x")


def test_folder_reached_by_an_operators_link_bounds_its_links_under_any_name(folder: Path) -> None:
    (folder / "way").symlink_to("work")
    (folder / "work/up").symlink_to("../other")

    for cwd in ("work/up", "way/up", "other/../work/up"):
        assert isinstance(resolve_workspace(objects(t="way"), cwd, folder), WorkspaceFault)


def test_a_link_out_of_a_workspace_is_not_followed_on_the_way_back_in(folder: Path) -> None:
    (folder / "work/out").symlink_to("../other")
    (folder / "work/round").symlink_to("out/../work/sub")

    assert isinstance(resolve_workspace(WORKER, "work/out/x", folder), WorkspaceFault)
    assert resolve_workspace(WORKER, "work/round", folder) == folder / "work/sub"


def test_operators_links_lead_anywhere_without_an_agent_above(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder / "data").symlink_to(elsewhere)
    (folder / "other/in").symlink_to("../work")

    for cwd in ("data", "data/below", "other/in", "other/../work/sub", "../x", str(elsewhere), "."):
        assert workspace_fault(WORKER, cwd, folder) is None


def test_agents_outside_the_plans_folder_bound_no_other(folder: Path) -> None:
    (folder / "data").symlink_to("other")

    view = objects(t="..", u="/", v="none/../..")
    assert resolve_workspace(view, "data", folder) == folder / "other" and workspace_fault(view, "data", folder) is None


@pytest.mark.parametrize(
    "home",
    ["{own}", "{own}/work", "{own}/other/../work", "{way}", "{dotted}", "{configured}"],
    ids=["the folder", "in it", "a step back", "a link to it", "a linked .gitconfig", "a linked .config"],
)
def test_law_6_configuration_of_git_that_agents_write_is_not_the_users(folder: Path, home: str) -> None:
    own, beside = folder / "work", folder / "other"
    (way := folder / "way").symlink_to(own)
    (dotted := beside / "dotted").mkdir()
    (dotted / ".gitconfig").symlink_to(own / "gitconfig")
    (configured := beside / "configured").mkdir()
    (configured / ".config").symlink_to(own)

    env = {"HOME": home.format(own=own, way=way, dotted=dotted, configured=configured)}

    assert not is_git_outside(env, own)


@pytest.mark.parametrize("env", [{}, {"HOME": ""}, {"HOME": "/root"}], ids=["unset", "empty", "elsewhere"])
def test_configuration_of_git_outside_the_folder_is_the_users(folder: Path, env: dict[str, str]) -> None:
    assert is_git_outside(env, folder)
