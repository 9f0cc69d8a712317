"""The records of a tool server: started, ready, changed, ended, and its summary. Pure.

A tool whose words changed after they were agreed on is withheld, and an approval stands for it: a server that is
trusted under one description is not trusted to tell models something else tomorrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final, TypeAlias

from planloop.controllers.mcp import server_offer
from planloop.controllers.mcp.decide import FATAL_REASONS, ToolServerRunStatus, ToolServerStatus, read_server_status
from planloop.controllers.mcp.server_offer import ToolServerOffer
from planloop.controllers.shared.simulated_worlds import WorldOffer
from planloop.schemas import json_patch, resource
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Mark, Put, RecordDraft, SetStatus
from planloop.schemas.objects.approval import APPROVED, WAITING, ApprovalSpec
from planloop.schemas.objects.mcp import (
    SERVER_HINTS,
    SHARED,
    McpSpec,
    ServedPrompt,
    ServedTool,
    ServerFailed,
    ServerState,
    full_tool_name,
    mcp_from_json,
)
from planloop.schemas.resource import Condition, Resource, Truth, Uid

ACTOR: Final = "controller:mcp"
WITHHELD: Final = "its description changed and waits for a yes"
REFUSED: Final = "its changed description was refused"


PromptTexts: TypeAlias = Mapping[str, ServedPrompt]


@frozen
class ToolServerLists:
    """What a server says when it is asked: its lists, the texts of the prompts that are wanted, and who it is."""

    offer: ToolServerOffer
    texts: PromptTexts
    server: JsonObject


def status_change(server: Resource, merge: JsonObject) -> SetStatus:
    """A merge into the server's status."""
    return SetStatus(server.address, server.uid, merge)


def renewed_draft(server: Resource, of: str) -> RecordDraft:
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
    return RecordDraft("object.updated", ACTOR, server.address, (status_change(server, merge),), {"of": of})


def run_draft(server: Resource, name: str, run: ToolServerRunStatus, now: float, type_: str) -> RecordDraft:
    """What became of one run, with what that makes of the server as a whole."""
    merge = _with_run(server, name, run, now)
    return RecordDraft(type_, ACTOR, server.address, (status_change(server, merge),), _told(name, run))


def ready_draft(server: Resource, name: str, run: ToolServerRunStatus, found: ToolServerLists) -> RecordDraft:
    """A run is ready, and this is what its server offers."""
    now = run.ready_at or 0.0
    merge = _with_run(server, name, run, now)
    offered, asks = _offered(server, found.offer, found.texts, now)
    merge |= {**offered, "server": found.server, "conditions": {**merge["conditions"], **offered["conditions"]}}
    return RecordDraft("server.ready", ACTOR, server.address, (status_change(server, merge), *asks), _told(name, run))


def world_draft(server: Resource, offer: WorldOffer, now: float) -> RecordDraft:
    """A simulated world is there as soon as it is read, and this is what it offers."""
    found = ToolServerLists(ToolServerOffer(offer.tools, (), ()), {}, {"name": offer.name})
    return ready_draft(server, SHARED, ToolServerRunStatus(ServerState.READY, ready_at=now), found)


def world_failed_draft(server: Resource, fault: ServerFailed, now: float) -> RecordDraft:
    """A world's file is at fault."""
    run = ToolServerRunStatus(ServerState.FAILED, failures=1, reason=fault.reason, why=str(fault))
    return run_draft(server, SHARED, run, now, "server.ended")


def relisted_draft(server: Resource, found: ToolServerLists, now: float) -> RecordDraft | None:
    """The server says that its lists are others than before; None when they are not."""
    offer = found.offer
    merge, asks = _offered(server, offer, found.texts, now)
    if json_patch.merge_values(server.status, merge) == server.status:
        return None
    data: JsonObject = {"tools": len(offer.tools), "prompts": len(offer.prompts), "resources": len(offer.resources)}
    return RecordDraft("server.changed", ACTOR, server.address, (status_change(server, merge), *asks), data)


def _told(name: str, run: ToolServerRunStatus) -> JsonObject:
    return {"run": name, "state": str(run.state), "reason": run.reason, "why": run.why}


def _with_run(server: Resource, name: str, run: ToolServerRunStatus, now: float) -> JsonObject:
    runs = {**read_server_status(server.status).runs, name: run}
    return {"runs": {name: _run_to_json(run)}, **_summed_up(server, runs, now)}


def _run_to_json(run: ToolServerRunStatus) -> JsonObject:
    return {**asdict(run), "state": str(run.state)}


def forgotten_draft(server: Resource, names: tuple[str, ...], now: float) -> RecordDraft:
    """Runs that are no more, however they ended."""
    status = read_server_status(server.status)
    gone: JsonObject = {name: None for name in names if name != SHARED}
    kept = {name: run for name, run in status.runs.items() if name not in names}
    if SHARED in names:
        kept[SHARED] = ToolServerRunStatus(restarts=status.runs[SHARED].restarts)
        gone[SHARED] = _run_to_json(kept[SHARED])
    merge = {"runs": gone, **_summed_up(server, kept, now)}
    return RecordDraft("server.ended", ACTOR, server.address, (status_change(server, merge),), {"runs": list(names)})


def idle_draft(server: Resource, names: tuple[str, ...], since: float | None) -> RecordDraft:
    """Runs that nobody needs since `since`, or (None) somebody does again."""
    runs: JsonObject = {name: {"idle_since": since} for name in names}
    return RecordDraft(
        "object.updated", ACTOR, server.address, (status_change(server, {"runs": runs}),), {"idle_since": since}
    )


def _summed_up(server: Resource, runs: Mapping[str, ToolServerRunStatus], now: float) -> JsonObject:
    """State, reason and conditions of a server from those of its runs: as good as the best of them."""
    order = (ServerState.READY, ServerState.STARTING, ServerState.RESTARTING, ServerState.FAILED)
    best = next((run for state in order for run in runs.values() if run.state is state), ToolServerRunStatus())
    worst = max((run.failures for run in runs.values()), default=0)
    is_ready = best.state is ServerState.READY
    truth: Truth = "True" if is_ready else "False"
    ready = _condition(
        server, ("Ready", truth, best.reason or best.state.title(), best.why), now, _cures(server.address, best)
    )
    conditions: JsonObject = {"Ready": ready.to_json(), "CrashLoop": None}
    if best.state is ServerState.FAILED and best.reason not in FATAL_REASONS:
        words = f"it ended {worst} times in a row; it is tried again once a minute"
        conditions["CrashLoop"] = _condition(server, ("CrashLoop", "True", best.reason, words), now).to_json()
    return {"state": str(best.state), "why": best.why or None, "conditions": conditions}


def _cures(server: str, run: ToolServerRunStatus) -> tuple[str, ...]:
    match run.reason:
        case "NoProgram":
            return (SERVER_HINTS.get(run.why.partition(":")[0], "install it, or write its path into `command`"),)
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
    return resource.update_condition(resource.conditions_of_status(server.status).get(type_), made)


def _offered(
    server: Resource, offer: ToolServerOffer, texts: PromptTexts, now: float
) -> tuple[JsonObject, tuple[Change, ...]]:
    """What the server offers now, and what is asked of a person about it."""
    status, spec = read_server_status(server.status), mcp_from_json(server.spec)
    listed = server_offer.allowed_tools(server_offer.in_known_order(status.tools, offer.tools), spec.tools)
    agreed = server_offer.agreed_digests(listed, status.agreed)
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
    signal = [*([tool.digest, tool.withheld] for tool in tools), sha256_of_value(known)]
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


def _judged(tool: ServedTool, agreed: Mapping[str, str], status: ToolServerStatus) -> ServedTool:
    if agreed[tool.name] == tool.digest:
        return tool
    return replace(tool, withheld=REFUSED if status.refused.get(tool.name) == tool.digest else WITHHELD)


def _asked(server: Resource, tool: ServedTool, old: ServedTool | None) -> tuple[Change, ...]:
    """An approval for a changed tool, one for each of its contents."""
    name = full_tool_name(server.address.partition("/")[2], tool.name)
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


def tool_settled_draft(server: Resource, approval: Resource, now: float) -> RecordDraft:
    """A person's word on a changed tool: it may be used from now on, or stays withheld."""
    what: JsonObject = approval.spec["what"]
    is_yes = approval.state == APPROVED
    status = read_server_status(server.status)
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
    changes = (status_change(server, merge), Drop(approval.address, approval.uid))
    return RecordDraft("server.changed", ACTOR, server.address, changes, {"tool": what["tool"], "is_agreed": is_yes})


def server_released_draft(server: Resource, approvals: Mapping[str, Resource]) -> RecordDraft:
    """Nothing of the server runs any more."""
    drops = tuple(Drop(each.address, each.uid) for each in approvals.values())
    mark = Mark(server.address, server.uid, finalizers=tuple(name for name in server.finalizers if name != "mcp"))
    return RecordDraft("object.updated", ACTOR, server.address, (*drops, mark), {"released": "mcp"})
