"""The text of a file together with how it is stored: encoding, byte order mark and line ends. Pure.

What an agent writes comes as Unicode with LF. It is stored as the file is stored, and whatever an edit does not touch
keeps its bytes: only encodings that give back every byte of the file are used.
"""

from __future__ import annotations

import codecs
import re
from difflib import SequenceMatcher
from typing import Final

from planloop.schemas import charset, limits
from planloop.schemas.amounts import plural
from planloop.schemas.frozen import frozen

# Of UTF-32 before UTF-16, whose mark it begins with.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ISO_2022_JP: Final = re.compile(rb"\x1b\$[@B]")
_BREAK: Final = re.compile(r"\r\n|\r|\n")
_BREAK_NOT_CR: Final = re.compile(r"\r\n|\n")
_ANY_BREAK: Final = r"(?:\r\n|\r(?!\n)|(?<!\r)\n)"
_RAW: Final = re.compile("[\udc80-\udcff]")


@frozen
class FileText:
    """`text` is without the byte order mark `bom`; line ends are as stored. `encoding` is Python's name.

    Of a file with bytes that its encoding does not have, these `raw_count` bytes are the halves of surrogate pairs that
    Python puts for them; they are stored unchanged.
    """

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    raw_count: int = 0

    @property
    def shown(self) -> str:
        """The text as a log and a model can take it: bytes outside the encoding as `\\xe9`."""
        return self.text if not self.raw_count else _RAW.sub(lambda raw: f"\\x{ord(raw[0]) - 0xDC00:02x}", self.text)

    @property
    def how(self) -> str:
        """`Shift-JIS`, `UTF-16 LE`, `UTF-8 except 2 bytes`; empty for UTF-8."""
        if self.encoding == "ascii":
            return f"in an unknown encoding: {plural(self.raw_count, 'byte')} outside ASCII"
        if self.raw_count:
            return f"UTF-8 except {plural(self.raw_count, 'byte')}"
        return "" if self.encoding == "utf-8" else charset.NAMES[self.encoding]

    def unstorable(self, text: str) -> str:
        """The first character of `text` that the encoding does not have; empty if it has all of them."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError as error:
            return text[error.start]
        return ""

    def stored(self, text: str) -> bytes:
        """The bytes of a file like this one that holds `text`, which `unstorable` finds nothing in but raw bytes."""
        return self.bom + text.removeprefix("\ufeff" if self.bom else "").encode(self.encoding, "surrogateescape")


def text_of(content: bytes) -> FileText | None:
    """The text that a file with `content` holds; None for a binary file."""
    for bom, encoding in _MARKS:
        if content.startswith(bom) and charset.keeps(content[len(bom) :], encoding):
            return FileText(content[len(bom) :].decode(encoding), encoding, bom)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _foreign(content)
    if wide := charset.wide(content):
        return FileText(content.decode(wide), wide)
    if charset.is_binary(content):
        return None
    if _ISO_2022_JP.search(content) and charset.keeps(content, "iso2022_jp"):
        return FileText(content.decode("iso2022_jp"), "iso2022_jp")
    return FileText(text)


def _foreign(content: bytes) -> FileText | None:
    if wide := charset.wide(content):
        return FileText(content.decode(wide), wide)
    if charset.is_binary(content):
        return None
    text = content.decode(errors="surrogateescape")
    raw_count = len(_RAW.findall(text))
    if sum(not char.isascii() for char in text) >= 2 * raw_count:
        return FileText(text, raw_count=raw_count)
    encoding = charset.guess(content)
    if encoding is not None:
        return FileText(content.decode(encoding), encoding)
    text = content.decode("ascii", "surrogateescape")
    return FileText(text, "ascii", raw_count=len(_RAW.findall(text)))


def is_binary(start: bytes) -> bool:
    """Whether a file that begins with `start` is binary, without a look at all of it."""
    has_mark = any(start.startswith(bom) for bom, _ in _MARKS)
    return not has_mark and not charset.wide(start[: len(start) // 2 * 2]) and charset.is_binary(start)


def lines_of(text: str) -> list[str]:
    """The lines of `text` with their ends: LF, CRLF and CR, and no other character that Unicode breaks lines at."""
    return [held + end for held, end in _split(_BREAK, text)]


def replaced(text: str, old: str, new: str, *, every: bool) -> str | int:
    """`text` with `new` in the place of `old`, which is there exactly once, or of `every` one; else how often it is.

    A line end of `old` matches any line end. Those of `new` become those of the lines around.
    """
    spans, is_cut = _found(text, old)
    if len(spans) > 1 and not every:
        exact = [span for span in spans if text[span[0] : span[1]] == old]
        spans = exact if len(exact) == 1 else spans
    if not spans or (len(spans) > 1 and not every):
        return len(spans)
    parts, at, style = [], 0, _style_of(text)
    for start, end in spans:
        put = _fitted(text, start, end, new, style)
        parts += [text[at:start], _without_break(put) if is_cut else put]
        at = end
    return "".join((*parts, text[at:]))


def rewritten(text: str, new: str) -> str:
    """`new` with the line ends of the file's present `text`; as it is if it has CR, and so says which ends it wants."""
    return new if "\r" in new else _fitted(text, 0, len(text), new, _style_of(text))


def line_ends(text: str) -> str:
    """`CRLF`, `CR`, `mixed`, or empty for LF and for a text of one line."""
    crlf, lf, cr = _counted(text)
    kinds = [name for name, count in (("LF", lf), ("CRLF", crlf), ("CR", cr if _has_cr_ends(text) else 0)) if count]
    return "mixed" if len(kinds) > 1 else "".join(kinds).removeprefix("LF")


def _counted(text: str) -> tuple[int, int, int]:
    crlf = text.count("\r\n")
    return crlf, text.count("\n") - crlf, text.count("\r") - crlf


def _has_cr_ends(text: str) -> bool:
    """Whether CR alone ends lines, as in old Mac files: in others it is part of a line, as in logs of progress."""
    crlf, lf, cr = _counted(text)
    return cr > 0 and cr >= crlf + lf


def _found(text: str, old: str) -> tuple[list[tuple[int, int]], bool]:
    """Where `old` is, and whether its last line end is missing there because the file ends first."""
    parts = [re.escape(part) for part in _BREAK.split(old)]
    spans = [match.span() for match in re.finditer(_ANY_BREAK.join(parts), text)]
    if spans or len(parts) < 2 or parts[-1] or not any(parts):
        return spans, False
    last = re.search(_ANY_BREAK.join(parts[:-1]) + r"\Z", text)
    return ([] if last is None else [last.span()]), last is not None


def _without_break(text: str) -> str:
    last = list(_BREAK.finditer(text))[-1:]
    return text[: last[0].start()] if last and last[0].end() == len(text) else text


@frozen
class _Style:
    """`kinds` of line ends that a text has, and the pattern of what ends its lines."""

    kinds: tuple[str, ...]
    breaks: re.Pattern[str]


def _style_of(text: str) -> _Style:
    crlf, lf, cr = _counted(text)
    has_cr = _has_cr_ends(text)
    counts = (("\r\n", crlf), ("\n", lf), ("\r", cr if has_cr else 0))
    return _Style(tuple(kind for kind, count in counts if count), _BREAK if has_cr else _BREAK_NOT_CR)


def _fitted(text: str, start: int, end: int, new: str, style: _Style) -> str:
    """`new` with the line ends that it has in the place of `text[start:end]`."""
    if not style.kinds or not style.breaks.search(new):
        return new
    if len(style.kinds) == 1:
        return style.breaks.sub(style.kinds[0], new)
    usual = _near(text, start, style)
    return _aligned(_split(_BREAK, text[start:end]), _split(style.breaks, new), usual)


def _near(text: str, start: int, style: _Style) -> str:
    """The line end that is nearest to a place: in it or behind it, else the last one before it."""
    if (behind := style.breaks.search(text, start)) is not None:
        return behind[0]
    last = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start) if "\r" in style.kinds else -1)
    return "\r\n" if text[last - 1 : last + 1] == "\r\n" else text[last]


_Line = tuple[str, str]
"""What a line holds and how it ends."""


def _split(breaks: re.Pattern[str], text: str) -> list[_Line]:
    parts = re.split(f"({breaks.pattern})", text)
    lines = list(zip(parts[::2], [*parts[1::2], ""], strict=True))
    return lines if parts[-1] else lines[:-1]


def _aligned(old: list[_Line], new: list[_Line], usual: str) -> str:
    """The lines of `new`, each with the end of the line of `old` that it is or takes the place of, else `usual`."""
    if len(old) + len(new) > limits.DIFF_LINES_MAX:
        return "".join(held + (usual if end else "") for held, end in new)
    matcher = SequenceMatcher(None, [held for held, _ in old], [held for held, _ in new], autojunk=False)
    parts: list[str] = []
    for _, first, last, begin, stop in matcher.get_opcodes():
        ends = [end for _, end in old[first:last] if end]
        for nth, (held, end) in enumerate(new[begin:stop]):
            here = ends[nth] if nth < len(ends) else (ends[-1] if ends else usual)
            parts.append(held + (here if end else ""))
    return "".join(parts)
