"""The log records of one turn, as pure functions from an observation to a draft.

A turn is started (the same record marks its messages as read), replied to (text and all call objects in one append),
its calls are authorized, started and settled one by one, and it ends. The process may die between any two records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from planloop.controllers.agent import budget, escalation
from planloop.controllers.agent.agent_copy import NO_ORIGIN, AgentOrigin
from planloop.controllers.agent.deciders.port import DeciderReply, ProposedCall
from planloop.controllers.agent.hooks import agent_hooks, watchers
from planloop.controllers.agent.hooks.agent_hooks import NO_OUTCOME, HookOutcome
from planloop.controllers.agent.mail import message_policy, wake_reasons
from planloop.controllers.agent.mail.wake_reasons import WakeNews, is_own_news
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import (
    AGENT_ACTOR,
    WAITING_STATES,
    OpenTurn,
    PastCall,
    TranscriptChunk,
    TurnCall,
    wrap_value,
)
from planloop.controllers.agent.tools.tool import CallEnding, PendingCall
from planloop.controllers.agent.turn import permissions, transcript
from planloop.controllers.agent.turn.permissions import MALFORMED_ERROR
from planloop.controllers.shared.simulated_worlds import WORLDS
from planloop.reconciler.effects import journal
from planloop.reconciler.effects.truncate import truncate_output
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Mark, Put, RecordDraft, SetStatus
from planloop.schemas.objects.agent import NO_MCP_CLIENT, NO_MODEL, STUCK, UNPRICED, AgentState
from planloop.schemas.objects.approval import WAITING
from planloop.schemas.objects.call import (
    CallResult,
    CallSpec,
    CallState,
    EffectClass,
    arguments_as_map,
    call_from_json,
    given_arguments,
)
from planloop.schemas.objects.message import ThreadAnswer
from planloop.schemas.objects.sandbox import sandbox_status_merge
from planloop.schemas.resource import Condition, Resource, Uid, condition_from_json, update_condition
from planloop.schemas.tools import FREE_TO_HOOKS

BLOCKING_CONDITIONS: Final = (
    "AwaitingApproval",
    "AwaitingInput",
    "AwaitingLock",
    "AwaitingServer",
    "BudgetSpent",
    "InDoubt",
    NO_MCP_CLIENT,
    NO_MODEL,
    "Paused",
    UNPRICED,
)
"""At most one of these conditions is True. It says why the agent does not continue."""

CHILD_FAILED: Final = "ChildFailed"
"""This condition is True until every failed child is fixed, removed or accepted, whatever else the agent does."""


def condition_merge(agent: ObservedAgent, kind: str, message: str, *, unblocks: Sequence[str] = ()) -> JsonObject:
    """The status merge that sets the condition `kind` to True with `message`, or removes it if `message` is empty.

    Empty if nothing changes, so that a second pass writes nothing.
    """
    raw = agent.status.conditions.get(kind)
    old = None if raw is None else condition_from_json(kind, raw)
    if not message:
        return {} if old is None else {"conditions": {kind: None}}
    new = update_condition(
        old, Condition(kind, "True", kind, message, agent.now, agent.resource.generation, tuple(unblocks))
    )
    if old is not None and (old.message, old.unblocks) == (new.message, new.unblocks) and old.since == new.since:
        return {}
    return {"conditions": {kind: new.to_json()}}


def blocking_merge(agent: ObservedAgent, kind: str, message: str, unblocks: Sequence[str]) -> JsonObject:
    """The merge after which `kind` is the only blocking condition; an empty `kind` removes them all."""
    affected = [each for each in BLOCKING_CONDITIONS if each == kind or each in agent.status.conditions]
    return join_condition_merges(
        condition_merge(agent, each, message if each == kind else "", unblocks=unblocks) for each in affected
    )


def child_failed_merge(agent: ObservedAgent, failed: str) -> JsonObject:
    """The merge that sets the condition about failed children to the text `failed`; empty text clears it."""
    return condition_merge(agent, CHILD_FAILED, failed, unblocks=("fix, remove or accept it",))


def join_condition_merges(merges: Iterable[JsonObject]) -> JsonObject:
    """One merge of the conditions that `merges` change; empty if they change none."""
    changes: JsonObject = {}
    for merge in merges:
        changes |= merge.get("conditions", {})
    return {"conditions": changes} if changes else {}


WAITS_SINCE: Final = "waits_since"
"""Key in a call's status: when it first began to wait, in seconds since 1970."""


def agent_author(agent: ObservedAgent) -> str:
    """The author of the agent's own records: `agent:<path>`."""
    return f"agent:{agent.resource.address.partition('/')[2]}"


def status_change(agent: ObservedAgent, merge: JsonObject) -> SetStatus:
    """A merge into this agent's status."""
    return SetStatus(agent.resource.address, agent.resource.uid, merge)


def draft_incarnation(agent: ObservedAgent, incarnation: int, origin: AgentOrigin = NO_ORIGIN) -> RecordDraft:
    """A new incarnation: everything but the inbox and the usage is reset, or copied from the agent's `origin`.

    Questions that the old incarnation has not answered become unread again.
    """
    fresh = ("open", "memory", "claim", "told", "past", "wake_at", "files", "same", "ended_at", "conditions")
    heard = ("sent_back", "nudges", "spoken", WORLDS, "seat", "said", "escalated", "tried")
    old = agent.resource.status
    merge: JsonObject = {name: None for name in (*fresh, *heard, "asked", "is_answering", "transcript") if name in old}
    if agent.status.mail.asked:
        merge["inbox"] = wake_reasons.unanswered_merge(agent)
    merge |= {"incarnation": incarnation, "turn": 0, "again": False, "state": str(AgentState.RUNNING)}
    merge |= sandbox_status_merge(agent.spec.sandbox, agent.resource.status)
    # A separate change: in one merge with what it replaces, the old keys of a map would stay.
    copied = (status_change(agent, origin.merge),) if origin.merge else ()
    data: JsonObject = {"incarnation": incarnation}
    return RecordDraft(
        "agent.woken", AGENT_ACTOR, agent.resource.address, (status_change(agent, merge), *copied), data, origin.blobs
    )


def draft_turn_start(
    agent: ObservedAgent, news: WakeNews, op: str, view: View, *, is_last: bool = False
) -> RecordDraft:
    """A turn starts; the messages that it contains leave the inbox in the same record.

    `is_last`: the budget is used up, and the agent hands its work over.
    """
    turn = agent.status.turn + 1
    raw = agent.resource.status
    # Only changed members are written; after most turns, none of these has changed.
    clean: JsonObject = {"state": str(AgentState.RUNNING), "why": None, "again": False, "wake_at": None}
    merge: JsonObject = {name: value for name, value in clean.items() if raw.get(name) != value}
    if news.told:
        merge["told"] = news.told
    if news.read:
        merge["inbox"] = dict.fromkeys(news.read)
    merge |= {
        "turn": turn,
        "open": {
            "turn": turn,
            "started_at": agent.now,
            "base_rev": agent.plan_rev,
            "op": op,
            "reasons": list(news.reasons),
            "messages": [message.to_json() for message in news.messages],
        },
    }
    if is_last:
        merge["had_last"] = merge["open"]["is_last"] = True
    if owed := wake_reasons.owed_merge(news.messages):
        merge["asked"] = owed
    if agent.is_over or agent.is_watcher:
        merge["is_answering"] = merge["open"]["is_answer"] = True
    if agent.status.progress.nudges and not all(map(agent_hooks.is_only_comment, news.messages)):
        merge["nudges"] = 0
    if news.withdraws:
        merge["claim"] = None
    drops: tuple[Change, ...] = tuple(Drop(each.address, each.uid) for each in news.drops)
    if news.told.get("budget"):
        drops += budget_message_changes(agent, view, "low")
    data = {"turn": turn, **_turn_start_data(agent, news, merge)}
    return RecordDraft("turn.started", AGENT_ACTOR, agent.resource.address, (status_change(agent, merge), *drops), data)


def _turn_start_data(agent: ObservedAgent, news: WakeNews, merge: JsonObject) -> JsonObject:
    """The data of the record of a started turn. It repeats the messages of a turn that ends in the same record."""
    data: JsonObject = {"reasons": list(news.reasons), "read": list(news.read)}
    if agent.nature.is_instant and news.messages:
        data["told"] = merge["open"]["messages"]
    if agent.nature.is_guest and agent.status.client.said:
        data["said"] = _take_client_call(agent, merge)
    return data


def _take_client_call(agent: ObservedAgent, merge: JsonObject) -> str:
    """Move the first call of an MCP client into the turn. Return its id, by which the client finds the turn."""
    call = min(agent.status.client.said.values(), key=lambda each: (each.at, each.id))
    merge["said"], merge["open"]["said"] = {call.id: None}, call.to_json()
    return call.id


def budget_message_changes(agent: ObservedAgent, view: View, how: str) -> tuple[Change, ...]:
    """The message to the parent agent that this agent's budget is `low` or `spent`. It replaces an unread one."""
    facts: JsonObject = {"key": "budget", "budget": how, "left": dict(agent.budget.left)}
    message_id = f"{agent.resource.uid}.{agent.status.incarnation}.{agent.status.turn}.{how}"
    return message_policy.parent_message_changes(view, agent.resource, facts, message_id, agent.now)


def draft_decider_request(agent: ObservedAgent, op: str) -> RecordDraft:
    """The intent to ask the decider outside this process, under the operation id `op`."""
    turn = agent.status.open
    asked = 1 if turn is None else turn.request.asked + 1
    merge: JsonObject = {"open": {"asked": asked, "op": op}}
    data: JsonObject = {"op": op, "attempt": asked}
    return RecordDraft("model.requested", AGENT_ACTOR, agent.resource.address, (status_change(agent, merge),), data)


def draft_last_turn(agent: ObservedAgent) -> RecordDraft:
    """The open turn becomes the last one: too little budget is left for its next request."""
    merge: JsonObject = {"had_last": True, "open": {"is_last": True}}
    return RecordDraft(
        "object.updated", AGENT_ACTOR, agent.resource.address, (status_change(agent, merge),), {"last_turn": True}
    )


def draft_reply(
    agent: ObservedAgent, reply: DeciderReply, ids: Sequence[str], tools: permissions.ToolMap, *, queued_s: float = 0.0
) -> RecordDraft:
    """The whole reply: its text and an object for each of its calls, in one append. `ids` has one id a call.

    `queued_s` is how long the request waited for a slot. It is part of the same change, because a replay, in which no
    request waits, compares the number of changes.
    """
    turn = agent.opened
    is_answer = reply.then == "final" and not reply.calls
    # A final answer claims that the task is done, with three exceptions: an agent that waits for a child or an approval
    # sleeps, and the text of a last turn or of a conversation is a message.
    is_talk = turn.is_last or agent.hooks.is_engaged or watchers.is_asked_by_hook(agent.status.mail.asked)
    then = "sleep" if is_answer and (is_talk or _has_delegated(agent)) else reply.then
    is_final = is_answer and then == "final"
    proposed = (ProposedCall("done", {"result": reply.text or None}),) if is_final else reply.calls
    placed = [_placed(call, call_id, is_final) for call, call_id in zip(proposed, ids, strict=False)]
    same = permissions.count_same_calls(agent.status.progress.same, placed)
    if agent.is_watcher and all(call.tool in FREE_TO_HOOKS for call in placed):
        same = ("", 0)  # The same verdict on another question.
    answer: JsonObject = {"text": reply.text, "then": then, "calls": [call.to_json() for call in placed]}
    if reply.sleep_s is not None:
        answer["sleep_s"] = reply.sleep_s
    if reply.extra:
        answer["extra"] = reply.extra
    note = _reply_note(agent, reply, same)
    if note:
        answer["note"] = note
    merge: JsonObject = {"open": {"reply": wrap_value(answer)}, "same": list(same)}
    if queued_s:
        merge["open"]["waited_s"] = turn.times.waited_s + queued_s
    if reply.memory is not None or agent.status.memory.own is not None:
        merge["memory"] = wrap_value(reply.memory)
    stuck = f"the same call was made {same[1]} times in a row" if permissions.is_repeated_too_often(same) else ""
    merge |= condition_merge(agent, STUCK, stuck, unblocks=("send the agent a message", "change its goal"))
    objects = [each for index, call in enumerate(placed) for each in _call_object(agent, turn.turn, index, call, tools)]
    data: JsonObject = {"turn": turn.turn, "text": reply.text, "usage": reply.usage, **reply.data}
    data |= {name: value for name, value in (("note", reply.note), ("extra", reply.extra)) if value}
    data["calls"] = [_call_json(call) for call in placed]
    blobs = (str(data["blob"]),) if "blob" in data else ()
    return RecordDraft(
        "model.replied",
        agent_author(agent),
        agent.resource.address,
        (status_change(agent, merge), *objects),
        data,
        blobs,
    )


def _reply_note(agent: ObservedAgent, reply: DeciderReply, same: tuple[str, int]) -> str:
    """The note about its own reply that the decider gets after the results."""
    if not (agent.nature.is_model and permissions.is_repeated_too_often(same)):
        return reply.note
    stuck = f"[You have made the same call {same[1]} times in a row, with the same result. Do something else.]"
    return f"{reply.note}\n{stuck}" if reply.note else stuck


def _has_delegated(agent: ObservedAgent) -> bool:
    """Whether the agent waits for a child or for the answer to a request."""
    is_asking = any(
        each.state == WAITING and each.spec["kind"] == "request" and each.address not in agent.objects.unanswerable
        for each in agent.objects.approvals.values()
    )
    return agent.nature.is_model and (is_asking or any(child.is_live for child in agent.context.children))


def _call_json(call: TurnCall) -> JsonObject:
    """A call for the record of the reply: everything that a replay needs to repeat it."""
    out: JsonObject = {"call": call.address, "tool": call.tool, "arguments": call.arguments}
    own: JsonObject = {"key": call.key, "fault": call.fault, "implied": call.is_implied, "extra": call.extra}
    return out | {name: value for name, value in own.items() if value}


def _placed(call: ProposedCall, call_id: str, is_implied: bool) -> TurnCall:
    address = journal.call_address(call_id)
    arguments = call.arguments if call.fault else given_arguments(call.arguments)
    return TurnCall(address, call.tool, arguments, call.key, call.fault, call.is_parallel, is_implied, call.extra)


def _call_object(
    agent: ObservedAgent, turn: int, index: int, call: TurnCall, tools: permissions.ToolMap
) -> tuple[Change, ...]:
    spec = call_spec(agent, turn, index, call, tools)
    uid = Uid(spec.op)
    return (
        Put(call.address, uid, spec.to_json(), owner=spec.owner),
        SetStatus(call.address, uid, {"state": str(CallState.PROPOSED)}),
    )


def call_spec(agent: ObservedAgent, turn: int, index: int, call: TurnCall, tools: permissions.ToolMap) -> CallSpec:
    """The spec of a call object. Its first operation id is its own id; a start after a crash takes a new one."""
    tool = tools.get(call.tool)
    given: JsonObject = {} if tool is None else {"effect": permissions.effect_of(tool, call.arguments, agent.spec)}
    return CallSpec(
        owner=agent.resource.address,
        owner_uid=agent.resource.uid,
        incarnation=agent.status.incarnation,
        op=call.address.partition("/")[2],
        tool=call.tool,
        arguments=arguments_as_map(call.arguments),
        turn=turn,
        index=index,
        is_process=tool is not None and tool.is_process,
        **given,
    )


@frozen
class SettledCall:
    """The result of one call of the open turn, with what takes effect together with it."""

    call: Resource
    result: CallResult
    changes: tuple[Change, ...] = ()
    agent: Mapping[str, object] | None = None
    turn: Mapping[str, object] | None = None
    data: Mapping[str, object] | None = None


def draft_settlement(agent: ObservedAgent, outcome: SettledCall) -> RecordDraft:
    """Put the result of a call into the turn and remove the call object, which stays only if the outcome is unknown."""
    call, result = outcome.call, outcome.result
    is_result = result.state is not CallState.UNKNOWN or agent.nature.judges_doubt
    results: JsonObject = {call.address: wrap_value(result.to_json())} if is_result else {}
    opened: JsonObject = {"results": results, **(outcome.turn or {})}
    merge: JsonObject = {**(outcome.agent or {}), "open": opened}
    data: JsonObject = {"tool": call.spec["tool"], "result": result.to_json(), **(outcome.data or {})}
    gone = journal.settle_changes(call.address, call.uid, result)
    blobs = (result.blob,) if result.blob is not None else ()
    changes = (status_change(agent, merge), *outcome.changes, *gone)
    return RecordDraft("call.settled", agent_author(agent), call.address, changes, data, blobs)


def draft_ending(agent: ObservedAgent, call: Resource, ending: CallEnding) -> RecordDraft:
    """The record of what a tool returned: the result of the call, or that the call waits."""
    if isinstance(ending, PendingCall):
        return draft_wait(agent, call, ending)
    opened = agent.status.open
    waited = {} if opened is None else wait_end_merge(agent, opened)
    merge = {**ending.turn, **waited}
    return draft_settlement(agent, SettledCall(call, ending.result, ending.changes, ending.agent, merge, ending.data))


def draft_wait(agent: ObservedAgent, call: Resource, wait: PendingCall) -> RecordDraft:
    """The call begins to wait, or moves one step: Authorized means that it starts again with what it waited for.

    A waiting call consists of its object only, without a job or memory. On every pass, `Tool.resolve` computes whether
    the wait is over, so that a crash or a lost wake-up changes nothing.
    """
    assert wait.state in WAITING_STATES or wait.state is CallState.AUTHORIZED, f"{wait.state} is not a waiting state"
    merge: JsonObject = {**wait.call, "state": str(wait.state), "why": wait.why, "due_at": wait.due_at}
    merge["unblocks"] = list(wait.unblocks)
    if WAITS_SINCE not in call.status:
        merge[WAITS_SINCE] = agent.now
    changes = (status_change(agent, {}), SetStatus(call.address, call.uid, merge), *wait.changes)
    data: JsonObject = {"tool": call.spec["tool"], "state": str(wait.state), "why": wait.why}
    return RecordDraft("call.waiting", agent_author(agent), call.address, changes, data)


def wait_end_merge(agent: ObservedAgent, opened: OpenTurn) -> Mapping[str, Json]:
    """The merge into the open turn that ends a wait: the time since it began is not active time."""
    if opened.times.waiting_since is None:
        return {}
    return {"waiting_since": None, "waited_s": opened.times.waited_s + max(0.0, agent.now - opened.times.waiting_since)}


def draft_call_starts(agent: ObservedAgent, calls: list[tuple[Resource, str]]) -> RecordDraft:
    """The intents of several calls, each with its operation id, in one append; it is flushed before any call begins."""
    changes = [change for call, op in calls for change in _start_changes(call, op)]
    opened = agent.status.open
    waited = {} if opened is None else dict(wait_end_merge(agent, opened))  # It may have waited for a permit.
    turn_state = status_change(agent, {"state": "running", "why": None} | ({"open": waited} if waited else {}))
    data = {"calls": [call.address for call, _ in calls]}
    return RecordDraft("call.started", agent_author(agent), agent.resource.address, (turn_state, *changes), data)


def _start_changes(call: Resource, op: str) -> tuple[Change, ...]:
    if op == call.spec["op"]:
        return (call_state_change(call, CallState.STARTED, result=None, why=None),)
    return journal.start_changes(replace(call_from_json(call.spec), op=op), call.address.partition("/")[2])


def call_state_change(call: Resource, state: CallState, **more: str | None) -> SetStatus:
    """The change of a call's state."""
    return SetStatus(call.address, call.uid, {"state": str(state), **more})


def draft_escalation(agent: ObservedAgent, why: str) -> RecordDraft:
    """A stronger model continues the conversation."""
    merge = escalation.escalation_merge(agent, why)
    merge |= condition_merge(agent, STUCK, "")
    data: JsonObject = {"to": merge["escalated"]["to"], "why": why, "turn": agent.status.turn}
    return RecordDraft("agent.escalated", AGENT_ACTOR, agent.resource.address, (status_change(agent, merge),), data)


def draft_turn_end(
    agent: ObservedAgent,
    view: View,
    chunk: TranscriptChunk | None = None,
    left: HookOutcome = NO_OUTCOME,
    effects: Sequence[EffectClass] = (),
) -> RecordDraft:
    """End a turn whose calls all have results, and bill what it used.

    `chunk` is added to the transcript of a model (None for other deciders). `effects` are the effect classes of its
    calls, `left` is what the hooks of the agent add to the record.
    """
    turn = agent.opened
    past = _past_calls(turn)
    active_s = max(0.0, agent.now - turn.times.started_at - turn.times.waited_s)
    used = agent.status.used
    total = type(used)(used.turns + 1, used.calls + len(past), used.time_s + active_s)
    # A script ends even if it repeats itself; a program may loop forever.
    made, before = _valid_calls(past), _valid_calls(agent.status.memory.past)
    is_repeat = bool(past) and agent.nature.may_go_round and made in (before, [])
    idle_turns = agent.status.progress.idle_turns + 1 if is_repeat or (turn.reply.then == "again" and not past) else 0
    is_idle = not past and idle_turns >= limits.IDLE_TURNS_MAX
    is_again = turn.claim is None and not is_idle and (bool(past) or turn.reply.then == "again")
    pause_s = _pause_s(idle_turns) if is_repeat and is_again else 0.0
    sleep_s = pause_s or (None if is_again else turn.reply.sleep_s)
    data: JsonObject = {"turn": turn.turn, "calls": len(past), "active_s": round(active_s, 6)}
    merge: JsonObject = {
        "open": None,
        "past": [call.to_json(is_told=chunk is None) for call in past],
        "used": total.to_json(),
        "ended_at": agent.now,
        # After its last turn the agent is parked, not asleep, so that it resumes when the budget grows.
        "again": (is_again and not pause_s) or left.is_sent_back or (turn.is_last and turn.claim is None),
    }
    if idle_turns != agent.status.progress.idle_turns:
        merge["idle_turns"] = idle_turns
    if sleep_s is not None or agent.status.wake.wake_at is not None:
        merge["wake_at"] = None if sleep_s is None else agent.now + sleep_s
    if chunk is not None:
        merge["transcript"] = {transcript.turn_key(turn.turn): chunk.to_json()}
    is_claim = turn.claim is not None and turn.claim["kind"] != wake_reasons.VERDICT_CLAIM
    claim = turn.claim if is_claim and not turn.is_answer and not left.is_sent_back else None
    if chunk is not None and not (agent.is_watcher or turn.is_answer):
        claim = _note_attempts(agent, turn, claim, effects, merge)
    if claim is not None:
        merge |= _claim_merge(agent, claim)
    answers: tuple[Change, ...] = ()
    if (answer := None if left.is_sent_back else wake_reasons.answer_of_turn(agent, turn)) is not None:
        now = watchers.questions_answered(agent.status.mail.asked.values())
        given, answers = wake_reasons.thread_answer_changes(agent, answer, now)
        merge |= given
        data["answered"] = {question.id: answer.words for question in now}
        is_thinking = turn.claim is None and agent.nature.is_model and not (agent.is_watcher or agent.hooks.is_engaged)
        merge["again"] = merge["again"] or (is_thinking and watchers.has_more_to_do(turn, agent.status.mail.asked, now))
    if is_idle:
        words = f"it asked for another turn {idle_turns} times in a row without doing anything"
        merge |= condition_merge(agent, STUCK, words, unblocks=("send the agent a message",))
    merge |= left.merge
    spent = budget.spending_changes(view, agent.spec.task, 1, len(past), active_s)
    if agent.nature.is_guest and (comments := agent_hooks.opening_comments(turn)):
        data["comments"] = list(comments)  # Its client reads the log.
    if turn.is_last and turn.reply.text:
        spent += _handover_changes(agent, view, turn)
    blobs = () if chunk is None else (chunk.blob,)
    changes = (status_change(agent, merge), *answers, *left.changes, *spent)
    return RecordDraft("turn.ended", AGENT_ACTOR, agent.resource.address, changes, data, blobs)


def _note_attempts(
    agent: ObservedAgent, turn: OpenTurn, claim: JsonObject | None, effects: Sequence[EffectClass], merge: JsonObject
) -> JsonObject | None:
    """Add the attempts of the turn to `merge`. Returns the claim, with the reason if the agent is stuck."""
    tried = escalation.attempts_after_turn(agent, turn, effects)
    if tried != agent.status.progress.tried:
        merge["tried"] = list(tried)
    why = "" if agent.hooks.is_engaged or escalation.can_escalate(agent) else escalation.why_stuck(tried)
    if not why or (claim is not None and claim["kind"] != "done"):
        return claim
    if claim is not None:
        return {**claim, "stuck": why}
    newest = next((each for each in reversed(tried) if each["kind"] != escalation.DONE_TRIED), None)
    if newest is None or newest["kind"] != escalation.CALL_TRIED or not turn.reply.calls:
        return None
    merge |= {"again": False, "wake_at": None}
    return {"kind": "fail", "result": why, "stuck": why}


def _past_calls(turn: OpenTurn) -> list[PastCall]:
    """The calls of a turn with their results and the comments of hooks."""
    comments = agent_hooks.comments_by_call(turn) if turn.hooks.fired else {}
    return [
        PastCall(call.address, call.tool, call.arguments, turn.results[call.address], comments.get(index, ()))
        for index, call in enumerate(turn.reply.calls)
    ]


def _handover_changes(agent: ObservedAgent, view: View, turn: OpenTurn) -> tuple[Change, ...]:
    """The message to the parent agent with the text of the last turn."""
    text = truncate_output(turn.reply.text.encode(), limits.HANDOVER_BYTES_MAX)
    facts: JsonObject = {"key": "handover", "budget": "spent", "text": text}
    message_id = f"{agent.resource.uid}.{agent.status.incarnation}.{turn.turn}.handover"
    return message_policy.parent_message_changes(view, agent.resource, facts, message_id, agent.now)


def _valid_calls(made: Sequence[PastCall]) -> list[tuple[str, Json]]:
    """Tool and arguments of each call that was not malformed."""
    return [(call.tool, call.arguments) for call in made if call.result.error != MALFORMED_ERROR]


def _pause_s(repeats: int) -> float:
    """Seconds until a decider that repeats the same turn is asked again, so that the log does not fill up."""
    over = repeats - limits.SAME_CALL_MAX
    return 0.0 if over <= 0 else min(limits.BACKOFF_CAP_S, limits.BACKOFF_BASE_S * 2.0 ** min(over, 30))


def _claim_merge(agent: ObservedAgent, claim: JsonObject) -> JsonObject:
    seq = agent.status.progress.claims + 1
    merge: JsonObject = {"seq": seq, "kind": claim["kind"], "result": wrap_value(claim["result"])}
    merge["incarnation"] = agent.status.incarnation
    if claim.get("stuck") or "stuck" in (agent.resource.status.get("claim") or {}):
        merge["stuck"] = claim.get("stuck")
    return {"claims": seq, "signal": seq, "state": str(AgentState.CLAIMED), "claim": merge}


def draft_turn_close(agent: ObservedAgent, view: View, why: str) -> RecordDraft:
    """Cancel the open turn, with its unsettled calls and its reservations.

    If the decider has not replied, the messages of the turn become unread again.
    """
    drops: tuple[Change, ...] = tuple(Drop(call.address, call.uid) for call in agent.objects.calls.values())
    drops += budget.release_changes(view, agent.resource)
    merge: JsonObject = {"open": None, "again": False, "wake_at": None}
    opened = agent.status.open
    if opened is not None:
        drops += agent_hooks.withdraw_questions_changes(agent, view, opened)
    if opened is not None and not opened.is_replied:
        merge["inbox"] = {
            each.id: each.to_json() for each in opened.news.messages if not (each.asks or is_own_news(each))
        }
    data: JsonObject = {"called_off": why, "calls": sorted(agent.objects.calls)}
    return RecordDraft("turn.ended", AGENT_ACTOR, agent.resource.address, (status_change(agent, merge), *drops), data)


def draft_release(agent: ObservedAgent) -> RecordDraft:
    """Release the agent for removal; open questions get the answer that it was removed."""
    left = tuple(name for name in agent.resource.finalizers if name != "agent")
    mark = Mark(agent.resource.address, agent.resource.uid, finalizers=left)
    owned = (*agent.objects.approvals.values(), *agent.objects.threads.values())
    drops = tuple(Drop(each.address, each.uid) for each in owned)
    _, answers = wake_reasons.thread_answer_changes(
        agent, ThreadAnswer("the agent was removed", "Gone"), wake_reasons.unanswered_questions(agent)
    )
    kept = (*answers, *budget.cost_left_behind(agent.resource, agent.task))
    return RecordDraft(
        "object.updated", AGENT_ACTOR, agent.resource.address, (*kept, *drops, mark), {"released": "agent"}
    )


def draft_answer(agent: ObservedAgent, answer: ThreadAnswer) -> RecordDraft:
    """Answer open questions without a turn, because the task is over or the agent cannot continue."""
    open_questions = wake_reasons.unanswered_questions(agent)
    merge, changes = wake_reasons.thread_answer_changes(agent, answer, open_questions)
    data: JsonObject = {"answered": {each.id: answer.words for each in open_questions}, "error": answer.error}
    return RecordDraft(
        "message.sent", agent_author(agent), agent.resource.address, (status_change(agent, merge), *changes), data
    )
