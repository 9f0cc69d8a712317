"""Mask secret variables of a container in output; a label stores their names. Standard library only.

Their values come from the engine, which has the values at the creation of the container, even if the secret has changed
or can no longer be looked up. Imports little, because the program that runs a command in a container loads it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from planloop.reconciler.effects.secret_masks import SecretMasks
from planloop.schemas.secret import REFERENCES

SECRETS: Final = "planloop.secrets"


def secrets_label(env: Mapping[str, str]) -> str:
    """The value of the label for a container with the variables `env` in the plan."""
    return ",".join(sorted(name for name, value in env.items() if value.startswith(REFERENCES)))


def env_from_engine(raw: Iterable[str] | None) -> dict[str, str]:
    """Parse variables in the engines' form, a list of `NAME=value`."""
    return {name: value for name, _, value in (one.partition("=") for one in raw or ())}


def masks_from_labels(labels: Mapping[str, str], env: Mapping[str, str]) -> SecretMasks:
    """Masks for the secrets of a container with these labels and variables."""
    return SecretMasks(env[name] for name in labels.get(SECRETS, "").split(",") if name in env)


def masks_from_config(config: Mapping[str, Any]) -> SecretMasks:
    """Masks from `Config` in the response of `GET /containers/{id}/json`."""
    return masks_from_labels(config.get("Labels") or {}, env_from_engine(config.get("Env")))
