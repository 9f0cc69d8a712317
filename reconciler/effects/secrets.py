"""What a plan only points at: `env:NAME`, a variable of the owner's environment, `file:path`, what a file holds, or
`secret:NAME`, the one or else the other.

Read when it is used and kept nowhere: no log, status or message has it, and faults name the place, never the content.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schemas.secret import REFERENCES, is_secret_name, secret_places


class NotThere(Exception):
    """A secret is not where the plan says. The text names the place."""


def resolved(value: str, env: Mapping[str, str], folder: Path) -> str:
    """What `value` points at, with paths relative to `folder`; any other text as it stands. Raises NotThere."""
    return secret(value, env, folder) if value.startswith(REFERENCES) else value


def secret(reference: str, env: Mapping[str, str], folder: Path) -> str:
    """What `env:NAME`, `file:path` or `secret:NAME` holds. Raises NotThere, also for text that is none of them."""
    kind, _, where = reference.partition(":")
    if kind == "env":
        found = env.get(where, "")
        if not found:
            raise NotThere(f"the environment variable {where} is not set")
        return found
    if kind == "file":
        try:
            return (folder / Path(where).expanduser()).read_text().strip()
        except (OSError, ValueError) as fault:
            reason = getattr(fault, "strerror", None) or "it is no text"
            raise NotThere(f"the key file {where} cannot be read: {reason}") from None
    if kind == "secret" and is_secret_name(where):
        return _first(where, env, folder)
    raise NotThere("a secret is named as `env:NAME`, `file:path` or `secret:NAME`, never written out")


def _first(name: str, env: Mapping[str, str], folder: Path) -> str:
    """What the first place of `secret:<name>` holds that is there. Raises NotThere."""
    variable, file = secret_places(name)
    if env.get(name):
        return secret(variable, env, folder)
    path = file.partition(":")[2]
    if not (folder / path).exists():
        raise NotThere(f"the secret {name} is neither a variable of the environment nor the file {path}")
    return secret(file, env, folder)
