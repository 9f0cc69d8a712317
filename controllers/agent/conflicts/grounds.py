"""What a ruling needs of the world beside the plan: a branch needs a git repository."""

from __future__ import annotations

from pathlib import Path

from controllers.agent.conflicts.resolving import Unruled


def require(folder: Path, how: str) -> None:
    """Raises Unruled when what is wanted cannot be had in the plan's `folder`."""
    if how == "fork" and not any((place / ".git").exists() for place in (folder, *folder.parents)):
        raise Unruled("NoRepository", "a branch needs a git repository, and there is none here: rule otherwise")
