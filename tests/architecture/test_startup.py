"""How many modules `plan apply` runs before the first process of a plan starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULES_MAX = 181
"""May only shrink. A plan without agents, containers, hooks or checks imports no module that is only for those."""

PLAN = "plan: p\ntasks:\n  a: {run: 'true'}\n"
COUNT = """
import sys

found = []


def note(event, _):
    if event in ("os.posix_spawn", "subprocess.Popen", "os.fork") and not found:
        loaded = [(name, module) for name, module in sys.modules.items() if name.startswith("planloop.")]
        found.extend(name for name, module in loaded if not hasattr(module, "__path__"))


sys.addaudithook(note)
from planloop.cli.main import run_command_line

code = run_command_line(["apply", "p.plan.yaml"])
print(*sorted(found), sep="\\n", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.process
def test_few_modules_run_before_the_first_process_of_a_plan(tmp_path: Path) -> None:
    (tmp_path / "p.plan.yaml").write_text(PLAN)

    done = subprocess.run([sys.executable, "-c", COUNT], cwd=tmp_path, capture_output=True, text=True, check=True)

    modules = done.stderr.splitlines()
    assert "planloop.controllers.task.controller" in modules
    assert len(modules) <= MODULES_MAX, f"{len(modules)} modules:\n{done.stderr}"
