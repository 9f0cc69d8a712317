"""What runs where nothing is installed needs nothing that is: no package, and nothing of ours that has one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED_BARE = (
    "planloop.containers.sandbox.exec_in_container",
    "planloop.containers.sandbox.entry",
    "planloop.controllers.task.checks.pattern_child",
)


@pytest.mark.parametrize("module", LOADED_BARE)
def test_module_loads_in_a_bare_interpreter(module: str) -> None:
    file = ROOT.joinpath(module.split(".")[1], *module.split(".")).with_suffix(".py")
    load = f"import runpy; runpy.run_path({str(file)!r}, run_name='loaded')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", load], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
