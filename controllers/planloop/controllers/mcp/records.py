"""Records of a tool server: started, ready, changed, ended, and its overall state. Pure.

A tool whose description changed after it was accepted is withheld until a person approves it: a server that is trusted
with one description is not trusted to give models another one later.
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
WITHHELD: Final = "its description changed and waits for approval"
REFUSED: Final = "its changed description was refused"


PromptTexts: TypeAlias = Mapping[str, ServedPrompt]


@frozen
class ToolServerLists:
    """Answers of a server: its lists, the texts of the requested prompts, and its name and version."""

    offer: ToolServerOffer
    texts: PromptTexts
    server: JsonObject


def status_change(server: Resource, merge: JsonObject) -> SetStatus:
    """Return the change that merges `merge` into the server's status."""
    return SetStatus(server.address, server.uid, merge)


def renewed_draft(server: Resource, of: str) -> RecordDraft:
    """Return the record that clears everything known of the previous program."""
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
    """Return the record of a change of one run, with the overall state of the server."""
    merge = _with_run(server, name, run, now)
    return RecordDraft(type_, ACTOR, server.address, (status_change(server, merge),), _run_data(name, run))


def ready_draft(server: Resource, name: str, run: ToolServerRunStatus, found: ToolServerLists) -> RecordDraft:
    """Return the record of a run that is ready, with the offer of its server."""
    now = run.ready_at or 0.0
    merge = _with_run(server, name, run, now)
    offered, asks = _offered(server, found.offer, found.texts, now)
    merge |= {**offered, "server": found.server, "conditions": {**merge["conditions"], **offered["conditions"]}}
    return RecordDraft(
        "server.ready", ACTOR, server.address, (status_change(server, merge), *asks), _run_data(name, run)
    )


def world_draft(server: Resource, offer: WorldOffer, now: float) -> RecordDraft:
    """Return the record of a simulated world, which is ready as soon as it is read, with its offer."""
    found = ToolServerLists(ToolServerOffer(offer.tools, (), ()), {}, {"name": offer.name})
    return ready_draft(server, SHARED, ToolServerRunStatus(ServerState.READY, ready_at=now), found)


def world_failed_draft(server: Resource, fault: ServerFailed, now: float) -> RecordDraft:
    """Return the record of a world whose file is invalid."""
    run = ToolServerRunStatus(ServerState.FAILED, failures=1, reason=fault.reason, why=str(fault))
    return run_draft(server, SHARED, run, now, "server.ended")


def relisted_draft(server: Resource, found: ToolServerLists, now: float) -> RecordDraft | None:
    """Return the record of changed lists of a server; None if they are the same as before."""
    offer = found.offer
    merge, asks = _offered(server, offer, found.texts, now)
    if json_patch.merge_values(server.status, merge) == server.status:
        return None
    data: JsonObject = {"tools": len(offer.tools), "prompts": len(offer.prompts), "resources": len(offer.resources)}
    return RecordDraft("server.changed", ACTOR, server.address, (status_change(server, merge), *asks), data)


def _run_data(name: str, run: ToolServerRunStatus) -> JsonObject:
    return {"run": name, "state": str(run.state), "reason": run.reason, "why": run.why}


def _with_run(server: Resource, name: str, run: ToolServerRunStatus, now: float) -> JsonObject:
    runs = {**read_server_status(server.status).runs, name: run}
    return {"runs": {name: _run_to_json(run)}, **_summed_up(server, runs, now)}


def _run_to_json(run: ToolServerRunStatus) -> JsonObject:
    return {**asdict(run), "state": str(run.state)}


def forgotten_draft(server: Resource, names: tuple[str, ...], now: float) -> RecordDraft:
    """Return the record that removes runs that no longer exist."""
    status = read_server_status(server.status)
    gone: JsonObject = {name: None for name in names if name != SHARED}
    kept = {name: run for name, run in status.runs.items() if name not in names}
    if SHARED in names:
        kept[SHARED] = ToolServerRunStatus(restarts=status.runs[SHARED].restarts)
        gone[SHARED] = _run_to_json(kept[SHARED])
    merge = {"runs": gone, **_summed_up(server, kept, now)}
    return RecordDraft("server.ended", ACTOR, server.address, (status_change(server, merge),), {"runs": list(names)})


def idle_draft(server: Resource, names: tuple[str, ...], since: float | None) -> RecordDraft:
    """Return the record of runs that no agent needs since `since`, or (None) that are needed again."""
    runs: JsonObject = {name: {"idle_since": since} for name in names}
    return RecordDraft(
        "object.updated", ACTOR, server.address, (status_change(server, {"runs": runs}),), {"idle_since": since}
    )


def _summed_up(server: Resource, runs: Mapping[str, ToolServerRunStatus], now: float) -> JsonObject:
    """Return the state, reason and conditions of a server: those of its best run."""
    order = (ServerState.READY, ServerState.STARTING, ServerState.RESTARTING, ServerState.FAILED)
    best = next((run for state in order for run in runs.values() if run.state is state), ToolServerRunStatus())
    worst = max((run.failures for run in runs.values()), default=0)
    is_ready = best.state is ServerState.READY
    truth: Truth = "True" if is_ready else "False"
    ready = _condition(
        server, ("Ready", truth, best.reason or best.state.title(), best.why), now, _fixes(server.address, best)
    )
    conditions: JsonObject = {"Ready": ready.to_json(), "CrashLoop": None}
    if best.state is ServerState.FAILED and best.reason not in FATAL_REASONS:
        words = f"it ended {worst} times in a row; planloop tries again once a minute"
        conditions["CrashLoop"] = _condition(server, ("CrashLoop", "True", best.reason, words), now).to_json()
    return {"state": str(best.state), "why": best.why or None, "conditions": conditions}


def _fixes(server: str, run: ToolServerRunStatus) -> tuple[str, ...]:
    match run.reason:
        case "NoProgram":
            return (SERVER_HINTS.get(run.why.partition(":")[0], "install it, or write its path into `command`"),)
        case "NoVariable":
            return ("set the variable before `plan apply`, or give its value in `env`",)
        case "NoSecret":
            return ("set the variable before `plan apply`, or write the file that `headers` names",)
        case "BadWorld":
            return ("fix the file that `world` names; planloop reads it again once a minute",)
        case "Unreachable":
            return ("start the server at its `url`, or correct `url`",)
        case "":
            return ()
        case _:
            return (f"plan logs {server}",)


def _condition(
    server: Resource, verdict: tuple[str, Truth, str, str], now: float, unblocks: tuple[str, ...] = ()
) -> Condition:
    type_, truth, reason, message = verdict
    ways = tuple(way.replace("mcp/<name>", server.address) for way in unblocks)
    new = Condition(type_, truth, reason, message, now, server.generation, ways)
    return resource.update_condition(resource.conditions_of_status(server.status).get(type_), new)


def _offered(
    server: Resource, offer: ToolServerOffer, texts: PromptTexts, now: float
) -> tuple[JsonObject, tuple[Change, ...]]:
    """Return the merge of the current offer, and the approvals that it needs."""
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
    # The signal wakes agents only when the offer changes.
    known = {name: text.to_json() for name, text in texts.items()}
    signal = [*([tool.digest, tool.withheld] for tool in tools), sha256_of_value(known)]
    return {"tools": [tool.to_json() for tool in tools], "texts": known, "signal": signal}


def _withheld(server: Resource, tools: list[ServedTool], now: float) -> JsonObject | None:
    return _when(server, "ToolsWithheld", "Changed", ", ".join(tool.name for tool in tools if tool.withheld), now)


def _when(server: Resource, type_: str, reason: str, names: str, now: float) -> JsonObject | None:
    """Return a condition that is True if there are `names`; None removes it."""
    return _condition(server, (type_, "True", reason, names), now).to_json() if names else None


def _missing(listed: list[ServedTool], spec: McpSpec, left_out: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tools that the plan names and the server does not have."""
    names = {*left_out, *(tool.name for tool in listed)}
    return tuple(name for name in spec.tools or () if name not in names)


def _judged(tool: ServedTool, agreed: Mapping[str, str], status: ToolServerStatus) -> ServedTool:
    if agreed[tool.name] == tool.digest:
        return tool
    return replace(tool, withheld=REFUSED if status.refused.get(tool.name) == tool.digest else WITHHELD)


def _asked(server: Resource, tool: ServedTool, old: ServedTool | None) -> tuple[Change, ...]:
    """Return the approval for a changed tool; each version of the tool has its own."""
    name = full_tool_name(server.address.partition("/")[2], tool.name)
    id_ = f"{name.replace('.', '-')}-{tool.digest[:8]}"
    what: JsonObject = {
        "server": server.address,
        "tool": tool.name,
        "digest": tool.digest,
        "before": None if old is None else {"description": old.description, "parameters": old.parameters},
        "after": {"description": tool.description, "parameters": tool.parameters},
    }
    spec = ApprovalSpec("tool", ACTOR, f"the description or schema of `{name}` has changed", what)
    address, uid = f"approval/{id_}", Uid(f"{server.uid}-{tool.digest[:8]}")
    return (Put(address, uid, spec.to_json(), owner=server.address), SetStatus(address, uid, {"state": WAITING}))


def tool_settled_draft(server: Resource, approval: Resource, now: float) -> RecordDraft:
    """Return the record of a person's decision about a changed tool."""
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
    """Return the record that releases a server of which nothing is running."""
    drops = tuple(Drop(each.address, each.uid) for each in approvals.values())
    mark = Mark(server.address, server.uid, finalizers=tuple(name for name in server.finalizers if name != "mcp"))
    return RecordDraft("object.updated", ACTOR, server.address, (*drops, mark), {"released": "mcp"})
