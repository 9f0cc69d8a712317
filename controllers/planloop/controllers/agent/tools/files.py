"""The file tools: `read`, `write`, `edit`, `list` and `search`.

An agent may write a file only if it has read its current content, known by digest. The digest names a blob with the
content read: a stale write is rejected with a diff, and an `edit` that finished before a crash is recognised. Reading a
range counts for the whole file. A file keeps its encoding, byte order mark and line ends
(`planloop.schemas.file_text`). Binary files are neither shown nor overwritten.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import anyio.to_thread
from pydantic import AliasChoices, Field

from planloop.controllers.agent.tools import file_target
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.file_target import (
    ContainerContent,
    ContainerPath,
    FileTarget,
    locate_path,
    may_show,
    open_target,
    require_right,
)
from planloop.controllers.agent.tools.tool import Settlement, ToolContext, failure, success
from planloop.controllers.agent.tools.workspace import FoundFile, binary_error, files_below, read_file, search_hits
from planloop.controllers.agent.turn import call_locks
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject, sha256_hex
from planloop.schemas.file_text import (
    FileText,
    decode_file_text,
    line_end_style,
    replace_text,
    rewrite_text,
    split_lines,
)
from planloop.schemas.quantities import format_size, pluralize


def text_difference(old: bytes | None, new: bytes, path: str) -> str:
    """Return the changes in `path` as a truncated unified diff, or a description if there is no diff."""
    if old is None:
        return f"`{path}` now has {len(new)} bytes; its old content is not stored"
    was, now = decode_file_text(old), decode_file_text(new)
    if was is None or now is None:
        return f"`{path}` changed from {_kind(was, old)} to {_kind(now, new)}"
    before, after = (_lines(one) for one in (was, now))
    if len(before) + len(after) > limits.DIFF_LINES_MAX:
        return f"`{path}` changed from {len(before)} to {len(after)} lines"
    lines = difflib.unified_diff(before, after, f"{path} (as you read it)", f"{path} (now)", lineterm="", n=2)
    text = truncate_output("\n".join(lines).encode())
    return text or f"only the encoding or line ends of `{path}` changed, from {_stored(was)} to {_stored(now)}"


def _lines(text: FileText) -> list[str]:
    return [line.rstrip("\r\n") for line in split_lines(text.shown)]


def _kind(text: FileText | None, content: bytes) -> str:
    return f"{'binary' if text is None else 'text'}, {format_size(len(content))}"


def _stored(text: FileText) -> str:
    mark = " with a byte order mark" if text.bom else ""
    end = "" if not text.text or text.text.endswith(("\r", "\n")) else ", no line end at the end of the file"
    return f"{text.how or 'UTF-8'}{mark} with {line_end_style(text.text) or 'LF'} line ends{end}"


def read(
    context: ToolContext,
    path: str,
    first: Annotated[int, Field(ge=1)] = 1,
    lines: Annotated[int | None, Field(ge=1)] = None,
) -> Settlement | Awaitable[Settlement]:
    """Read a text file of the workspace, or `lines` lines from line `first`. Read files before you change them."""
    at = locate_path(context, path)
    if isinstance(at, ContainerPath):
        return _read_within(context, at, first, lines)
    with context.workspace.spot(at, "read", "read") as spot:
        content = read_file(spot)
    return _shown(context, spot.path, content, first, lines)


async def _read_within(context: ToolContext, at: ContainerPath, first: int, lines: int | None) -> Settlement:
    require_right(context, at, "read", "read")
    found = await file_target.read_in_container(context, at)
    return _shown(context, at.name, found.content, first, lines)


def _shown(context: ToolContext, path: str, content: bytes, first: int, lines: int | None) -> Settlement:
    text = _text(path, content)
    shown, notes = text.shown, []
    if text.how:
        raw = ", shown as `\\x..`; use `edit`, which keeps them" if text.raw_count else "; `edit` and `write` keep that"
        notes.append(f"[this file is {text.how}{raw}]\n")
    if first > 1 or lines is not None:
        every = split_lines(shown)
        shown = "".join(every[first - 1 : None if lines is None else first - 1 + lines])
        if first > len(every):
            notes.append(f"[the file has {pluralize(len(every), 'line')}]")
    seen = "".join(notes) + truncate_output(shown.encode(), limits.FILE_SHOWN_BYTES)
    return Settlement(success(seen), agent={"files": remember_content_merge(context, path, content)})


def _text(path: str, content: bytes) -> FileText:
    """Decode the content of a file. Raises ToolFailed if it is binary."""
    text = decode_file_text(content)
    if text is None:
        raise binary_error(path, len(content))
    return text


async def write(
    context: ToolContext,
    path: str,
    content: Annotated[str, Field(validation_alias=AliasChoices("content", "text"))],
) -> Settlement:
    """Write a whole file: a new one, or one that you have read and that has not changed since."""
    with open_target(context, path, "write", "write", makes_folders=True) as file:
        found = await file.look()
        if found is None:
            return await _put(context, file, _bounded(content.encode(errors="surrogateescape")), None)
        known = context.seen.status.memory.files.get(file.path)
        before = None if known is None else context.services.store.get_blob(known)
        if known != found.digest and _is_made(found.content, before, lambda old: _rewritten(file.path, old, content)):
            # The file was written, and the owner crashed before that was recorded.
            return _written(context, file, found.content, "already has this content")
        wanted = _rewritten(file.path, found.content, content, is_known=known == found.digest)
        if found.digest == sha256_hex(wanted):
            return _written(context, file, wanted, "already has this content")
        if (refused := await _unseen(context, file, found.digest)) is not None:
            return refused
        return await _put(context, file, wanted, found)


async def edit(
    context: ToolContext,
    path: str,
    old: Annotated[str, Field(min_length=1)],
    new: str,
    every: bool = False,
) -> Settlement:
    """Replace the exact text `old` in a file that you have read. It must occur once, unless `every` is true."""
    with open_target(context, path, "write", "edit") as file:
        found = await file.read()
        known = context.seen.status.memory.files.get(file.path)
        before = None if known is None else context.services.store.get_blob(known)
        if known != found.digest and _is_made(
            found.content, before, lambda was: _edited(file.path, was, old, new, every)
        ):
            # The edit was made, and the owner crashed before it was recorded.
            return _written(context, file, found.content, "was already edited")
        if (refused := await _unseen(context, file, found.digest)) is not None:
            return refused
        changed = _edited(file.path, found.content, old, new, every)
        if isinstance(changed, int):
            raise ToolFailed("NoMatch", f"`old` occurs {changed} times in `{file.path}`, not exactly once")
        return await _put(context, file, _bounded(changed), found)


def list_files(context: ToolContext, path: str = ".", glob: str = "**") -> Settlement | Awaitable[Settlement]:
    """List files below a folder of the workspace, with sizes in bytes. `glob` is relative to `path`."""
    at = locate_path(context, path)
    if isinstance(at, ContainerPath):
        return _list_within(context, at, glob)
    return _listed(files_below(context.workspace, at, limits.FILES_LISTED_MAX + 1), glob)


async def _list_within(context: ToolContext, at: ContainerPath, glob: str) -> Settlement:
    found = await file_target.files_in_container(context, at, limits.FILES_LISTED_MAX + 1)
    return _listed([each for each in found if may_show(context, at, each.path, "list")], glob)


def _listed(found: Sequence[FoundFile], glob: str) -> Settlement:
    kept = [each for each in found if patterns.path_matches([glob], each.below)]
    lines = [f"{each.below}  {each.size_bytes}" for each in kept[: limits.FILES_LISTED_MAX]]
    if len(found) > limits.FILES_LISTED_MAX:
        lines.append(f"[… more than {limits.FILES_LISTED_MAX} files; name a folder …]")
    return Settlement(success("\n".join(lines) or "no files", [each.below for each in kept]))


async def search(
    context: ToolContext,
    text: Annotated[str, Field(min_length=1)],
    path: str = ".",
    glob: str = "**",
    any_case: bool = False,
) -> Settlement:
    """Find literal text, not a regular expression, in files. Returns path, line number and line of each hit.

    `glob` is relative to `path`. `any_case` ignores case.
    """
    at = locate_path(context, path)
    if isinstance(at, ContainerPath):
        inner = await file_target.hits_in_container(context, at, glob, text, any_case)
        hits = [line for name, line in inner if may_show(context, at, name, "search")]
        if len(hits) > limits.SEARCH_HITS_MAX:
            hits[limits.SEARCH_HITS_MAX :] = [f"[… more than {limits.SEARCH_HITS_MAX} hits …]"]
        return _found(hits)
    # A thread, because twenty thousand files take a while and the loop serves every other agent.
    hits = await anyio.to_thread.run_sync(lambda: search_hits(context.workspace, at, glob, text, any_case))
    return _found(hits)


def _found(hits: list[str]) -> Settlement:
    return Settlement(success(truncate_output("\n".join(hits).encode(), limits.FILE_SHOWN_BYTES) or "no hits", hits))


def remember_content_merge(context: ToolContext, path: str, content: bytes) -> JsonObject:
    """Return the status merge for an agent that has read `content` of `path`. Drops the oldest file over the limit."""
    known = context.seen.status.memory.files
    surplus = len(known) + (path not in known) - limits.FILES_SEEN_MAX
    out: dict[str, Json] = {each: None for each in list(known)[: max(0, surplus)]}
    return out | {path: context.services.store.put_blob(content)}


def _bounded(content: bytes) -> bytes:
    if len(content) > limits.FILE_BYTES_MAX:
        raise ToolFailed("TooLarge", f"the file would have {len(content)} bytes; the limit is {limits.FILE_BYTES_MAX}")
    return content


def _edited(path: str, content: bytes, old: str, new: str, every: bool) -> bytes | int:
    """Return the edited content, or the number of occurrences of `old` if that is wrong. Raises ToolFailed."""
    text = _text(path, content)
    changed = replace_text(text.text, old, new, every=every)
    if isinstance(changed, int):
        return changed
    _require_storable(path, text, new)
    return text.stored(changed)


def _rewritten(path: str, content: bytes, new: str, *, is_known: bool = False) -> bytes:
    """Return the bytes of a file with `content` after it is overwritten with `new`.

    `is_known`: the agent wrote `content` itself. Raises ToolFailed if bytes would be lost.
    """
    text = decode_file_text(content)
    if text is None and is_known:
        return _bounded(new.encode(errors="surrogateescape"))
    text = text or _text(path, content)
    if text.raw_count:
        raise ToolFailed("NotStorable", f"`{path}` is {text.how}, which `write` would lose: use `edit`")
    _require_storable(path, text, new)
    return _bounded(text.stored(rewrite_text(text.text, new)))


def _require_storable(path: str, text: FileText, new: str) -> None:
    if char := text.unstorable(new):
        why = f"`{path}` is {text.how or 'UTF-8'}, which cannot encode U+{ord(char):04X}"
        raise ToolFailed("NotStorable", f"{why}: use other characters, or convert the file with a command first")


def _is_made(content: bytes, before: bytes | None, change: Callable[[bytes], bytes | int]) -> bool:
    """Whether `content` is the result of `change` on `before`, the content that the agent had read (None: none)."""
    try:
        return before is not None and change(before) == content
    except ToolFailed:
        return False  # The change was not possible on the old content, so another author wrote the current one.


async def _unseen(context: ToolContext, file: FileTarget, current: str) -> Settlement | None:
    """Return the refusal for a file whose current content the agent has not read; None if it has."""
    known = context.seen.status.memory.files.get(file.path)
    if known == current:
        return None
    if known is None:
        return Settlement(failure("NotRead", f"`{file.path}` exists and you have not read it. Read it first"))
    content = (await file.read()).content
    shown = text_difference(context.services.store.get_blob(known), content, file.path)
    text = f"`{file.path}` changed since you read it. Look at the difference and try again:\n{shown}"
    # The agent has now read the present content, so its next write may replace it.
    return Settlement(failure("Changed", text), agent={"files": remember_content_merge(context, file.path, content)})


async def _put(context: ToolContext, file: FileTarget, content: bytes, found: ContainerContent | None) -> Settlement:
    # Check the lock's fence here: nothing yields between this check and the write of a host file.
    if (refused := call_locks.write_error(context, file.lock)) is not None:
        return refused
    try:
        is_put = await file.replace(content, None if found is None else found.digest)
    except OSError as error:
        raise ToolFailed("NotWritable", f"`{file.path}`: {error.strerror}") from error
    if not is_put:
        now = await file.look()
        refused = None if now is None else await _unseen(context, file, now.digest)
        return refused or Settlement(
            failure("Changed", f"`{file.path}` was changed or removed meanwhile. Read it again")
        )
    kept = "" if found is None else _kept(found.content, content)
    return _written(context, file, content, f"written, {len(content)} bytes{kept}")


def _kept(before: bytes, after: bytes) -> str:
    """Describe the encoding and line ends that a file keeps or changes; empty for UTF-8 with LF."""
    old, new = decode_file_text(before), decode_file_text(after)
    if old is None or new is None:
        return ""
    was, now = line_end_style(old.text), line_end_style(new.text)
    kept = [*([old.how] if old.how else []), *([f"{now} line ends"] if now and now == was else [])]
    words = f", with {' and '.join(kept)} as before" if kept else ""
    is_changed = was != now and "\n" in old.text.replace("\r", "\n") and "\n" in new.text.replace("\r", "\n")
    return f"{words}; its line ends are {now or 'LF'} now, they were {was or 'LF'}" if is_changed else words


def _written(context: ToolContext, file: FileTarget, content: bytes, words: str) -> Settlement:
    files = remember_content_merge(context, file.path, content)
    # A write requires that the agent has read the old content, so its digest is known here.
    wrote = {"by": context.agent, "path": file.path, "before": context.seen.status.memory.files.get(file.path)}
    data: JsonObject = {"wrote": wrote | {"after": files[file.path]}}
    return Settlement(success(f"`{file.path}` {words}"), agent={"files": files}, data=data)
