"""One request to a model: what it may cost, the records of its start and failure, and the reply as text and calls.

Each attempt is recorded, reserved and billed separately. After a transient failure the open turn holds the time of the
next attempt; no job waits for it. Any other failure blocks the agent until something that the request depends on
changes. No reply raises an error: a call whose arguments are not JSON is kept, and its result is the parse error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from planloop.controllers.agent import budget, escalation
from planloop.controllers.agent.deciders.port import DeciderReply, ProposedCall
from planloop.controllers.agent.models import catalog, chat_request
from planloop.controllers.agent.models.port import (
    ModelCall,
    ModelFailed,
    ModelReply,
    ModelRequest,
    RequestKey,
    TokenPrice,
    TokenUsage,
)
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.status import AGENT_ACTOR, OpenTurn, RequestFailure, TranscriptChunk, wrap_value
from planloop.controllers.agent.turn import records, transcript
from planloop.controllers.agent.turn.prompt import ModelPrompt
from planloop.controllers.agent.turn.transcript import SummaryPlan
from planloop.controllers.shared.ledger import BudgetShortage
from planloop.reconciler.store.store import View
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, RecordDraft
from planloop.schemas.objects.agent import AgentState, ModelDeciderSpec
from planloop.schemas.objects.budget import Cost
from planloop.schemas.objects.call import given_arguments
from planloop.schemas.objects.model import parse_model_name

_NAME_DECORATION: Final = re.compile(r"^(?:functions|default_api|tools?)[.:]|:\d+$|<\|.*$")
"""What gpt-oss, Gemini and Kimi add to tool names: `functions.`, `default_api.`, a number, `<|channel|>…`."""

CUT_OFF_NOTE: Final = "length"
CUT_OFF_FAULT: Final = (
    "[Your answer was cut off: it reached the longest output that is allowed. Go on in smaller pieces.]"
)


def reply_from_model(answer: ModelReply, names: Mapping[str, str]) -> DeciderReply:
    """The reply of a model with its calls. `names` are the tools by their wire names; unknown names are kept."""
    is_cut = answer.finish == CUT_OFF_NOTE
    # Only the last call can have been cut off.
    last = len(answer.calls) - 1
    proposed = tuple(_proposed(call, names, is_cut=is_cut and at == last) for at, call in enumerate(answer.calls))
    if is_cut and not proposed:
        return DeciderReply(
            answer.text, then="again", usage=usage_json(answer.usage), note=CUT_OFF_FAULT, extra=answer.extra
        )
    note = CUT_OFF_FAULT if is_cut else ""
    usage = usage_json(answer.usage)
    return DeciderReply(answer.text, proposed, then="final", usage=usage, note=note, extra=answer.extra)


def usage_json(used: TokenUsage) -> JsonObject:
    """Token counts for the log, without zeros, and the usage as the provider sent it."""
    out: JsonObject = {"in": used.tokens_in, "out": used.tokens_out}
    if used.tokens_cached:
        out["cached"] = used.tokens_cached
    if used.tokens_reasoning:
        out["reasoning"] = used.tokens_reasoning
    if used.is_estimated:
        out["estimated"] = True
    if used.raw:
        out["raw"] = used.raw
    return out


def _proposed(call: ModelCall, names: Mapping[str, str], *, is_cut: bool) -> ProposedCall:
    tool = _tool(call.name, names)
    try:
        if is_cut and not call.arguments.strip():
            raise ValueError
        return ProposedCall(tool, _arguments(call.arguments), call.id, extra=call.extra)
    except ValueError as error:
        why = "the answer was cut off inside this call" if is_cut else f"its arguments are not JSON: {error}"
        return ProposedCall(tool, call.arguments, call.id, fault=why, extra=call.extra)


def _tool(called: str, names: Mapping[str, str]) -> str:
    """The tool of the wire name `called`; its own name, and the decorations of chat templates, are accepted too."""
    for name in (called, _NAME_DECORATION.sub("", called.strip())):
        if name in names or name in names.values():
            return names.get(name, name)
    return called.replace(chat_request.WIRE_DOT, ".") or "?"


def _arguments(text: str) -> Json:
    """The value of arguments in JSON, also if they were encoded twice. Raises ValueError for invalid JSON."""
    given = given_arguments(text)
    value = given_arguments(decode_foreign(given)) if isinstance(given, str) else given
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            return decode_foreign(value)
    return value


Spent: TypeAlias = BudgetShortage

MODEL_POOL: Final = "models"
LONG_PAUSE_S: Final = 90.0  # Shorter pauses are shown as "soon".
REMEDIES: Final[Mapping[str, str]] = {
    "NoKey": "state a key: models: {PROVIDER: {key: env:NAME}}, set the variable NAME, and run `plan apply` again",
    "Refused": "check the key, and which models and how much money it may use",
    "Unreachable": "start the server, or correct its `url` under `models`",
    "NotInstalled": "install the package that the provider needs",
    "Filtered": "change the goal or files that the content filter rejects, or use another model",
    "ContextTooLong": "use a model with a larger context window",
}


@frozen
class PreparedRequest:
    """A request that may be sent. `tokens` estimates the size of its prompt; with `price` None, money is not counted.

    `basis` is the `failure_basis` when it was prepared. `system` is the blob of its system message if that differs from
    the one before; otherwise empty.
    """

    request: ModelRequest
    tokens: int
    price: TokenPrice | None
    worst: Cost
    is_last: bool
    digest: str
    basis: str
    system: str = ""


def model_of_agent(agent: ObservedAgent) -> ModelDeciderSpec:
    """The model that the agent uses now."""
    return escalation.current_model(agent.spec, agent.status)


def prepare_request(
    services: AgentServices, prompt: ModelPrompt, agent: ObservedAgent, view: View
) -> PreparedRequest | catalog.UnpricedModel:
    """The next request of the open turn, with its output limited to what is left of the budget."""
    decider, opened = model_of_agent(agent), agent.opened
    policy = catalog.unknown_price_policy(view, services.plan)
    price = catalog.price_for_budget(
        services.deciders.models, decider.model, policy, is_bounded="usd" in agent.budget.left
    )
    if isinstance(price, catalog.UnpricedModel):
        return price
    tokens = transcript.estimate_tokens(prompt.size_bytes)
    longest = services.deciders.models.output_max(decider.model)
    output = catalog.affordable_output_tokens(agent.budget.left, price, tokens, longest)
    if opened.is_last:
        output = min(longest, limits.HANDOVER_OUTPUT_TOKENS)
    key = RequestKey(
        agent.resource.address, agent.resource.uid, agent.status.incarnation, opened.turn, opened.request.asked + 1
    )
    request = ModelRequest(key, decider.model, prompt.messages, prompt.tools, decider.options, output)
    worst = catalog.worst_cost(price, tokens, output)
    system = _message_digest(prompt.messages[0])
    is_new = system != agent.status.memory.system
    if is_new:
        services.store.put_blob(prompt.messages[0])
    return PreparedRequest(
        request, tokens, price, worst, opened.is_last, prompt.digest, failure_basis(agent), system if is_new else ""
    )


@lru_cache(maxsize=limits.SPECS_KEPT_MAX)
def _message_digest(system: bytes) -> str:
    """The digest of a system message. It is cached, because most requests repeat the last one."""
    return sha256_hex(system)


def prepare_summary_request(
    services: AgentServices, agent: ObservedAgent, view: View, wanted: SummaryPlan
) -> PreparedRequest | catalog.UnpricedModel:
    """The request for a summary of old turns, to the model that the plan names for this, or the agent's own."""
    opened = agent.opened
    model = str(agent.spec.compact.get("model") or model_of_agent(agent).model)
    price = catalog.price_for_budget(
        services.deciders.models,
        model,
        catalog.unknown_price_policy(view, services.plan),
        is_bounded="usd" in agent.budget.left,
    )
    if isinstance(price, catalog.UnpricedModel):
        return price
    messages = transcript.summary_messages(wanted)
    tokens = transcript.estimate_tokens(sum(map(len, messages)))
    output = min(services.deciders.models.output_max(model), limits.SUMMARY_TOKENS_MAX)
    key = RequestKey(
        agent.resource.address, agent.resource.uid, agent.status.incarnation, opened.turn, opened.request.asked + 1
    )
    request = ModelRequest(replace(key, purpose="summary"), model, messages, output_tokens_max=output)
    worst = catalog.worst_cost(price, tokens, output)
    return PreparedRequest(request, tokens, price, worst, opened.is_last, request.prompt_digest, failure_basis(agent))


def reservation_changes(
    agent: ObservedAgent, view: View, op: str, ready: PreparedRequest
) -> tuple[Change, ...] | Spent:
    """The changes that reserve what the request may cost and release the reservation of an earlier one."""
    opened = agent.opened
    if agent.is_watcher and (short := budget.shortfall(agent.budget.left, ready.worst)) is not None:
        return short
    if (
        not ready.is_last
        and (short := budget.shortfall(budget.left_of_caps(agent.budget.caps), ready.worst)) is not None
    ):
        return short
    before = opened.request.op if opened.request.asked else ""
    return budget.reserve_changes(view, agent.resource, op, ready.worst, is_last=ready.is_last, instead_of=before)


def draft_model_request(
    agent: ObservedAgent, op: str, ready: PreparedRequest, changes: tuple[Change, ...]
) -> RecordDraft:
    """The intent to send a request to the model under `op`. A replay compares the digest of the prompt."""
    opened = agent.opened
    attempt = opened.request.asked + 1
    merge: JsonObject = {"open": {"asked": attempt, "op": op, **records.wait_end_merge(agent, opened)}}
    if agent.status.wake.had_last and not ready.is_last:
        merge["had_last"] = None  # The budget has grown enough for another request.
    if opened.request.failure is not None:
        merge["open"]["failure"] = None
        if opened.request.failure.retry_at is None:
            merge["open"]["tries"] = 0  # Something has changed since the failure, so tries are counted from 0 again.
    if agent.status.state != AgentState.RUNNING:
        merge |= {"state": str(AgentState.RUNNING), "why": None}
    data: JsonObject = {"op": op, "attempt": attempt, "model": ready.request.model}
    data |= {"prompt": ready.digest, "tokens": ready.tokens}
    if ready.request.key.purpose != "turn":
        data["purpose"] = ready.request.key.purpose
    if ready.system:
        data["system"] = merge["system"] = ready.system
    changes = (records.status_change(agent, merge), *changes)
    blobs = (ready.system,) if ready.system else ()
    return RecordDraft("model.requested", AGENT_ACTOR, agent.resource.address, changes, data, blobs)


def draft_model_failure(
    agent: ObservedAgent, view: View, failure: ModelFailed, ready: PreparedRequest, life: str
) -> RecordDraft:
    """Bill an attempt that gave no reply and, if the failure is transient, set the time of the next attempt."""
    opened = agent.opened
    tries = 1 + opened.request.tries
    wait_s = model_retry_after_s(failure, tries)
    message = str(failure)
    data: JsonObject = {
        "op": opened.request.op,
        "attempt": opened.request.asked,
        "reason": failure.reason,
        "message": message,
    }
    data |= {"is_transient": failure.is_transient}
    if failure.retry_after_s is not None:
        data["retry_after_s"] = failure.retry_after_s
    if wait_s is not None:
        data["wait_s"] = wait_s
    kept: JsonObject = {"reason": failure.reason, "message": message[: limits.MODEL_ERROR_CHARS], "tries": tries}
    kept |= {"life": life, "basis": ready.basis}
    if wait_s is not None:
        kept |= {"retry_at": agent.now + wait_s, "wait_s": wait_s}
    if failure.usage is not None:
        data["usage"] = usage_json(failure.usage)
    cost = catalog.request_cost(ready.price, failure.usage or TokenUsage(0, 0))
    changes = budget.settle_changes(view, agent.resource, opened.request.op, cost)
    merge: JsonObject = {"open": {"failure": wrap_value(kept), "tries": tries}}
    return RecordDraft(
        "model.failed",
        AGENT_ACTOR,
        agent.resource.address,
        (records.status_change(agent, merge), *changes),
        data,
    )


def model_retry_after_s(failure: ModelFailed, tries: int) -> float | None:
    """Seconds until a model that failed `tries` times in a row is asked again; None: not before something changes."""
    if not failure.is_transient or tries >= limits.MODEL_TRIES_MAX:
        return None
    if failure.reason in (EMPTY_REPLY, FILTERED_REPLY):
        return 0.0 if tries < limits.EMPTY_REPLIES_MAX else None
    back_off_s = min(limits.BACKOFF_CAP_S, limits.MODEL_BACKOFF_BASE_S * 2.0 ** min(tries - 1, 30))
    return max(failure.retry_after_s or 0.0, back_off_s)


EMPTY_REPLY: Final = "Empty"
FILTERED_REPLY: Final = "Filtered"
LOST_REPLY: Final = ModelFailed(
    "Lost", "its answer could not be processed, because of an internal error", is_transient=True
)


def empty_reply_failure(usage: TokenUsage, tries: int, *, has_text: bool = False) -> ModelFailed:
    """The failure of an empty or incomplete reply: the request is repeated once, then the agent is blocked."""
    text = "its answer announced tool calls but has none" if has_text else "its answer has neither text nor tool calls"
    return ModelFailed(EMPTY_REPLY, text, is_transient=tries < limits.EMPTY_REPLIES_MAX, usage=usage)


FailureRemedy: TypeAlias = Literal["ask", "wait", "blocked"]


def remedy_for(agent: ObservedAgent, failure: RequestFailure, life: str) -> FailureRemedy:
    """Whether a failed request is repeated now, later, or only after something has changed."""
    if failure.retry_at is not None:
        return "ask" if failure.retry_at <= agent.now or failure.basis != failure_basis(agent) else "wait"
    if failure.reason == transcript.CONTEXT_TOO_LONG and failure.tries <= limits.TOO_LONG_TRIES_MAX:
        return "ask" if transcript.can_compact(agent) else "blocked"
    return "ask" if (failure.life, failure.basis) != (life, failure_basis(agent)) else "blocked"


def failure_basis(agent: ObservedAgent) -> str:
    """The versions of everything that a failure depends on: the agent, its task, and the plan's table of models.

    When one of them changes, also by pausing and resuming the task, the model is asked again.
    """
    task = 0 if agent.task is None else agent.task.generation
    return f"{agent.resource.generation}.{task}.{agent.context.models_digest}"


def describe_failure(agent: ObservedAgent, failure: RequestFailure) -> str:
    """Why the agent does not continue."""
    return f"request to {model_of_agent(agent).model} failed ({failure.reason}): {failure.message}"


def describe_pause(failure: RequestFailure) -> str:
    """When the model is asked again, as text that stays the same while the agent waits."""
    minutes = failure.wait_s / 60
    return (
        "soon"
        if not is_long_pause(failure)
        else f"after {minutes:.0f} min"
        if minutes < 90
        else f"after {minutes / 60:.0f} h"
    )


def is_long_pause(failure: RequestFailure) -> bool:
    """Whether the pause is so long that an operator may want to act before its end."""
    return failure.wait_s >= LONG_PAUSE_S


def ways_to_unblock(agent: ObservedAgent, failure: RequestFailure) -> tuple[str, ...]:
    """What an operator can do so that the agent continues."""
    remedy = REMEDIES.get(failure.reason)
    again = (f"plan resume {agent.spec.task}", "use another model")
    return (remedy, *again) if remedy else again


def draft_compaction(
    agent: ObservedAgent, chunks: Mapping[str, TranscriptChunk | None], data: JsonObject, more: tuple[Change, ...] = ()
) -> RecordDraft:
    """The record of a shortened transcript: new chunks by key, None for each turn that a summary replaces."""
    opened = agent.status.open
    merge: JsonObject = {"transcript": {key: chunk.to_json() if chunk else None for key, chunk in chunks.items()}}
    if opened is not None and opened.request.failure is not None:
        merge["open"] = {"failure": None, **records.wait_end_merge(agent, opened)}
    blobs = tuple(digest for chunk in chunks.values() if chunk for digest in (chunk.blob, chunk.origin) if digest)
    changes = (records.status_change(agent, merge), *more)
    return RecordDraft("context.compacted", AGENT_ACTOR, agent.resource.address, changes, data, blobs)


def model_pool(model: str, view: View, plan: str) -> str:
    """The pool for requests to `model`: that of the first pattern under `limits.models` that matches it."""
    document = view.get(plan)
    bounds = (document.spec.get("limits") or {}).get("models") if document is not None else None
    if isinstance(bounds, dict):
        name = parse_model_name(model).real
        for pattern in bounds:
            if patterns.name_matches((str(pattern),), name):
                return f"{MODEL_POOL}:{pattern}"
    return MODEL_POOL


def is_current_request(agent: ObservedAgent | None, op: str) -> bool:
    """Whether the open turn still waits for the reply to the request `op`."""
    opened: OpenTurn | None = None if agent is None else agent.status.open
    if (
        agent is None
        or opened is None
        or opened.request.op != op
        or opened.is_replied
        or opened.request.failure is not None
    ):
        return False
    return agent.is_wanted
