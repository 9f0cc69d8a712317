"""Which folder of this machine the mounts of a container begin in. Pure."""

from __future__ import annotations

from pathlib import Path

from reconciler.storing.store import View
from schemas.container import ContainerSpec, leads_out
from schemas.fork import tree_of


def start_of(view: View, spec: ContainerSpec, root: Path, written: str) -> Path:
    """The folder that `written`, the host's side of a mount, begins in: that of the plan, which is `root`, or a fork.

    A container that is for a task sees what the task sees: where that works in a fork, the fork's working tree. What
    leads out of the plan's folder is in no fork.
    """
    task = view.get(f"task/{spec.task}") if spec.task and not leads_out(written) else None
    fork = view.get(str(task.spec["fork"])) if task is not None and task.spec.get("fork") else None
    return root if fork is None else root / tree_of(fork.status)
