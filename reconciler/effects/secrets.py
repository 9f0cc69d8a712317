"""What a plan only points at: `env:NAME`, a variable of the owner's environment, or `file:path`, what a file holds.

Read when it is used and kept nowhere: no log, status or message has it, and faults name the place, never the content.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schemas.model import REFERENCES


class NotThere(Exception):
    """A secret is not where the plan says. The text names the place."""


def resolved(value: str, env: Mapping[str, str], folder: Path) -> str:
    """What `value` points at, with paths relative to `folder`; any other text as it stands. Raises NotThere."""
    return secret(value, env, folder) if value.startswith(REFERENCES) else value


def secret(reference: str, env: Mapping[str, str], folder: Path) -> str:
    """What `env:NAME` or `file:path` holds. Raises NotThere, also for text that is neither."""
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
    raise NotThere("a secret is named as `env:NAME` or `file:path`, never written out")
