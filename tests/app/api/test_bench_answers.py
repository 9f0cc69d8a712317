"""What is told of suites and runs is what the API says it is: real answers, held to their models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from planloop.app.benching import cases, telling
from planloop.app.benching.known_suites import KnownSuites
from planloop.app.benching.library import Library
from planloop.app.benching.shelf import RunName, Shelf
from planloop.server.api import naming
from tests.e2e import benches
from tests.e2e.folder import Folder

RUN = RunName("mixed", "first")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Folder(tmp_path_factory.mktemp("bench"))
    benches.lay(folder)
    said = folder.run("bench", "run", "suite.yaml", "--model", "oracle", "--model", "nop", "--name", "first")
    assert said.code == 0, said.text
    return folder.path


def _answers(folder: Path) -> dict[str, Any]:
    shelf = Shelf(folder / "reports")
    library, suites = Library(shelf), KnownSuites(folder, shelf)
    return {
        "Runs": telling.runs(library),
        "RunTold": telling.run(library, RUN),
        "Comparison": telling.comparison(library, str(RUN)),
        "CaseTold": cases.case(library, RUN, "writes"),
        "EntryTold": cases.entry(library, RUN, "writes", "oracle", 1),
        "Suites": suites.listed(),
        "SuiteTold": suites.told("suite.yaml"),
    }


@pytest.mark.parametrize("name", ["Runs", "RunTold", "Comparison", "CaseTold", "EntryTold", "Suites", "SuiteTold"])
def test_an_answer_fits_its_model(folder: Path, name: str) -> None:
    TypeAdapter(naming.named(name)).validate_python(_answers(folder)[name])
