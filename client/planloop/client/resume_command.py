"""The command that resumes a plan that no process runs: `plan apply`, or a `plan bench` command.

The plan of a benchmark's run is not applied by itself: its cases would be done, and nobody would grade them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths, plans_in

RUN_PLAN: Final = "run.plan.yaml"
RUN_JSON: Final = "plan.json"
"""What a benchmark run keeps its cases in, beside its plan."""
VALIDATION: Final = "validation"
"""The run that `plan bench validate` makes; it is nobody's result."""


def command_to_resume(place: PlanPaths) -> str:
    """What goes on with the plan at `place`, as a person types it."""
    file = place.file
    if file is None:
        return "plan apply FILE"
    return _of_run(file) or f"plan apply {file.name}"


def plan_flag(place: PlanPaths) -> str:
    """What a printed command needs to mean the plan at `place`: empty where it is the only one in its folder."""
    return f" --plan {place.name}" if len(plans_in(place.root)) > 1 else ""


def refuse_bench_plan(file: Path) -> None:
    """Raises CommandError when `file` is the plan of a benchmark's run."""
    cure = _of_run(file)
    if cure is not None:
        raise CommandError(
            ExitCode.CONFLICT, f"{file} is the plan of a benchmark, which is not applied by itself", cure
        )


def _of_run(file: Path) -> str | None:
    """What goes on with the run of a benchmark whose plan `file` is; None for every other plan."""
    folder, here = file.absolute().parent, Path.cwd()
    if file.name != RUN_PLAN or not (folder / RUN_JSON).is_file():
        return None
    if folder.name == VALIDATION:
        return "plan bench validate SUITE"
    return f"plan bench resume {folder.relative_to(here) if here in folder.parents else folder}"
