"""The containers of a plan, for whoever works in them: how far one is, from the store, and commands inside."""

from planloop.controllers.inside.grounding import Ground, ground_of
from planloop.controllers.inside.masking import masks
from planloop.controllers.inside.placing import Place, place_of
from planloop.controllers.inside.standing import ILL, OVER, Standing, standing
from planloop.controllers.inside.telling import told
from planloop.controllers.inside.working import Containers, PlanContainers, SeenContainers

__all__ = [
    "ILL",
    "OVER",
    "Containers",
    "Ground",
    "Place",
    "PlanContainers",
    "SeenContainers",
    "Standing",
    "ground_of",
    "masks",
    "place_of",
    "standing",
    "told",
]
