"""What agents can do: the tools, their arguments, and the workspace they act in."""

from __future__ import annotations

from planloop.controllers.agent.tools.registry import BUILT_IN, described
from planloop.controllers.agent.tools.tool import Context, Settlement, Tool

__all__ = ["BUILT_IN", "Context", "Settlement", "Tool", "described"]
