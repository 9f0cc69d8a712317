"""Serve simulated worlds from files in the plan's folder as tool servers of a plan.

A file is read once, at its first use. An invalid file is read again at each use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from planloop.benchmarks.worlds.state import call_tool, changes_to_keep, count_kept_rows, restore_changes
from planloop.benchmarks.worlds.world import WorldAnswer, WorldTool
from planloop.benchmarks.worlds.world_file import WorldFile, read_world
from planloop.controllers.shared.simulated_worlds import WorldCall, WorldOffer
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, sha256_hex, sha256_of_value
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import mutable
from planloop.schemas.objects.call import CallResult, CallState
from planloop.schemas.objects.mcp import ServedTool, ServerFailed


@mutable
class ServedWorlds:
    """Implements `Worlds`. `read` returns the bytes of a file in the plan's folder; it raises OSError."""

    read: Callable[[str], bytes]
    _files: dict[str, WorldFile] = field(default_factory=dict)

    def offer(self, file: str, server: str) -> WorldOffer:
        """See `Worlds.offer`."""
        found = self._file(file)
        prefix = f"{server}."
        tools = [_offered(tool, prefix) for name, tool in found.world.tools.items() if name.startswith(prefix)]
        if not tools:
            servers = ", ".join(dict.fromkeys(name.partition(".")[0] for name in found.world.tools)) or "none"
            raise ServerFailed("BadWorld", f"{file}: no tool name starts with `{prefix}`; its servers are {servers}")
        return WorldOffer(found.world.name, found.digest, tuple(tools))

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        """See `Worlds.call`."""
        before = restore_changes(self._file(file).found_by(task), kept)
        after, answer = call_tool(before, tool, arguments)
        merge = changes_to_keep(before, after)
        if merge and count_kept_rows(kept) + count_kept_rows(merge) > limits.WORLD_ROWS_KEPT_MAX:
            text = f"A simulated world allows changes of at most {limits.WORLD_ROWS_KEPT_MAX} rows."
            return WorldCall(CallResult(CallState.FAILED, text, "ToolError"), {})
        return WorldCall(_result(answer), merge)

    def _file(self, file: str) -> WorldFile:
        found = self._files.get(file)
        if found is None:
            found = self._read(file)
            if len(self._files) >= limits.SPECS_KEPT_MAX:
                self._files.clear()
            self._files[file] = found
        return found

    def _read(self, file: str) -> WorldFile:
        try:
            content = self.read(file)
        except OSError as error:
            raise ServerFailed("BadWorld", f"{file}: {error.strerror or error}") from None
        read = read_world(content, file=file)
        if read.world is None or read.document is None:
            raise ServerFailed("BadWorld", "; ".join(_diagnostic_lines(read.diagnostics)))
        return WorldFile(read.document, read.world, sha256_hex(content))


def _offered(tool: WorldTool, prefix: str) -> ServedTool:
    name = tool.name.removeprefix(prefix)
    hints: JsonObject = {} if tool.writes else {"read_only_hint": True}
    return ServedTool(name, tool.about, tool.parameters, hints, sha256_of_value([name, tool.about, tool.parameters]))


def _result(answer: WorldAnswer) -> CallResult:
    if answer.error:
        return CallResult(CallState.FAILED, answer.text, answer.error)
    text = truncate_output(answer.text.encode(), limits.FILE_SHOWN_BYTES)
    # A long value is stored only once, as text.
    is_kept = not isinstance(answer.value, str) and len(answer.text) <= limits.FILE_SHOWN_BYTES // 4
    return CallResult(CallState.SUCCEEDED, text, value=answer.value if is_kept else None)


def _diagnostic_lines(diagnostics: tuple[Diagnostic, ...]) -> Iterator[str]:
    """The first problems, each with location and fix."""
    for one in diagnostics[: limits.DIAGNOSTICS_SHOWN_MAX]:
        place = "" if one.span is None else f"{one.span.file}:{one.span.line}:{one.span.column}: "
        yield f"{place}{one.code} {one.summary}" + (f" ({one.hint})" if one.hint else "")
