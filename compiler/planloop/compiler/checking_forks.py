"""What must hold for the branches of forks: git takes the name, and no two forks want one branch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from planloop.compiler.faults import Faults
from planloop.compiler.needs import TaskPath
from planloop.schemas import pointer
from planloop.schemas.encoding import JsonObject

_BAD: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|(^|/)\.|\.lock(/|$)|[./]$|^[-/]|^@$")
"""What git's own rules for names of branches forbid (git check-ref-format)."""


def check_forks(tree: Iterable[tuple[TaskPath, JsonObject]], faults: Faults) -> None:
    """Tells of branches that cannot be made."""
    taken: dict[str, TaskPath] = {}
    for path, task in tree:
        fork = task.get("fork")
        branch = fork.get("branch") if isinstance(fork, dict) else None
        if not isinstance(branch, str):
            continue
        to = (*pointer.of_task(path), "fork", "branch")
        if not branch or _BAD.search(branch):
            hint = "letters, digits and `-`, with `/` between parts, as in `try/new-parser`"
            faults.add("P0223", f"`{branch}` cannot be the name of a branch", hint, to=to)
        elif (other := _near(branch, taken)) is not None:
            there = (*pointer.of_task(taken[other]), "fork", "branch")
            hint = "each fork has a branch of its own; left out, it gets one"
            words = f"`{branch}` is the branch of two forks"
            if other != branch:
                words = f"`{branch}` and `{other}` cannot both be branches"
            faults.related("P0208", words, hint, to, [(f"`{other}` is named here", there)])
        else:
            taken[branch] = path


def _near(branch: str, taken: Iterable[str]) -> str | None:
    """One that is the same, or that git would have to keep as a folder where this is a file."""
    here = f"{branch}/"
    return next((one for one in taken if f"{one}/".startswith(here) or here.startswith(f"{one}/")), None)
