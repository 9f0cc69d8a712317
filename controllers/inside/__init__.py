"""The containers of a plan, for whoever works in them: how far one is, from the store, and commands inside."""

from controllers.inside.standing import Standing, standing
from controllers.inside.telling import told
from controllers.inside.working import Containers, PlanContainers

__all__ = ["Containers", "PlanContainers", "Standing", "standing", "told"]
