"""A source text, and what a reader makes of it: plain values and where each stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import field
from typing import Any, Final, Literal, Protocol, TypeAlias

from planloop.schemas import limits
from planloop.schemas.diagnostic import Diagnostic, Span
from planloop.schemas.frozen import frozen

# A source text: decoded, bounded, and able to say which line and column an offset is.
#
# Bytes become text here and nowhere else. Line endings are kept as they are, so that offsets in `text` splice back into
# the same bytes; a byte order mark is set aside and remembered. Line and column numbers are made only when asked for.

BOM: Final = "\ufeff"
_ENDS_OF_LINE: Final = re.compile(r"\r\n|\n|\r")
_ALLOWED_BYTES: Final = bytes([9, 10, 13, *range(0x20, 0x7F), *range(0x80, 0x100)])
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_CONTROLS_TOLD_MAX: Final = limits.DIAGNOSTICS_SHOWN_MAX + 1


@frozen
class SizeLimits:
    """What a text may cost to read. `nodes` counts values after aliases are expanded, `depth` nesting likewise."""

    size_bytes: int = limits.PLAN_FILE_BYTES_MAX
    nodes: int = limits.PLAN_NODES_MAX
    depth: int = limits.PLAN_DEPTH_MAX
    aliases: int = limits.YAML_ALIASES_MAX


@frozen
class SourceText:
    """One decoded text, without its byte order mark. Offsets are in characters of `text`."""

    file: str
    text: str
    has_bom: bool = False
    _line_starts: list[int] = field(default_factory=list, repr=False, compare=False)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of `offset`, both from 1. A line ends with LF, CRLF or CR."""
        if not self._line_starts:
            self._line_starts.append(0)
            self._line_starts.extend(found.end() for found in _ENDS_OF_LINE.finditer(self.text))
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The stretch from `start` to `end`, which may be equal."""
        line, column = self.line_column(start)
        end_line, end_column = self.line_column(end)
        return Span(self.file, line, column, end_line, end_column, start, end)

    def encoded(self, text: str) -> bytes:
        """The bytes of `text` as this file would hold it: with the byte order mark if it had one."""
        return (BOM + text if self.has_bom else text).encode()


def decode_source(content: bytes, *, file: str, limits: SizeLimits) -> tuple[SourceText, tuple[Diagnostic, ...]]:
    """The text in `content`, with the problems that make it unreadable; then the text holds what could be decoded."""
    if len(content) > limits.size_bytes:
        return SourceText(file, ""), (_too_large(len(content), limits.size_bytes, file),)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return _undecodable(content, error, file)
    has_bom = text.startswith(BOM)
    source = SourceText(file, text[1:] if has_bom else text, has_bom)
    return source, _control_characters(source, content)


def _too_large(size_bytes: int, size_bytes_max: int, file: str) -> Diagnostic:
    return Diagnostic(
        "P0101",
        f"the file has {size_bytes:,} bytes; the limit is {size_bytes_max:,}",
        "check that this is the right file (a plan of 5,000 tasks is a third of the limit), or use `--max-size`",
        span=SourceText(file, "").span(0, 0),
    )


def _undecodable(content: bytes, error: UnicodeDecodeError, file: str) -> tuple[SourceText, tuple[Diagnostic, ...]]:
    source = SourceText(file, content.decode(errors="replace"))
    at = len(content[: error.start].decode())
    hint = "save the file as UTF-8 (in the editor: encoding, UTF-8)"
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        hint = "it looks like UTF-16: save the file as UTF-8"
    summary = f"byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8 text"
    return source, (Diagnostic("P0102", summary, hint, span=source.span(at, at + 1)),)


def _control_characters(source: SourceText, content: bytes) -> tuple[Diagnostic, ...]:
    # Deleting the allowed bytes is thirty times faster than a search, and plans are nearly always plain ASCII.
    if source.text.isascii() and not content.translate(None, _ALLOWED_BYTES):
        return ()
    faults: list[Diagnostic] = []
    for found in _CONTROL.finditer(source.text):
        name = "a NUL character" if found[0] == "\0" else f"the control character U+{ord(found[0]):04X}"
        hint = "delete it, or write it as an escape in a quoted string"
        faults.append(Diagnostic("P0104", f"{name} in the text", hint, span=source.span(found.start(), found.end())))
        if len(faults) >= _CONTROLS_TOLD_MAX:
            break
    return tuple(faults)


# What a reader makes of a text: plain values, and where each of them stands.
#
# Both readers (YAML, EDN) give the same shape, so nothing after them knows which spelling was used. A value is built
# from dict (keys are text), list, str, int, float, bool, None, and values of EDN and YAML traps: `Symbol`, `Keyword`,
# `Form` and `YamlTrap`. Positions are looked up by path only when needed, because most plans have no problems.

SourcePath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of a source value; a Form counts its items from 0, the head included."""

SourceValue: TypeAlias = Any
Format: TypeAlias = Literal["yaml", "edn"]


class YamlTrap(str):
    """A plain YAML scalar that YAML 1.1 readers take for something else: `no`, `010`, `12:30:45`, `1_000`.

    It is text by YAML 1.2 or would surprise its author. Each field decides whether to report it.
    """

    __slots__ = ()


class Keyword(str):
    """An EDN keyword without its colon, standing as a value: `:all`. Keys of maps are plain text already."""

    __slots__ = ()


class Symbol(str):
    """An EDN symbol standing as a value: `agents/top`, `...`."""

    __slots__ = ()


@frozen
class Form:
    """An EDN list `(head …)`. Call-like data: `(sh "npm test")`, `(task "goal" …)`, `(def-agent id {…})`."""

    items: tuple[SourceValue, ...]

    @property
    def head(self) -> str:
        return str(self.items[0]) if self.items and isinstance(self.items[0], Symbol) else ""


@frozen
class SourcePlace:
    """Where a value stands, and its key if it has one."""

    value: Span
    key: Span | None = None


class SourceTree(Protocol):
    """A text that was read. `value` is None with diagnostics when it could not be."""

    @property
    def file(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def format(self) -> Format: ...

    @property
    def value(self) -> SourceValue: ...

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...

    def place(self, path: SourcePath) -> SourcePlace | None:
        """Return the position of the value at `path`; None if it does not exist."""
        ...
