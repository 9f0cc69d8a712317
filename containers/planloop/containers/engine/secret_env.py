"""Which variables of a container are secrets, kept in a label so that output can be masked. Standard library only.

The names of such variables are in a label of the container. Their values come from the engine, which has those of the
container's creation: also after the secret has changed, or can no longer be looked up. Imports little, because the
program that runs a command inside loads it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from planloop.reconciler.effects.secret_masks import SecretMasks
from planloop.schemas.secret import REFERENCES

SECRETS: Final = "planloop.secrets"


def secrets_label(env: Mapping[str, str]) -> str:
    """The label's value for a container whose variables the plan writes as `env`."""
    return ",".join(sorted(name for name, value in env.items() if value.startswith(REFERENCES)))


def env_from_engine(raw: Iterable[str] | None) -> dict[str, str]:
    """Variables as engines write them, `NAME=value` each."""
    return {name: value for name, _, value in (one.partition("=") for one in raw or ())}


def masks_from_labels(labels: Mapping[str, str], env: Mapping[str, str]) -> SecretMasks:
    """Masks for the secrets of a container with these labels and variables."""
    return SecretMasks(env[name] for name in labels.get(SECRETS, "").split(",") if name in env)


def masks_from_config(config: Mapping[str, Any]) -> SecretMasks:
    """The same of `Config` of what `GET /containers/{id}/json` answers."""
    return masks_from_labels(config.get("Labels") or {}, env_from_engine(config.get("Env")))
