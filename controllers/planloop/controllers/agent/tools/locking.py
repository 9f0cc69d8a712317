"""`lock` and `release`: files that an agent takes for itself beyond the locks that its writes bring with them.

All or none of what is asked for is taken, until it is given back or the task ends. Who may not write a file may not
keep others from it: a write lock needs the right to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Final

from pydantic import Field

from planloop.controllers import leases
from planloop.controllers.agent.calling import holding
from planloop.controllers.agent.calling.holding import Wish
from planloop.controllers.agent.tools import placing
from planloop.controllers.agent.tools.faults import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.placing import Within
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, ok
from planloop.controllers.agent.tools.workspace import CLOSED, Workspace
from planloop.controllers.leases import Granted, Wants
from planloop.schemas import limits, patterns
from planloop.schemas.lock import LockMode

_WILD: Final = frozenset("*?")

PathTexts = Annotated[list[str], Field(min_length=1, max_length=limits.LOCKS_AT_ONCE_MAX)]


def lock(
    context: Context,
    paths: Annotated[PathTexts, Field(description="Files or globs such as `src/**`, relative to the workspace.")],
    mode: Annotated[
        LockMode, Field(description="`write` keeps everybody else out; `read` keeps writers out.")
    ] = "write",
    reason: Annotated[str, Field(max_length=limits.LOCK_REASON_CHARS_MAX, description="Others are told it.")] = "",
    wait_s: Annotated[
        float | None,
        Field(ge=0, le=limits.LOCK_WAIT_MAX_S, description="Seconds to wait when others hold it; 0: do not wait."),
    ] = None,
) -> Ending:
    """Takes files for yourself, all of them or none, until you `release` them or your task ends.

    Writing takes a lock by itself; use this to keep files from others for longer, or before you read them.
    """
    seen, view = context.seen, context.world.store.view
    wants: Wants = {_locked_path(context, path, mode): mode for path in paths}
    if (wait := holding.behind(seen, view, wants, wait_s)) is not None:
        return wait
    kept = holding.kept_of(seen, view, wants, "asked")
    found = leases.granted(view, holding.owner_of(seen), wants, kept, reason, seen.now)
    if isinstance(found, Granted):
        return Settlement(ok(f"you hold {holding.named(wants)}"), found.changes, data={"fences": found.fences})
    if wait_s == 0:
        return holding.refused(seen, view, found.blockers)
    bound_s = limits.LOCK_WAIT_S if wait_s is None else wait_s
    return holding.waiting(seen, view, context.call, Wish(wants, kept, reason, bound_s), found.blockers)


def release(
    context: Context,
    paths: Annotated[
        PathTexts | None, Field(description="What to give back, as you locked it; all you hold when left out.")
    ] = None,
) -> Settlement:
    """Gives locks back at once, so that whoever waits for them can go on."""
    seen, view = context.seen, context.world.store.view
    owner = holding.owner_of(seen)
    # What the plan declares is its task's, not the agent's to give.
    mine = {path for path, one in leases.held(view, owner) if one.owner == owner.address}
    wanted = mine if paths is None else {called(context, path) for path in paths}
    if missing := wanted - mine:
        raise ToolFailed("NotHeld", f"you do not hold {holding.named(missing)}")
    if not wanted:
        return Settlement(ok("you hold no locks"))
    # A glob is given back with what lies in it.
    given = {path for path in mine if any(leases.covers(each, path) for each in wanted)}
    changes = leases.released(view, owner, paths=given)
    return Settlement(ok(f"given back: {holding.named(given)}"), changes, data={"released": sorted(given)})


def written(context: Context) -> Mapping[str, LockMode]:
    """The file that a call of `write` or `edit` is about, wherever it is; none when the tool itself will refuse it."""
    with suppress(ToolDenied, ToolFailed):
        return {placing.locked(context, str(context.spec.arguments.get("path") or "")): "write"}
    return {}


def dumped(context: Context) -> Mapping[str, LockMode]:
    """The file of this machine that a call of `dump` is about."""
    return named("path", context)


def named(argument: str, context: Context) -> Mapping[str, LockMode]:
    """The files of this machine that the call's argument of that name leads to, one or a list; others are left."""
    given = context.spec.arguments.get(argument)
    paths = given if isinstance(given, list) else [given]
    found = dict[str, LockMode]()
    for path in paths:
        with suppress(ToolDenied, ToolFailed):
            if isinstance(path, str) and path:
                space = context.workspace
                found[space.locked(space.leads_to(path))] = "write"
    return found


def called(context: Context, path: str) -> str:
    """The canonical path or glob as locks name it. Raises ToolDenied and ToolFailed."""
    found, space = placing.placed(context, path), context.workspace
    return found.lock if isinstance(found, Within) else space.locked(canonical(space, found))


def _locked_path(context: Context, path: str, mode: LockMode) -> str:
    """The same, if the agent may have it. Raises ToolDenied and ToolFailed."""
    placed, space = placing.placed(context, path), context.workspace
    if isinstance(placed, Within):
        placing.admit(context, placed, mode, "lock")
        return placed.lock
    found = canonical(space, placed)
    if closed := CLOSED & {name.casefold() for name in found.split("/")}:  # Forks' files have their names from there.
        raise ToolDenied(f"`{found}`: {min(closed)} is no place to work in, and nothing there can be locked")
    globs = space.read if mode == "read" else space.write
    if not patterns.any_path(globs, found):
        raise ToolDenied(f"`{found}` may not be {'read' if mode == 'read' else 'written'}: rights allow {globs}")
    if denial := patterns.denied_by(space.deny, "lock", (found,)):
        raise ToolDenied(f"`{found}` is denied by `{denial}`")
    if not space.allows("lock", found):
        raise ToolDenied(f"`{found}`: rights allow `lock` on other paths only")
    return space.locked(found)


def canonical(space: Workspace, path: str) -> str:
    """The path after links, relative to the plan's folder; of a glob the names before its first wildcard are walked.

    Raises ToolDenied and ToolFailed: BadPath for a glob that steps back from what it may be about.
    """
    names = path.split("/")
    fixed = next((index for index, name in enumerate(names) if _WILD & set(name)), len(names))
    if fixed == len(names):
        return space.leads_to(path)
    base = space.leads_to("/".join(names[:fixed]) or ("/" if path.startswith("/") else "."))
    rest = [name for name in names[fixed:] if name not in ("", ".")]
    if ".." in rest:
        raise ToolFailed("BadPath", f"`{path}` steps back behind a wildcard: name the folder itself")
    return "/".join((*(() if base == "." else (base,)), *rest))
