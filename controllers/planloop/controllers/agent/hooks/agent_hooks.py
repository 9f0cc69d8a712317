"""Hooks that are agents (their questions and answers), and the outcome of a turn for all hooks: comments, sent back.

A question is a message in the inbox of the hook's agent, and a thread that the watched agent owns. The answer is
written into the thread (`planloop.controllers.agent.mail.wake_reasons`), which wakes the watched agent. Both survive a
crash: asking again changes nothing, and a second or late answer is ignored, because the question or thread is gone.

Two limits keep an agent and a hook from waking each other forever: an answer that was sent back several times is
accepted, and comments that woke a sleeping agent several times in a row wait for its next turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from planloop.controllers.agent.hooks import questions, verdicts
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.mail.message_policy import DeliveryRefused
from planloop.controllers.agent.models import chat_request
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import AgentStatus, OpenTurn, PastCall, TurnCall, TurnVerdict
from planloop.controllers.agent.turn import transcript
from planloop.reconciler.effects.truncate import truncate_output
from planloop.reconciler.store.store import ReadBlob, View
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject, decode, encode, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Put, SetStatus
from planloop.schemas.objects import message as objects_message
from planloop.schemas.objects.call import CallResult, CallState, arguments_as_map
from planloop.schemas.objects.hook import (
    ABOUT_CALLS,
    HookAgent,
    HookPoint,
    HookSpec,
    HookVerdict,
    hook_from_json,
    is_hook_agent,
)
from planloop.schemas.objects.message import Message, ThreadSpec
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource

# An agent that waits for the watched agent, directly or through others, is not asked, because both would wait forever.
# Agents wait for the speaker of a discussion, for children, and for their hooks; this is computed from the objects.


def is_waiting_on(view: View, agent: str, other: str) -> bool:
    """Whether `agent` waits for `other`, directly or through agents that it waits for."""
    known, front = {agent}, [agent]
    while front:
        for each in _next(view, front.pop()):
            if each == other:
                return True
            if each not in known:
                known.add(each)
                front.append(each)
    return False


def _next(view: View, agent: str) -> Iterator[str]:
    for each in view.owned_by(agent):
        if each.kind == "thread":
            yield from _asked(view, each)
        elif each.kind == "call" and each.state == CallState.AWAITING_CHILD:
            for task in each.status.get("ends", ()):
                yield str(task).replace("task/", "agent/", 1)


def _asked(view: View, thread: Resource) -> Iterator[str]:
    spec = thread.spec
    if spec["kind"] == "hook":
        if not thread.status.get("answers"):
            yield str(spec["speakers"][0])
    elif spec["kind"] == "discuss" and view.get(str(spec["call"])) is not None:
        yield str(spec["speakers"][int(thread.status.get("asked", 0))])


# A hook's `transcript` says how many of the newest turns each question shows; the agent behind a hook may read more
# with the tool of that name. Compacted turns are shown in full.


TURNS_DEFAULT: Final = 10
CHARS_DEFAULT: Final = 1_000


@frozen
class TranscriptExcerpt:
    """Selects messages of the newest `turns`, or of the one turn `only`, that contain `match`.

    `match` is a text with stars, without regard to case; empty matches all. Each text is cut to `chars` characters.
    """

    turns: int = TURNS_DEFAULT
    match: str = ""
    chars: int = CHARS_DEFAULT
    only: int | None = None


def parse_excerpt(written: Json) -> TranscriptExcerpt:
    """The excerpt that `transcript` of a hook asks for, which is a number of turns or a map."""
    fields = written if isinstance(written, dict) else {"turns": written}
    return TranscriptExcerpt(
        turns=min(int(fields.get("turns", TURNS_DEFAULT)), limits.HOOK_TRANSCRIPT_TURNS_MAX),
        match=str(fields.get("match", "")),
        chars=min(int(fields.get("chars", CHARS_DEFAULT)), limits.HOOK_TRANSCRIPT_CHARS_MAX),
    )


def excerpt_messages(status: AgentStatus, wanted: TranscriptExcerpt, blobs: ReadBlob) -> list[JsonObject]:
    """The selected messages, oldest first: `turn`, `role` (user, assistant or tool), `text`, `calls` of an assistant.

    At most the newest `limits.HOOK_TRANSCRIPT_SHOWN_BYTES`.
    """
    found: list[JsonObject] = []
    size = 0
    turns: list[int] = []
    for turn, message in _newest_first(status, blobs):
        if turn not in turns:
            turns.append(turn)
        if wanted.only is None and len(turns) > wanted.turns:
            break
        one = _entry(turn, message, wanted.chars)
        if (wanted.only is not None and turn != wanted.only) or not _fits(message, wanted.match):
            continue
        size += len(encode(one))
        if size > limits.HOOK_TRANSCRIPT_SHOWN_BYTES:
            break
        found.append(one)
    return found[::-1]


def excerpt_text(messages: Iterable[JsonObject]) -> str:
    """The messages of `excerpt_messages` as text, one line each."""
    return "\n".join(_line(one) for one in messages)


def _line(one: JsonObject) -> str:
    calls = "".join(f" → {call['tool']}({encode(call['arguments']).decode()})" for call in one.get("calls", ()))
    return f"turn {one['turn']} {one['role']}: {one['text']}{calls}"


def _newest_first(status: AgentStatus, blobs: ReadBlob) -> Iterator[tuple[int, JsonObject]]:
    """Chat messages with their turns, newest first: those of the open turn so far, then those of ended turns."""
    opened = status.open
    if opened is not None:
        yield from ((opened.turn, message) for message in reversed([*_of_open(opened)]))
    if not status.memory.transcript:
        # Scripts and programs have no transcript, only the calls of their last turn.
        last = status.turn - (1 if opened is not None else 0)
        yield from ((last, message) for message in reversed([*_of_past(status.memory.past)]))
        return
    whole = transcript.original_turns(status.memory.transcript, lambda digest: blobs(digest) or b"{}")
    for key, digest in reversed(whole.items()):
        lines = (blobs(digest) or b"").splitlines()
        yield from ((int(key), decode(line)) for line in reversed(lines))


def _of_open(opened: OpenTurn) -> Iterator[JsonObject]:
    if text := transcript.describe_news(opened.news.messages, (), {}):
        yield {"role": "user", "content": text}
    if not opened.is_replied:
        return
    made = [call for call in opened.reply.calls if not call.is_implied]
    yield {
        "role": "assistant",
        "content": opened.reply.text,
        "calls": [(call.tool, arguments_as_map(call.arguments)) for call in made],
    }
    yield from (_result(opened.results[call.address]) for call in made if call.address in opened.results)


def _of_past(past: Iterable[PastCall]) -> Iterator[JsonObject]:
    for call in past:
        yield {"role": "assistant", "content": "", "calls": [(call.tool, arguments_as_map(call.arguments))]}
        yield _result(call.result)


def _result(result: CallResult) -> JsonObject:
    return {"role": "tool", "content": transcript.result_text(result)}


def _entry(turn: int, message: JsonObject, chars: int) -> JsonObject:
    one: JsonObject = {"turn": turn, "role": message["role"], "text": truncate_output(_text(message).encode(), chars)}
    calls = [{"tool": tool, "arguments": _cut_excerpt(given, chars)} for tool, given in _calls(message)]
    return one | ({"calls": calls} if calls else {})


def _text(message: JsonObject) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content)
    return str(content)


def _calls(message: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    yield from message.get("calls", ())
    for call in message.get("tool_calls") or ():
        given = call["function"]["arguments"]
        yield str(call["function"]["name"]).replace(chat_request.WIRE_DOT, "."), arguments_as_map(decode(given))


def _cut_excerpt(given: JsonObject, chars: int) -> JsonObject:
    return {name: truncate_output(one.encode(), chars) if isinstance(one, str) else one for name, one in given.items()}


def _fits(message: JsonObject, match: str) -> bool:
    if not match:
        return True
    calls = " ".join(f"{tool} {encode(given).decode()}" for tool, given in _calls(message))
    # Search the whole text, not the part shown.
    return patterns.star_regex(f"*{match.casefold()}*").fullmatch(f"{_text(message)} {calls}".casefold()) is not None


# A question shows a compact part of the turn. Texts and maps are cut to fit a message, the longest first. Everything
# comes from the log, so secrets are already masked.

ANSWER_HINT: Final = (
    'You are asked as a hook. Say ALLOW, with a comment if it is to hear one, or DENY and why, or {"decision": …, '
    '"reason": …, "comment": …}.'
)
"""Added to each question to an agent that also has other work."""

BODY_READERS: Final = frozenset({"model", "outside"})
"""Kinds of deciders that read text; the others get the question as JSON."""

QUESTION_ABOUT: Final = (
    "tool_name",
    "tool_input",
    "tool_input_original",
    "tool_response",
    "prompt",
    "notes",
    "reply",
    "claim",
)
QUESTION_LEVELS: Final = ("children", "reasons")
"""Context of a question. It has no ids, times or remaining time, so that the same run gives the same text."""

QUESTION_WORDS: Final = {
    "on-input": "this is its input for the next turn; you may comment on it",
    "before-call": "it is about to make this call; allow it, deny it, or give other arguments",
    "on-patch": "it is about to change the plan by this call; allow it, deny it, or give other arguments",
    "after-call": "this call has ended; you may comment on the result",
    "before-reply": "it is about to give this answer; allow it, or deny it and say what is missing",
    "on-wake": "it begins a turn; you may comment",
    "on-sleep": "its turn is over and it would sleep; a comment wakes it",
    "on-child": "a child of it has ended; you may comment",
    "on-conflict": "it is in a conflict; you may comment",
    "on-budget": "little of its budget is left; you may comment",
    "on-end": "it says that its work is over; you may comment",
}


def question_body(hook: HookSpec, question: JsonObject, *, is_text: bool, is_made: bool = True) -> Json:
    """The body of the message that asks `hook`.

    `is_made`: its agent was created for it, so its prompt already says how to answer.
    """
    if is_text and not is_made:
        question = {**question, "answer": ANSWER_HINT}
    for longest in limits.HOOK_SHOWN_BYTES:
        # A transcript keeps its newest items, other lists their first ones.
        newest = {name: question[name][-limits.HOOK_ITEMS_SHOWN_MAX :] for name in ("transcript",) if name in question}
        cut = {name: _cut(value, longest) for name, value in (question | newest).items()}
        body = _body(hook, cut, is_text=is_text)
        if len(encode(body)) <= limits.MESSAGE_BYTES_MAX:
            return body
    brief: JsonObject = {
        name: question[name] for name in ("version", "id", "hook_event_name", "agent") if name in question
    }
    return _body(hook, brief, is_text=is_text)


def _body(hook: HookSpec, question: JsonObject, *, is_text: bool) -> Json:
    return question_text(hook, question) if is_text else {"hook": hook.name, "question": question}


def question_text(hook: HookSpec, question: JsonObject) -> str:
    """The question as text: the point, the agent, the subject and the context."""
    point = str(question.get("hook_event_name", ""))
    turn = f", turn {question['turn']}" if "turn" in question else ""
    lines = [f"{point}: {question.get('agent', hook.watches)}{turn}: {QUESTION_WORDS.get(point, 'you may comment')}."]
    lines += [f"{name}:\n{_plain(question[name])}" for name in QUESTION_ABOUT if question.get(name)]
    if transcript := question.get("transcript"):
        lines.append(f"what it has lived through, the newest last:\n{excerpt_text(transcript)}")
    if goal := question.get("goal"):
        lines.append(f"its goal: {goal}")
    levels: JsonObject = {name: question[name] for name in QUESTION_LEVELS if question.get(name)}
    if changed := question.get("files_changed"):
        levels["files that others have changed"] = sorted(changed)
    if levels:
        lines.append(f"how it stands: {encode_text(levels)}")
    if how := question.get("answer"):
        lines.append(str(how))
    return "\n".join(lines)


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else encode_text(value)


def _cut(value: Json, longest: int) -> Json:
    """`value` with every text cut to `longest` bytes and every list to `limits.HOOK_ITEMS_SHOWN_MAX` items."""
    if isinstance(value, str):
        return truncate_output(value.encode(), longest)
    if isinstance(value, list):
        kept = [_cut(item, longest) for item in value[: limits.HOOK_ITEMS_SHOWN_MAX]]
        over = len(value) - len(kept)
        return [*kept, f"… {over} more"] if over else kept
    if isinstance(value, dict):
        return {name: _cut(item, longest) for name, item in value.items()}
    return value


QUESTION_KIND: Final = "hook"


def question_changes(
    view: View, seen: ObservedAgent, hook: Resource, asked: JsonObject, due_at: float
) -> tuple[Change, ...] | HookVerdict:
    """The changes that ask the agent of `hook` the question `asked` (`facts.question_json`; its `id` is unique).

    Empty if the question was asked before. If the agent cannot be asked, a failed verdict. `due_at`, in seconds since
    1970, is the time limit for the answer.
    """
    spec, question_id = hook_from_json(hook.spec), str(asked["id"])
    address = f"thread/{question_id}"
    if view.get(address) is not None:
        return ()
    agent = view.get(agent_of_hook(spec))
    why = _hindrance(view, spec, agent)
    if agent is None or why:
        return HookVerdict(fault=why)
    message = Message(
        question_id,
        QUESTION_KIND,
        seen.resource.address,
        agent.address,
        question_body(
            spec, asked, is_text=agent.spec["mind"]["kind"] in BODY_READERS, is_made=is_hook_agent(agent.address)
        ),
        seen.now,
        thread=address,
        cause=seen.plan_rev,
        asks=True,
        expires_at=due_at,
    )
    delivered = message_policy.delivery_changes(view, message, is_counted=False)
    if isinstance(delivered, DeliveryRefused):
        return HookVerdict(fault=f"{delivered.reason}: {delivered.message}")
    # The prompt of the thread is the point of the question, which `verdict_of_answer` needs.
    spec_of_thread = ThreadSpec("hook", seen.resource.address, str(asked["hook_event_name"]), (agent.address,))
    made = Put(address, objects_message.thread_uid(address), spec_of_thread.to_json(), owner=seen.resource.address)
    status: JsonObject = {"state": "open", "asked_at": seen.now, "due_at": due_at}
    return (made, SetStatus(address, made.uid, status), *delivered)


def verdict_of_answer(view: View, agent: ObservedAgent, hook: Resource, question_id: str) -> HookVerdict | None:
    """The verdict of the agent of `hook` on the question with that id; None while it has not answered.

    If the agent is late or cannot answer (it was removed or paused, or waits for the watched agent), the verdict is a
    failed one.
    """
    found, spec = view.get(f"thread/{question_id}"), hook_from_json(hook.spec)
    if found is None:
        return HookVerdict(fault="the question was withdrawn")
    said = objects_message.thread_status_from_json(found.status).answers.get(question_id)
    if said is not None:
        point: HookPoint = found.spec["prompt"]
        return verdicts.parse_verdict(said, point)
    if agent.now >= float(found.status["due_at"]):
        return HookVerdict(fault=f"{agent_of_hook(spec)} did not answer in time")
    why = _hindrance(view, spec, view.get(agent_of_hook(spec)))
    return HookVerdict(fault=why) if why else None


def withdraw_question_changes(view: View, hook: Resource, question_id: str) -> tuple[Change, ...]:
    """The changes that remove an answered or withdrawn question."""
    found, agent = view.get(f"thread/{question_id}"), view.get(agent_of_hook(hook_from_json(hook.spec)))
    gone: tuple[Change, ...] = () if found is None else (Drop(found.address, found.uid),)
    if agent is None:
        return gone
    places = (place for place in ("inbox", "asked") if question_id in agent.status.get(place, {}))
    merge: JsonObject = {place: {question_id: None} for place in places}
    return (*gone, SetStatus(agent.address, agent.uid, merge)) if merge else gone


def agent_of_hook(hook: HookSpec) -> str:
    """The agent that decides for `hook`."""
    assert isinstance(hook.mind, HookAgent), "only agents are asked by message"
    return hook.mind.address


def _hindrance(view: View, hook: HookSpec, agent: Resource | None) -> str:
    """Why the agent cannot answer; empty if it can."""
    name = agent_of_hook(hook)
    if agent is None or agent.deleting:
        return f"{name} was removed"
    if name == hook.watches:
        return f"{name} cannot be asked about itself"
    task = view.get(str(agent.spec["task"]))
    if task is not None and task.spec["pause"] and task.state not in ENDED:
        return f"{name} is paused"
    if is_waiting_on(view, name, hook.watches):
        return f"{name} waits for {hook.watches}"
    return ""


HOOK_SENDER: Final = "hook:"
"""The prefix of the sender of a comment that is sent as a message."""
OPENING_POINTS: Final[tuple[HookPoint, ...]] = ("on-wake", "on-input", "on-child", "on-budget", "on-conflict")
LAST_POINTS: Final[tuple[HookPoint, ...]] = ("before-reply", "on-sleep", "on-end")
COMMENT_PLACES: Final = {point: place for place, point in enumerate((*OPENING_POINTS, *ABOUT_CALLS, *LAST_POINTS))}
_SPEAKING: Final = frozenset({"send", "discuss", "answer", "task", "restore"})


@frozen
class HookOutcome:
    """`merge` goes into the agent's status and `changes` into the record of the turn's end.

    `is_sent_back`: the agent's answer does not count, and it continues.
    """

    merge: JsonObject
    changes: tuple[Change, ...] = ()
    is_sent_back: bool = False


NO_OUTCOME: Final = HookOutcome({})


def outcome_of_turn(agent: ObservedAgent, view: View, opened: OpenTurn) -> HookOutcome:
    """The outcome of an ending turn by all hooks of the agent: messages, counters, withdrawn questions."""
    if not agent.hooks.watching and not opened.hooks.fired:
        return NO_OUTCOME
    merge: JsonObject = {}
    back = questions.verdict_on_answer(agent, opened)
    is_sent_back = back.decision != "allow"
    if is_sent_back:
        merge["sent_back"] = agent.status.progress.sent_back + 1
    elif agent.status.progress.sent_back and (
        opened.claim is not None or (not opened.reply.calls and questions.is_final_reply(agent, opened))
    ):
        merge["sent_back"] = 0
    messages = list(_messages(agent, opened, back))
    changes: tuple[Change, ...] = ()
    for message in messages:
        delivered = message_policy.delivery_changes(view, message, is_counted=False)
        changes += () if isinstance(delivered, DeliveryRefused) else delivered
    if any(one.wakes for one in messages) and not is_sent_back:
        merge["nudges"] = agent.status.progress.nudges + 1
    if (spoken := _spoken(agent, opened)) != agent.status.mail.spoken:
        gone: dict[str, None] = dict.fromkeys(name for name in agent.status.mail.spoken if name not in spoken)
        merge["spoken"] = {**spoken, **gone}
    return HookOutcome(merge, (*changes, *withdraw_questions_changes(agent, view, opened)), is_sent_back)


def _messages(agent: ObservedAgent, opened: OpenTurn, back: verdicts.MergedVerdict) -> Iterator[Message]:
    """The messages to the agent about the end of its turn, without texts that the result of a call already has."""
    is_shown = opened.claim is None and any(not call.is_implied for call in opened.reply.calls)
    if back.decision != "allow" and not is_shown:
        yield _message(agent, opened, "reply", verdicts.sent_back_text(back), wakes=True)
    may_wake = agent.status.progress.nudges < limits.HOOK_NUDGES_MAX
    for hook, point, words in comments_at(opened, ("before-reply", "on-sleep", "on-end")):
        wakes = may_wake and point == "on-sleep"
        yield _message(agent, opened, hook, words, wakes=wakes, point=point)


def _message(agent: ObservedAgent, opened: OpenTurn, hook: str, body: str, *, wakes: bool, point: str = "") -> Message:
    name = f"{agent.resource.uid}.{agent.status.incarnation}.{opened.turn}.{point}{hook}"
    address = agent.resource.address
    return Message(name, "control", f"{HOOK_SENDER}{hook}", address, body, agent.now, wakes=wakes)


def comments_at(opened: OpenTurn, points: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Hook, point and text of each comment of the turn at these points, in a fixed order."""
    wanted = frozenset(points)
    for one in verdicts_in_order(opened):
        if one.point in wanted and (words := verdicts.describe_verdict(one.verdict, one.point)):
            yield one.hook, one.point, words


def opening_comments(opened: OpenTurn) -> tuple[str, ...]:
    """The comments of hooks on the beginning of the turn, each with the name of its hook."""
    found = comments_at(opened, OPENING_POINTS)
    return tuple(f"[comment of hook {hook}, {point}]\n{words}" for hook, point, words in found)


def comments_by_call(opened: OpenTurn) -> dict[int, tuple[str, ...]]:
    """The comments of hooks on each call of the turn, before it started and after it ended, by its index."""
    out: dict[int, tuple[str, ...]] = {}
    for one in verdicts_in_order(opened):
        if one.point not in ABOUT_CALLS:
            continue
        words = verdicts.describe_verdict(one.verdict, one.point)
        call = opened.reply.calls[one.index] if one.index < len(opened.reply.calls) else None
        if call is not None and one.verdict.arguments is not None and call.address in opened.hooks.rewritten:
            changed = f"made the arguments {encode_text(one.verdict.arguments)}"
            reason = f": {one.verdict.reason}" if one.verdict.reason else ""
            words = "\n".join(part for part in (f"{changed}{reason}", words) if part)
        if words:
            out[one.index] = (*out.get(one.index, ()), f"[comment of hook {one.hook}]\n{words}")
    return out


def verdicts_in_order(opened: OpenTurn) -> list[TurnVerdict]:
    """The verdicts of the turn in a fixed order, which does not depend on when they were given."""
    return sorted(
        opened.hooks.fired.values(), key=lambda one: (one.index, one.rewrites, COMMENT_PLACES[one.point], one.hook)
    )


def is_only_comment(message: Message) -> bool:
    """Whether the message is a hook's comment."""
    return message.sender.startswith(HOOK_SENDER)


def withdraw_questions_changes(agent: ObservedAgent, view: View, opened: OpenTurn) -> tuple[Change, ...]:
    """The changes that withdraw questions to agents of hooks that are no longer needed."""
    out: list[Change] = []
    for key, name in opened.hooks.consulted.items():
        if key in opened.hooks.fired:
            continue
        asked, hook = hook_question_id(agent, opened, key), agent.hooks.watching.get(name)
        if hook is not None:
            out += withdraw_question_changes(view, hook[0], asked)
        elif (thread := view.get(f"thread/{asked}")) is not None:
            out.append(Drop(thread.address, thread.uid))
    return tuple(out)


def hook_question_id(agent: ObservedAgent, opened: OpenTurn, key: str) -> str:
    """The id of the question `key` of the open turn: unique in the plan, and the same after a crash."""
    return f"{agent.resource.uid}-{agent.status.incarnation}-{opened.turn}-{key.replace('.', '-')}"


def _spoken(seen: ObservedAgent, opened: OpenTurn) -> dict[str, int]:
    """The turn in which the agent last exchanged messages with each child, or first saw it."""
    heard = {message.sender for message in opened.news.messages}
    named = {name for call in opened.reply.calls if call.tool in _SPEAKING for name in _names(call)}
    out: dict[str, int] = {}
    for child in seen.context.children:
        agent = child.address.replace("task/", "agent/", 1)
        known = {agent, child.address, agent.partition("/")[2], agent.rpartition("/")[2], "children"}
        is_now = agent in heard or bool(known & named)
        out[agent] = opened.turn if is_now else seen.status.mail.spoken.get(agent, opened.turn)
    return out


def _names(call: TurnCall) -> Iterator[str]:
    """Every name in the arguments of a call that sends messages."""
    given: list[Json] = [
        value for key, value in arguments_as_map(call.arguments).items() if key not in ("prompt", "message")
    ]
    for value in given:
        yield from (str(one) for one in (value if isinstance(value, list) else [value]))
