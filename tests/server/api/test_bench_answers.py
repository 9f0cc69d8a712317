"""Real answers about suites and runs match the models of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from planloop.server.api import validation
from planloop.server.bench import bench_presenter, case_presenter
from planloop.server.bench.run_folder import ReportsFolder, RunName
from planloop.server.bench.run_library import RunLibrary
from planloop.server.bench.suites import SuiteLibrary
from tests.e2e import bench_suite
from tests.e2e.folder import Folder

RUN = RunName("mixed", "first")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Folder(tmp_path_factory.mktemp("bench"))
    bench_suite.lay(folder)
    said = folder.run("bench", "run", "suite.yaml", "--model", "oracle", "--model", "nop", "--name", "first")
    assert said.code == 0, said.text
    return folder.path


def _answers(folder: Path) -> dict[str, Any]:
    shelf = ReportsFolder(folder / "reports")
    library, suites = RunLibrary(shelf), SuiteLibrary(folder, shelf)
    return {
        "Runs": bench_presenter.runs_json(library),
        "RunTold": bench_presenter.run_json(library, RUN),
        "Comparison": bench_presenter.comparison_json(library, str(RUN)),
        "CaseTold": case_presenter.case_json(library, RUN, "writes"),
        "EntryTold": case_presenter.entry_json(library, RUN, "writes", "oracle", 1),
        "Suites": suites.listed(),
        "SuiteTold": suites.told("suite.yaml"),
    }


@pytest.mark.parametrize("name", ["Runs", "RunTold", "Comparison", "CaseTold", "EntryTold", "Suites", "SuiteTold"])
def test_an_answer_fits_its_model(folder: Path, name: str) -> None:
    TypeAdapter(validation.model_or_union(name)).validate_python(_answers(folder)[name])
