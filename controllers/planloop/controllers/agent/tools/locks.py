"""The lock tools: `lock` and `release` files, `contest` a lock (opens a conflict), and `resolve` a conflict."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Final

from pydantic import Field

from planloop.controllers.agent.conflicts import decide, detection, resolution
from planloop.controllers.agent.conflicts.detection import OpenedConflict
from planloop.controllers.agent.conflicts.resolution import ConflictResolution, InvalidResolution, ResolutionRequest
from planloop.controllers.agent.tools import file_target
from planloop.controllers.agent.tools.errors import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.file_target import ContainerPath
from planloop.controllers.agent.tools.plan import live_document, verdict_settlement
from planloop.controllers.agent.tools.tool import CallEnding, Settlement, ToolContext, success
from planloop.controllers.agent.tools.workspace import CLOSED_NAMES, Workspace, outside_rights
from planloop.controllers.agent.turn import call_locks
from planloop.controllers.agent.turn.call_locks import LockWait, name_paths
from planloop.controllers.shared.leases import grants, lock_paths
from planloop.controllers.shared.leases.grants import LocksGranted, Wants
from planloop.schemas import limits, patterns
from planloop.schemas.log.patch import Patch, PatchAccepted
from planloop.schemas.objects.conflict import PERSON, ConflictParty, RulingKind, party_name
from planloop.schemas.objects.lock import LockMode

# A call of `lock` takes all files or none, until they are released or the task ends. Writes take their own locks in
# addition. A write lock needs the right to write.

_WILD: Final = frozenset("*?")

PathTexts = Annotated[list[str], Field(min_length=1, max_length=limits.LOCKS_AT_ONCE_MAX)]


def lock(
    context: ToolContext,
    paths: PathTexts,
    mode: LockMode = "write",
    reason: Annotated[str, Field(max_length=limits.LOCK_REASON_CHARS_MAX)] = "",
    wait_s: Annotated[float | None, Field(ge=0, le=limits.LOCK_WAIT_MAX_S)] = None,
) -> CallEnding:
    """Lock files or globs (`src/**`), all or none, until you `release` them or your task ends.

    `write` and `edit` lock by themselves: lock to keep others out longer, or before you read. `read` locks keep out
    writers only. Others see the reason. 0 seconds: do not wait for holders.
    """
    seen, view = context.seen, context.services.store.view
    wants: Wants = {_locked_path(context, path, mode): mode for path in paths}
    if (wait := call_locks.wait_behind(seen, view, wants, wait_s)) is not None:
        return wait
    kept = call_locks.lock_duration(seen, view, wants, "asked")
    found = grants.grant_locks(view, call_locks.lock_owner(seen), wants, kept, reason, seen.now)
    if isinstance(found, LocksGranted):
        return Settlement(
            success(f"you hold {call_locks.name_paths(wants)}"), found.changes, data={"fences": found.fences}
        )
    if wait_s == 0:
        return call_locks.refuse_locked(seen, view, found.blockers)
    bound_s = limits.LOCK_WAIT_S if wait_s is None else wait_s
    return call_locks.wait_for_locks(seen, view, context.call, LockWait(wants, kept, reason, bound_s), found.blockers)


def release(
    context: ToolContext,
    paths: PathTexts | None = None,
) -> Settlement:
    """Release locks, by default all, so that waiting agents can continue. Name paths as you locked them."""
    seen, view = context.seen, context.services.store.view
    owner = call_locks.lock_owner(seen)
    # Locks that the plan declares belong to the task; the agent cannot release them.
    mine = {path for path, one in grants.held_locks(view, owner) if one.owner == owner.address}
    wanted = mine if paths is None else {lock_name(context, path) for path in paths}
    if missing := wanted - mine:
        raise ToolFailed("NotHeld", f"you have no lock on {call_locks.name_paths(missing)}")
    if not wanted:
        return Settlement(success("you hold no locks"))
    # Releasing a glob releases all paths in it.
    given = {path for path in mine if any(lock_paths.path_covers(each, path) for each in wanted)}
    changes = grants.release_changes(view, owner, paths=given)
    return Settlement(success(f"released: {call_locks.name_paths(given)}"), changes, data={"released": sorted(given)})


def locks_of_write(context: ToolContext) -> Mapping[str, LockMode]:
    """Return the file that a call of `write` or `edit` locks; none if the tool will reject the path."""
    with suppress(ToolDenied, ToolFailed):
        return {file_target.path_to_lock(context, str(context.spec.arguments.get("path") or "")): "write"}
    return {}


def locks_of_dump(context: ToolContext) -> Mapping[str, LockMode]:
    """Return the host file that a call of `dump` locks."""
    return locks_of_argument("path", context)


def locks_of_argument(argument: str, context: ToolContext) -> Mapping[str, LockMode]:
    """Return the host files named by this argument of the call, a path or a list. Invalid paths are skipped."""
    given = context.spec.arguments.get(argument)
    paths = given if isinstance(given, list) else [given]
    found = dict[str, LockMode]()
    for path in paths:
        with suppress(ToolDenied, ToolFailed):
            if isinstance(path, str) and path:
                space = context.workspace
                found[space.locked(space.leads_to(path))] = "write"
    return found


def lock_name(context: ToolContext, path: str) -> str:
    """Return the canonical name in locks of a path or glob. Raises ToolDenied and ToolFailed."""
    found, space = file_target.locate_path(context, path), context.workspace
    return found.lock if isinstance(found, ContainerPath) else space.locked(canonical_path(space, found))


def _locked_path(context: ToolContext, path: str, mode: LockMode) -> str:
    """The same, after a check of the agent's rights. Raises ToolDenied and ToolFailed."""
    placed, space = file_target.locate_path(context, path), context.workspace
    if isinstance(placed, ContainerPath):
        file_target.require_right(context, placed, mode, "lock")
        return placed.lock
    found = canonical_path(space, placed)
    if closed := CLOSED_NAMES & {
        name.casefold() for name in found.split("/")
    }:  # Forks' files have their names from there.
        raise ToolDenied(f"`{found}`: agents cannot work in {min(closed)}, so nothing there can be locked")
    globs = space.read if mode == "read" else space.write
    if not patterns.path_matches(globs, found):
        raise outside_rights(found, mode, globs)
    if denial := patterns.find_denial(space.deny, "lock", (found,)):
        raise ToolDenied(f"`{found}` is denied by `{denial}`")
    if not space.allows("lock", found):
        raise ToolDenied(f"`{found}`: rights allow `lock` on other paths only")
    return space.locked(found)


def canonical_path(space: Workspace, path: str) -> str:
    """Resolve the links in a path, or in the part of a glob before its first wildcard, relative to the plan's folder.

    Raises ToolDenied and ToolFailed: BadPath for a glob with `..` after a wildcard.
    """
    names = path.split("/")
    fixed = next((index for index, name in enumerate(names) if _WILD & set(name)), len(names))
    if fixed == len(names):
        return space.leads_to(path)
    base = space.leads_to("/".join(names[:fixed]) or ("/" if path.startswith("/") else "."))
    rest = [name for name in names[fixed:] if name not in ("", ".")]
    if ".." in rest:
        raise ToolFailed("BadPath", f"`{path}` has `..` after a wildcard: name the folder itself")
    return "/".join((*(() if base == "." else (base,)), *rest))


CONTESTED_MODE: Final[LockMode] = "write"


def contest(
    context: ToolContext,
    paths: Annotated[list[str], Field(min_length=1, max_length=limits.CONFLICT_PATHS_MAX)],
    intent: Annotated[str, Field(min_length=1, max_length=limits.CONFLICT_WORDS_MAX)],
    proposal: Annotated[str, Field(max_length=limits.CONFLICT_WORDS_MAX)] = "",
) -> Settlement:
    """Open a conflict with the agents that hold files or globs you need. Propose who does what, and when.

    Your nearest common ancestor decides. Until then you may `send` to each other. Do other work, wait with `lock`, or
    sleep.
    """
    view, wanted = context.services.store.view, tuple(sorted({lock_name(context, each) for each in paths}))
    owner, wants = grants.lock_owner(context.seen.resource), dict.fromkeys(wanted, CONTESTED_MODE)
    others = tuple(detection.holders_against(view, owner, wants))
    if not others:
        raise ToolFailed("NoConflict", f"no agent blocks {name_paths(wanted)}: take it with `lock`, or write")
    seen = context.seen
    party = ConflictParty(context.agent, seen.resource.uid, seen.status.incarnation, intent, proposal)
    made = detection.open_conflicts(view, party, others, wanted, "contest", seen.now)
    if not made:
        raise ToolFailed("TooMany", f"{limits.CONFLICTS_OPEN_MAX} conflicts are open, which is the limit: wait")
    words = ". ".join(_describe_opened(context, one) for one in made)
    found = [one.address for one in made]
    changes = tuple(change for one in made for change in one.changes)
    return Settlement(success(f"{words}. You get a message with the decision", {"conflicts": found}), changes)


def _describe_opened(context: ToolContext, made: OpenedConflict) -> str:
    """A conflict as text: its parties and who decides it."""
    above = decide.nearest_ancestor(context.agent, made.against)
    before = decide.nearest_able(context.services.store.view, above)
    decider = "a person" if before == PERSON else before
    state = "is open" if made.is_new else "is already open"
    return f"{made.address} {state} between you and {party_name(made.against)}; {decider} decides it"


async def resolve(
    context: ToolContext,
    conflict: Annotated[str, Field(min_length=1)],
    how: RulingKind,
    for_agent: str = "",
    plan: Annotated[str, Field(max_length=limits.CONFLICT_PLAN_MAX)] = "",
) -> Settlement:
    """Decide a conflict (`conflict/3`) between two agents below you. The plan changes immediately.

    The conflict's message explains `how` and `for_agent`. Both agents get your `plan`.
    """
    services = context.services
    try:
        made = resolution.plan_resolution(
            services.store.view,
            live_document(context),
            ResolutionRequest(conflict, how, for_agent, plan),
            context.author,
            services.clock.now(),
        )
    except InvalidResolution as error:
        raise ToolFailed(error.reason, str(error)) from None
    words = describe_resolution(made)
    if made.is_again:
        return Settlement(success(words))
    patch = Patch(context.author, made.ops, services.store.view.rev, words)
    verdict = await services.gate.rule(patch, made.changes, made.also)
    settlement = verdict_settlement(verdict, words)
    return (
        settlement
        if not isinstance(verdict, PatchAccepted)
        else Settlement(success("\n".join((words, *verdict.notes))))
    )


def describe_resolution(made: ConflictResolution) -> str:
    """Return the decision in one line."""
    return f"resolved as `{made.ruling.how}` for {party_name(made.ruling.for_agent)}"
