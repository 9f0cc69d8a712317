"""The one next step of an agent, as a value: what `deciding.py` answers and `acting.py` does."""

from __future__ import annotations

from typing import TypeAlias

from planloop.controllers.agent.hooking.moments import Moment
from planloop.controllers.agent.mail.telling import News
from planloop.controllers.agent.tools.tool import Ending
from planloop.schemas.agent import AgentState
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource
from planloop.schemas.thread import Answer as GivenAnswer


@frozen
class Cancel:
    """Stop these jobs; the next pass sees what is left."""

    keys: tuple[str, ...]


@frozen
class Close:
    """The open turn ends without its rest: the work was called off or begun anew."""

    why: str


@frozen
class Release:
    """Nothing of it runs any more: the object may go."""


@frozen
class Begin:
    """A new incarnation."""

    incarnation: int


@frozen
class Start:
    """A new turn, for these reasons, telling this news. `is_last`: the budget is used up, and it is to hand over."""

    news: News
    is_last: bool = False


@frozen
class Escalate:
    """A stronger model continues the conversation."""

    why: str


@frozen
class Ask:
    """The mind is to be asked for the open turn."""


@frozen
class Consult:
    """The hooks of the agent are to be asked, or are waited for, before it goes on from this moment of its turn."""

    moment: Moment


@frozen
class Authorise:
    """The calls of the reply have not been looked at."""


@frozen
class Run:
    """These calls may start, or go on after a crash."""

    calls: tuple[Resource, ...]


@frozen
class Collect:
    """These calls have ended elsewhere (a person's word, an answer): their results belong to the turn."""

    calls: tuple[Resource, ...]


@frozen
class Resolve:
    """A waiting call is over, or a step further."""

    call: Resource
    ending: Ending


@frozen
class Interrupt:
    """A message or an edit stops the step in flight: what has not started is not started."""


@frozen
class Answer:
    """These calls waited for a yes and have their answer."""

    calls: tuple[Resource, ...]


@frozen
class Reply:
    """What the agent was asked gets this answer, without a turn."""

    answer: GivenAnswer


@frozen
class Vacate:
    """The client of the outside agent has it no longer."""

    why: str


@frozen
class End:
    """Every call has its result."""


@frozen
class Rest:
    """Nothing to do now. `after_s` is when a timer is due (None: only a change wakes it).

    `is_wait`: the calls of the open turn only wait, which is not active time.
    """

    state: AgentState
    why: str
    condition: str = ""
    unblocks: tuple[str, ...] = ()
    after_s: float | None = None
    is_wait: bool = False


Step: TypeAlias = (
    Cancel
    | Close
    | Release
    | Begin
    | Start
    | Escalate
    | Ask
    | Consult
    | Authorise
    | Answer
    | Resolve
    | Interrupt
    | Run
    | Collect
    | Reply
    | Vacate
    | End
    | Rest
)
