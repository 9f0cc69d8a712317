"""A request for more (budget, a tool, a model) as the patch that grants it.

Pure. The patch is the granter's: it passes the gate under its name, so nobody grants what it may not grant, and a
message or a yes by itself never grants anything. Requests of other kinds change no plan: the yes is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from planloop.reconciler.admitting.admission import Admission
from planloop.reconciler.admitting.present import Present
from planloop.reconciler.errors import Terminal
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import patterns, pointer
from planloop.schemas.durations import seconds
from planloop.schemas.encoding import Json, JsonObject, decode_foreign
from planloop.schemas.ledger import amount_of, named, rounded_up, shown, unit_of
from planloop.schemas.patch import Author, Fault, Patch
from planloop.schemas.patching import Op
from planloop.schemas.resource import Resource

_SAID: Final = re.compile(
    r"(?<![\d.,])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s*(tokens?|usd|dollars?|seconds?|calls?|turns?|retr(?:ies|y))\b"
)
_UNITS: Final = {"dollar": "usd", "second": "time", "retry": "retries", "usd": "usd"}


def patch_of(approval: Resource, by: Author, now: Present, view: View) -> Patch | None:
    """What saying yes to a request comes to as a patch by `by`; None when it changes no plan.

    Raises Terminal when the request makes no sense or the task that asked is gone.
    """
    what = approval.spec["what"]
    if what.get("kind") == "budget" and not (more := _amounts(what.get("what"))):
        return None  # In words: whoever says yes to that patches the budget itself.
    path = addresses.parse(str(approval.owner)).path
    task, agent = view.get(str(addresses.task(*path))), view.get(str(addresses.agent(*path)))
    if task is None or agent is None:
        raise Terminal("NotFound", f"{approval.owner} is gone")
    tokens = pointer.of_task(path)
    node = pointer.get(now.document, tokens) if tokens else now.document
    match str(what.get("kind")):
        case "budget":
            ops = _more_budget(path, now.document, view, more)
        case "tool" | "tools":
            known = agent.spec["tools"]
            added = [name for name in _names(what.get("what")) if name not in known]
            ops = _granting(tokens, node, {"tools": [*_granted(node).get("tools", ()), *added]})
        case "model":
            ops = _granting(tokens, node, {"model": str(what.get("what"))})
        case _:
            return None
    reason = f"asked for by {approval.spec['by']}: {approval.spec['why']}"
    return Patch(by, tuple(ops), now.rev, reason, is_approved=by.is_human)


def vain_faults(approval: Resource, answer: Admission) -> Iterator[Fault]:
    """What was asked for and would not be there all the same: a denial, a line of rights or a cap takes it away."""
    what = approval.spec["what"]
    graph = answer.graph
    agent = graph.objects.get(str(approval.owner)) if graph is not None else None
    if agent is None or graph is None:
        return
    match str(what.get("kind")):
        case "tool" | "tools":
            named = [name for name in _names(what.get("what")) if ":" not in name or name.startswith("agent:")]
            missing = [name for name in named if not patterns.any_name(agent.spec["tools"], name)]
        case "model":
            given = (agent.spec.get("granted") or {}).get("stated")
            missing = [name for name in (str(what.get("what")),) if given != name]
        case "budget":
            yield from _capped(agent.spec, graph.objects[agent.spec["task"]].spec, _amounts(what.get("what")))
            return
        case _:
            return
    denied = agent.spec["rights"].get("deny") or ()
    for name in missing:
        denial = next((one for one in denied if patterns.any_name((str(one),), name)), "")
        why = (
            f"`deny: [{denial}]` above it forbids that, and no grant lifts a denial"
            if denial
            else "a line above it does not allow it"
        )
        yield Fault("rights", f"{approval.owner} would not have `{name}`: {why}")


def _capped(agent: JsonObject, task: JsonObject, more: JsonObject) -> Iterator[Fault]:
    """A fault for each unit that the task would have more of than the cap of its agent's tier allows."""
    cap = agent.get("cap") or {"budget": {}, "at": ""}
    for word in more:
        unit = unit_of(str(word))
        most, bound = cap["budget"].get(unit), task["budget"].get(unit)
        if most is not None and bound is not None and amount_of(unit, bound) > amount_of(unit, most):
            enough, line = rounded_up(unit, amount_of(unit, bound)), f"{cap['at']}.{named(unit)}"
            words = f"the cap of its tier, {shown(unit, amount_of(unit, most))} ({line}), is under what it would have"
            yield Fault("budget", words, (), f"raise that first: plan patch . {line}={enough}")


def _more_budget(path: tuple[str, ...], document: JsonObject, view: View, more: JsonObject) -> list[Op]:
    """Operations that raise by `more` every line that bounds the task, or the next one above with a bound."""
    ops: list[Op] = []
    for word, amount in more.items():
        unit = unit_of(str(word))
        at = path
        while (task := view.get(str(addresses.task(*at)))) is not None and unit not in task.spec["budget"] and at:
            at = at[:-1]
        now = None if task is None else task.spec["budget"].get(unit)
        if task is None or now is None:
            raise Terminal("BadRequest", f"nothing in the plan bounds {word} for it")
        raised = _sum(now, amount)
        tokens = pointer.of_task(at)
        node = pointer.get(document, tokens) if tokens else document
        said: JsonObject = (task.spec.get("agent_bounds") or {}).get(unit, {})
        own = said.get("task") if said else now
        if own is not None and amount_of(unit, own) < amount_of(unit, raised):
            ops.append(_setting(ops, (*tokens, "budget"), node.get("budget"), {str(word): raised}))
        if said:
            budget = {**_granted(node).get("budget", {}), str(word): raised}
            ops.append(_setting(ops, (*tokens, "granted"), node.get("granted"), {"budget": budget}))
    return ops


def _setting(before: list[Op], at: tuple[str, ...], old: Json, new: JsonObject) -> Op:
    """The map at `at` with the members `new`, on top of what an operation before has put there."""
    put = next((op for op in reversed(before) if op.path == at), None)
    known = put.value if put is not None else old
    if isinstance(known, dict) and isinstance(known.get("budget"), dict) and "budget" in new:
        new = {"budget": {**known["budget"], **new["budget"]}}
    return Op("add" if known is None else "replace", at, {**known, **new} if isinstance(known, dict) else new)


def _amounts(what: Json) -> JsonObject:
    """The amounts that are asked for, by unit, from a map, its text, or words such as `5 turns`. May be empty."""
    if isinstance(what, str):
        try:
            what = decode_foreign(what)
        except ValueError:
            found = _SAID.findall(str(what))
            what = {_unit(unit): amount.replace(",", "") for amount, unit in found}
    return {unit: amount for unit, amount in what.items() if amount} if isinstance(what, dict) else {}


def _unit(word: str) -> str:
    """The unit as a plan spells it, from the word of a request in either number."""
    one = word.removesuffix("s")
    return _UNITS.get(one) or (word if word == "retries" else f"{one}s")


def _sum(now: Json, more: Json) -> Json:
    said = seconds(more) if isinstance(more, str) else None
    try:
        amount = Decimal(str(more if said is None else said))
    except ArithmeticError:
        amount = Decimal("NaN")
    if not (amount.is_finite() and amount > 0):
        raise Terminal("BadRequest", f"{more!r} is no amount")
    total = Decimal(str(now)) + amount
    if isinstance(now, str):
        return str(total)
    return int(total) if total == total.to_integral_value() else float(total)


def _granted(node: Json) -> JsonObject:
    found = node.get("granted") if isinstance(node, dict) else None
    return found if isinstance(found, dict) else {}


def _granting(tokens: tuple[str, ...], node: Json, given: JsonObject) -> list[Op]:
    """What the agent of a task is given beside its own lines, which may be another's too or be written in the file."""
    known = _granted(node)
    return [Op("replace" if known else "add", (*tokens, "granted"), {**known, **given})]


def _names(what: Json) -> list[str]:
    names = [str(each) for each in what] if isinstance(what, list) else [str(what)]
    if not all(names):
        raise Terminal("BadRequest", "a request for tools names them")
    return names
