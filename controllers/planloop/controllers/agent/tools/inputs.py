"""Calls of servers that ask for something on the way: a form to fill in, or a page to visit.

The call waits (AwaitingInput), and an approval of kind `input` stands for the question until a person or the parent
answers, declines, or lets it expire: all three are answers. With the answer the call starts again, under an intent of
its own, and hands it to the server.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from planloop.controllers.agent.mail import inbox, topology
from planloop.controllers.agent.mail.inbox import Refusal
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.tools.talking import message_of
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, Waiting
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.approval import APPROVED, WAITING, ApprovalSpec
from planloop.schemas.call import CallResult, CallState
from planloop.schemas.encoding import JsonObject, decode
from planloop.schemas.frozen import mutable
from planloop.schemas.record import Change, Draft, Drop, Put, SetStatus
from planloop.schemas.resource import Resource, Uid

ASKED: Final = "asked"  # What the server asked, in the call's status; in a list, which merges leave whole.
ANSWER: Final = "answer"  # What it is told: [content], where None declines.


@mutable
class Progress:
    """Notes how far a call is, at most once in a while, where `plan describe` of the call shows it."""

    context: Context
    _noted_at: float = field(default=float("-inf"))
    _repeats: int = 0

    def __call__(self, words: str) -> None:
        world, address = self.context.world, self.context.call.address
        now = world.clock.now()
        call = world.store.view.get(address)
        if call is None or call.uid != self.context.call.uid or now - self._noted_at < limits.PROGRESS_EVERY_S:
            return
        self._noted_at = now
        change = SetStatus(address, call.uid, {"progress": words})
        draft = Draft("call.progressed", "controller:mcp", address, (change,), {"progress": words})
        world.store.propose(draft, {address: call.rev})

    def once(self) -> bool:
        """True the first time only: a call whose connection broke is made again once."""
        self._repeats += 1
        return self._repeats == 1


async def asked_or_called(
    context: Context, server: str, tool: str, arguments: JsonObject, progress: Progress
) -> CallResult:
    """The server's word on the call: begun anew, or with the answer that it waits for. Raises ServerFailed."""
    asked, answer = context.call.status.get(ASKED), context.call.status.get(ANSWER)
    servers, op = context.world.servers, context.spec.op
    if asked and answer:
        return await servers.answer(asked[0], answer[0], op=op, on_progress=progress)
    return await servers.call(server, tool, arguments, by=context.agent, op=op, on_progress=progress)


def is_first(context: Context) -> bool:
    """Whether nothing was asked yet, so that the whole call can be made again."""
    return not context.call.status.get(ASKED)


def ending_of(context: Context, result: CallResult) -> Ending:
    """The end of the call, or its wait for an answer with the approval that stands for the question."""
    if result.state is not CallState.AWAITING_INPUT:
        return Settlement(result)
    tool, asked = context.spec.tool, dict(result.value)
    address, uid = _name(context), Uid(context.spec.op)
    due_at = context.world.clock.now() + limits.INPUT_WAIT_S
    what: JsonObject = {"call": context.call.address, "tool": tool, "requests": asked["requests"]}
    spec = ApprovalSpec("input", str(context.author), f"`{tool}` asks: {result.text}", what)
    changes: tuple[Change, ...] = (
        *_dropped(context.world, context.call),
        Put(address, uid, spec.to_json(), owner=context.agent),
        SetStatus(address, uid, {"state": WAITING}),
        *_told_above(context, address, result.text, asked["requests"]),
    )
    merge: JsonObject = {ASKED: [asked], ANSWER: None, "approval": address, "expires_at": due_at}
    ways = (f"plan approve {address}", f"plan reject {address}")
    return Waiting(CallState.AWAITING_INPUT, changes, merge, f"`{tool}` asks: {result.text}", ways, due_at)


def resolve(context: Context) -> Ending | None:
    """Starts the call again when its question was answered, declined or has expired; None while it waits."""
    call = context.call
    approval = context.seen.approvals.get(str(call.status.get("approval")))
    is_late = context.seen.now >= float(call.status.get("expires_at") or 0.0)
    if approval is not None and approval.state == WAITING and not is_late:
        return None
    is_yes = approval is not None and approval.state == APPROVED
    content = _content(approval.status, call.status[ASKED][0]) if approval is not None and is_yes else None
    merge: JsonObject = {ANSWER: [content], "approval": None, "expires_at": None}
    drops = () if approval is None else (Drop(approval.address, approval.uid),)
    why = "answered" if is_yes else "declined"
    return Waiting(CallState.AUTHORIZED, drops, merge, why)


def _name(context: Context) -> str:
    """Named by the place of the call, for a name that a parent reads must be the same when all is replayed."""
    path, spec = context.agent.partition("/")[2], context.spec
    name = "root" if path == "." else path.replace("/", ".")
    return f"approval/{name}.{spec.incarnation}.{spec.turn}.{spec.index}"


def _told_above(context: Context, address: str, words: str, requests: JsonObject) -> tuple[Change, ...]:
    """The parent may answer as well as a person; one whose inbox is full is not told."""
    view = context.world.store.view
    above = topology.nearest_above(view, addresses.parse(context.agent))
    if above is None:
        return ()
    fields = {name: field for request in requests.values() for name, field in properties_of(request).items()}
    body = {"question": words, "of": context.spec.tool, "fields": fields, "name": address}
    delivered = inbox.delivery(view, message_of(context, above, body, "approval", 0))
    return () if isinstance(delivered, Refusal) else tuple(delivered)


def properties_of(request: JsonObject) -> JsonObject:
    """The fields of a form by name; none for a question that is an address to go to."""
    found: JsonObject = (request.get("schema") or {}).get("properties") or {}
    return found


def content_of(approval: Resource, answer: str) -> JsonObject | None:
    """An answer in words as the content of the form: JSON, or the text of its only field. None: it is neither."""
    names = [name for each in approval.spec["what"]["requests"].values() for name in properties_of(each)]
    try:
        given = decode(answer)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return given
    return {names[0]: answer} if len(names) == 1 else {} if not names else None


def _content(answer: JsonObject, asked: JsonObject) -> JsonObject:
    """What the server is told. Where its form wants text, `zip=10115` on a command line was meant as text."""
    given = dict(answer.get("content") or {})
    fields = [properties_of(request) for request in asked["requests"].values()]
    texts = {name for each in fields for name, field in each.items() if field.get("type") == "string"}
    return {
        name: str(value) if name in texts and isinstance(value, int | float) else value for name, value in given.items()
    }


def _dropped(world: World, call: Resource) -> tuple[Change, ...]:
    """An approval of an earlier question of the same call goes with the new one."""
    old = world.store.view.get(str(call.status.get("approval")))
    return () if old is None else (Drop(old.address, old.uid),)
