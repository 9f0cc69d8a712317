"""What Tab offers: the names of the plan, and never an error."""

from __future__ import annotations

import click
import pytest

from planloop.cli.options import complete_addresses
from tests.e2e.folder import Folder


@pytest.mark.parametrize(
    ("kinds", "typed", "offered"),
    [
        ((), "task/b", ["task/build"]),
        ((), "bu", ["build"]),
        (("task",), "", ["task/.", "task/build"]),
        (("container", "task"), "task/", ["task/.", "task/build"]),
        (("container",), "b", []),
    ],
)
def test_names_are_completed_with_and_without_their_kind(
    kinds: tuple[str, ...], typed: str, offered: list[str], tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch, planned: Folder,
) -> None:  # fmt: skip
    monkeypatch.chdir(planned.path)
    context = click.Context(click.Command("verb"))

    found = complete_addresses(*kinds)(context, click.Argument(["what"]), typed)

    assert [one.value for one in found] == offered
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert complete_addresses(*kinds)(context, click.Argument(["what"]), typed) == []


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with a plan that was written down and is not run."""
    folder = Folder(tmp_path_factory.mktemp("planned"))
    folder.write("p.yaml", 'plan: p\ntasks: {build: {run: "true"}}\n')
    assert folder.run("apply", "p.yaml").code == 0
    return folder
