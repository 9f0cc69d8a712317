"""The file tools. A file is written only by an agent that has read it as it is now: by content digest, per agent.

The digest names a blob with what was read, so the difference can be shown, and an interrupted `edit` can be told from
one that happened. Reading counts for the whole file, whatever range was shown.
"""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from pydantic import AliasChoices, Field

from controllers.agent.calling import holding
from controllers.agent.tools.comparing import difference
from controllers.agent.tools.faults import ToolFailed
from controllers.agent.tools.finding import files_below, hits_in
from controllers.agent.tools.tool import Context, Settlement, failure, ok
from controllers.agent.tools.workspace import Spot, digest_at, read_file, replace_file
from reconciler.effects.clamping import clamped
from schemas import limits, patterns
from schemas.encoding import Json, JsonObject, digest

PathText = Annotated[str, Field(description="Relative to the workspace.")]


def read(
    context: Context,
    path: PathText,
    first: Annotated[int, Field(ge=1, description="First line to show, from 1.")] = 1,
    lines: Annotated[int | None, Field(ge=1, description="How many lines to show; all when left out.")] = None,
) -> Settlement:
    """Reads a text file, or a range of its lines. A file must be read before it can be written."""
    with context.workspace.spot(path, "read", "read") as spot:
        content = read_file(spot)
    shown = content
    if first > 1 or lines is not None:
        every = content.splitlines(keepends=True)
        shown = b"".join(every[first - 1 : None if lines is None else first - 1 + lines])
    text = clamped(shown, limits.FILE_SHOWN_BYTES)
    return Settlement(ok(text), agent={"files": remembered(context, spot.path, content)})


async def write(
    context: Context,
    path: PathText,
    content: Annotated[
        str, Field(validation_alias=AliasChoices("content", "text"), description="The whole new content.")
    ],
) -> Settlement:
    """Writes a whole file: a new one, or one that you have read and that has not changed since."""
    wanted = _encoded(content)
    with context.workspace.spot(path, "write", "write", makes_folders=True) as spot:
        current = digest_at(spot)
        if current == digest(wanted):
            return _written(context, spot, wanted, "already is as you want it")
        if current is not None and (fault := _unseen(context, spot, current)) is not None:
            return fault
        return _put(context, spot, wanted, current)


async def edit(
    context: Context,
    path: PathText,
    old: Annotated[str, Field(min_length=1, description="The exact text to replace.")],
    new: Annotated[str, Field(description="What takes its place.")],
    every: Annotated[bool, Field(description="Replace every occurrence, not exactly one.")] = False,
) -> Settlement:
    """Replaces a stretch of a file that you have read. `old` must occur exactly once unless `every` is true."""
    with context.workspace.spot(path, "write", "edit") as spot:
        content = read_file(spot)
        current = digest(content)
        known = context.seen.status.files.get(spot.path)
        before = None if known is None else context.world.store.get_blob(known)
        if before is not None and known != current and _edited(before, old, new, every) == content:
            # It happened, and the owner died before it was recorded.
            return _written(context, spot, content, "was edited already")
        if (fault := _unseen(context, spot, current)) is not None:
            return fault
        changed = _edited(content, old, new, every)
        if changed is None:
            count = content.count(old.encode())
            raise ToolFailed("NoMatch", f"`old` occurs {count} times in `{spot.path}`, not exactly once")
        if len(changed) > limits.FILE_BYTES_MAX:
            raise ToolFailed(
                "TooLarge", f"the file would have {len(changed)} bytes; the most is {limits.FILE_BYTES_MAX}"
            )
        return _put(context, spot, changed, current)


def list_files(
    context: Context,
    path: PathText = ".",
    glob: Annotated[str, Field(description="Which files, as in `src/**`; relative to `path`.")] = "**",
) -> Settlement:
    """Lists the files below a folder, with their sizes in bytes."""
    found = files_below(context.workspace, path, limits.FILES_LISTED_MAX + 1)
    kept = [each for each in found if patterns.any_path([glob], each.below)]
    lines = [f"{each.below}  {each.size_bytes}" for each in kept[: limits.FILES_LISTED_MAX]]
    if len(found) > limits.FILES_LISTED_MAX:
        lines.append(f"[… more than {limits.FILES_LISTED_MAX} files; name a folder …]")
    return Settlement(ok("\n".join(lines) or "no files", [each.below for each in kept]))


async def search(
    context: Context,
    text: Annotated[str, Field(min_length=1, description="The text to find; not a regular expression.")],
    path: PathText = ".",
    glob: Annotated[str, Field(description="Which files, as in `**/*.py`; relative to `path`.")] = "**",
    any_case: Annotated[bool, Field(description="Take capitals and small letters for the same.")] = False,
) -> Settlement:
    """Finds a text in files; gives path, line number and line of each hit."""
    # A thread, because twenty thousand files take a while and the loop serves every other agent.
    hits = await anyio.to_thread.run_sync(lambda: hits_in(context.workspace, path, glob, text, any_case))
    return Settlement(ok(clamped("\n".join(hits).encode(), limits.FILE_SHOWN_BYTES) or "no hits", hits))


def remembered(context: Context, path: str, content: bytes) -> JsonObject:
    """The merge that says that the agent knows `content` of `path`; the oldest is forgotten over the bound."""
    known = context.seen.status.files
    surplus = len(known) + (path not in known) - limits.FILES_SEEN_MAX
    out: dict[str, Json] = {each: None for each in list(known)[: max(0, surplus)]}
    return out | {path: context.world.store.put_blob(content)}


def _encoded(text: str) -> bytes:
    content = text.encode(errors="surrogateescape")
    if len(content) > limits.FILE_BYTES_MAX:
        raise ToolFailed("TooLarge", f"{len(content)} bytes; the most for one file is {limits.FILE_BYTES_MAX}")
    return content


def _edited(content: bytes, old: str, new: str, every: bool) -> bytes | None:
    count = content.count(old.encode())
    return content.replace(old.encode(), new.encode()) if count == 1 or (every and count) else None


def _unseen(context: Context, spot: Spot, current: str) -> Settlement | None:
    """The refusal for a file that the agent does not know as it is; None when it does."""
    known = context.seen.status.files.get(spot.path)
    if known == current:
        return None
    if known is None:
        return Settlement(failure("NotRead", f"`{spot.path}` exists and you have not read it: read it first"))
    content = read_file(spot)
    shown = difference(context.world.store.get_blob(known), content, spot.path)
    text = f"`{spot.path}` changed since you read it; this is the difference, look and try again\n{shown}"
    # The agent has now been shown what is there: its next write is made in knowledge of it.
    return Settlement(failure("Changed", text), agent={"files": remembered(context, spot.path, content)})


def _put(context: Context, spot: Spot, content: bytes, current: str | None) -> Settlement:
    # The fence is looked at here, with nothing awaited before the file is written.
    if (refused := holding.write_fault(context, context.workspace.locked(spot.path))) is not None:
        return refused
    try:
        is_put = replace_file(spot, content, current, context.spec.op)
    except OSError as error:
        raise ToolFailed("NotWritable", f"`{spot.path}`: {error.strerror}") from error
    if not is_put:
        now = digest_at(spot)
        fault = None if now is None else _unseen(context, spot, now)
        return fault or Settlement(failure("Changed", f"`{spot.path}` was changed or removed meanwhile: read it again"))
    return _written(context, spot, content, f"written, {len(content)} bytes")


def _written(context: Context, spot: Spot, content: bytes, words: str) -> Settlement:
    files = remembered(context, spot.path, content)
    # What it was is what the agent knew: else it could not have been written. For who looks back at what was changed.
    wrote = {"by": context.agent, "path": spot.path, "before": context.seen.status.files.get(spot.path)}
    data: JsonObject = {"wrote": wrote | {"after": files[spot.path]}}
    return Settlement(ok(f"`{spot.path}` {words}"), agent={"files": files}, data=data)
