"""Addresses name the objects of a plan: `task/frontend/ui`, `agent/.`, `lock/src/App.tsx`.

`Address` is immutable; `parse_address` and `str` are inverse. The log, the view and JSON have the printed form: parse
it to get the parts. The root of the task tree is `task/.`; a task and its agent have the same path.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

KINDS: Final = frozenset("plan task agent lock container hook call approval thread mcp fork conflict case".split())
"""The kinds of objects. The list is closed."""

ROOT: Final = "."
"""The printed form of an empty path."""


class BadAddress(ValueError):
    """`text` is not an address; `hint` says what an address needs."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(f"`{text}` is not an address: {hint}")
        self.text = text
        self.hint = hint


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A kind, and a path of ids from the root, whose path is empty and which prints as `kind/.`.

    Addresses can be compared, sorted (by kind, then path) and used as keys. The constructor checks nothing: use
    `parse_address` for text from outside. No id may be empty or contain `/`, and `.` may not be the only id.
    """

    kind: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}/{'/'.join(self.path) or ROOT}"

    @property
    def is_root(self) -> bool:
        return not self.path

    @property
    def name(self) -> str:
        """The last id, `.` for the root."""
        return self.path[-1] if self.path else ROOT

    @property
    def parent(self) -> Address | None:
        """The address one level up, None for the root."""
        return Address(self.kind, self.path[:-1]) if self.path else None

    def child(self, name: str) -> Address:
        """The address one level down, with the id `name`."""
        return Address(self.kind, (*self.path, name))

    def is_within(self, other: Address) -> bool:
        """Whether this is `other` or one of its descendants, by path only: an agent is within the task of its path."""
        return self.path[: len(other.path)] == other.path


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address:
    """The address that prints as `text`. Raises BadAddress if the kind is unknown or an id is missing or empty."""
    kind, slash, rest = text.partition("/")
    if kind not in KINDS:
        raise BadAddress(text, f"it starts with a kind, one of {', '.join(sorted(KINDS))}")
    if not slash or not rest:
        raise BadAddress(text, f"a path follows the kind, as in `{kind}/name`")
    if rest == ROOT:
        return Address(kind)
    path = tuple(rest.split("/"))
    if not all(path):
        raise BadAddress(text, "no part of the path is empty")
    return Address(kind, path)


def task_address(*path: str) -> Address:
    """The address of a task: `task_address("a", "b")` is `task/a/b`, `task_address()` the root."""
    return Address("task", path)


def agent_address(*path: str) -> Address:
    """The address of the agent of the task at `path`."""
    return Address("agent", path)
