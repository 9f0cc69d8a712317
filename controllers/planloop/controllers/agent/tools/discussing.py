"""`discuss`: a prompt to several agents, each of which answers in turn and hears what the others said.

One step for each answer, made when the waiting call is looked at: the answer is shared, the next speaker is asked, and
the last one's answer ends the call with all of them. What went wrong with a speaker is text like any other answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from planloop.controllers.agent.mail import topology
from planloop.controllers.agent.mail.topology import NotReachable
from planloop.controllers.agent.tools import threads
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.threads import Talk, short_name
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, Waiting, failure, ok
from planloop.schemas import limits
from planloop.schemas.address import parse
from planloop.schemas.call import CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Change
from planloop.schemas.thread import Answer, ThreadSpec, ThreadStatus, question_id

YOUR_TURN = "it is your turn: answer what was asked"


def discuss(
    context: Context,
    prompt: Annotated[str, Field(min_length=1, description="What is to be discussed, or asked.")],
    speakers: Annotated[
        list[str] | None,
        Field(description="Who answers, in this order; a name may stand there again. Blank: whom you talked to last."),
    ] = None,
    listeners: Annotated[list[str] | None, Field(description="Who only hears what is said.")] = None,
) -> Waiting:
    """Asks agents, one after the other; each answer is heard by all of them, and all answers are your result.

    A child whose task is over can be asked too. Left blank, speakers and listeners are the child you made last, or
    those of your last discussion. A good first topic for new speakers is to introduce themselves.
    """
    spoken, heard = _participants(context, speakers, listeners)
    return opened(context, prompt, spoken, heard)


def opened(context: Context, prompt: str, spoken: tuple[str, ...], heard: tuple[str, ...]) -> Waiting:
    """The call waits for a new thread, in which everybody has heard the prompt and the first speaker is asked."""
    spec = ThreadSpec("discuss", context.agent, prompt, spoken, heard, context.call.address)
    address, made = threads.opened(context, spec)
    talk = Talk(context, address, spec, ThreadStatus(asked_at=context.seen.now))
    changes = (*made, *threads.heard(talk, "prompt", prompt, but=(spoken[0],)), *threads.asking(talk, 0, prompt))
    return _wait(talk, changes)


def _participants(
    context: Context, speakers: list[str] | None, listeners: list[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    kept = context.seen.status.interlocutors
    spoken = _named(context, speakers) if speakers is not None else _still(context, kept.get("speakers", ()))
    is_blank = speakers is None and listeners is None
    heard = _still(context, kept.get("listeners", ())) if is_blank else _named(context, listeners or [])
    if not spoken:
        raise ToolFailed("NoSpeakers", "say who is to speak: you have talked to nobody yet")
    if len(spoken) > limits.SPEAKERS_MAX or len(heard) > limits.LISTENERS_MAX:
        words = f"at most {limits.SPEAKERS_MAX} turns to speak and {limits.LISTENERS_MAX} listeners"
        raise ToolFailed("TooMany", f"a discussion has {words}")
    return spoken, tuple(each for each in heard if each not in spoken)


def _still(context: Context, known: Sequence[str]) -> tuple[str, ...]:
    """Those of the last discussion that one may still talk to; who is gone is told of as such when it is asked."""
    view, caller = context.world.store.view, context.seen.resource
    is_open = [each for each in known if view.get(each) is None or topology.may_talk(view, caller, parse(each))]
    return tuple(is_open)


def _named(context: Context, names: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(
            each for name in names for each in topology.receivers(context.world.store.view, context.seen.resource, name)
        )
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None


def resolve(context: Context) -> Ending | None:
    """A step further when the speaker that is asked has answered; the end with the last one."""
    talk = threads.read(context, str(context.call.status.get("thread")))
    if talk is None:
        return Settlement(failure("Gone", "the discussion was closed"))
    index = talk.status.asked
    answer = talk.answer(index)
    if answer is None:
        return None
    speaker = talk.spec.speakers[index]
    shared = threads.heard(talk, f"a{index}", _line(context, speaker, answer), but=(speaker,))
    further, turned = threads.turned(talk, answer)
    if index + 1 == len(talk.spec.speakers):
        return _ended(further, shared)
    return _wait(further, (*shared, turned, *threads.asking(further, index + 1, YOUR_TURN)))


def _wait(talk: Talk, changes: Sequence[Change]) -> Waiting:
    name = short_name(talk.context, talk.spec.speakers[talk.status.asked])
    call: JsonObject = {"thread": talk.address}
    return Waiting(CallState.AWAITING_CHILD, tuple(changes), call, f"waits for {name} to answer", due_at=talk.due_at)


def _ended(talk: Talk, shared: Sequence[Change]) -> Settlement:
    context, speakers = talk.context, talk.spec.speakers
    answers = [talk.status.answers[question_id(talk.address, index)] for index in range(len(speakers))]
    lines = [_line(context, speaker, answer) for speaker, answer in zip(speakers, answers, strict=True)]
    names = [short_name(context, speaker) for speaker in speakers]
    talkers: JsonObject = {"speakers": list(speakers), "listeners": list(talk.spec.listeners)}
    said = "\n\n".join(lines)
    result = failure("NoAnswer", said) if all(answer.error for answer in answers) else ok(said)
    return Settlement(result, (*shared, *threads.closed(talk, names)), {"interlocutors": talkers})


def _line(context: Context, speaker: str, answer: Answer) -> str:
    error = f"({answer.error}) " if answer.error else ""
    return f"[{short_name(context, speaker)}] {error}{answer.text}"
