"""Addresses name objects: `task/frontend/ui`, `agent/.`, `lock/src/App.tsx`.

Immutable values whose `parse` and `str` are inverse. The root of the task tree is `task/.`; its agent is `agent/.`.
Every other module speaks in addresses, never in bare strings, except the log, which holds their printed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

KINDS: Final = frozenset("plan task agent lock container hook call approval thread mcp fork conflict case".split())
ROOT: Final = "."


class BadAddress(ValueError):
    """The text is not an address. `text` is what was given, `hint` the cure."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(f"`{text}` is not an address: {hint}")
        self.text = text
        self.hint = hint


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A kind and a path of ids. The empty path is the root and prints as `kind/.`."""

    kind: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}/{'/'.join(self.path) or ROOT}"

    @property
    def is_root(self) -> bool:
        return not self.path

    @property
    def name(self) -> str:
        """The last id, or `.` for the root."""
        return self.path[-1] if self.path else ROOT

    @property
    def parent(self) -> Address | None:
        """The address one level up, None for the root."""
        return Address(self.kind, self.path[:-1]) if self.path else None

    def child(self, name: str) -> Address:
        return Address(self.kind, (*self.path, name))

    def is_within(self, other: Address) -> bool:
        """True for `other` itself and for whatever lies below it (kinds are not compared)."""
        return self.path[: len(other.path)] == other.path


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address:
    """The address that prints as `text`. Raises BadAddress."""
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
    """`task('a', 'b')` is `task/a/b`; no arguments give the root."""
    return Address("task", path)


def agent_address(*path: str) -> Address:
    """The agent of the task with the same path."""
    return Address("agent", path)
