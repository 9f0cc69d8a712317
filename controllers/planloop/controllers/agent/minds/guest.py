"""An outside agent as a mind: what its client said is its reply. Who the client is, and for how long: `seating.py`."""

from __future__ import annotations

from planloop.controllers.agent.minds.port import ProposedCall, Reply, TurnInput
from planloop.controllers.agent.status import Said
from planloop.schemas.frozen import frozen


@frozen
class GuestMind:
    """Answers with the call that the turn was begun for; None, or a call of no tool, only listens."""

    said: Said | None

    async def respond(self, turn: TurnInput) -> Reply:
        del turn
        if self.said is None or not self.said.tool:
            return Reply(then="sleep")
        return Reply(calls=(ProposedCall(self.said.tool, self.said.arguments, self.said.id),), then="sleep")
