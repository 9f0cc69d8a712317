"""What a tool is: a typed function, its effect class, and what its calls touch.

A tool returns a settlement: the call's one result and the changes that take effect with it, in one append. Tools whose
whole effect is in that append are plain functions (`is_instant`): they need no intent written before (law 5), because
there is no moment at which they happened and are not recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.tools.arguments import BadArguments, checked, plain
from planloop.controllers.agent.tools.faults import ToolDenied
from planloop.controllers.agent.tools.subjects import untellable, untold
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.reconciler.effects.processes import Exit
from planloop.schemas.call import CallResult, CallSpec, CallState, EffectClass
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import LockMode
from planloop.schemas.patch import Author
from planloop.schemas.record import Change
from planloop.schemas.resource import Resource


@frozen
class Settlement:
    """How a call ended. `agent` is merged into the agent's status, `turn` into its open turn, with the result."""

    result: CallResult
    changes: tuple[Change, ...] = ()
    agent: JsonObject = field(default_factory=dict)
    turn: JsonObject = field(default_factory=dict)
    data: JsonObject = field(default_factory=dict)


@frozen
class Waiting:
    """The call waits (`state` is one of the Awaiting states) until `Tool.resolve` finds that it is over.

    `Authorized`, from `resolve` only, starts it again with a new intent: the function finds in the call object what it
    waited for.

    `changes` take effect with the wait, `call` is merged into the call object's status for `resolve` to read, `why`
    and `unblocks` are for people. At `due_at`, in seconds since 1970, it is looked at even if nothing has changed.
    """

    state: CallState
    changes: tuple[Change, ...] = ()
    call: JsonObject = field(default_factory=dict)
    why: str = ""
    unblocks: tuple[str, ...] = ()
    due_at: float | None = None


@frozen
class Context:
    """What a tool may use: the world, the agent as it stands now, the call, and the files it may touch.

    `space` are these, or why there is no folder to work in: that keeps nobody from what needs none, such as ending.
    `time_s` bounds the effect where the agent's mixins do.
    """

    world: World
    seen: Observed
    call: Resource
    spec: CallSpec
    space: Workspace | ToolDenied
    time_s: float | None = None

    @property
    def workspace(self) -> Workspace:
        """Raises ToolDenied."""
        if isinstance(self.space, ToolDenied):
            raise ToolDenied(str(self.space))
        return self.space

    @property
    def agent(self) -> str:
        return self.seen.resource.address

    @property
    def author(self) -> Author:
        """Who signs what this agent changes."""
        return Author("agent", self.agent.partition("/")[2])

    @property
    def task_path(self) -> tuple[str, ...]:
        """The ids on the way to the agent's task; empty for the root."""
        path = self.seen.spec.task.partition("/")[2]
        return () if path == "." else tuple(path.split("/"))


class Objects(Protocol):
    """What a registry is made from: the objects of a plan as of now."""

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


Subjects: TypeAlias = Callable[[JsonObject], tuple[str, ...]]
Exact: TypeAlias = Callable[[JsonObject], tuple[str, ...] | None]
Ending: TypeAlias = Settlement | Waiting
ToolFunction: TypeAlias = Callable[..., Ending | Awaitable[Ending]]
Locks: TypeAlias = Callable[[Context], Mapping[str, LockMode]]
"""The paths that a call is about to write, relative to the plan's folder: they are locked for it before it starts."""
Resolve: TypeAlias = Callable[[Context], Ending | None]
"""What has become of a waiting call, from levels alone and at every look: over (a settlement), further (another
`Waiting`, whose changes must bring about a state in which the answer is a different one), or None: as before."""


Ended: TypeAlias = Callable[[Context, Exit], Awaitable[Settlement]]
"""What the end of a call's process means, also for an owner that did not start it."""


@runtime_checkable
class Explains(Protocol):
    """A registry that knows why it has not a tool."""

    def why_missing(self, name: str) -> str:
        """The reason; empty when nothing is known of such a tool."""
        ...


@frozen
class Tool:
    """`subjects` are what a call may be about, for denials such as `shell(rm *)`; `exact` is what it is about and
    nothing else, for allowances such as `shell(git *)`, None where that cannot be told (`subjects.py`).

    `is_free` tools need no right: an agent can always end, and always ask upward. One that `is_apart` looks at nothing
    in the log but its own agent, so the steps before it need not be there yet. A tool whose function may return
    `Waiting` has a `resolve`. A tool of a server has its JSON Schema in `parameters`, its description in `doc`, and a
    function that takes `arguments`, a map that the server checks; `digest` tells it from one that describes itself
    otherwise, `withheld` is why nobody may use it for now.
    """

    name: str
    function: ToolFunction
    effect: EffectClass
    subjects: Subjects = untold
    is_free: bool = False
    resolve: Resolve | None = None
    parameters: JsonObject | None = field(default=None, compare=False)
    doc: str = ""
    digest: str = ""
    withheld: str = ""
    exact: Exact = untellable
    locks: Locks | None = None
    ended: Ended | None = None
    is_apart: bool = False

    @property
    def is_process(self) -> bool:
        """Whether its effect is one process under the call's operation, which outlives a crash of the owner."""
        return self.ended is not None

    @property
    def is_instant(self) -> bool:
        return not inspect.iscoroutinefunction(self.function)

    def given(self, arguments: Json) -> dict[str, Any]:
        """`arguments` as keyword arguments of the function. Raises BadArguments."""
        if self.parameters is None:
            return checked(self.function, arguments)
        if not isinstance(arguments, dict):
            raise BadArguments("arguments are a map")
        return {"arguments": arguments}

    def plain(self, arguments: JsonObject) -> JsonObject:
        """`arguments` as the function takes them, whatever names and kinds they were written in (`arguments.py`)."""
        return arguments if self.parameters is not None else plain(self.function, arguments)

    @property
    def description(self) -> str:
        return self.doc or inspect.cleandoc(self.function.__doc__ or "")


def ok(text: str, value: Json = None) -> CallResult:
    """Success, in words."""
    return CallResult(CallState.SUCCEEDED, text, value=value)


def failure(reason: str, text: str) -> CallResult:
    """A failure with its one-word reason."""
    return CallResult(CallState.FAILED, text, reason)
