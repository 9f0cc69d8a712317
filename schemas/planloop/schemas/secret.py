"""How a plan says where a secret is: it names the place, and never holds the value."""

from __future__ import annotations

import re
from typing import Final

SECRET: Final = "secret:"
REFERENCES: Final = ("env:", "file:", SECRET)
"""A variable of the owner's environment, a file relative to the plan's, or either by one name: see `secret_places`."""

FOLDER: Final = ".plan/secrets"
"""Where files with secrets are, beside the plan. Nothing of `.plan` goes into git, and no sandbox shows it."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # No slash, no leading dot: it stays in its folder.


def is_secret_name(name: str) -> bool:
    """Whether `secret:<name>` can be looked up."""
    return _NAME.fullmatch(name) is not None


def secret_places(name: str) -> tuple[str, str]:
    """Where `secret:<name>` is looked for, first come first served: a variable, then a file."""
    return f"env:{name}", f"file:{FOLDER}/{name}"
