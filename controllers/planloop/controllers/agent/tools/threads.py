"""Threads as the agent that opened them drives them: who is asked, what the others hear, and when it is over.

A thread is a row that the speakers write their answers into (`answering.py`); the call that waits for it looks at that
row and nothing else, so it goes on from any crash. No speaker can hold it up: one that is gone is passed over at once,
one that cannot go on says so itself, and one that is silent for `limits.ANSWER_WAIT_S` is told of as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planloop.controllers.agent.mail import inbox
from planloop.controllers.agent.mail.inbox import Refusal
from planloop.controllers.agent.status import boxed
from planloop.controllers.agent.tools.tool import Context
from planloop.reconciler.storing.store import View
from planloop.schemas import limits, thread
from planloop.schemas.approval import WAITING
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.message import Message
from planloop.schemas.record import Change, Drop, Put, SetStatus
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED
from planloop.schemas.thread import Answer, ThreadSpec, ThreadStatus, question_id


@frozen
class Talk:
    """A thread as it stands, with what is needed to go on with it."""

    context: Context
    address: str
    spec: ThreadSpec
    status: ThreadStatus

    @property
    def view(self) -> View:
        return self.context.world.store.view

    @property
    def now(self) -> float:
        return self.context.seen.now

    def answer(self, index: int) -> Answer | None:
        """What the speaker at `index` said, or why nothing is to be expected of it; None while it may still answer."""
        said = self.status.answers.get(question_id(self.address, index))
        if said is not None:
            return said
        speaker = self.view.get(self.spec.speakers[index])
        if speaker is None:
            return Answer("it is gone", "Gone")
        if (why := hindrance(self.view, speaker, self.context.agent)) is not None:
            return why
        if self.now >= self.status.asked_at + limits.ANSWER_WAIT_S:
            state, why = speaker.state or "new", speaker.status.get("why")
            return Answer(f"no answer yet: it is {state}{f', {why}' if why else ''}", "NoAnswer")
        return None

    @property
    def due_at(self) -> float:
        """When the speaker that is asked now is passed over."""
        return self.status.asked_at + limits.ANSWER_WAIT_S


def read(context: Context, address: str) -> Talk | None:
    """The thread at `address`; None when it is gone."""
    found = context.world.store.view.get(address)
    if found is None:
        return None
    return Talk(context, address, thread.thread_from_json(found.spec), thread.status_from_json(found.status))


def opened(context: Context, spec: ThreadSpec) -> tuple[str, tuple[Change, ...]]:
    """The address of a new thread for the call of `context`, and the changes that open it."""
    address = f"thread/{context.spec.op}"
    uid = thread.uid_of(address)
    status: JsonObject = {"state": "open", "asked": 0, "asked_at": context.seen.now}
    return address, (Put(address, uid, spec.to_json(), owner=context.agent), SetStatus(address, uid, status))


def asking(talk: Talk, index: int, body: Json) -> tuple[Change, ...]:
    """The changes that ask the speaker at `index`; a speaker that cannot be reached has answered with that."""
    question = question_id(talk.address, index)
    delivered = _delivered(talk, talk.spec.speakers[index], question, body, asks=True)
    if isinstance(delivered, Refusal):
        said = boxed(Answer(delivered.message, delivered.reason).to_json())
        return (SetStatus(talk.address, thread.uid_of(talk.address), {"answers": {question: said}}),)
    return delivered


def heard(talk: Talk, name: str, body: Json, *, but: Sequence[str]) -> tuple[Change, ...]:
    """The changes by which all in the thread, except `but`, have `body` to read with their next turn.

    Whoever is gone or has no room hears nothing: that is no reason for the others to wait.
    """
    changes: tuple[Change, ...] = ()
    for receiver in dict.fromkeys((*talk.spec.speakers, *talk.spec.listeners)):
        message_id = f"{talk.address.partition('/')[2]}.{name}.{receiver.partition('/')[2]}"
        delivered = () if receiver in but else _delivered(talk, receiver, message_id, body, asks=False)
        changes += () if isinstance(delivered, Refusal) else delivered
    return changes


def turned(talk: Talk, answer: Answer) -> tuple[Talk, SetStatus]:
    """The thread when `answer` has been given to the question in hand and the next speaker has the word."""
    question, index = question_id(talk.address, talk.status.asked), talk.status.asked + 1
    status = ThreadStatus(index, talk.now, {**talk.status.answers, question: answer})
    merge: JsonObject = {"asked": index, "asked_at": talk.now, "answers": {question: boxed(answer.to_json())}}
    return replace(talk, status=status), SetStatus(talk.address, thread.uid_of(talk.address), merge)


def closed(talk: Talk, spoke: Iterable[str]) -> tuple[Change, ...]:
    """The changes that end the thread: the object goes, and everybody who was in it keeps one state record of it."""
    # No address: what a model reads has no ids. Of two discussions the newer record is kept, what was said in both.
    facts: JsonObject = {"key": "discussion", "discussion": "over", "spoke": list(dict.fromkeys(spoke))}
    drop = Drop(talk.address, thread.uid_of(talk.address))
    return (drop, *heard(talk, "closed", facts, but=()))


def short_name(context: Context, address: str) -> str:
    """An agent as those in a thread call it: its path below the caller, else its whole path."""
    path = address.partition("/")[2]
    own = "/".join(context.task_path)
    return path.removeprefix(f"{own}/") if own else path


def _delivered(talk: Talk, receiver: str, message_id: str, body: Json, *, asks: bool) -> tuple[Change, ...] | Refusal:
    is_fact = isinstance(body, dict) and "key" in body
    message = Message(
        message_id,
        "state" if is_fact else "chat",
        talk.context.agent,
        receiver,
        body,
        talk.now,
        thread=talk.address if asks else "",
        delivery="steer" if asks else "queue",
        cause=talk.context.seen.plan_rev,
        asks=asks,
        wakes=asks,
    )
    return inbox.delivery(talk.view, message)


def hindrance(view: View, speaker: Resource, asker: str) -> Answer | None:
    """Why nothing is to be expected of an agent as things stand; None when it may still answer.

    It is paused, or it waits itself to be told something by the one who asks: neither would ever move.
    """
    task = view.get(str(speaker.spec["task"]))
    if task is not None and task.spec["pause"] and task.state not in ENDED:
        return Answer(f"it is paused; plan resume {task.address}", "Paused")
    for each in view.owned_by(speaker.address):
        if each.kind == "approval" and each.state == WAITING and each.spec["what"].get("of") == asker:
            what = each.spec["what"]
            text = (
                f"it asks first, as {each.address}: {what.get('kind')} {what.get('what')!r}, because {each.spec['why']}"
            )
            return Answer(f"{text}. Say yes or no with `answer`, then ask again with `discuss`", "AsksFirst")
    return None
