"""Forks: a working tree and branch for a task and those below it, made, merged back and removed, with git."""

from __future__ import annotations

from planloop.controllers.fork.acting import ForkReconciler
from planloop.controllers.fork.desk import Desk
from planloop.controllers.fork.git import Git

__all__ = ["Desk", "ForkReconciler", "Git"]
