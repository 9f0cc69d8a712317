"""What a change touches: paths against the last landed commit, and the groups of tests that follow."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests import needs, sets
from tests.suite import changes, processor

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """A new repository that the functions under test take for their own."""

    def run(*words: str) -> str:
        person = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(
            [needs.git(), *person, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    monkeypatch.setattr(changes, "ROOT", tmp_path)
    monkeypatch.delenv("PLANLOOP_BASE", raising=False)
    run("init", "-q", "-b", "main")
    run("commit", "-q", "--allow-empty", "-m", "one")
    return run


def begin_change(git: Git, root: Path) -> None:
    """Name the commit that is checked out as the last one that landed."""
    (root / ".ci").mkdir(exist_ok=True)
    (root / ".ci" / "base").write_text(git("rev-parse", "HEAD"))


def names() -> list[str]:
    return [group.name for group in changes.GROUPS]


def test_without_a_base_every_group_is_touched(git: Git) -> None:
    assert changes.base() is None
    assert [*changes.touched()] == names()


def test_commits_the_working_tree_and_untracked_files_count(git: Git, tmp_path: Path) -> None:
    begin_change(git, tmp_path)
    for place in ("web/a.ts", "containers/planloop/containers/images/b.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("x")
    git("add", ".ci", "web")
    git("commit", "-q", "-m", "two")
    assert [*changes.touched()] == ["page", "images"]
    begin_change(git, tmp_path)
    (tmp_path / "containers/planloop/containers/images/b.py").unlink()
    assert changes.touched() == ()
    (tmp_path / "web" / "a.ts").unlink()
    assert "page" in changes.touched(), "a removed file touches its group too"


def test_a_change_of_nothing_expensive_touches_no_group(git: Git, tmp_path: Path) -> None:
    begin_change(git, tmp_path)
    (tmp_path / "README.md").write_text("x")
    git("add", ".")
    git("commit", "-q", "-m", "two")
    assert changes.touched() == ()


def test_base_outside_the_checkout_touches_every_group(git: Git, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "base").write_text("0" * 40)
    assert [*changes.touched()] == names()


def test_a_path_that_git_would_quote_touches_its_group(git: Git, tmp_path: Path) -> None:
    begin_change(git, tmp_path)
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "é.ts").write_text("x")
    assert [*changes.touched()] == ["page"]


def test_a_comparison_that_git_cannot_make_touches_every_group(git: Git, tmp_path: Path) -> None:
    begin_change(git, tmp_path)
    git("add", ".ci")
    git("commit", "-q", "-m", "two")
    (tmp_path / ".git" / "index").write_text("not an index")
    assert changes.base() is not None
    assert [*changes.touched()] == names()


def test_every_group_has_smoke_tests() -> None:
    """A change that does not touch the group runs nothing else of it."""
    root = Path(__file__).parents[2]
    for group in changes.GROUPS:
        texts = [file.read_text() for top in group.tests for file in (root / top).rglob("test_*.py")]
        assert any("@pytest.mark.smoke" in text for text in texts), group.name


def test_every_path_of_a_group_exists() -> None:
    """The group of a renamed folder would never be touched again."""
    listed = [path for group in changes.GROUPS for path in (*group.tests, *group.sources)] + [*changes.EVERYTHING]
    root = Path(__file__).parents[2]
    files = subprocess.run(
        [needs.git(), "ls-files"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [path for path in listed if not any(file.startswith(path) for file in files)] == []


def test_the_list_of_offenders_only_shrinks() -> None:
    since = changes.base()
    if since is None:  # A shallow clone has nothing to compare with; the full clone of CI has.
        since = changes.commit()
    path = processor.OFFENDERS.relative_to(changes.ROOT)
    done = subprocess.run(
        [needs.git(), "show", f"{since}:{path}"], cwd=changes.ROOT, capture_output=True, text=True, check=False
    )
    before = json.loads(done.stdout) if done.returncode == 0 else processor.offenders()
    for kind, now in processor.offenders().items():
        old = {_without_folder(name): value for name, value in before[kind].items()}
        new = {_without_folder(name): value for name, value in now.items()}
        assert [name for name, value in new.items() if value > old.get(name, value)] == [], f"{kind}: CONTRIBUTING.md"
        gone, added = (sorted(left.values(), reverse=True) for left in (_only_in(old, new), _only_in(new, old)))
        assert len(added) <= len(gone), f"{kind}: see CONTRIBUTING.md"
        assert all(value <= other for value, other in zip(added, gone, strict=False)), f"{kind}: see CONTRIBUTING.md"


def _only_in(some: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    """A renamed test keeps its budget: it is in one list under its old name and in the other under its new one."""
    return {name: value for name, value in some.items() if name not in others}


def _without_folder(name: str) -> str:
    """A test keeps its budget where its file moves to another folder."""
    return name.partition("::")[0].rpartition("/")[2] + "::" + name.partition("::")[2]


def test_every_offender_is_a_test_that_exists() -> None:
    for place in {name for found in processor.offenders().values() for name in found}:
        file, _, function = place.partition("::")
        assert f"def {function.rpartition('::')[2]}(" in (changes.ROOT / file).read_text(), place


def test_points_are_evenly_spaced_and_together_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sets.SET, "change")
    for count, keep in ((80, 10), (5, 4), (9, 4), (7, 1), (3, 3)):
        seen: set[int] = set()
        for rotation in range(64):
            monkeypatch.setenv(sets.ROTATION, str(rotation))
            chosen = sets.points(range(count), keep, "a sweep")
            assert len({*chosen}) == keep and chosen == sorted(chosen)
            seen |= {*chosen}
        assert seen == {*range(count)}
    monkeypatch.setenv(sets.SET, "nightly")
    assert sets.points(range(80), 10, "a sweep") == [*range(80)]


def test_every_point_is_tried_with_every_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep in a test with parameters is thinned twice, by the same rotation."""
    monkeypatch.setenv(sets.SET, "change")
    seen = set()
    for rotation in range(200):
        monkeypatch.setenv(sets.ROTATION, str(rotation))
        (parameter,), (point,) = sets.points(range(4), 1, "tests"), sets.points(range(4), 1, "points")
        seen.add((parameter, point))
    assert len(seen) == 16
