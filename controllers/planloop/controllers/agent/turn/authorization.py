"""Records of decisions on calls: permissions and hooks' verdicts applied, approvals, interruptions, results. Pure.

A verdict is written into the open turn, from which all its consequences are computed. The same append updates the
status of the hook: its memory, and how often it fired. The reply keeps the original arguments of a call; arguments
from a hook are stored separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from planloop.controllers.agent import external_lease
from planloop.controllers.agent.hooks import questions, verdicts
from planloop.controllers.agent.hooks.questions import HookQuestion, RewrittenCall
from planloop.controllers.agent.mail import wake_reasons
from planloop.controllers.agent.mail.wake_reasons import redirection_news
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import AGENT_ACTOR, OpenTurn, TurnVerdict, unwrap_value, wrap_value
from planloop.controllers.agent.turn import permissions, records
from planloop.controllers.agent.turn.permissions import (
    CallAllowed,
    CallNeedsApproval,
    CallPermission,
    CallRefused,
    ToolMap,
)
from planloop.reconciler.store.store import View
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.log.record import Change, Drop, Put, RecordDraft, SetStatus
from planloop.schemas.objects.agent import STUCK
from planloop.schemas.objects.approval import APPROVED, WAITING, ApprovalSpec
from planloop.schemas.objects.call import CallResult, CallState, arguments_as_map, result_from_json
from planloop.schemas.objects.hook import ACTIVE, OVER, HookSpec, HookVerdict
from planloop.schemas.resource import Resource, Uid

DEFERRED_ERROR = "Deferred"
"""The error of a call that a hook deferred."""


def hook_memory(hook: Resource, spec: HookSpec, agent: ObservedAgent, originals: Mapping[str, Resource]) -> Json:
    """The memory of the hook. It is empty in a new incarnation of the agent; a read-only copy reads its original's."""
    if spec.is_read_only and spec.original in originals:
        return unwrap_value(originals[spec.original].status.get("memory"))
    if hook.status.get("incarnation") != agent.status.incarnation:
        return None
    return unwrap_value(hook.status.get("memory"))


def draft_verdicts(
    agent: ObservedAgent, given: Sequence[tuple[HookQuestion, HookVerdict]], cost: JsonObject | None = None
) -> RecordDraft:
    """The record of verdicts, each with its question; `cost` is what they cost besides the agent's own steps."""
    made = [_fired(question, verdict) for question, verdict in given]
    opened = agent.status.open
    waited = {} if opened is None else records.wait_end_merge(agent, opened)
    merge: JsonObject = {"open": {"fired": {one.key: wrap_value(one.to_json()) for one in made}, **waited}}
    if agent.resource.status.get("why"):
        merge["why"] = None  # It named the hooks that were asked; the next rest names those that are left.
    changes: list[Change] = [SetStatus(agent.resource.address, agent.resource.uid, merge)]
    changes += [_hook_change(agent, question, verdict) for question, verdict in given]
    fired = [_verdict_json(question, one) for (question, _), one in zip(given, made, strict=True)]
    data: JsonObject = {"turn": 0 if opened is None else opened.turn, "fired": fired}
    if cost:
        data["cost"] = cost
    return RecordDraft("hook.fired", AGENT_ACTOR, agent.resource.address, tuple(changes), data)


def draft_hook_wait(agent: ObservedAgent, why: str) -> RecordDraft:
    """The record of which hooks the agent waits for."""
    return RecordDraft(
        "object.updated",
        AGENT_ACTOR,
        agent.resource.address,
        (records.status_change(agent, {"why": why}),),
        {"why": why},
    )


def _fired(question: HookQuestion, verdict: HookVerdict) -> TurnVerdict:
    version = questions.hook_version(question.hook)
    return TurnVerdict(question.spec.name, question.point, question.index, question.rewrites, verdict, version)


def _hook_change(agent: ObservedAgent, question: HookQuestion, verdict: HookVerdict) -> SetStatus:
    """The change of the hook's status by a verdict: its memory, whether it quit, how often it fired, its errors."""
    hook, merge = question.hook, _first_status(agent, question.hook)
    now = {**hook.status, **merge}
    merge["fired"] = 1 + int(now.get("fired") or 0)
    if verdict.fault:
        broke: JsonObject = unwrap_value(now.get("faults")) or {}
        count = 1 + int(broke.get(question.point, {}).get("count", 0))
        merge["faults"] = wrap_value(broke | {question.point: {"count": count, "last": verdict.fault}})
    if not question.spec.is_read_only:
        if verdict.memory is not None:
            merge["memory"] = wrap_value(verdict.memory)
        if verdict.is_last:
            merge |= {"state": OVER, "why": verdict.reason or "it quit", "signal": OVER}
    return SetStatus(hook.address, hook.uid, merge)


def _first_status(agent: ObservedAgent, hook: Resource) -> JsonObject:
    """The status that a hook gets with its first verdict in an incarnation of the agent; empty after that."""
    if hook.status.get("incarnation") == agent.status.incarnation:
        return {}
    forgotten: JsonObject = {name: None for name in ("memory", "why", "faults") if hook.status.get(name) is not None}
    since_turn = max(0, agent.status.turn - 1)
    begun: JsonObject = {"incarnation": agent.status.incarnation, "state": ACTIVE, "fired": 0, "since": None}
    return begun | {"since_turn": since_turn} | forgotten


def memory_change(agent: ObservedAgent, question: HookQuestion, memory: Json) -> SetStatus:
    """Store the memory of a hook that has not given its verdict yet."""
    merge = _first_status(agent, question.hook) | {"memory": wrap_value(memory)}
    return SetStatus(question.hook.address, question.hook.uid, merge)


def _verdict_json(question: HookQuestion, one: TurnVerdict) -> JsonObject:
    """A verdict for the log, with everything that a replay needs to apply it again."""
    out: JsonObject = {"key": one.key, "hook": question.hook.address, "point": one.point}
    if question.call is not None:
        out |= {"call": question.call.address, "tool": question.call.tool}
    return out | {"verdict": one.verdict.to_json()}


def draft_late_evidence(question: HookQuestion, agent: str, turn: int, verdict: HookVerdict) -> RecordDraft:
    """Evidence of a late verdict; it changes nothing."""
    fired = _verdict_json(question, _fired(question, verdict))
    return RecordDraft("hook.fired", AGENT_ACTOR, agent, (), {"turn": turn, "fired": [fired], "late": True})


def forbidden_arguments_result(standing: RewrittenCall) -> CallResult:
    """The result of a call to which a hook gave arguments that the rights forbid."""
    return CallResult(CallState.DENIED, standing.refused, "Denied")


def refused_by_hooks(agent: ObservedAgent, standing: RewrittenCall) -> CallResult | None:
    """The result of a call that its hooks refuse; None if it may start, perhaps after an approval."""
    ends = standing.merged
    if ends.decision == "deny":
        return CallResult(CallState.DENIED, ends.words, "Denied")
    if ends.decision == "defer":
        return CallResult(CallState.DENIED, f"deferred: first do what the hook asks. {ends.words}", DEFERRED_ERROR)
    opened = agent.status.open
    if opened is not None and questions.is_final_reply(agent, opened):
        back = questions.verdict_on_answer(agent, opened)
        if back.decision != "allow":
            return CallResult(CallState.DENIED, verdicts.sent_back_text(back), "Denied")
    return None


def rewritten_arguments(standing: RewrittenCall, original: Json) -> JsonObject | None:
    """The arguments that hooks gave the call; None if they did not change them."""
    arguments = arguments_as_map(standing.call.arguments)
    return arguments if standing.by and arguments != arguments_as_map(original) else None


@frozen
class HookedRulings:
    """One ruling for each call. `others` are the calls with arguments from hooks, `changes` what sets those."""

    rulings: Sequence[CallPermission]
    changes: tuple[Change, ...] = ()
    others: Mapping[str, Resource] | None = None

    def made(self, agent: ObservedAgent, address: str) -> Resource:
        """The call object as it will be started."""
        return (self.others or {}).get(address) or agent.objects.calls[address]


def apply_verdicts(
    agent: ObservedAgent, tools: ToolMap, approve: Sequence[str], rulings: Sequence[CallPermission]
) -> HookedRulings:
    """The rulings after the verdicts of hooks: a denial by either counts; arguments from hooks are checked again."""
    opened = agent.opened
    out: list[CallPermission] = []
    others: dict[str, Resource] = {}
    changes: list[Change] = []
    deferred = False
    for index, (call, ruled) in enumerate(zip(opened.reply.calls, rulings, strict=True)):
        if isinstance(ruled, CallRefused):
            out.append(ruled)
            continue
        standing = questions.rewritten_call(agent, index, tools)
        given = rewritten_arguments(standing, call.arguments)
        now = ruled if given is None else permissions.check_call(standing.call, agent.spec, tools, approve)
        out.append(
            CallRefused(forbidden_arguments_result(standing)) if standing.refused else _judged(agent, now, standing)
        )
        deferred = deferred or _is_deferred(out[-1])
        if given is not None:
            made, done = _rewritten(agent, opened, index, given, tools)
            others[call.address] = made
            changes += done
    if deferred or (
        questions.is_final_reply(agent, opened) and questions.verdict_on_answer(agent, opened).decision != "allow"
    ):
        # The agent has to wait, so repeating the call does not mean that it is stuck.
        changes.append(records.status_change(agent, {"same": ["", 0], "conditions": {STUCK: None}}))
    return HookedRulings(out, tuple(changes), others)


def _is_deferred(ruled: CallPermission) -> bool:
    return isinstance(ruled, CallRefused) and ruled.result.error == DEFERRED_ERROR


def _judged(agent: ObservedAgent, ruled: CallPermission, standing: RewrittenCall) -> CallPermission:
    """The permission of a call after the verdicts of its hooks."""
    if isinstance(ruled, CallRefused):
        return ruled
    refusal = refused_by_hooks(agent, standing)
    if refusal is not None:
        return CallRefused(refusal)
    if standing.merged.decision != "ask":
        return ruled
    words = standing.merged.words
    if isinstance(ruled, CallNeedsApproval):
        return CallNeedsApproval(ruled.pattern, f"{approval_reason(ruled.pattern)}; {words}")
    assert isinstance(ruled, CallAllowed)
    return CallNeedsApproval("", _hook_approval_reason(words))


def approval_reason(pattern: str) -> str:
    """Why a call needs approval by the `approve:` pattern of the plan."""
    return f"the plan requires approval for `{pattern}`"


def _hook_approval_reason(words: str) -> str:
    """Why a call needs approval by hooks; `words` are their names and reasons."""
    return f"approval required by {words}"


def _rewritten(
    agent: ObservedAgent, opened: OpenTurn, index: int, arguments: JsonObject, tools: ToolMap
) -> tuple[Resource, tuple[Change, ...]]:
    """The call object with other arguments. The agent's own arguments stay in its reply and in the call's status."""
    call = opened.reply.calls[index]
    made = agent.objects.calls[call.address]
    wanted = records.call_spec(agent, opened.turn, index, remade(call, arguments=arguments), tools).to_json()
    changes: tuple[Change, ...] = (
        Put(made.address, made.uid, wanted, made.refs, made.owner, made.finalizers),
        SetStatus(made.address, made.uid, {"original": wrap_value(made.spec["arguments"])}),
        records.status_change(agent, {"open": {"rewritten": {call.address: wrap_value(arguments)}}}),
    )
    return replace(made, spec=wanted), changes


APPROVED_VERDICTS: Final = "yes_to"
"""Key in a call's status: the late verdicts that asked for an approval."""


def draft_authorization(agent: ObservedAgent, tools: ToolMap, approve: Sequence[str]) -> RecordDraft:
    """Rule on every call of the reply in one append, which also holds the results of refused calls."""
    opened = agent.opened
    results: JsonObject = {}
    changes: list[Change] = []
    data: JsonObject = {}
    rulings = permissions.check_calls(agent, tools, approve)
    heard = (
        apply_verdicts(agent, tools, approve, rulings)
        if agent.hooks.watching or opened.hooks.fired
        else HookedRulings(rulings)
    )
    for call, ruled in zip(opened.reply.calls, heard.rulings, strict=True):
        made = heard.made(agent, call.address)
        match ruled:
            case permissions.CallAllowed():
                changes.append(records.call_state_change(made, CallState.AUTHORIZED))
                data[call.address] = "allowed"
            case permissions.CallNeedsApproval(pattern=pattern, why=why):
                changes += approval_request_changes(agent, made, pattern, why)
                data[call.address] = why or f"needs approval: {pattern}"
            case permissions.CallRefused(result=result):
                results[call.address] = wrap_value(result.to_json())
                changes.append(Drop(made.address, made.uid))
                data[call.address] = f"{result.state}: {result.text}"
    merge: JsonObject = {"open": {"results": results}} if results else {"state": "running"}
    changes[:0] = [records.status_change(agent, merge), *heard.changes]
    return RecordDraft("call.authorized", AGENT_ACTOR, agent.resource.address, tuple(changes), data)


def draft_approval_answers(agent: ObservedAgent, asking: Sequence[Resource]) -> RecordDraft:
    """Approved calls are authorized, rejected ones get their result; the approvals are removed."""
    opened = agent.opened
    changes: list[Change] = []
    results: JsonObject = {}
    for call in asking:
        approval = agent.objects.approvals.get(str(call.status.get("approval")))
        if approval is not None and approval.state == APPROVED:
            changes.append(records.call_state_change(call, CallState.AUTHORIZED, approval=None))
        else:
            results[call.address] = wrap_value(_rejected(approval).to_json())
            changes.append(Drop(call.address, call.uid))
        if approval is not None:
            changes.append(Drop(approval.address, approval.uid))
    merge: JsonObject = {"open": {"results": results, **records.wait_end_merge(agent, opened)}}
    changes.insert(0, records.status_change(agent, merge))
    return RecordDraft("call.authorized", AGENT_ACTOR, agent.resource.address, tuple(changes))


def draft_late_verdict(agent: ObservedAgent, startable: Sequence[Resource]) -> RecordDraft | None:
    """Deny a call that is about to start, or make it wait for approval, by verdicts that came after it was authorized.

    None if all calls may start. A hook that wants other arguments denies the call; the agent makes it again, and all
    hooks are asked.
    """
    opened = agent.opened
    if not opened.hooks.fired:
        return None
    for call in startable:
        if call.state != CallState.AUTHORIZED or not (late := questions.late_verdicts(agent, call.address)):
            continue
        said = verdicts.counted_verdicts(late, tuple(agent.hooks.watching))
        merged, wanted = verdicts.merge_verdicts(said), verdicts.first_rewrite(said, call.spec["arguments"])
        if merged.decision in ("deny", "defer") or wanted is not None:
            name = wanted[0] if wanted else ""
            words = merged.words or f"hook {name} now gives this call other arguments; make the call again"
            result = CallResult(CallState.DENIED, words, "Denied")
            merge: JsonObject = {"open": {"results": {call.address: wrap_value(result.to_json())}}}
            changes: tuple[Change, ...] = (records.status_change(agent, merge), Drop(call.address, call.uid))
            data: JsonObject = {call.address: f"{result.state}: {result.text}"}
            return RecordDraft("call.authorized", AGENT_ACTOR, agent.resource.address, changes, data)
        asks = [one.key for one in late if one.verdict.decision == "ask"]
        if merged.decision == "ask" and set(asks) - set(call.status.get(APPROVED_VERDICTS) or ()):
            why = _hook_approval_reason(merged.words)
            yes = SetStatus(call.address, call.uid, {APPROVED_VERDICTS: [*asks]})
            changes = (records.status_change(agent, {}), *approval_request_changes(agent, call, "", why), yes)
            return RecordDraft("call.authorized", AGENT_ACTOR, agent.resource.address, changes, {call.address: why})
    return None


def _rejected(approval: Resource | None) -> CallResult:
    reason = "" if approval is None else str(approval.status.get("reason") or "")
    return CallResult(CallState.DENIED, f"rejected by an operator{': ' if reason else ''}{reason}", "Rejected")


def draft_interruption(agent: ObservedAgent) -> RecordDraft:
    """Stop the step in flight for a message or an edit.

    If the decider has not replied, it is asked again with the message. Calls that have not ended are cancelled; calls
    with an unknown outcome keep it.
    """
    opened = agent.opened
    if not opened.is_replied:
        return _draft_added_messages(agent, opened)
    made = [agent.objects.calls[call.address] for call in opened.reply.calls if call.address not in opened.results]
    left = [call for call in made if call.state != CallState.UNKNOWN]
    result = CallResult(CallState.CANCELLED, f"cancelled {_cause(agent)}", "Interrupted")
    results: JsonObject = {call.address: wrap_value(result.to_json()) for call in left}
    asked = {call.status.get("approval") for call in left}
    gone = (*left, *(each for each in agent.objects.approvals.values() if each.address in asked))
    drops = tuple(Drop(each.address, each.uid) for each in gone)
    merge: JsonObject = {"open": {"results": results, **records.wait_end_merge(agent, opened)}}
    changes: tuple[Change, ...] = (records.status_change(agent, merge), *drops)
    return RecordDraft(
        "call.settled", AGENT_ACTOR, agent.resource.address, changes, {"tool": "", "result": result.to_json()}
    )


def _cause(agent: ObservedAgent) -> str:
    if external_lease.is_turn_abandoned(agent):
        return "by its client"
    return "for a message" if agent.interrupts else "for a message or a change of the task"


def _draft_added_messages(agent: ObservedAgent, opened: OpenTurn) -> RecordDraft:
    """Add the messages that stopped the request to the turn, so that the decider is asked again with them."""
    if not agent.nature.is_model:
        read = agent.interrupts
    elif opened.request.failure is not None:
        read = agent.unread  # No request runs, so any message is a reason to try again.
    else:
        read = tuple(message for message in agent.unread if message.delivery != "queue")
    news, told = redirection_news(agent) if agent.nature.is_redirected else ((), {})
    merge: JsonObject = {
        "open": {"messages": [message.to_json() for message in (*opened.news.messages, *read, *news)]},
        "inbox": dict.fromkeys(message.id for message in read),
        "asked": wake_reasons.owed_merge(read),
    }
    if told:
        merge["told"] = told
    if opened.request.failure is not None:
        merge["open"] |= {"failure": None, "tries": 0, **records.wait_end_merge(agent, opened)}
    data: JsonObject = {"read": [message.id for message in read]}
    return RecordDraft(
        "message.read", AGENT_ACTOR, agent.resource.address, (records.status_change(agent, merge),), data
    )


def draft_collected_result(agent: ObservedAgent, call: Resource) -> RecordDraft:
    """The result of a call that ended outside its job: unknown after a crash, or settled by an operator."""
    raw = call.status.get("result")
    if raw is not None:
        return records.draft_settlement(agent, records.SettledCall(call, result_from_json(raw)))
    state = CallState(call.state)
    error = "" if state is CallState.SUCCEEDED else str(state)
    return records.draft_settlement(
        agent, records.SettledCall(call, CallResult(state, str(call.status.get("why") or state), error))
    )


def approve_patterns(view: View, plan: str, agent: ObservedAgent) -> tuple[str, ...]:
    """The `approve:` patterns for calls in the agent's task and all tasks above; admission applies those for paths."""
    document = view.get(plan)
    node = None if document is None else document.spec
    tokens = json_pointer.task_pointer([part for part in agent.spec.task.split("/")[1:] if part != "."])
    found: list[str] = []
    for token in ("", *tokens):
        node = node.get(token) if token and isinstance(node, dict) else node
        if isinstance(node, dict) and token != "tasks" and isinstance(node.get("approve"), list):
            found += [str(pattern) for pattern in node["approve"] if not str(pattern).startswith(("/", "task/"))]
    return tuple(found)


def approval_request_changes(agent: ObservedAgent, call: Resource, pattern: str, why: str = "") -> tuple[Change, ...]:
    """The changes that make the call wait for an approval. `why` replaces the reason by the plan's `pattern`."""
    address = f"approval/{call.address.partition('/')[2]}"
    uid = Uid(address.partition("/")[2])
    tool = str(call.spec["tool"])
    what = {"call": call.address, "tool": tool, "arguments": call.spec["arguments"]}
    spec = ApprovalSpec("call", records.agent_author(agent), why or approval_reason(pattern), what)
    return (
        Put(address, uid, spec.to_json(), owner=agent.resource.address),
        SetStatus(address, uid, {"state": WAITING}),
        SetStatus(call.address, call.uid, {"state": str(CallState.AWAITING_APPROVAL), "approval": address}),
    )
