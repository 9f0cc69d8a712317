"""The agent controller: turns, calls, tools, messages, for agents of every kind of mind."""

from __future__ import annotations

from planloop.controllers.agent.acting import AgentReconciler
from planloop.controllers.agent.ports import Gate, World

__all__ = ["AgentReconciler", "Gate", "World"]
