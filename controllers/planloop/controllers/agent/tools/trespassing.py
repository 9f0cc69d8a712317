"""What a shell command did to files that others hold: their digests before and after it are compared.

The one way round the locks is a command, which may write what it likes below a strong sandbox. So what others hold is
looked at, within bounds, and a change that its holder did not make is told to both, noted in the record of the call and
a condition of the agent that ran the command.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio.to_thread

from planloop.controllers.agent.calling.workspaces import folder_of
from planloop.controllers.agent.conditions import condition_merge
from planloop.controllers.agent.mail import inbox
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.tools.faults import ToolFault
from planloop.controllers.agent.tools.finding import files_below
from planloop.controllers.agent.tools.tool import Context, Settlement
from planloop.controllers.agent.tools.workspace import Workspace, digest_at
from planloop.controllers.leases import covers
from planloop.controllers.leases.granting import place_of
from planloop.controllers.leases.owners import is_above
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.call import CallState
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.lock import status_from_json
from planloop.schemas.message import Message
from planloop.schemas.record import Change, Draft, SetStatus

VIOLATED: Final = "LockViolated"
"""The condition of an agent whose command changed what others hold."""

WATCHED: Final = "watched"
"""In the status of a shell call: the locks of others as it began, and the digests of the files that they cover."""

_STRONG_TIER: Final = 2  # From here on only what is held can be written.


async def watched(context: Context) -> None:
    """Notes in the call what others hold, before its command begins, unless its sandbox keeps it from all that."""
    if _tier(context.seen) < _STRONG_TIER:
        await noted(context)


async def noted(context: Context) -> None:
    """The same for a command that no sandbox of the agent's keeps from anything; nothing is written of nothing."""
    held = held_by_others(context.seen, context.world.store.view, context.workspace)
    if not held:
        return
    # A thread: some of the files are large, and the loop serves every other agent.
    found = await anyio.to_thread.run_sync(_digests, context.workspace, held)
    files: JsonObject = {path: [digest, lock] for path, (digest, lock) in found.items()}
    store, call = context.world.store, context.world.store.view.get(context.call.address)
    if call is None or call.uid != context.call.uid:
        return  # It was called off meanwhile.
    change = SetStatus(call.address, call.uid, {WATCHED: {"locks": held, "files": files}})
    draft = Draft("call.progressed", "controller:agent", call.address, (change,), {"watched": len(found)})
    await store.append(draft, {call.address: call.rev})


async def judged(context: Context, ending: Settlement) -> Settlement:
    """The ending of a command with what it did to files of others, if it did."""
    call = context.world.store.view.get(context.call.address)
    noted: JsonObject = {} if call is None else call.status.get(WATCHED, {})
    # What it did counts also where the workspace is none any more: others' files are looked at in the whole folder.
    folder = folder_of(context.world, context.seen)
    changed = {} if not noted else await anyio.to_thread.run_sync(_changed, Workspace(folder, folder), noted)
    found = {path: (digest, *noted["locks"][lock]) for path, (digest, lock) in changed.items()}
    guilty = {path: str(one[1]) for path, one in found.items() if not _is_theirs(context, path, *one)}
    ending = consequences(context, ending, guilty)
    if not guilty:
        return ending
    lines = "\n".join(f"`{path}`, which {owner} holds" for path, owner in sorted(guilty.items()))
    text = f"{ending.result.text}\n[this command changed files that others hold, and they are told:\n{lines}]"
    return replace(ending, result=replace(ending.result, text=text.lstrip("\n")))


def consequences(context: Context, ending: Settlement, guilty: Mapping[str, str]) -> Settlement:
    """Return `ending` with what else follows from `guilty`: the holders of the files that the command changed, by path.

    Each holder gets a message, and the caller a condition, which stands until a command of it changes no such file.
    """
    seen = replace(context.seen, now=context.world.clock.now())
    if not guilty:
        return replace(ending, agent={**ending.agent, **condition_merge(context.seen, VIOLATED, "")})
    words = f"a command changed {', '.join(sorted(guilty))}, which others hold"
    merge = condition_merge(seen, VIOLATED, words)
    told = [change for owner in dict.fromkeys(guilty.values()) for change in _telling(context, seen, owner, guilty)]
    return replace(
        ending,
        changes=(*ending.changes, *told),
        agent={**ending.agent, **merge},
        data={**ending.data, "violated": dict(guilty)},
    )


def held_by_others(seen: Observed, view: View, space: Workspace) -> dict[str, Json]:
    """The locks that keep this agent from writing what they cover in its tree: their owner and fence, by path."""
    found: dict[str, Json] = {}
    for lock in view.list("lock"):
        for owner, holder in status_from_json(lock.status).holders.items():
            path = space.unlocked(place_of(lock))
            if path is not None and not is_above(owner, seen.resource.address):
                found[path] = [owner, holder.fence]
    return found


def _digests(space: Workspace, locks: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    """By path the digest of each file that one of `locks` covers, with that lock; at most so many, none too large."""
    found: dict[str, tuple[str | None, str]] = {}
    for lock in sorted(locks):
        for path in _files_of(space, lock):
            if len(found) >= limits.LOCK_FILES_WATCHED_MAX:
                return found
            found.setdefault(path, (_digest(space, path), lock))
    return found


def _files_of(space: Workspace, lock: str) -> Iterable[str]:
    """The files that a lock covers, as they are; the path itself where it names no folder and no files."""
    is_glob = any(sign in lock for sign in "*?")
    folder = re.split(r"[*?]", lock, maxsplit=1)[0].rpartition("/")[0] if is_glob else lock
    try:
        below = files_below(_whole(space), folder or ".", limits.LOCK_FILES_WATCHED_MAX)
    except ToolFault:
        return () if is_glob else (lock,)
    return [each.path for each in below if covers(lock, each.path)]


def _digest(space: Workspace, path: str) -> str | None:
    """None for a file that is not there. Of what is too large to be read or no file, what changes when it does."""
    try:
        with _whole(space).spot(path, "read", "shell") as spot:
            return digest_at(spot, limits.LOCK_FILE_BYTES_MAX)
    except (ToolFault, OSError):
        return _mark(space.folder / path)


def _mark(path: Path) -> str | None:
    try:
        seen = path.lstat()
    except OSError:
        return None
    return None if stat.S_ISDIR(seen.st_mode) else f"{seen.st_mode}.{seen.st_ino}.{seen.st_size}.{seen.st_mtime_ns}"


def _whole(space: Workspace) -> Workspace:
    """The plan's folder as the owner sees it: whose rights end where does not matter for what was changed."""
    return Workspace(space.folder, space.folder)


def _changed(space: Workspace, noted: JsonObject) -> dict[str, tuple[str | None, str]]:
    """What is other than it was noted, with the lock that covers it."""
    before, now = noted["files"], _digests(space, noted["locks"])
    gone = {path: (_digest(space, path), lock) for path, (_, lock) in before.items() if path not in now}
    # Of more files than are looked at, nobody can say which are new.
    known = before.keys() if len(before) >= limits.LOCK_FILES_WATCHED_MAX else before.keys() | now.keys()
    found = {path: one for path, one in {**now, **gone}.items() if path in known}
    return {path: one for path, one in found.items() if one[0] != (before[path][0] if path in before else None)}


def _is_theirs(context: Context, path: str, digest: str | None, owner: str, fence: int) -> bool:
    """Whether the holder may have made the change: it wrote the file, let go, or has a process that could have."""
    view = context.world.store.view
    locks = (status_from_json(lock.status).holders.get(owner) for lock in view.list("lock"))
    if not any(held is not None and held.fence == fence for held in locks):
        return True
    holder = view.get(owner.replace("task/", "agent/", 1))
    if holder is None:
        return True
    has_written = digest is not None and holder.status.get("files", {}).get(path) == digest
    return has_written or any(
        call.spec.get("is_process") and call.state == CallState.STARTED for call in view.owned_by(holder.address)
    )


def _telling(context: Context, seen: Observed, owner: str, guilty: Mapping[str, str]) -> tuple[Change, ...]:
    """The changes that tell the holder what became of its files."""
    paths = ", ".join(f"`{path}`" for path, whose in sorted(guilty.items()) if whose == owner)
    receiver = owner.replace("task/", "agent/", 1)
    command = str(context.spec.arguments.get("command", ""))[: limits.LOCK_REASON_CHARS_MAX]
    body = (
        f"{paths}: changed under your lock by a shell command of {seen.resource.address} (`{command}`). "
        "Read it again before you go on."
    )
    message = Message(f"{context.spec.op}.violated", "state", seen.resource.address, receiver, body, seen.now)
    delivered = inbox.delivery(context.world.store.view, message, is_counted=False)
    return () if isinstance(delivered, inbox.Refusal) else delivered


def _tier(seen: Observed) -> int:
    sandbox = seen.spec.sandbox
    tier = sandbox.get("tier", 0) if isinstance(sandbox, dict) else sandbox
    return tier if isinstance(tier, int) else 0
