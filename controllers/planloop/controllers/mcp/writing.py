"""The records of a server, as pure functions: started, ready, its offer changed, ended; and what it all comes to.

A tool whose words changed after they were agreed on is withheld, and an approval stands for it: a server that is
trusted under one description is not trusted to tell models something else tomorrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final, TypeAlias

from planloop.controllers.mcp import offering
from planloop.controllers.mcp.deciding import HOPELESS
from planloop.controllers.mcp.offering import Offer
from planloop.controllers.mcp.status import McpStatus, Run, read
from planloop.controllers.worlds import WorldOffer
from planloop.schemas import condition, patching
from planloop.schemas.approval import APPROVED, WAITING, ApprovalSpec
from planloop.schemas.condition import Condition, Truth
from planloop.schemas.encoding import JsonObject, digest_of
from planloop.schemas.frozen import frozen
from planloop.schemas.mcp import (
    CURES,
    SHARED,
    McpSpec,
    ServedPrompt,
    ServedTool,
    ServerFailed,
    ServerState,
    full_name,
    mcp_from_json,
)
from planloop.schemas.record import Change, Draft, Drop, Mark, Put, SetStatus
from planloop.schemas.resource import Resource, Uid

ACTOR: Final = "controller:mcp"
WITHHELD: Final = "its description changed and waits for a yes"
REFUSED: Final = "its changed description was refused"


Texts: TypeAlias = Mapping[str, ServedPrompt]


@frozen
class Found:
    """What a server says when it is asked: its lists, the texts of the prompts that are wanted, and who it is."""

    offer: Offer
    texts: Texts
    server: JsonObject


def change(server: Resource, merge: JsonObject) -> SetStatus:
    """A merge into the server's status."""
    return SetStatus(server.address, server.uid, merge)


def renewed(server: Resource, of: str) -> Draft:
    """Everything known of another program is forgotten: what it offers is seen for the first time again."""
    gone = (
        "runs",
        "tools",
        "left_out",
        "agreed",
        "refused",
        "prompts",
        "resources",
        "texts",
        "server",
        "conditions",
        "signal",
    )
    merge: JsonObject = dict.fromkeys(gone) | {"of": of, "state": str(ServerState.IDLE), "why": None}
    return Draft("object.updated", ACTOR, server.address, (change(server, merge),), {"of": of})


def of_run(server: Resource, name: str, run: Run, now: float, type_: str) -> Draft:
    """What became of one run, with what that makes of the server as a whole."""
    merge = _with_run(server, name, run, now)
    return Draft(type_, ACTOR, server.address, (change(server, merge),), _told(name, run))


def ready(server: Resource, name: str, run: Run, found: Found) -> Draft:
    """A run is ready, and this is what its server offers."""
    now = run.ready_at or 0.0
    merge = _with_run(server, name, run, now)
    offered, asks = _offered(server, found.offer, found.texts, now)
    merge |= {**offered, "server": found.server, "conditions": {**merge["conditions"], **offered["conditions"]}}
    return Draft("server.ready", ACTOR, server.address, (change(server, merge), *asks), _told(name, run))


def simulated(server: Resource, offer: WorldOffer, now: float) -> Draft:
    """A simulated world is there as soon as it is read, and this is what it offers."""
    found = Found(Offer(offer.tools, (), ()), {}, {"name": offer.name})
    return ready(server, SHARED, Run(ServerState.READY, ready_at=now), found)


def not_simulated(server: Resource, fault: ServerFailed, now: float) -> Draft:
    """A world's file is at fault."""
    run = Run(ServerState.FAILED, failures=1, reason=fault.reason, why=str(fault))
    return of_run(server, SHARED, run, now, "server.ended")


def listed_again(server: Resource, found: Found, now: float) -> Draft | None:
    """The server says that its lists are others than before; None when they are not."""
    offer = found.offer
    merge, asks = _offered(server, offer, found.texts, now)
    if patching.merge(server.status, merge) == server.status:
        return None
    data: JsonObject = {"tools": len(offer.tools), "prompts": len(offer.prompts), "resources": len(offer.resources)}
    return Draft("server.changed", ACTOR, server.address, (change(server, merge), *asks), data)


def _told(name: str, run: Run) -> JsonObject:
    return {"run": name, "state": str(run.state), "reason": run.reason, "why": run.why}


def _with_run(server: Resource, name: str, run: Run, now: float) -> JsonObject:
    runs = {**read(server.status).runs, name: run}
    return {"runs": {name: _run_to_json(run)}, **_summed_up(server, runs, now)}


def _run_to_json(run: Run) -> JsonObject:
    return {**asdict(run), "state": str(run.state)}


def forgotten(server: Resource, names: tuple[str, ...], now: float) -> Draft:
    """Runs that are no more, however they ended."""
    status = read(server.status)
    gone: JsonObject = {name: None for name in names if name != SHARED}
    kept = {name: run for name, run in status.runs.items() if name not in names}
    if SHARED in names:
        kept[SHARED] = Run(restarts=status.runs[SHARED].restarts)
        gone[SHARED] = _run_to_json(kept[SHARED])
    merge = {"runs": gone, **_summed_up(server, kept, now)}
    return Draft("server.ended", ACTOR, server.address, (change(server, merge),), {"runs": list(names)})


def lingering(server: Resource, names: tuple[str, ...], since: float | None) -> Draft:
    """Runs that nobody needs since `since`, or (None) somebody does again."""
    runs: JsonObject = {name: {"idle_since": since} for name in names}
    return Draft("object.updated", ACTOR, server.address, (change(server, {"runs": runs}),), {"idle_since": since})


def _summed_up(server: Resource, runs: Mapping[str, Run], now: float) -> JsonObject:
    """State, reason and conditions of a server from those of its runs: as good as the best of them."""
    order = (ServerState.READY, ServerState.STARTING, ServerState.RESTARTING, ServerState.FAILED)
    best = next((run for state in order for run in runs.values() if run.state is state), Run())
    worst = max((run.failures for run in runs.values()), default=0)
    is_ready = best.state is ServerState.READY
    truth: Truth = "True" if is_ready else "False"
    ready = _condition(
        server, ("Ready", truth, best.reason or best.state.title(), best.why), now, _cures(server.address, best)
    )
    conditions: JsonObject = {"Ready": ready.to_json(), "CrashLoop": None}
    if best.state is ServerState.FAILED and best.reason not in HOPELESS:
        words = f"it ended {worst} times in a row; it is tried again once a minute"
        conditions["CrashLoop"] = _condition(server, ("CrashLoop", "True", best.reason, words), now).to_json()
    return {"state": str(best.state), "why": best.why or None, "conditions": conditions}


def _cures(server: str, run: Run) -> tuple[str, ...]:
    match run.reason:
        case "NoProgram":
            return (CURES.get(run.why.partition(":")[0], "install it, or write its path into `command`"),)
        case "NoVariable":
            return ("set the variable before `plan apply`, or give its value in `env`",)
        case "NoSecret":
            return ("set the variable before `plan apply`, or write the file that `headers` names",)
        case "BadWorld":
            return ("mend the file that its `world` names: it is read again once a minute",)
        case "Unreachable":
            return ("start what listens at its `url`, or correct that",)
        case "":
            return ()
        case _:
            return (f"plan logs {server}",)


def _condition(
    server: Resource, said: tuple[str, Truth, str, str], now: float, unblocks: tuple[str, ...] = ()
) -> Condition:
    type_, truth, reason, message = said
    ways = tuple(way.replace("mcp/<name>", server.address) for way in unblocks)
    made = Condition(type_, truth, reason, message, now, server.generation, ways)
    return condition.updated(condition.of_status(server.status).get(type_), made)


def _offered(server: Resource, offer: Offer, texts: Texts, now: float) -> tuple[JsonObject, tuple[Change, ...]]:
    """What the server offers now, and what is asked of a person about it."""
    status, spec = read(server.status), mcp_from_json(server.spec)
    listed = offering.allowed(offering.in_order(status.tools, offer.tools), spec.tools)
    agreed = offering.agreed(listed, status.agreed)
    tools = [_judged(tool, agreed, status) for tool in listed]
    left_out = {name: why for name, why in offer.left_out if spec.tools is None or name in spec.tools}
    missing = ", ".join((*(f"{name} ({why})" for name, why in left_out.items()), *_missing(listed, spec, left_out)))
    lists = ", ".join(f"{name}: {why}" for name, why in offer.missing)
    old = {tool.name: tool for tool in status.tools}
    asked = [ask for tool in tools if tool.withheld == WITHHELD for ask in _asked(server, tool, old.get(tool.name))]
    merge: JsonObject = {
        **_offer_merge(tools, {**status.texts, **texts}),
        "prompts": list(offer.prompts),
        "resources": list(offer.resources),
        "agreed": agreed,
        # In a list, which a merge replaces.
        "left_out": [list(each) for each in left_out.items()] or None,
        "conditions": {
            "ToolsWithheld": _withheld(server, tools, now),
            "ToolsMissing": _when(server, "ToolsMissing", "LeftOut", missing, now),
            "ListsMissing": _when(server, "ListsMissing", "NotListed", lists, now),
        },
    }
    return merge, tuple(asked)


def _offer_merge(tools: list[ServedTool], texts: Mapping[str, ServedPrompt]) -> JsonObject:
    # The signal wakes agents when the offer is another one, and only then.
    known = {name: text.to_json() for name, text in texts.items()}
    signal = [*([tool.digest, tool.withheld] for tool in tools), digest_of(known)]
    return {"tools": [tool.to_json() for tool in tools], "texts": known, "signal": signal}


def _withheld(server: Resource, tools: list[ServedTool], now: float) -> JsonObject | None:
    return _when(server, "ToolsWithheld", "Changed", ", ".join(tool.name for tool in tools if tool.withheld), now)


def _when(server: Resource, type_: str, reason: str, names: str, now: float) -> JsonObject | None:
    """A condition that holds while it has something to name, and is not there otherwise."""
    return _condition(server, (type_, "True", reason, names), now).to_json() if names else None


def _missing(listed: list[ServedTool], spec: McpSpec, left_out: Mapping[str, str]) -> tuple[str, ...]:
    """Names that the plan lets it offer and that it has not."""
    names = {*left_out, *(tool.name for tool in listed)}
    return tuple(name for name in spec.tools or () if name not in names)


def _judged(tool: ServedTool, agreed: Mapping[str, str], status: McpStatus) -> ServedTool:
    if agreed[tool.name] == tool.digest:
        return tool
    return replace(tool, withheld=REFUSED if status.refused.get(tool.name) == tool.digest else WITHHELD)


def _asked(server: Resource, tool: ServedTool, old: ServedTool | None) -> tuple[Change, ...]:
    """An approval for a changed tool, one for each of its contents."""
    name = full_name(server.address.partition("/")[2], tool.name)
    id_ = f"{name.replace('.', '-')}-{tool.digest[:8]}"
    what: JsonObject = {
        "server": server.address,
        "tool": tool.name,
        "digest": tool.digest,
        "before": None if old is None else {"description": old.description, "parameters": old.parameters},
        "after": {"description": tool.description, "parameters": tool.parameters},
    }
    spec = ApprovalSpec("tool", ACTOR, f"`{name}` describes itself in other words than before", what)
    address, uid = f"approval/{id_}", Uid(f"{server.uid}-{tool.digest[:8]}")
    return (Put(address, uid, spec.to_json(), owner=server.address), SetStatus(address, uid, {"state": WAITING}))


def settled(server: Resource, approval: Resource, now: float) -> Draft:
    """A person's word on a changed tool: it may be used from now on, or stays withheld."""
    what: JsonObject = approval.spec["what"]
    is_yes = approval.state == APPROVED
    status = read(server.status)
    digests = {what["tool"]: what["digest"]}
    withheld = "" if is_yes else REFUSED
    tools = [
        replace(tool, withheld=withheld) if (tool.name, tool.digest) == (what["tool"], what["digest"]) else tool
        for tool in status.tools
    ]
    merge: JsonObject = {
        "agreed" if is_yes else "refused": digests,
        **_offer_merge(tools, status.texts),
        "conditions": {"ToolsWithheld": _withheld(server, tools, now)},
    }
    changes = (change(server, merge), Drop(approval.address, approval.uid))
    return Draft("server.changed", ACTOR, server.address, changes, {"tool": what["tool"], "is_agreed": is_yes})


def released(server: Resource, approvals: Mapping[str, Resource]) -> Draft:
    """Nothing of the server runs any more."""
    drops = tuple(Drop(each.address, each.uid) for each in approvals.values())
    mark = Mark(server.address, server.uid, finalizers=tuple(name for name in server.finalizers if name != "mcp"))
    return Draft("object.updated", ACTOR, server.address, (*drops, mark), {"released": "mcp"})
