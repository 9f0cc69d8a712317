"""A registry of tools as a plain map, put together again only when what it is made from has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from planloop.controllers.agent.tools.tool import Explains, Tool
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.resource import Resource

T = TypeVar("T")


class KeptTools(Mapping[str, Tool]):
    """`tools`, which depend on the plan and on its servers alone, as of now."""

    def __init__(self, tools: Mapping[str, Tool], view: Callable[[], View]) -> None:
        self._tools = tools
        self._view = view
        self._rev = -1
        self._made_from: list[Resource] = []
        self._now: dict[str, Tool] = {}
        self._made: dict[int, tuple[object, dict[str, Tool], tuple[str, ...]]] = {}

    def __getitem__(self, name: str) -> Tool:
        found = self._fresh().get(name)
        # What is withheld is in no list, and is there to be refused with the reason.
        return self._tools[name] if found is None else found

    def get(self, name: str, default: object = None, /) -> Tool | None:  # type: ignore[override]
        """The tool, or None: without an error raised and caught for one that there is."""
        del default
        found = self._fresh().get(name)
        return self._tools.get(name) if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._fresh())

    def __len__(self) -> int:
        return len(self._fresh())

    def why_missing(self, name: str) -> str:
        """See `Explains`."""
        return self._tools.why_missing(name) if isinstance(self._tools, Explains) else ""

    def kept_for(self, one: T, make: Callable[[T], tuple[str, ...]]) -> tuple[str, ...]:
        """What `make` makes of these tools for `one`, made once for as long as both are the same."""
        now = self._fresh()
        found = self._made.get(id(one))
        if found is None or found[0] is not one or found[1] is not now:
            if len(self._made) >= limits.TOOLSETS_KEPT_MAX:
                self._made.clear()
            found = self._made[id(one)] = (one, now, make(one))
        return found[2]

    def _fresh(self) -> dict[str, Tool]:
        view = self._view()
        if view.rev == self._rev:
            return self._now
        self._rev = view.rev
        made_from = [*view.list("mcp"), *view.list("plan")]
        if len(made_from) != len(self._made_from) or any(
            new is not old for new, old in zip(made_from, self._made_from, strict=True)
        ):
            self._made_from = made_from
            self._now = {name: self._tools[name] for name in self._tools}
        return self._now
