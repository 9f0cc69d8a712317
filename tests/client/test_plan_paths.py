"""The printed command that resumes a plan resumes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.client import plan_paths
from planloop.client.plan_paths import paths_of_file
from planloop.reconciler.store import state_files


@pytest.mark.parametrize(
    ("file", "beside", "command"),
    [
        ("webchat.plan.yaml", "plan.json", "plan apply webchat.plan.yaml"),
        ("run.plan.yaml", "other.json", "plan apply run.plan.yaml"),
        ("notes/first/run.plan.yaml", "plan.json", "plan bench resume notes/first"),
        ("run.plan.yaml", "plan.json", "plan bench resume {here}"),
        ("../first/run.plan.yaml", "plan.json", "plan bench resume ../first"),
        ("validation/run.plan.yaml", "plan.json", "plan bench validate SUITE"),
    ],
)
def test_plan_resumes_with_apply_and_a_benchmark_run_with_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, beside: str, command: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = here / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(beside).touch()
    place = paths_of_file(path, "run")
    place.folder.mkdir(parents=True)
    place.note_file(path)

    assert plan_paths.command_to_resume(place) == command.format(here=here)


def test_plan_with_an_unknown_file_resumes_with_apply(tmp_path: Path) -> None:
    assert plan_paths.command_to_resume(paths_of_file(tmp_path / "p.plan.yaml", "p")) == "plan apply FILE"


def test_a_printed_command_names_the_plan_only_if_its_folder_has_several(tmp_path: Path) -> None:
    first, second = paths_of_file(tmp_path / "a.plan.yaml", "a"), paths_of_file(tmp_path / "b.plan.yaml", "b")
    for place in (first, second):
        assert plan_paths.plan_flag(first) == ""
        place.folder.mkdir(parents=True)
        state_files.log_file(place.folder).touch()

    assert (plan_paths.plan_flag(first), plan_paths.plan_flag(second)) == (" --plan a", " --plan b")
