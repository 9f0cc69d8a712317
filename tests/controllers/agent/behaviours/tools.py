"""Tools that fail on command, and a place where agents have them: real store, engine and controllers around."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.tool import Settlement, Tool, ToolContext, success
from tests.product import EffectClass


@dataclass
class Flaky:
    """Fails with `error` for the first `failures` calls, then answers how often it was called.

    It stands where the built-in tool `name` does, so that plans know it. `gate` holds every call until it is set.
    """

    name: str = "search"
    error: str = "Unreachable"
    failures: int = 0
    effect: EffectClass = EffectClass.READ
    began: list[str] = field(default_factory=list)
    running: int = 0
    most: int = 0
    gate: anyio.Event | None = None

    def tool(self) -> Tool:
        async def flaky(context: ToolContext, text: str = "", path: str = ".", command: str = "") -> Settlement:
            del text, path, command
            self.began.append(context.spec.op)
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                if self.gate is not None:
                    await self.gate.wait()
                if len(self.began) <= self.failures:
                    raise ToolFailed(self.error, f"try {len(self.began)}")
                return Settlement(success(f"call {len(self.began)}"))
            finally:
                self.running -= 1

        from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS

        return replace(BUILT_IN_TOOLS[self.name], function=flaky, effect=self.effect, ended=None)


def tools_with(*flaky: Flaky) -> dict[str, Any]:
    """The built-in tools with some of them replaced."""
    from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS

    return {**BUILT_IN_TOOLS, **{each.name: each.tool() for each in flaky}}
