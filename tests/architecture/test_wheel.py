"""The wheel holds what the product needs and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from planloop import VERSION
from tests.architecture.tree import PACKAGES, ROOT


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.process
@pytest.mark.timeout(240)
def test_the_wheel_is_of_the_version_that_the_command_tells(names: list[str]) -> None:
    (about,) = {Path(name).parts[0] for name in names if ".dist-info" in name}
    assert about == f"planloop-{VERSION}.dist-info"


@pytest.mark.process
@pytest.mark.timeout(240)
def test_the_wheel_has_exactly_the_top_level_names_of_the_product(names: list[str]) -> None:
    tops = {Path(name).parts[0] for name in names}

    assert {top for top in tops if not top.endswith(".dist-info")} == {*PACKAGES, "plans"}


@pytest.mark.process
@pytest.mark.timeout(240)
def test_the_wheel_ships_the_library_the_examples_the_editor_schema_and_the_page(names: list[str]) -> None:
    assert any(name.startswith("plans/library/") for name in names)
    assert any(name.startswith("plans/examples/quickstart/") for name in names)
    assert any(name.startswith("schemas/json/") for name in names)
    assert "planloop/page/index.html" in names
    assert any(name.startswith("planloop/page/assets/") and name.endswith(".js") for name in names)


@pytest.mark.process
@pytest.mark.timeout(240)
def test_the_wheel_ships_every_file_that_the_product_reads_or_starts(names: list[str]) -> None:
    kept = [*(ROOT / "plans").rglob("*"), *(file for top in PACKAGES for file in (ROOT / top).rglob("*"))]
    files = {file.relative_to(ROOT) for file in kept if file.is_file()}
    shipped = {str(file) for file in files if not {"__pycache__", ".plan"} & set(file.parts)}

    assert "controllers/agent/models/prices.yaml" in shipped
    assert shipped - set(names) == set()
