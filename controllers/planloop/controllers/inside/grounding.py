"""Which files of this machine the mounts of a container are. Pure, but for the home that `~` stands for."""

from __future__ import annotations

from pathlib import Path

from planloop.reconciler.storing.store import View
from planloop.schemas.container import ContainerSpec, is_outside_plan
from planloop.schemas.fork import tree_of
from planloop.schemas.frozen import frozen


@frozen
class Ground:
    """`folder` is the plan's, `tree` what a container mounts of it: the same, or the working tree of a fork of it."""

    folder: Path
    tree: Path

    def start(self, written: str) -> Path:
        """The folder that `written`, the host's side of a mount, begins in. What leads out is in no fork."""
        return self.folder if is_outside_plan(written) else self.tree

    def at(self, written: str) -> Path:
        """The path that `written` is, with the links on its way."""
        return self.start(written) / Path(written).expanduser()


def ground_of(view: View, spec: ContainerSpec, folder: Path) -> Ground:
    """What the container of `spec` finds in the plan of `folder`.

    One that is for a task sees what the task sees: where that works in a fork, the fork's working tree.
    """
    task = view.get(f"task/{spec.task}") if spec.task else None
    fork = view.get(str(task.spec["fork"])) if task is not None and task.spec.get("fork") else None
    return Ground(folder, folder if fork is None else folder / tree_of(fork.status))
