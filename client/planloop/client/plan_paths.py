"""Where the files of a plan are, how a plan is found, and which command resumes it.

Without a file and `--plan`, a command takes the only plan in `./.plan`; if there are several, it asks which one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.store import state_files
from planloop.schemas.canonical_json import encode, sha256_hex
from planloop.schemas.frozen import frozen


@frozen
class PlanPaths:
    """The state of the plan `name`: `folder` is `<root>/.plan/<name>`, `root` the folder of the plan file."""

    name: str
    folder: Path

    @property
    def root(self) -> Path:
        return self.folder.parent.parent

    @property
    def exists(self) -> bool:
        return self.folder.is_dir()

    @property
    def file(self) -> Path | None:
        """The plan file that was last applied here, None when it is not known."""
        noted = state_files.noted_plan_file(self.folder)
        return self.root / noted if noted else None

    def note_file(self, file: Path) -> None:
        """Remembers `file`, for commands that are given the file or nothing at all."""
        wanted = encode({"file": file.name})
        note = self.folder / state_files.FILE_NOTE
        if not note.exists() or note.read_bytes() != wanted:
            state_files.write_private_file(note, wanted)


def paths_of_file(file: Path, name: str) -> PlanPaths:
    """The place of the plan called `name` that `file` describes."""
    return PlanPaths(name, state_files.state_folder(file.absolute(), name))


def plans_in(root: Path) -> list[PlanPaths]:
    """The plans whose state is in `root`, by name."""
    try:
        folders = sorted(
            entry for entry in (root / state_files.STATE).iterdir() if entry.is_dir() and state_files.has_log(entry)
        )
    except OSError:
        return []
    return [PlanPaths(folder.name, folder) for folder in folders]


def find_plan(plan: str | None, cwd: Path) -> PlanPaths:
    """The plan meant by `--plan` (a name or a plan file) or by being the only one in `cwd`. Raises CommandError."""
    if plan is None:
        return _only(plans_in(cwd), cwd)
    as_file = cwd / plan
    root = as_file.parent if as_file.is_file() else cwd
    places = plans_in(root)
    for place in places:
        if place.name == plan or (as_file.is_file() and place.file == as_file):
            return place
    known = ", ".join(place.name for place in places)
    hint = f"plans here: {known}" if known else f"start it with: plan apply {plan if as_file.is_file() else 'FILE'}"
    raise CommandError(ExitCode.NOT_FOUND, f"unknown plan `{plan}`: no state in {root / state_files.STATE}", hint)


def _only(places: list[PlanPaths], cwd: Path) -> PlanPaths:
    match places:
        case [place]:
            return place
        case []:
            hint = "change to the folder of the plan file, or start a plan: plan apply FILE"
            raise CommandError(ExitCode.NOT_FOUND, f"no plan found in {cwd / state_files.STATE}", hint)
        case _:
            names = ", ".join(place.name for place in places)
            raise CommandError(
                ExitCode.USAGE, f"{cwd / state_files.STATE} has several plans", f"choose one with --plan: {names}"
            )


def plan_label(place: PlanPaths) -> str:
    """What marks this plan's processes, unique on this machine: two folders may each have a plan of one name.

    It is the same by whatever way the folder is named: who looks for what an owner left may have come by another.
    """
    return f"{place.name}-{sha256_hex(os.fsencode(os.path.realpath(place.folder)))[:12]}"


RUN_PLAN: Final = "run.plan.yaml"
RUN_JSON: Final = "plan.json"
"""What a benchmark run keeps its cases in, beside its plan."""
VALIDATION: Final = "validation"
"""The run of `plan bench validate`, which is not a result."""


def command_to_resume(place: PlanPaths) -> str:
    """Return the command that resumes the plan at `place`."""
    file = place.file
    if file is None:
        return "plan apply FILE"
    return _of_run(file) or f"plan apply {file.name}"


def plan_flag(place: PlanPaths) -> str:
    """Return the `--plan` option for a printed command; empty if the folder has only one plan."""
    return f" --plan {place.name}" if len(plans_in(place.root)) > 1 else ""


def refuse_bench_plan(file: Path) -> None:
    """Raises CommandError when `file` is the plan of a benchmark's run."""
    cure = _of_run(file)
    if cure is not None:
        raise CommandError(ExitCode.CONFLICT, f"{file} belongs to a benchmark run and cannot be applied", cure)


def _of_run(file: Path) -> str | None:
    """Return the command that resumes the benchmark run of the plan `file`; None for every other plan."""
    folder, here = file.absolute().parent, Path.cwd()
    if file.name != RUN_PLAN or not (folder / RUN_JSON).is_file():
        return None
    if folder.name == VALIDATION:
        return "plan bench validate SUITE"
    return f"plan bench resume {folder.relative_to(here) if here in folder.parents else folder}"
