"""One request to a model: what it may cost, and the records of its beginning and of its failure.

Each attempt is recorded, reserved and billed by itself. A failure that may pass is followed by a time at which the
model is asked again, kept in the open turn: nobody waits for it in memory. One that only somebody else can mend blocks
the agent until what it was asked with changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from planloop.controllers.agent import bounds, budget, escalation, turn
from planloop.controllers.agent.calling import waiting
from planloop.controllers.agent.minds.model import usage_json
from planloop.controllers.agent.models.port import ModelFailed, ModelRequest, Price, RequestKey, Usage
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.status import Chunk, Failure, OpenTurn, boxed
from planloop.controllers.agent.thinking import compacting, pricing, transcript
from planloop.controllers.agent.thinking.compacting import ToSum
from planloop.controllers.agent.thinking.prompting import Prompt
from planloop.reconciler.storing.store import View
from planloop.schemas import limits, patterns
from planloop.schemas.agent import AgentState, Model
from planloop.schemas.budget import Cost
from planloop.schemas.encoding import JsonObject, digest
from planloop.schemas.frozen import frozen
from planloop.schemas.model import model_name
from planloop.schemas.record import Change, Draft

Spent: TypeAlias = budget.Spent

POOL: Final = "models"
LONG_S: Final = 90.0  # Of a pause for which "soon" would be no answer.
CURES: Final[Mapping[str, str]] = {
    "NoKey": "give its provider a key: models: {…: {key: env:NAME}}; set a variable, then start `plan apply` again",
    "Refused": "look at the key and at what it may use",
    "Unreachable": "start the server, or correct its url",
    "NotInstalled": "install what the provider needs",
    "Filtered": "change the goal or the files that its content filter objects to, or name another model",
    "ContextTooLong": "name a model with a larger window",
}


@frozen
class Prepared:
    """A request that may be made. `tokens` is about the size of its prompt; `price` None counts no money.

    `basis` is what its failure would depend on, as it was when it was made. `system` is the blob of its system message
    where that is another than the one before; empty where it is the same.
    """

    request: ModelRequest
    tokens: int
    price: Price | None
    worst: Cost
    is_last: bool
    digest: str
    basis: str
    system: str = ""


def model_of(seen: Observed) -> Model:
    """The mind of an agent that thinks with a model."""
    return escalation.model_of(seen.spec, seen.status)


def prepared(world: World, prompt: Prompt, seen: Observed, view: View) -> Prepared | pricing.Unpriced:
    """The next request of the open turn, cut to what is left of the budget."""
    mind, opened = model_of(seen), seen.status.open
    assert opened is not None, "a model is asked inside a turn"
    policy = pricing.policy_of(view, world.plan)
    price = pricing.price_of(world.models, mind.model, policy, is_bounded="usd" in seen.left)
    if isinstance(price, pricing.Unpriced):
        return price
    tokens = transcript.tokens_of(prompt.size_bytes)
    longest = world.models.output_max(mind.model)
    output = pricing.output_for(seen.left, price, tokens, longest)
    if opened.is_last:
        output = min(longest, limits.HANDOVER_OUTPUT_TOKENS)
    key = RequestKey(seen.resource.address, seen.resource.uid, seen.status.incarnation, opened.turn, opened.asked + 1)
    request = ModelRequest(key, mind.model, prompt.messages, prompt.tools, mind.options, output)
    worst = pricing.worst_of(price, tokens, output)
    system = _named(prompt.messages[0])
    is_new = system != seen.status.system
    if is_new:
        world.store.put_blob(prompt.messages[0])
    return Prepared(
        request, tokens, price, worst, opened.is_last, prompt.digest, basis_of(seen), system if is_new else ""
    )


@lru_cache(maxsize=limits.SPECS_KEPT_MAX)
def _named(system: bytes) -> str:
    """The digest of a system message; the same one is asked with again and again."""
    return digest(system)


def for_summary(world: World, seen: Observed, view: View, wanted: ToSum) -> Prepared | pricing.Unpriced:
    """The request for a summary of old turns, of the model that the plan names for it or the agent's own."""
    opened = seen.status.open
    assert opened is not None, "a model is asked inside a turn"
    model = str(seen.spec.compact.get("model") or model_of(seen).model)
    price = pricing.price_of(world.models, model, pricing.policy_of(view, world.plan), is_bounded="usd" in seen.left)
    if isinstance(price, pricing.Unpriced):
        return price
    messages = compacting.summary_messages(wanted)
    tokens = transcript.tokens_of(sum(map(len, messages)))
    output = min(world.models.output_max(model), limits.SUMMARY_TOKENS_MAX)
    key = RequestKey(seen.resource.address, seen.resource.uid, seen.status.incarnation, opened.turn, opened.asked + 1)
    request = ModelRequest(replace(key, purpose="summary"), model, messages, output_tokens_max=output)
    worst = pricing.worst_of(price, tokens, output)
    return Prepared(request, tokens, price, worst, opened.is_last, request.prompt_digest, basis_of(seen))


def reserved(seen: Observed, view: View, op: str, ready: Prepared) -> tuple[Change, ...] | Spent:
    """The changes that set aside what the request may cost; what an earlier one set aside and left is given back."""
    opened = seen.status.open
    assert opened is not None, "a model is asked inside a turn"
    if seen.is_watcher and (short := budget.short_of(seen.left, ready.worst)) is not None:
        return short
    if not ready.is_last and (short := budget.short_of(bounds.only_caps(seen.caps), ready.worst)) is not None:
        return short
    before = opened.op if opened.asked else ""
    return budget.reserve(view, seen.resource, op, ready.worst, is_last=ready.is_last, instead_of=before)


def requested(seen: Observed, op: str, ready: Prepared, changes: tuple[Change, ...]) -> Draft:
    """The model is about to be asked under `op`; the prompt's digest is what a replay is compared by."""
    opened = seen.status.open
    assert opened is not None, "a model is asked inside a turn"
    attempt = opened.asked + 1
    merge: JsonObject = {"open": {"asked": attempt, "op": op, **waiting.waited(seen, opened)}}
    if seen.status.had_last and not ready.is_last:
        merge["had_last"] = None  # There was enough left for a request again.
    if opened.failure is not None:
        merge["open"]["failure"] = None
        if opened.failure.retry_at is None:
            merge["open"]["tries"] = 0  # Somebody has changed something: it counts anew.
    if seen.status.state != AgentState.RUNNING:
        merge |= {"state": str(AgentState.RUNNING), "why": None}
    data: JsonObject = {"op": op, "attempt": attempt, "model": ready.request.model}
    data |= {"prompt": ready.digest, "tokens": ready.tokens}
    if ready.request.key.purpose != "turn":
        data["purpose"] = ready.request.key.purpose
    if ready.system:
        data["system"] = merge["system"] = ready.system
    changes = (turn.change(seen, merge), *changes)
    blobs = (ready.system,) if ready.system else ()
    return Draft("model.requested", turn.ACTOR, seen.resource.address, changes, data, blobs)


def failed(seen: Observed, view: View, fault: ModelFailed, ready: Prepared, life: str) -> Draft:
    """An attempt gave no reply: it is billed, and asked again at a time of its own, or not before something changes."""
    opened = seen.status.open
    assert opened is not None, "an attempt belongs to a turn"
    tries = 1 + opened.tries
    wait_s = retry_after_s(fault, tries)
    data: JsonObject = {"op": opened.op, "attempt": opened.asked, "reason": fault.reason, "message": str(fault)}
    data |= {"is_transient": fault.is_transient}
    if fault.retry_after_s is not None:
        data["retry_after_s"] = fault.retry_after_s
    if wait_s is not None:
        data["wait_s"] = wait_s
    failure: JsonObject = {"reason": fault.reason, "message": str(fault)[: limits.MODEL_ERROR_CHARS], "tries": tries}
    failure |= {"life": life, "basis": ready.basis}
    if wait_s is not None:
        failure |= {"retry_at": seen.now + wait_s, "wait_s": wait_s}
    if fault.usage is not None:
        data["usage"] = usage_json(fault.usage)
    cost = pricing.cost_of(ready.price, fault.usage or Usage(0, 0))
    changes = budget.settle(view, seen.resource, opened.op, cost)
    merge: JsonObject = {"open": {"failure": boxed(failure), "tries": tries}}
    return Draft("model.failed", turn.ACTOR, seen.resource.address, (turn.change(seen, merge), *changes), data)


def retry_after_s(fault: ModelFailed, tries: int) -> float | None:
    """Seconds until a model that failed `tries` times in a row is asked again; None: not before something changes."""
    if not fault.is_transient or tries >= limits.MODEL_TRIES_MAX:
        return None
    if fault.reason in (EMPTY, FILTERED):
        return 0.0 if tries < limits.EMPTY_REPLIES_MAX else None
    back_off_s = min(limits.BACKOFF_CAP_S, limits.MODEL_BACKOFF_BASE_S * 2.0 ** min(tries - 1, 30))
    return max(fault.retry_after_s or 0.0, back_off_s)


EMPTY: Final = "Empty"
FILTERED: Final = "Filtered"
LOST: Final = ModelFailed("Lost", "what it answered could not be taken", is_transient=True)


def empty(usage: Usage, tries: int, *, has_text: bool = False) -> ModelFailed:
    """The failure of an empty or incomplete reply: the request is repeated once, then the agent is blocked."""
    text = "it answered without the calls that it announced" if has_text else "it answered with neither text nor calls"
    return ModelFailed(EMPTY, text, is_transient=tries < limits.EMPTY_REPLIES_MAX, usage=usage)


Cure: TypeAlias = Literal["ask", "wait", "blocked"]


def cure_of(seen: Observed, failure: Failure, life: str) -> Cure:
    """Whether a model that failed may be asked again now, later by itself, or only when something has changed."""
    if failure.retry_at is not None:
        return "ask" if failure.retry_at <= seen.now or failure.basis != basis_of(seen) else "wait"
    if failure.reason == compacting.TOO_LONG and failure.tries <= limits.TOO_LONG_TRIES_MAX:
        return "ask" if compacting.may_be_shorter(seen) else "blocked"
    return "ask" if (failure.life, failure.basis) != (life, basis_of(seen)) else "blocked"


def basis_of(seen: Observed) -> str:
    """What a failure depends on: another spec of the agent or of its task, pausing and going on too, is worth a try.

    So is another table of models.
    """
    return f"{seen.resource.generation}.{0 if seen.task is None else seen.task.generation}.{seen.table}"


def words_of(seen: Observed, failure: Failure) -> str:
    """Why the agent does not go on."""
    return f"{model_of(seen).model} cannot be asked ({failure.reason}): {failure.message}"


def pause_words(failure: Failure) -> str:
    """When it is asked again, in the same words however often one looks."""
    minutes = failure.wait_s / 60
    return (
        "soon"
        if not is_long(failure)
        else f"after {minutes:.0f} min"
        if minutes < 90
        else f"after {minutes / 60:.0f} h"
    )


def is_long(failure: Failure) -> bool:
    """Whether somebody may want to do something about it sooner."""
    return failure.wait_s >= LONG_S


def unblocks_of(seen: Observed, failure: Failure) -> tuple[str, ...]:
    """What makes it go on."""
    cure = CURES.get(failure.reason)
    again = (f"plan resume {seen.spec.task}", "name another model")
    return (cure, *again) if cure else again


def compacted(
    seen: Observed, chunks: Mapping[str, Chunk | None], data: JsonObject, more: tuple[Change, ...] = ()
) -> Draft:
    """The record of a transcript made shorter: new chunks by key, None for a turn that a summary stands for."""
    opened = seen.status.open
    merge: JsonObject = {"transcript": {key: chunk.to_json() if chunk else None for key, chunk in chunks.items()}}
    if opened is not None and opened.failure is not None:
        merge["open"] = {"failure": None, **waiting.waited(seen, opened)}
    blobs = tuple(digest for chunk in chunks.values() if chunk for digest in (chunk.blob, chunk.origin) if digest)
    changes = (turn.change(seen, merge), *more)
    return Draft("context.compacted", turn.ACTOR, seen.resource.address, changes, data, blobs)


def pool_of(model: str, view: View, plan: str) -> str:
    """The pool of the work plane that `model` is asked in: that of the first pattern of the limits it matches."""
    document = view.get(plan)
    bounds = (document.spec.get("limits") or {}).get("models") if document is not None else None
    if isinstance(bounds, dict):
        name = model_name(model).real
        for pattern in bounds:
            if patterns.any_name((str(pattern),), name):
                return f"{POOL}:{pattern}"
    return POOL


def is_current(seen: Observed | None, op: str) -> bool:
    """Whether the open turn still waits for the reply to the request `op`."""
    opened: OpenTurn | None = None if seen is None else seen.status.open
    if seen is None or opened is None or opened.op != op or opened.is_replied or opened.failure is not None:
        return False
    return seen.is_wanted
