"""The wheel holds what the product needs and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from planloop.client import VERSION
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

    assert {top for top in tops if not top.endswith(".dist-info")} == {"planloop"}


@pytest.mark.process
@pytest.mark.timeout(240)
def test_the_wheel_ships_the_library_the_examples_the_editor_schema_and_the_page(names: list[str]) -> None:
    assert any(name.startswith("planloop/plans/library/") for name in names)
    assert any(name.startswith("planloop/plans/examples/quickstart/") for name in names)
    assert any(name.startswith("planloop/schemas/json/") for name in names)
    assert "planloop/server/page/index.html" in names
    assert any(name.startswith("planloop/server/page/assets/") and name.endswith(".js") for name in names)


@pytest.mark.process
@pytest.mark.timeout(240)
def test_the_wheel_leaves_out_speed_scripts_and_simulations_of_tests(names: list[str]) -> None:
    kinds = ("speed/", "/simulated_engine", "/simulated_processes", "/simulated_shell", "/tests/")

    assert [name for name in names if any(kind in name for kind in kinds)] == []


@pytest.mark.process
@pytest.mark.timeout(240)
def test_the_wheel_ships_every_file_that_the_product_reads_or_starts(names: list[str]) -> None:
    tops = {ROOT / "plans": "planloop/plans", **{ROOT / top / "planloop": "planloop" for top in PACKAGES}}
    kept = ((top, file) for top in tops for file in top.rglob("*") if file.is_file())
    files = {Path(tops[top]) / file.relative_to(top) for top, file in kept}
    shipped = {str(file) for file in files if not {"__pycache__", ".plan", "speed"} & set(file.parts)}

    assert "planloop/controllers/agent/models/prices.yaml" in shipped
    assert shipped - set(names) == set()
