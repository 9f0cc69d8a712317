"""The file tools. A file is written only by an agent that has read it as it is now: by content digest, per agent.

The digest names a blob with what was read, so the difference can be shown, and an interrupted `edit` can be told from
one that happened. Reading counts for the whole file, whatever range was shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Annotated

import anyio.to_thread
from pydantic import AliasChoices, Field

from controllers.agent.calling import holding
from controllers.agent.tools import inner_files
from controllers.agent.tools.comparing import difference
from controllers.agent.tools.faults import ToolFailed
from controllers.agent.tools.finding import Found, files_below, hits_in
from controllers.agent.tools.placing import Within, admit, placed, shows
from controllers.agent.tools.targets import Target, target
from controllers.agent.tools.tool import Context, Settlement, failure, ok
from controllers.agent.tools.workspace import read_file
from reconciler.effects.clamping import clamped
from schemas import limits, patterns
from schemas.encoding import Json, JsonObject, digest

PathText = Annotated[str, Field(description="Relative to the workspace.")]


def read(
    context: Context,
    path: PathText,
    first: Annotated[int, Field(ge=1, description="First line to show, from 1.")] = 1,
    lines: Annotated[int | None, Field(ge=1, description="How many lines to show; all when left out.")] = None,
) -> Settlement | Awaitable[Settlement]:
    """Reads a text file, or a range of its lines. A file must be read before it can be written."""
    at = placed(context, path)
    if isinstance(at, Within):
        return _read_within(context, at, first, lines)
    with context.workspace.spot(at, "read", "read") as spot:
        content = read_file(spot)
    return _shown(context, spot.path, content, first, lines)


async def _read_within(context: Context, at: Within, first: int, lines: int | None) -> Settlement:
    admit(context, at, "read", "read")
    found = await inner_files.read(context, at)
    return _shown(context, at.name, found.content, first, lines)


def _shown(context: Context, path: str, content: bytes, first: int, lines: int | None) -> Settlement:
    shown = content
    if first > 1 or lines is not None:
        every = content.splitlines(keepends=True)
        shown = b"".join(every[first - 1 : None if lines is None else first - 1 + lines])
    text = clamped(shown, limits.FILE_SHOWN_BYTES)
    return Settlement(ok(text), agent={"files": remembered(context, path, content)})


async def write(
    context: Context,
    path: PathText,
    content: Annotated[
        str, Field(validation_alias=AliasChoices("content", "text"), description="The whole new content.")
    ],
) -> Settlement:
    """Writes a whole file: a new one, or one that you have read and that has not changed since."""
    wanted = _encoded(content)
    with target(context, path, "write", "write", makes_folders=True) as file:
        current = await file.digest()
        if current == digest(wanted):
            return _written(context, file, wanted, "already is as you want it")
        if current is not None and (fault := await _unseen(context, file, current)) is not None:
            return fault
        return await _put(context, file, wanted, current)


async def edit(
    context: Context,
    path: PathText,
    old: Annotated[str, Field(min_length=1, description="The exact text to replace.")],
    new: Annotated[str, Field(description="What takes its place.")],
    every: Annotated[bool, Field(description="Replace every occurrence, not exactly one.")] = False,
) -> Settlement:
    """Replaces a stretch of a file that you have read. `old` must occur exactly once unless `every` is true."""
    with target(context, path, "write", "edit") as file:
        found = await file.read()
        content, current = found.content, found.digest
        known = context.seen.status.files.get(file.path)
        before = None if known is None else context.world.store.get_blob(known)
        if before is not None and known != current and _edited(before, old, new, every) == content:
            # It happened, and the owner died before it was recorded.
            return _written(context, file, content, "was edited already")
        if (fault := await _unseen(context, file, current)) is not None:
            return fault
        changed = _edited(content, old, new, every)
        if changed is None:
            count = content.count(old.encode())
            raise ToolFailed("NoMatch", f"`old` occurs {count} times in `{file.path}`, not exactly once")
        if len(changed) > limits.FILE_BYTES_MAX:
            raise ToolFailed(
                "TooLarge", f"the file would have {len(changed)} bytes; the most is {limits.FILE_BYTES_MAX}"
            )
        return await _put(context, file, changed, current)


def list_files(
    context: Context,
    path: PathText = ".",
    glob: Annotated[str, Field(description="Which files, as in `src/**`; relative to `path`.")] = "**",
) -> Settlement | Awaitable[Settlement]:
    """Lists the files below a folder, with their sizes in bytes."""
    at = placed(context, path)
    if isinstance(at, Within):
        return _list_within(context, at, glob)
    return _listed(files_below(context.workspace, at, limits.FILES_LISTED_MAX + 1), glob)


async def _list_within(context: Context, at: Within, glob: str) -> Settlement:
    found = await inner_files.below(context, at, limits.FILES_LISTED_MAX + 1)
    return _listed([each for each in found if shows(context, at, each.path, "list")], glob)


def _listed(found: Sequence[Found], glob: str) -> Settlement:
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
    at = placed(context, path)
    if isinstance(at, Within):
        inner = await inner_files.hits(context, at, glob, text, any_case)
        hits = [line for name, line in inner if shows(context, at, name, "search")]
        if len(hits) > limits.SEARCH_HITS_MAX:
            hits[limits.SEARCH_HITS_MAX :] = [f"[… more than {limits.SEARCH_HITS_MAX} hits …]"]
        return _found(hits)
    # A thread, because twenty thousand files take a while and the loop serves every other agent.
    hits = await anyio.to_thread.run_sync(lambda: hits_in(context.workspace, at, glob, text, any_case))
    return _found(hits)


def _found(hits: list[str]) -> Settlement:
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


async def _unseen(context: Context, file: Target, current: str) -> Settlement | None:
    """The refusal for a file that the agent does not know as it is; None when it does."""
    known = context.seen.status.files.get(file.path)
    if known == current:
        return None
    if known is None:
        return Settlement(failure("NotRead", f"`{file.path}` exists and you have not read it: read it first"))
    content = (await file.read()).content
    shown = difference(context.world.store.get_blob(known), content, file.path)
    text = f"`{file.path}` changed since you read it; this is the difference, look and try again\n{shown}"
    # The agent has now been shown what is there: its next write is made in knowledge of it.
    return Settlement(failure("Changed", text), agent={"files": remembered(context, file.path, content)})


async def _put(context: Context, file: Target, content: bytes, current: str | None) -> Settlement:
    # The fence is looked at here, with nothing that yields before a file of this machine is written.
    if (refused := holding.write_fault(context, file.lock)) is not None:
        return refused
    try:
        is_put = await file.replace(content, current)
    except OSError as error:
        raise ToolFailed("NotWritable", f"`{file.path}`: {error.strerror}") from error
    if not is_put:
        now = await file.digest()
        fault = None if now is None else await _unseen(context, file, now)
        return fault or Settlement(failure("Changed", f"`{file.path}` was changed or removed meanwhile: read it again"))
    return _written(context, file, content, f"written, {len(content)} bytes")


def _written(context: Context, file: Target, content: bytes, words: str) -> Settlement:
    files = remembered(context, file.path, content)
    # What it was is what the agent knew: else it could not have been written. For who looks back at what was changed.
    wrote = {"by": context.agent, "path": file.path, "before": context.seen.status.files.get(file.path)}
    data: JsonObject = {"wrote": wrote | {"after": files[file.path]}}
    return Settlement(ok(f"`{file.path}` {words}"), agent={"files": files}, data=data)
