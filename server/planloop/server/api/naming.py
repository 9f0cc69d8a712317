"""The models that rows of the table name. Whoever has many of their own keeps them in a module here."""

from __future__ import annotations

from typing import Any, Final

from planloop.server.api import answers, benches, edits, guests, requests, telling
from planloop.server.api.model import Model

MODULES: Final = (requests, answers, edits, telling, guests, benches)


def named(name: str) -> Any:
    """The model, or the union of models, of that name. Raises KeyError for one that there is not."""
    found = next((vars(module)[name] for module in MODULES if name in vars(module)), None)
    if found is None:
        raise KeyError(name)
    return found


def model(name: str) -> type[Model] | None:
    """The same, None for a union."""
    found = named(name)
    return found if isinstance(found, type) and issubclass(found, Model) else None
