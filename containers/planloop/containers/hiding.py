"""What a container knows that nobody else may: values of its variables that the plan only points at.

The names of such variables are a label of the container, and their values are asked of the engine, which has them as
they were when it was made: also after the secret has changed, and where nobody could look it up any more. Imports
little, for the program that runs a command inside needs this, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from planloop.reconciler.effects.masking import Masks
from planloop.schemas.secret import REFERENCES

SECRETS: Final = "planloop.secrets"


def secrets_label(env: Mapping[str, str]) -> str:
    """The label's value for a container whose variables the plan writes as `env`."""
    return ",".join(sorted(name for name, value in env.items() if value.startswith(REFERENCES)))


def variables(raw: Iterable[str] | None) -> dict[str, str]:
    """Variables as engines write them, `NAME=value` each."""
    return {name: value for name, _, value in (one.partition("=") for one in raw or ())}


def masks_of(labels: Mapping[str, str], env: Mapping[str, str]) -> Masks:
    """What stands in the way of the secrets of a container with these labels and variables."""
    return Masks(env[name] for name in labels.get(SECRETS, "").split(",") if name in env)


def masks_in(config: Mapping[str, Any]) -> Masks:
    """The same of `Config` of what `GET /containers/{id}/json` answers."""
    return masks_of(config.get("Labels") or {}, variables(config.get("Env")))
