"""Requests of MCP clients as external agents: take, renew and release a lease, make and withdraw a call.

`planloop.server.mcp` decides which client may take which agent. Here each request names its lease; a request under a
lease that has ended is refused and recorded. A call runs in a turn of its agent, like a call of any other agent.
"""

from __future__ import annotations

from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.controllers.agent import external_lease
from planloop.controllers.agent.deciders.port import traits_of
from planloop.controllers.agent.observe import ObservedAgent, SpecCache, observe_agent
from planloop.controllers.agent.status import ClientCall, ExternalLease, read_agent_status
from planloop.controllers.agent.tools.plan import absolute_operation
from planloop.controllers.agent.turn import prompt
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.schemas import address as addresses
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import JsonObject, encode, sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchFailed, ops_from_json
from planloop.schemas.log.patch import Author, Patch
from planloop.schemas.log.record import RecordDraft, SetStatus
from planloop.schemas.objects.agent import AgentSpec, agent_from_json
from planloop.schemas.objects.task import ENDED, TaskState, is_task_over
from planloop.schemas.resource import Resource
from planloop.server.opened_plan import OpenedPlan
from planloop.server.payloads import preview_to_json

PATCH_RULES: Final = (
    "Work on this task with the tools of this server; other work does not count. When the task is finished, call "
    "`done`: its checks run and you get the result. If it cannot be done, call `fail`. Read the news in each result: "
    "the task may have changed."
)
AGENTS_HINT: Final = "plan get agents lists them"


@frozen
class ExternalAgent:
    """An external agent with its current lease."""

    resource: Resource
    spec: AgentSpec
    seat: ExternalLease | None
    lease_s: float
    now: float

    @property
    def why_vacated(self) -> str:
        """Why the lease is ending; empty if it is not, or if no client holds one."""
        return "" if self.seat is None else external_lease.why_lease_ends(self.seat, self.lease_s, self.now)

    @property
    def signed(self) -> str:
        return f"guest:{self.resource.address.partition('/')[2]}"

    def draft(self, type_: str, merge: JsonObject, data: JsonObject) -> RecordDraft:
        """Return a record of a request of the client. An empty `merge` changes nothing."""
        changes = (SetStatus(self.resource.address, self.resource.uid, merge),) if merge else ()
        return RecordDraft(type_, self.signed, self.resource.address, changes, data)


async def handle_request(core: OpenedPlan, how: str, body: JsonObject, *, is_run: bool) -> JsonObject:
    """Handle the request `how`. `is_run` says whether an owner runs the plan. Raises CommandError."""
    played = _played(core, str(body["agent"]))
    if how == "take":
        return await _take(core, played, body, is_run=is_run)
    if how == "preview":
        return _preview(core, played, body)
    seat = await _seat(core, played, how, body)
    match how:
        case "say":
            answer = await _say(core, played, seat, body)
        case "renew":
            merge: JsonObject = {"seat": {"heard_at": played.now}}
            answer = {"rev": await _write(core, played, played.draft("seat.renewed", merge, {"seat": seat.number}))}
        case "leave":
            answer = await _leave(core, played, seat, str(body.get("why") or "its client left"))
        case _:
            answer = await _withdraw(core, played, str(body["id"]))
    return answer | {"is_run": is_run}


def _played(core: OpenedPlan, address: str) -> ExternalAgent:
    found = core.store.view.get(address)
    if found is None or found.kind != "agent" or found.deleting:
        raise CommandError(ExitCode.NOT_FOUND, f"no {address} in this plan", AGENTS_HINT)
    spec = agent_from_json(found.spec)
    if not traits_of(spec.mind).is_guest or spec.watches:
        hint = "set `outside: true` on the agent to let MCP clients take it"
        raise CommandError(ExitCode.REFUSED, f"{address} is not an external agent", hint)
    seat = read_agent_status(found.status).client.lease
    return ExternalAgent(found, spec, seat, external_lease.client_lease_s(spec.mind), core.clock.now())


async def _write(core: OpenedPlan, played: ExternalAgent, draft: RecordDraft) -> int:
    return await core.store.append(draft, {played.resource.address: played.resource.rev})


async def _take(core: OpenedPlan, played: ExternalAgent, body: JsonObject, *, is_run: bool) -> JsonObject:
    key, client = _key_in(body), str(body["client"])
    if not is_run:
        raise CommandError(ExitCode.REFUSED, f"{core.place.name} is not running", "start it: plan apply --detach FILE")
    if why := _why_not_free(core, played.resource):
        raise CommandError(
            ExitCode.REFUSED, f"{played.spec.task} cannot be taken: {why}", f"plan describe {played.spec.task}"
        )
    seat = played.seat
    if seat is not None and (seat.key != key or played.why_vacated):
        until = (
            "its lease is ending; try again"
            if played.why_vacated
            else f"its lease expires after {quantities.format_duration(played.lease_s)} without a request"
        )
        raise CommandError(ExitCode.CONFLICT, f"{seat.client} has {played.spec.task}", until)
    rev = core.store.durable_rev
    if seat is None:
        number = int(played.resource.status.get("seats", 0)) + 1
        seat = ExternalLease(number, key, client, played.now, played.now)
        merge: JsonObject = {"seat": seat.to_json(), "seats": number}
        rev = await _write(core, played, played.draft("seat.taken", merge, {"seat": number, "client": client}))
    seen = _seen(core, played.resource.address)
    briefing = "" if seen is None else prompt.role_briefing(seen, PATCH_RULES)
    return {"rev": rev, "seat": seat.number, "lease_s": played.lease_s, "briefing": briefing}


def _why_not_free(core: OpenedPlan, agent: Resource) -> str:
    """Return why the agent's task cannot be worked on now; empty if it can."""
    task = core.store.view.get(str(agent.spec["task"]))
    if task is None or task.deleting:
        return "it was removed"
    if task.state in ENDED or is_task_over(task.status):
        return f"it is {task.state}"
    if task.state == TaskState.PAUSED:
        return "it is paused"
    go = task.status.get("go")
    if go is not None and go == agent.status.get("incarnation"):
        return ""
    ready = task.status.get("conditions", {}).get("Ready") or {}
    return str(ready.get("message") or "it has not started")


async def _seat(core: OpenedPlan, played: ExternalAgent, how: str, body: JsonObject) -> ExternalLease:
    """Return the lease of a request. Raises CommandError if it has ended, and records that for a call."""
    seat = played.seat
    if seat is not None and seat.number == body["seat"] and seat.key == _key_in(body) and not played.why_vacated:
        return seat
    why = _why_late(played, int(body["seat"]))
    if how == "say":
        data: JsonObject = {"seat": body["seat"], "tool": str(body.get("tool", "")), "why": why, "late": True}
        await core.store.append(played.draft("seat.refused", {}, data), {})
    raise CommandError(ExitCode.REFUSED, f"you no longer have {played.spec.task}: {why}", "take it again: take_task")


def _key_in(body: JsonObject) -> str:
    """Return the digest of the client's secret. The log has only this, so that its readers cannot act as the client."""
    return sha256_hex(str(body["key"]).encode())


def _why_late(played: ExternalAgent, number: int) -> str:
    seat = played.seat
    if seat is None:
        return "you gave it back, your lease expired, or the task restarted"
    if seat.number == number and (why := played.why_vacated):
        return why
    return f"{seat.client} has it now"


async def _say(core: OpenedPlan, played: ExternalAgent, seat: ExternalLease, body: JsonObject) -> JsonObject:
    said = ClientCall(str(body["id"]), str(body.get("tool", "")), body.get("arguments", {}), played.now)
    if said.id in seat.said:
        return {"rev": core.store.durable_rev, "is_new": False}
    status = played.resource.status
    if len(encode(said.arguments)) > limits.SAID_BYTES_MAX:
        raise CommandError(
            ExitCode.REFUSED, f"the arguments are larger than {limits.SAID_BYTES_MAX} bytes", "make several calls"
        )
    if len(status.get("said") or {}) >= limits.SAID_MAX:
        raise CommandError(
            ExitCode.REFUSED, f"{limits.SAID_MAX} of your calls are waiting already", "wait for their results"
        )
    known = (*seat.said, said.id)[-limits.SAID_KEPT_MAX :]
    merge: JsonObject = {"said": {said.id: said.to_json()}, "seat": {"heard_at": played.now, "said": list(known)}}
    data: JsonObject = {"seat": seat.number, "id": said.id, "tool": said.tool}
    return {"rev": await _write(core, played, played.draft("call.proposed", merge, data)), "is_new": True}


async def _leave(core: OpenedPlan, played: ExternalAgent, seat: ExternalLease, why: str) -> JsonObject:
    """Start to release the lease. The controller ends it when the agent's running work has stopped."""
    data: JsonObject = {"seat": seat.number, "why": why}
    return {"rev": await _write(core, played, played.draft("seat.leaving", {"seat": {"leaving": why}}, data))}


async def _withdraw(core: OpenedPlan, played: ExternalAgent, said: str) -> JsonObject:
    """Drop a call that has not started, or stop one that is running. A call that has ended is not undone."""
    status = played.resource.status
    opened = status.get("open") or {}
    if said in (status.get("said") or {}):
        merge: JsonObject = {"said": {said: None}}
    elif (opened.get("said") or {}).get("id") == said:
        merge = {"open": {"is_withdrawn": True}}
    else:
        return {"rev": core.store.durable_rev, "was": "over"}
    was = "waiting" if "said" in merge else "begun"
    rev = await _write(core, played, played.draft("call.withdrawn", merge, {"id": said, "was": was}))
    return {"rev": rev, "was": was}


def _preview(core: OpenedPlan, played: ExternalAgent, body: JsonObject) -> JsonObject:
    """Return what the agent's patch would do, or why it would be refused. Changes nothing."""
    path = addresses.parse_address(str(played.resource.address)).path
    try:
        ops = ops_from_json(absolute_operation(path, raw) for raw in body["ops"])
    except PatchFailed as error:
        raise CommandError(
            ExitCode.USAGE, f"operation {error.index}: {error.reason}", "write operations as in RFC 6902"
        ) from None
    author = Author("agent", played.resource.address.partition("/")[2])
    return preview_to_json(core.gate.preview(Patch(author, ops, core.gate.present.rev, str(body.get("reason", "")))))


class _NoWork:
    """A work plane without running jobs: the briefing does not depend on them."""

    def live_for(self, owner: str) -> list[str]:
        del owner
        return []


def _seen(core: OpenedPlan, address: str) -> ObservedAgent | None:
    resource = core.store.view.get(address)
    if resource is None:
        return None
    work: WorkPlane = _NoWork()  # type: ignore[assignment]
    return observe_agent(resource, core.store.view, work, SpecCache(), core.clock.now(), f"plan/{core.place.name}")
