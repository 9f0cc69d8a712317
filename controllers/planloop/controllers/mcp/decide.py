"""Decide the next step of a tool server from one observation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, TypeAlias

from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.approval import WAITING
from planloop.schemas.objects.mcp import (
    SHARED,
    McpSpec,
    ServedPrompt,
    ServedTool,
    ServerState,
    mcp_from_json,
    served_tool_from_json,
)
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource

# The status of a tool server as typed values; agents read other parts of it (`planloop.schemas.objects.mcp`).
#
# A server has one run, `plan`, or one for each agent that needs it. Tool schemas contain nulls, so tools are kept in a
# list, which a merge replaces as a whole.


@frozen
class ToolServerRunStatus:
    """One process or connection. Times in seconds since 1970.

    `failures` counts ends in a row that came too soon; the next try is at `next_at`. `failing_since` is the time of
    the first failure since it was last ready. `idle_since` is the time since which no agent needs it.
    """

    state: ServerState = ServerState.IDLE
    op: str = ""
    started_at: float | None = None
    ready_at: float | None = None
    next_at: float | None = None
    idle_since: float | None = None
    failures: int = 0
    failing_since: float | None = None
    restarts: int = 0
    reason: str = ""
    why: str = ""


@frozen
class ToolServerStatus:
    """`of` is the digest of what is run. `agreed` and `refused` are digests of tools by name, `texts` prompts."""

    state: str = ""
    of: str = ""
    runs: dict[str, ToolServerRunStatus] = field(default_factory=dict)
    tools: tuple[ServedTool, ...] = ()
    agreed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    texts: dict[str, ServedPrompt] = field(default_factory=dict)


def read_server_status(raw: JsonObject) -> ToolServerStatus:
    """Return the typed form of a server's `status`."""
    return ToolServerStatus(
        state=raw.get("state", ""),
        of=raw.get("of", ""),
        runs={name: _run(value) for name, value in raw.get("runs", {}).items()},
        tools=tuple(served_tool_from_json(tool) for tool in raw.get("tools", ())),
        agreed=raw.get("agreed", {}),
        refused=raw.get("refused", {}),
        texts={name: ServedPrompt(each["text"], each["fault"]) for name, each in (raw.get("texts") or {}).items()},
    )


def _run(raw: JsonObject) -> ToolServerRunStatus:
    known = {key: value for key, value in raw.items() if key != "state"}
    return ToolServerRunStatus(state=ServerState(raw.get("state", "idle")), **known)


def program_digest(spec: McpSpec, world: str = "") -> str:
    """Return the digest of the parts of a spec whose change restarts the server; other changes apply immediately.

    `world` is the digest of the file of a simulated server.
    """
    if spec.world:
        return sha256_of_value([spec.world, world])[:16]
    return sha256_of_value([list(spec.command), spec.url, spec.env, spec.headers, spec.share])[:16]


ROOT: Final = "task/."


@frozen
class ObservedToolServer:
    """A tool server and what affects it.

    `needed` are the names of runs that working agents may use, `live` of runs that have a job. `is_over`: the plan has
    ended. `approvals` are its approvals of changed tools, by address. `of` is the digest of what must run now.
    """

    resource: Resource
    spec: McpSpec
    status: ToolServerStatus
    needed: tuple[str, ...]
    live: frozenset[str]
    is_over: bool
    approvals: Mapping[str, Resource]
    now: float
    of: str


def observe_server(resource: Resource, view: View, work: WorkPlane, now: float, world: str = "") -> ObservedToolServer:
    """Return the observation of a server. `world` is the digest of the file of a simulated server."""
    spec = mcp_from_json(resource.spec)
    root = view.get(ROOT)
    own = () if resource.deleting or spec.world else _users_at_work(resource, view)
    owned = view.owned_by(resource.address)
    return ObservedToolServer(
        resource=resource,
        spec=spec,
        status=read_server_status(resource.status),
        needed=own if spec.share == "agent" else (SHARED,) if own else (),
        live=frozenset(run_name_of_job(key) for key in work.live_for(resource.address)),
        is_over=root is None or root.state in ENDED,
        approvals={each.address: each for each in owned if each.kind == "approval"},
        now=now,
        of=program_digest(spec, world),
    )


def _users_at_work(resource: Resource, view: View) -> tuple[str, ...]:
    """Return the agents that may use it (it is in their refs) and whose tasks have begun and not ended."""
    return tuple(
        name for name in view.referrers(resource.address) if name.startswith("agent/") and _is_at_work(view, name)
    )


def _is_at_work(view: View, agent: str) -> bool:
    found, task = view.get(agent), view.get(agent.replace("agent/", "task/", 1))
    if found is not None and found.status.get("open") is not None:
        return True  # In a turn, which may be after the end of its task, to answer a message.
    return task is not None and task.status.get("go") is not None and task.state not in ENDED and not task.deleting


def server_job_key(server: str, run: str) -> str:
    """Return the key of the job that lives as long as the run."""
    return f"{server}#{run}"


def run_name_of_job(key: str) -> str:
    """Inverse of `server_job_key`."""
    return key.partition("#")[2]


# A server starts when an agent that may use it has begun to work, not at apply: only the servers in use cost anything,
# and unused ones are not downloaded. An idle server stays for a while. It stops immediately when the plan ends, its
# spec changes or it is removed.


@frozen
class StopRuns:
    """Stop these runs."""

    runs: tuple[str, ...]


@frozen
class ReleaseToolServer:
    """Nothing of the server is running: the object may be removed."""


@frozen
class RenewToolServer:
    """The program, address or environment changed: clear the status of the old one."""

    of: str


@frozen
class StartRun:
    """Start this run."""

    run: str


@frozen
class SetRunsIdle:
    """Mark these runs as idle from now on (`is_idle`), or as needed again."""

    runs: tuple[str, ...]
    is_idle: bool


@frozen
class ForgetRuns:
    """Remove runs from the status that no longer exist: of an earlier owner, or of an agent that is gone."""

    runs: tuple[str, ...]


@frozen
class RefreshPrompts:
    """Ask the server for prompts that are missing in the status."""


@frozen
class ReadWorldOffer:
    """Read the offer of a simulated world, which needs no process."""


@frozen
class SettleTool:
    """Apply the approval or refusal of a changed tool."""

    approval: Resource


@frozen
class ToolServerRest:
    """Nothing to do now; decide again after `after_s` seconds, if set."""

    after_s: float | None = None


ToolServerStep: TypeAlias = (
    StopRuns
    | ReleaseToolServer
    | RenewToolServer
    | StartRun
    | SetRunsIdle
    | ForgetRuns
    | RefreshPrompts
    | ReadWorldOffer
    | SettleTool
    | ToolServerRest
)


def decide_server(seen: ObservedToolServer) -> ToolServerStep:
    """Return the next step."""
    if seen.resource.deleting:
        return StopRuns(tuple(sorted(seen.live))) if seen.live else ReleaseToolServer()
    if seen.status.of != seen.of:
        return StopRuns(tuple(sorted(seen.live))) if seen.live else RenewToolServer(seen.of)
    if seen.spec.world:
        return ToolServerRest() if seen.status.runs else ReadWorldOffer()
    if past := tuple(name for name, run in seen.status.runs.items() if _is_past(seen, name, run)):
        return ForgetRuns(past)
    answered = next((each for each in seen.approvals.values() if each.state != WAITING), None)
    if answered is not None:
        return SettleTool(answered)
    if any(run.state is ServerState.READY for run in seen.status.runs.values()) and not _has_texts(seen):
        return RefreshPrompts()
    return _unneeded(seen) or _needed(seen)


def _has_texts(seen: ObservedToolServer) -> bool:
    return all(name in seen.status.texts for name in seen.spec.prompts)


def _is_past(seen: ObservedToolServer, name: str, run: ToolServerRunStatus) -> bool:
    if name in seen.live:
        return False
    return run.state in LIVE_STATES or (name != SHARED and name not in seen.needed)


def _unneeded(seen: ObservedToolServer) -> ToolServerStep | None:
    """Return the step for runs that no agent needs; None if there is nothing to do yet."""
    spare = tuple(sorted(seen.live.difference(seen.needed)))
    if not spare:
        return None
    if seen.is_over:
        return StopRuns(spare)
    fresh = tuple(name for name in spare if known_run(seen, name).idle_since is None)
    if fresh:
        return SetRunsIdle(fresh, is_idle=True)
    over = tuple(name for name in spare if _linger_s(seen, name) <= 0)
    return StopRuns(over) if over else None


def _needed(seen: ObservedToolServer) -> ToolServerStep:
    wanted_again = tuple(name for name in seen.needed if known_run(seen, name).idle_since is not None)
    if wanted_again:
        return SetRunsIdle(wanted_again, is_idle=False)
    dues: list[float] = [_linger_s(seen, name) for name in seen.live.difference(seen.needed)]
    for name in seen.needed:
        if name in seen.live:
            continue
        due_s = (known_run(seen, name).next_at or 0.0) - seen.now
        if due_s <= 0:
            return StartRun(name)
        dues.append(due_s)
    return ToolServerRest(min(dues) if dues else None)


def known_run(seen: ObservedToolServer, name: str) -> ToolServerRunStatus:
    """Return the status of a run; idle if it never ran."""
    return seen.status.runs.get(name) or ToolServerRunStatus()


def _linger_s(seen: ObservedToolServer, name: str) -> float:
    since = known_run(seen, name).idle_since
    return limits.SERVER_LINGER_S if since is None else since + limits.SERVER_LINGER_S - seen.now


def ended_run(run: ToolServerRunStatus, now: float, reason: str) -> ToolServerRunStatus:
    """Return the status of a run that ended by itself with `reason`: restarting, or failed if agents should not wait.

    A run that was ready long enough resets the count of failures. A server that cannot be started at all has failed.
    """
    was_steady = run.ready_at is not None and now - run.ready_at >= limits.SERVER_STEADY_S
    failures = 1 if was_steady else run.failures + 1
    since = now if run.ready_at is not None or run.failing_since is None else run.failing_since
    # A program that ends six times is broken. A URL where nothing listens may belong to a server that is starting.
    least_s = limits.SERVER_UNREACHABLE_S if reason == "Unreachable" else 0.0
    is_hopeless = reason in FATAL_REASONS or (failures >= limits.SERVER_FAILURES_MAX and now - since >= least_s)
    pause_s = min(limits.SERVER_RETRY_CAP_S, limits.BACKOFF_BASE_S * 2.0 ** min(failures, 30))
    return ToolServerRunStatus(
        state=ServerState.FAILED if is_hopeless else ServerState.RESTARTING,
        next_at=now + (limits.BACKOFF_CAP_S if is_hopeless else pause_s),
        failures=failures,
        failing_since=since,
        restarts=run.restarts + 1,
        reason=reason,
    )


LIVE_STATES: Final = (ServerState.STARTING, ServerState.READY)

FATAL_REASONS: Final = frozenset({"NoProgram", "NoSecret", "NoVariable", "BadWorld"})
"""Reasons that a person must fix. The server is still tried at intervals, which shows whether the problem is fixed."""
