"""What decides for an agent: the port, and the minds that need no model."""

from __future__ import annotations

from planloop.controllers.agent.minds.port import (
    CallOutcome,
    ChildView,
    Mind,
    MindFailed,
    ProposedCall,
    Reply,
    TurnInput,
)

__all__ = ["CallOutcome", "ChildView", "Mind", "MindFailed", "ProposedCall", "Reply", "TurnInput"]
