"""Containers: brought up, kept as the plan wants them, watched, and taken down, in whatever engine there is."""

from planloop.controllers.container.acting import ContainerReconciler
from planloop.controllers.container.leaving import Left, clear, discard, remaining, take_down
from planloop.controllers.container.watching import Watching
from planloop.controllers.container.yard import Yard, log_path

__all__ = ["ContainerReconciler", "Left", "Watching", "Yard", "clear", "discard", "log_path", "remaining", "take_down"]
