"""The shell tool: run a command in the workspace, and detect its writes to files that other agents have locked.

A command runs in its own process group, with a clean environment and limits. All output is stored as a blob; the caller
gets its head and tail. Its effect class is `once` by default: a command with an unknown outcome is not run again.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Protocol, assert_never

import anyio.to_thread
from pydantic import AliasChoices, Field

from planloop.controllers.agent import run_environment
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.run_environment import command_environment, plan_folder
from planloop.controllers.agent.status import AGENT_ACTOR
from planloop.controllers.agent.tools.errors import ToolError
from planloop.controllers.agent.tools.tool import Settlement, ToolContext
from planloop.controllers.agent.tools.workspace import Workspace, digest_at, files_below
from planloop.controllers.agent.turn.records import condition_merge
from planloop.controllers.shared.leases.grants import is_above, lock_path
from planloop.controllers.shared.leases.lock_paths import path_covers
from planloop.reconciler.effects.processes import ExitCause, ProcessCommand, ProcessExit
from planloop.reconciler.effects.truncate import truncate_output
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.call import CallResult, CallState
from planloop.schemas.objects.lock import lock_status_from_json
from planloop.schemas.objects.message import Message


class EndedCommand(Protocol):
    """A command that has ended, here or in a container."""

    @property
    def ending(self) -> ExitCause: ...

    @property
    def code(self) -> int | None: ...

    @property
    def output(self) -> bytes: ...


def command_result(context: ToolContext, ended: EndedCommand, *, late: str, lost: str) -> CallResult:
    """Return the result of the command and store its output. `late` and `lost` are the texts for these endings."""
    blob = context.services.store.put_blob(ended.output) if ended.output else None
    shown = truncate_output(ended.output)
    match ended.ending:
        case ExitCause.EXITED if ended.code == 0:
            return CallResult(CallState.SUCCEEDED, shown, "", 0, blob)
        case ExitCause.EXITED:
            text = f"exit {ended.code}\n{shown}" if shown else f"exit {ended.code}"
            return CallResult(CallState.FAILED, text, "Exit", ended.code, blob)
        case ExitCause.TIMED_OUT:
            return _stopped("TimedOut", late, shown, blob)
        case ExitCause.TOO_MUCH_OUTPUT:
            return _stopped("TooMuchOutput", "the command was stopped because it wrote too much output", shown, blob)
        case ExitCause.NOT_STARTED:
            return _stopped("NotStarted", "the command could not be started", shown, blob)
        case ExitCause.LOST:
            return CallResult(CallState.UNKNOWN, f"{lost}: it may have taken effect\n{shown}", "Unknown", None, blob)
        case _:
            assert_never(ended.ending)


def _stopped(reason: str, words: str, shown: str, blob: str | None) -> CallResult:
    return CallResult(CallState.FAILED, f"{words}\n{shown}".rstrip(), reason, None, blob)


# Without a strong sandbox a command can write files that other agents have locked. The digests of these files, up to a
# limit, are compared before and after the command. A change that the lock holder did not make is reported to both
# agents, recorded with the call, and set as a condition of the agent that ran the command.

LOCK_VIOLATED: Final = "LockViolated"
"""The condition of an agent whose command changed files that other agents had locked."""

WATCHED_KEY: Final = "watched"
"""In the status of a shell call: the locks of others when it started, and the digests of the files they cover."""

_STRONG_TIER: Final = 2  # From this tier on, commands can write only files that their agent has locked.


async def note_watched_files(context: ToolContext) -> None:
    """Record the files that others have locked before the command starts, unless its sandbox protects them."""
    if _tier(context.seen) < _STRONG_TIER:
        await note_unboxed_command(context)


async def note_unboxed_command(context: ToolContext) -> None:
    """The same for a command outside of the agent's sandbox. Records nothing if others hold no locks."""
    held = locks_of_others(context.seen, context.services.store.view, context.workspace)
    if not held:
        return
    # A thread: some of the files are large, and the loop serves every other agent.
    found = await anyio.to_thread.run_sync(_digests, context.workspace, held)
    files: JsonObject = {path: [digest, lock] for path, (digest, lock) in found.items()}
    store, call = context.services.store, context.services.store.view.get(context.call.address)
    if call is None or call.uid != context.call.uid:
        return  # The call was cancelled meanwhile.
    change = SetStatus(call.address, call.uid, {WATCHED_KEY: {"locks": held, "files": files}})
    draft = RecordDraft("call.progressed", AGENT_ACTOR, call.address, (change,), {"watched": len(found)})
    await store.append(draft, {call.address: call.rev})


async def settle_command(context: ToolContext, ending: Settlement) -> Settlement:
    """Return the settlement of a command with the consequences of its changes to files that others locked."""
    call = context.services.store.view.get(context.call.address)
    noted: JsonObject = {} if call is None else call.status.get(WATCHED_KEY, {})
    # The workspace may no longer exist, but the files of others may still have changed: check the whole folder.
    folder = plan_folder(context.services, context.seen)
    changed = {} if not noted else await anyio.to_thread.run_sync(_changed, Workspace(folder, folder), noted)
    found = {path: (digest, *noted["locks"][lock]) for path, (digest, lock) in changed.items()}
    guilty = {path: str(one[1]) for path, one in found.items() if not _is_theirs(context, path, *one)}
    ending = violation_consequences(context, ending, guilty)
    if not guilty:
        return ending
    lines = "\n".join(f"`{path}`, locked by {owner}" for path, owner in sorted(guilty.items()))
    note = (
        "this command changed files that other agents have locked. The changes remain, and each lock holder gets a "
        f"message:\n{lines}"
    )
    text = f"{ending.result.text}\n[{note}]"
    return replace(ending, result=replace(ending.result, text=text.lstrip("\n")))


def violation_consequences(context: ToolContext, ending: Settlement, guilty: Mapping[str, str]) -> Settlement:
    """Return `ending` with the consequences of `guilty`: the lock holders of files that the command changed, by path.

    Each holder gets a message. The caller gets a condition until a command of it changes no such file.
    """
    seen = replace(context.seen, now=context.services.clock.now())
    if not guilty:
        return replace(ending, agent={**ending.agent, **condition_merge(context.seen, LOCK_VIOLATED, "")})
    words = f"a command changed {', '.join(sorted(guilty))}, which others hold"
    merge = condition_merge(seen, LOCK_VIOLATED, words)
    notices = [change for owner in dict.fromkeys(guilty.values()) for change in _notice(context, seen, owner, guilty)]
    return replace(
        ending,
        changes=(*ending.changes, *notices),
        agent={**ending.agent, **merge},
        data={**ending.data, "violated": dict(guilty)},
    )


def locks_of_others(agent: ObservedAgent, view: View, space: Workspace) -> dict[str, Json]:
    """Return owner and fence, by path, of the locks of others in this agent's tree."""
    found: dict[str, Json] = {}
    for lock in view.list("lock"):
        for owner, holder in lock_status_from_json(lock.status).holders.items():
            path = space.unlocked(lock_path(lock))
            if path is not None and not is_above(owner, agent.resource.address):
                found[path] = [owner, holder.fence]
    return found


def _digests(space: Workspace, locks: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    """Return, by path, the digest and the lock of files covered by `locks`, at most LOCK_FILES_WATCHED_MAX."""
    found: dict[str, tuple[str | None, str]] = {}
    for lock in sorted(locks):
        for path in _files_of(space, lock):
            if len(found) >= limits.LOCK_FILES_WATCHED_MAX:
                return found
            found.setdefault(path, (_digest(space, path), lock))
    return found


def _files_of(space: Workspace, lock: str) -> Iterable[str]:
    """Return the existing files that a lock covers; the path itself if it is not a folder or glob."""
    is_glob = any(sign in lock for sign in "*?")
    folder = re.split(r"[*?]", lock, maxsplit=1)[0].rpartition("/")[0] if is_glob else lock
    try:
        below = files_below(_whole(space), folder or ".", limits.LOCK_FILES_WATCHED_MAX)
    except ToolError:
        return () if is_glob else (lock,)
    return [each.path for each in below if path_covers(lock, each.path)]


def _digest(space: Workspace, path: str) -> str | None:
    """The digest of a file, or None. For a file too large to read, its metadata."""
    try:
        with _whole(space).spot(path, "read", "shell") as spot:
            return digest_at(spot, limits.LOCK_FILE_BYTES_MAX)
    except (ToolError, OSError):
        return _mark(space.folder / path)


def _mark(path: Path) -> str | None:
    try:
        seen = path.lstat()
    except OSError:
        return None
    return None if stat.S_ISDIR(seen.st_mode) else f"{seen.st_mode}.{seen.st_ino}.{seen.st_size}.{seen.st_mtime_ns}"


def _whole(space: Workspace) -> Workspace:
    """Return the workspace of the whole plan folder, without the limits of the agent's rights."""
    return Workspace(space.folder, space.folder)


def _changed(space: Workspace, noted: JsonObject) -> dict[str, tuple[str | None, str]]:
    """Return the files that changed since they were recorded, with the locks that cover them."""
    before, now = noted["files"], _digests(space, noted["locks"])
    gone = {path: (_digest(space, path), lock) for path, (_, lock) in before.items() if path not in now}
    # Beyond the limit it is unknown which files are new.
    known = before.keys() if len(before) >= limits.LOCK_FILES_WATCHED_MAX else before.keys() | now.keys()
    found = {path: one for path, one in {**now, **gone}.items() if path in known}
    return {path: one for path, one in found.items() if one[0] != (before[path][0] if path in before else None)}


def _is_theirs(context: ToolContext, path: str, digest: str | None, owner: str, fence: int) -> bool:
    """Whether the holder may have made the change: it wrote the file, released the lock, or has a running process."""
    view = context.services.store.view
    locks = (lock_status_from_json(lock.status).holders.get(owner) for lock in view.list("lock"))
    if not any(held is not None and held.fence == fence for held in locks):
        return True
    holder = view.get(owner.replace("task/", "agent/", 1))
    if holder is None:
        return True
    has_written = digest is not None and holder.status.get("files", {}).get(path) == digest
    return has_written or any(
        call.spec.get("is_process") and call.state == CallState.STARTED for call in view.owned_by(holder.address)
    )


def _notice(context: ToolContext, agent: ObservedAgent, owner: str, guilty: Mapping[str, str]) -> tuple[Change, ...]:
    """The changes that tell a lock holder about its files."""
    paths = ", ".join(f"`{path}`" for path, whose in sorted(guilty.items()) if whose == owner)
    receiver = owner.replace("task/", "agent/", 1)
    command = str(context.spec.arguments.get("command", ""))[: limits.LOCK_REASON_CHARS_MAX]
    body = (
        f"{paths}: changed under your lock by a shell command of {agent.resource.address} (`{command}`). "
        "Read it again before you go on."
    )
    message = Message(f"{context.spec.op}.violated", "state", agent.resource.address, receiver, body, agent.now)
    delivered = message_policy.delivery_changes(context.services.store.view, message, is_counted=False)
    return () if isinstance(delivered, message_policy.DeliveryRefused) else delivered


def _tier(agent: ObservedAgent) -> int:
    sandbox = agent.spec.sandbox
    tier = sandbox.get("tier", 0) if isinstance(sandbox, dict) else sandbox
    return tier if isinstance(tier, int) else 0


async def shell(
    context: ToolContext,
    command: Annotated[str, Field(min_length=1)],
    timeout_s: Annotated[
        float | None,
        Field(gt=0, validation_alias=AliasChoices("timeout", "timeout_s"), description="Seconds, at most 600."),
    ] = None,
) -> Settlement:
    """Run a /bin/sh command in the workspace. Returns the exit code, and stdout and stderr mixed."""
    context.workspace.ensure()
    wanted = shell_command(context, command, timeout_s)
    await note_watched_files(context)
    found = await context.services.programs.processes.run(context.spec.op, wanted)
    return await shell_settlement(context, found)


def shell_command(context: ToolContext, line: str, timeout_s: float | None) -> ProcessCommand:
    """Return the process of a shell line, with the agent's sandbox, environment and remaining time."""
    sandbox = context.seen.spec.sandbox
    bounds: JsonObject = sandbox if isinstance(sandbox, dict) else {}
    return ProcessCommand(
        cwd=str(context.workspace.root),
        shell=line,
        env=command_environment(context.services, context.seen),
        timeout_s=command_timeout_s(context, timeout_s),
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        memory_bytes_max=bounds.get("memory"),
        processes_max=bounds.get("processes"),
        sandbox=run_environment.agent_sandbox(context.services, context.seen),
    )


def command_timeout_s(context: ToolContext, wanted_s: float | None) -> float:
    """Return the timeout of a command in seconds: the least of the request and the limits of calls, mixins, budget."""
    bounds = [limits.CALL_TIMEOUT_S, wanted_s, context.time_s, context.seen.budget.left.get("time_s")]
    return min(bound for bound in bounds if bound is not None)


async def shell_settlement(context: ToolContext, found: ProcessExit) -> Settlement:
    """Return the settlement of an ended process."""
    late, lost = "the command timed out and was stopped", "the command was started, but its outcome is unknown"
    settled = Settlement(command_result(context, found, late=late, lost=lost))
    return await settle_command(context, settled)
