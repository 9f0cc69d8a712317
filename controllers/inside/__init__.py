"""The containers of a plan, for whoever works in them: how far one is, from the store, and commands inside."""

from controllers.inside.grounding import Ground, ground_of
from controllers.inside.masking import masks
from controllers.inside.placing import Place, place_of
from controllers.inside.standing import ILL, OVER, Standing, standing
from controllers.inside.telling import told
from controllers.inside.working import Containers, PlanContainers, SeenContainers

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
