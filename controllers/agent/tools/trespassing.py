"""What a shell command did to files that others hold: their digests before and after it are compared.

The one way round the locks is a command, which may write what it likes below a strong sandbox. So what others hold is
looked at, within bounds, and a change that its holder did not make is told to both, noted in the record of the call and
a condition of the agent that ran the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import anyio.to_thread

from controllers.agent import inbox
from controllers.agent.conditions import condition_merge
from controllers.agent.observing import Observed
from controllers.agent.tools.faults import ToolFault
from controllers.agent.tools.finding import files_below
from controllers.agent.tools.tool import Context, Settlement
from controllers.agent.tools.workspace import Workspace, digest_at
from controllers.leases.owners import is_above
from reconciler.storing.store import View
from schemas import limits, patterns
from schemas.encoding import JsonObject
from schemas.lock import status_from_json
from schemas.message import Message
from schemas.record import Change, Draft, SetStatus

VIOLATED: Final = "LockViolated"
"""The condition of an agent whose command changed what others hold."""

WATCHED: Final = "watched"
"""In the status of a shell call: by path the digest of what others held as it began, and whose it was."""

_STRONG_TIER: Final = 2  # From here on only what is held can be written.


async def watched(context: Context) -> None:
    """Notes in the call what others hold, before its command begins; nothing is written when that is nothing."""
    held = held_by_others(context.seen, context.world.store.view)
    if not held or _tier(context.seen) >= _STRONG_TIER:
        return
    # A thread: some of the files are large, and the loop serves every other agent.
    found = await anyio.to_thread.run_sync(_digests, context.workspace, held)
    if not found:
        return
    merge: JsonObject = {WATCHED: {path: [digest, *held[lock]] for path, (digest, lock) in found.items()}}
    store, call = context.world.store, context.call
    change = SetStatus(call.address, call.uid, merge)
    await store.append(Draft("call.progressed", "controller:agent", call.address, (change,), {"watched": len(found)}))


async def judged(context: Context, ending: Settlement) -> Settlement:
    """The ending of a command with what it did to files of others, if it did."""
    call = context.world.store.view.get(context.call.address)
    noted: JsonObject = {} if call is None else call.status.get(WATCHED, {})
    if not noted:
        return ending
    seen = replace(context.seen, now=context.world.clock.now())
    changed = await anyio.to_thread.run_sync(_changed, context.workspace, noted)
    guilty = {
        path: str(noted[path][1])
        for path, digest in changed.items()
        if not _is_theirs(context, noted[path], path, digest)
    }
    if not guilty:
        return ending
    lines = "\n".join(f"`{path}`, which {owner} holds" for path, owner in sorted(guilty.items()))
    text = f"{ending.result.text}\n[this command changed files that others hold; they are told. Put it right:\n{lines}]"
    words = f"a command changed {', '.join(sorted(guilty))}, which others hold"
    merge = condition_merge(seen, VIOLATED, words, unblocks=("the holders agree",))
    told = [change for owner in dict.fromkeys(guilty.values()) for change in _telling(context, seen, owner, guilty)]
    return replace(
        ending,
        result=replace(ending.result, text=text.lstrip("\n")),
        changes=(*ending.changes, *told),
        agent={**ending.agent, **merge},
        data={**ending.data, "violated": dict(guilty)},
    )


def held_by_others(seen: Observed, view: View) -> dict[str, tuple[str, int]]:
    """The locks that keep this agent from writing what they cover: their owner and fence, by path."""
    found: dict[str, tuple[str, int]] = {}
    for lock in view.list("lock"):
        for owner, holder in status_from_json(lock.status).holders.items():
            if not is_above(owner, seen.resource.address):
                found[str(lock.status.get("place") or lock.spec["path"])] = (owner, holder.fence)
    return found


def _digests(space: Workspace, locks: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    """By path the digest of each file that one of `locks` covers, with that lock; at most so many, none too large."""
    found: dict[str, tuple[str | None, str]] = {}
    for lock in sorted(locks):
        here = space.unlocked(lock)  # None: it is about a file of another tree.
        for path in () if here is None else _files_of(space, here):
            if len(found) >= limits.LOCK_FILES_WATCHED_MAX:
                return found
            found.setdefault(path, (_digest(space, path), lock))
    return found


def _files_of(space: Workspace, lock: str) -> Iterable[str]:
    if not any(sign in lock for sign in "*?"):
        return (lock,)
    fixed = re.split(r"[*?]", lock, maxsplit=1)[0].rpartition("/")[0]
    try:
        below = files_below(_whole(space), fixed or ".", limits.LOCK_FILES_WATCHED_MAX)
    except ToolFault:
        return ()
    paths = (f"{fixed}/{each.below}" if fixed else each.below for each in below)
    return (path for path in paths if patterns.any_path((lock,), path))


def _digest(space: Workspace, path: str) -> str | None:
    """None for a file that is not there, or cannot be looked at."""
    try:
        with _whole(space).spot(path, "read", "shell") as spot:
            return digest_at(spot, limits.LOCK_FILE_BYTES_MAX)
    except (ToolFault, OSError):
        return None


def _whole(space: Workspace) -> Workspace:
    """The plan's folder as the owner sees it: whose rights end where does not matter for what was changed."""
    return Workspace(space.folder, space.folder)


def _changed(space: Workspace, noted: JsonObject) -> dict[str, str | None]:
    now = {path: _digest(space, path) for path in noted}
    return {path: digest for path, digest in now.items() if digest != noted[path][0]}


def _is_theirs(context: Context, noted: list[object], path: str, digest: str | None) -> bool:
    """Whether the holder may have made the change: it wrote the file, let go, or has a process that could have."""
    view = context.world.store.view
    _, owner, fence = noted
    locks = (status_from_json(lock.status).holders.get(str(owner)) for lock in view.list("lock"))
    if not any(held is not None and held.fence == fence for held in locks):
        return True
    holder = view.get(str(owner).replace("task/", "agent/", 1))
    if holder is None:
        return True
    return holder.status.get("files", {}).get(path) == digest or any(
        call.spec.get("is_process") and call.state == "Started" for call in view.owned_by(holder.address)
    )


def _telling(context: Context, seen: Observed, owner: str, guilty: dict[str, str]) -> tuple[Change, ...]:
    """The changes that tell the holder what became of its files."""
    paths = sorted(path for path, whose in guilty.items() if whose == owner)
    receiver = owner.replace("task/", "agent/", 1)
    body: JsonObject = {
        "violated": paths,
        "by": seen.resource.address,
        "command": str(context.spec.arguments.get("command", ""))[: limits.LOCK_REASON_CHARS_MAX],
        "look": "read them again before you go on: a shell command of another agent changed them under your lock",
    }
    message = Message(f"{context.spec.op}.violated", "state", seen.resource.address, receiver, body, seen.now)
    delivered = inbox.delivery(context.world.store.view, message, is_counted=False)
    return () if isinstance(delivered, inbox.Refusal) else delivered


def _tier(seen: Observed) -> int:
    sandbox = seen.spec.sandbox
    tier = sandbox.get("tier", 0) if isinstance(sandbox, dict) else sandbox
    return tier if isinstance(tier, int) else 0
