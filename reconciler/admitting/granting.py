"""A request for more (budget, a tool, a model) as the patch that grants it.

Pure. The patch is the granter's: it passes the gate under its name, so nobody grants what it may not grant, and a
message or a yes by itself never grants anything. Requests of other kinds change no plan: the yes is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from reconciler.admitting.admission import Admission
from reconciler.admitting.present import Present
from reconciler.errors import Terminal
from reconciler.storing.store import View
from schemas import address as addresses
from schemas import patterns, pointer
from schemas.encoding import Json, JsonObject
from schemas.ledger import unit_of
from schemas.patch import Author, Fault, Patch
from schemas.patching import Op
from schemas.resource import Resource

DEFAULT_AGENT: Final = "lib:child"


def patch_of(approval: Resource, by: Author, now: Present, view: View) -> Patch | None:
    """What saying yes to a request comes to as a patch by `by`; None when it changes no plan.

    Raises Terminal when the request makes no sense or the task that asked is gone.
    """
    what = approval.spec["what"]
    if what.get("kind") == "budget" and not (isinstance(what.get("what"), dict) and what["what"]):
        return None  # In words: whoever says yes to that patches the budget itself.
    path = addresses.parse(str(approval.owner)).path
    task, agent = view.get(str(addresses.task(*path))), view.get(str(addresses.agent(*path)))
    if task is None or agent is None:
        raise Terminal("NotFound", f"{approval.owner} is gone")
    tokens = pointer.of_task(path)
    node = pointer.get(now.document, tokens) if tokens else now.document
    match str(what.get("kind")):
        case "budget":
            ops = _more_budget(tokens, node, task, what["what"])
        case "tool" | "tools":
            ops = _agent_field(tokens, node, "tools", _tools(node, agent, _names(what.get("what"))))
        case "model":
            ops = _agent_field(tokens, node, "model", str(what.get("what")))
        case _:
            return None
    reason = f"asked for by {approval.spec['by']}: {approval.spec['why']}"
    return Patch(by, tuple(ops), now.rev, reason, is_approved=by.is_human)


def vain_faults(approval: Resource, answer: Admission) -> Iterator[Fault]:
    """What was asked for and would not be there all the same: a denial, or a line of rights above, takes it away."""
    what = approval.spec["what"]
    agent = answer.graph.objects.get(str(approval.owner)) if answer.graph is not None else None
    if agent is None:
        return
    match str(what.get("kind")):
        case "tool" | "tools":
            missing = [name for name in _names(what.get("what")) if not patterns.any_name(agent.spec["tools"], name)]
        case "model":
            missing = [name for name in (str(what.get("what")),) if agent.spec["mind"].get("model") != name]
        case _:
            return
    for name in missing:
        yield Fault("rights", f"{approval.owner} would not have `{name}`: what stands above it denies or narrows it")


def _more_budget(tokens: tuple[str, ...], node: Json, task: Resource, more: JsonObject) -> list[Op]:
    """The bounds of the task raised by `more`, unit by unit."""
    written: JsonObject = node.get("budget", {}) if isinstance(node, dict) else {}
    raised = dict(written)
    for unit, amount in more.items():
        now = task.spec["budget"].get(unit_of(unit), written.get(unit))
        if now is None:
            raise Terminal("BadRequest", f"its task has no bound of its own on {unit}; it shares what is above it")
        raised[unit] = _sum(now, amount)
    return [Op("replace" if written else "add", (*tokens, "budget"), raised)]


def _sum(now: Json, more: Json) -> Json:
    try:
        if isinstance(now, int) and isinstance(more, int):
            return now + more
        total = Decimal(str(now)) + Decimal(str(more))
    except ArithmeticError:
        raise Terminal("BadRequest", f"{more!r} is no amount") from None
    return str(total) if isinstance(now, str) else float(total)


def _agent_field(tokens: tuple[str, ...], node: Json, name: str, value: Json) -> list[Op]:
    """The agent of a task with one field set; one that is named or chosen by default is extended in its place."""
    agent = node.get("agent") if isinstance(node, dict) else None
    place = (*tokens, "agent")
    if isinstance(agent, dict):
        return [Op("replace" if name in agent else "add", (*place, name), value)]
    extended = {"extends": agent or DEFAULT_AGENT, name: value}
    return [Op("replace" if agent is not None else "add", place, extended)]


def _tools(node: Json, agent: Resource, more: list[str]) -> list[str]:
    """The tools an agent has, as its own list says it or as they came out, and `more`."""
    own = node.get("agent") if isinstance(node, dict) else None
    known = own["tools"] if isinstance(own, dict) and "tools" in own else agent.spec["tools"]
    return list(dict.fromkeys([*known, *more]))


def _names(what: Json) -> list[str]:
    names = [str(each) for each in what] if isinstance(what, list) else [str(what)]
    if not all(names):
        raise Terminal("BadRequest", "a request for tools names them")
    return names
