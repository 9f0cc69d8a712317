"""One trial of one mutant: its near tests first, then the whole set, up to the first test that fails."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import sets
from tests.mutants import tree
from tests.mutants.mutant import Mutant
from tests.suite.changes import GROUPS
from tests.suite.plugin import TOUCHED

TIMEOUT_S: Final = 3600.0
"""Of a run of the whole set."""
NEAR_TIMEOUT_S: Final = 900.0
"""Of a run of the near tests, or of the one that failed."""
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
WHOLE: Final = ("tests",)
NOTHING_FAILED: Final = (0, 5)
"""Exit codes of pytest: all passed, or the set has no test here."""


class Interrupted(Exception):
    """The trial was ended before its result was known."""


_running: Final = set[int]()
_interrupted: Final = threading.Event()


@dataclass(frozen=True, slots=True)
class Result:
    """`killer` is the first test that failed, empty if all passed. `is_sound`: it passes without the mutant."""

    mutant: Mutant
    killer: str
    is_near: bool = True
    is_sound: bool = True

    @property
    def is_killed(self) -> bool:
        return bool(self.killer) and self.is_sound

    def __str__(self) -> str:
        if not self.killer:
            return f"{self.mutant.id}: survived: {self.mutant.breaks}"
        if not self.is_sound:
            return f"{self.mutant.id}: {self.killer} fails without the mutant, too"
        return f"{self.mutant.id}: killed by {self.killer}{'' if self.is_near else ' (not near)'}"


def trial(mutant: Mutant, copy: Path, suite: str, *, is_whole: bool) -> Result:
    """Try `mutant` in `copy`. With `is_whole`, run the whole set if the near tests pass."""
    with tree.mutated(copy, mutant):
        killer, is_near = _first_failure(copy, suite, mutant, mutant.near), True
        if not killer and is_whole:
            killer, is_near = _first_failure(copy, suite, mutant, WHOLE), False
    # A run that ended without the name of a test, as one whose imports fail, is repeated whole.
    again = (killer,) if killer.startswith("tests/") else mutant.near
    is_sound = not killer or not _first_failure(copy, suite, mutant, again)
    return Result(mutant, killer, is_near, is_sound)


def _first_failure(copy: Path, suite: str, mutant: Mutant, tests: Sequence[str]) -> str:
    command = [tree.python(copy), "-m", "pytest", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    command += ["--set", suite, "--ignore=tests/mutants", f"--basetemp={copy}.tmp", *tests]
    touched = (group.name for group in GROUPS if group.is_touched(frozenset({mutant.file})))
    environment = {**os.environ, TOUCHED: ",".join(touched), sets.ROTATION: str(sets.rotation())}  # noqa: TID251
    # Writing no bytecode would make each start of `plan` compile everything.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(
        command, cwd=copy, env=environment, text=True, stdout=-1, stderr=-2, start_new_session=True
    ) as run:
        _running.add(run.pid)
        try:
            output, _ = run.communicate(timeout=TIMEOUT_S if tests == WHOLE else NEAR_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "the time limit"
        finally:
            _running.discard(run.pid)
            _end_group(run.pid)
    if _interrupted.is_set():
        raise Interrupted
    if run.returncode in NOTHING_FAILED:
        return ""
    found = FAILED.search(output)
    return found[1] if found else f"exit code {run.returncode}: {output.strip()[-300:]}"


def _end_group(leader: int) -> None:
    """Kill the processes that tests of a broken product left in their process group."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def interrupt() -> None:
    """End the running trials, and start no more."""
    _interrupted.set()
    for leader in tuple(_running):
        _end_group(leader)


def processor_s() -> float:
    """Processor seconds of all trials so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
