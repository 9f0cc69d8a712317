"""The controller of tasks: drives each task of a plan from waiting to done, verified by its acceptance checks.

`observing` reads, `deciding` is the pure core (its rules in the files around it), `controller` acts. Nothing here knows
agents but by the objects in the store.
"""

from planloop.controllers.task.checking import Bench, Finding, run_checks
from planloop.controllers.task.controller import TaskController
from planloop.controllers.task.explaining import why
from planloop.controllers.task.status import Standing, standing
from planloop.controllers.task.step import Says
from planloop.controllers.task.surroundings import Surroundings

__all__ = ["Bench", "Finding", "Says", "Standing", "Surroundings", "TaskController", "run_checks", "standing", "why"]
