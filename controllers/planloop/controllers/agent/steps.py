"""The next step of an agent as a value: `decide` returns it, the controller takes it."""

from __future__ import annotations

from typing import TypeAlias

from planloop.controllers.agent.hooks.questions import HookMoment
from planloop.controllers.agent.mail.wake_reasons import WakeNews
from planloop.controllers.agent.tools.tool import CallEnding
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.message import ThreadAnswer as GivenAnswer
from planloop.schemas.resource import Resource


@frozen
class CancelJobs:
    """Stop these jobs; the next pass sees what is left."""

    keys: tuple[str, ...]


@frozen
class CloseTurn:
    """The open turn ends without its rest: the work was called off or begun anew."""

    why: str


@frozen
class ReleaseAgent:
    """Nothing of it runs any more: the object may go."""


@frozen
class BeginIncarnation:
    """A new incarnation."""

    incarnation: int


@frozen
class StartTurn:
    """A new turn, for these reasons, telling this news. `is_last`: the budget is used up, and it is to hand over."""

    news: WakeNews
    is_last: bool = False


@frozen
class EscalateModel:
    """A stronger model continues the conversation."""

    why: str


@frozen
class AskDecider:
    """The mind is to be asked for the open turn."""


@frozen
class ConsultHooks:
    """The hooks of the agent are to be asked, or are waited for, before it goes on from this moment of its turn."""

    moment: HookMoment


@frozen
class AuthorizeCalls:
    """The calls of the reply have not been looked at."""


@frozen
class RunCalls:
    """These calls may start, or go on after a crash."""

    calls: tuple[Resource, ...]


@frozen
class CollectResults:
    """These calls have ended elsewhere (a person's word, an answer): their results belong to the turn."""

    calls: tuple[Resource, ...]


@frozen
class ResolveWait:
    """A waiting call is over, or a step further."""

    call: Resource
    ending: CallEnding


@frozen
class InterruptTurn:
    """A message or an edit stops the step in flight: what has not started is not started."""


@frozen
class ApplyApprovals:
    """These calls waited for a yes and have their answer."""

    calls: tuple[Resource, ...]


@frozen
class AnswerQuestion:
    """What the agent was asked gets this answer, without a turn."""

    answer: GivenAnswer


@frozen
class EndLease:
    """The client of the outside agent has it no longer."""

    why: str


@frozen
class EndTurn:
    """Every call has its result."""


@frozen
class AgentRest:
    """Nothing to do now. `after_s` is when a timer is due (None: only a change wakes it).

    `is_wait`: the calls of the open turn only wait, which is not active time.
    """

    state: AgentState
    why: str
    condition: str = ""
    unblocks: tuple[str, ...] = ()
    after_s: float | None = None
    is_wait: bool = False


AgentStep: TypeAlias = (
    CancelJobs
    | CloseTurn
    | ReleaseAgent
    | BeginIncarnation
    | StartTurn
    | EscalateModel
    | AskDecider
    | ConsultHooks
    | AuthorizeCalls
    | ApplyApprovals
    | ResolveWait
    | InterruptTurn
    | RunCalls
    | CollectResults
    | AnswerQuestion
    | EndLease
    | EndTurn
    | AgentRest
)
