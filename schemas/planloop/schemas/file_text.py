"""Decode a text file and keep its encoding, byte order mark and line ends for writing it back. Pure."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import Final

from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.quantities import pluralize

# Which encoding the bytes of a text file are in, when they are not UTF-8. Pure.
#
# Only an encoding that gives back the same bytes is ever named, so a wrong guess shows wrong letters and loses nothing.
# Libraries that guess (charset-normalizer, chardet) need longer texts: of files with one accented word or a line of
# Japanese they name unrelated encodings.

ENCODING_NAMES: Final = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16 LE",
    "utf-16-be": "UTF-16 BE",
    "utf-32-le": "UTF-32 LE",
    "utf-32-be": "UTF-32 BE",
    "cp932": "Shift-JIS",
    "euc_jp": "EUC-JP",
    "iso2022_jp": "ISO-2022-JP",
    "gb18030": "GB 18030",
    "big5": "Big5",
    "cp949": "EUC-KR",
    "cp1252": "Windows-1252 (Latin-1)",
    "cp1250": "Windows-1250",
    "iso8859_2": "ISO 8859-2 (Latin-2)",
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
    "cp1253": "Windows-1253",
}
"""Python's names of the detected encodings, with their common names."""

_SAMPLE_BYTES: Final = 16 << 10  # Enough non-ASCII bytes to decide between the candidates.
_HIGH: Final = re.compile(rb"[\x80-\xff]")
_CONTROLS: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_SHARE_MAX: Final = 0.02
_PLAUSIBLE: Final = 0.3

# Of the two-byte sets: the first bytes of the characters that ordinary text is made of.
_FREQUENT: Final = {
    "cp932": (range(0x81, 0x84), range(0x88, 0x98)),
    "euc_jp": (range(0xA1, 0xA6), range(0xB0, 0xD0)),
    "gb18030": (range(0xA1, 0xA4), range(0xB0, 0xD8)),
    "big5": (range(0xA1, 0xA4), range(0xA4, 0xC7)),
    "cp949": (range(0xA1, 0xA4), range(0xB0, 0xC9)),
}
_FULL_TRAIL: Final = frozenset({"euc_jp", "gb18030", "cp949"})  # Common characters have a second byte of A1 or more.
_ONE_BYTE: Final = ("cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "cp1253")
_HANGUL_MIN: Final = 4  # Fewer common syllables are as likely to be Chinese.


def looks_binary(content: bytes) -> bool:
    """Whether `content`, the start or all of a file, has too many control characters for a text of 8-bit units."""
    controls = len(_CONTROLS.findall(content))
    return controls > len(content) * _CONTROL_SHARE_MAX


def guess_utf16(content: bytes) -> str | None:
    """`utf-16-le` or `utf-16-be` if `content`, without a byte order mark, looks so: one byte of most pairs is 0."""
    sample = content[:_SAMPLE_BYTES]
    if len(content) < 4 or len(content) % 2:
        return None
    first, second = sample[::2].count(0), sample[1::2].count(0)
    most, few = max(first, second), min(first, second)
    if most * 2 < len(sample) * 0.6 or few * 2 > len(sample) * 0.02:
        return None
    encoding = "utf-16-be" if first > second else "utf-16-le"
    return encoding if round_trips(content, encoding) else None


def round_trips(content: bytes, encoding: str) -> bool:
    """Whether decoding and encoding `content` gives every byte back."""
    try:
        return content.decode(encoding).encode(encoding) == content
    except UnicodeError:
        return False


def guess_encoding(content: bytes) -> str | None:
    """Return the most likely encoding of `content`, which is not UTF-8; None if no encoding fits."""
    start = _HIGH.search(content)
    at = 0 if start is None else max(0, content.rfind(b"\n", 0, start.start()) + 1)
    sample = content[at : at + _SAMPLE_BYTES]
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    scored = sorted(
        ((score(sample), -place, name) for place, (name, score) in enumerate(_CANDIDATES)),
        reverse=True,
    )
    likely = (name for points, _, name in scored if points >= _PLAUSIBLE and round_trips(content, name))
    return next(likely, "cp1252" if round_trips(content, "cp1252") else None)


def _score_of(name: str) -> Callable[[bytes], float]:
    def score(sample: bytes) -> float:
        return _multi(sample, name) if name in _FREQUENT else _single(sample, name)

    return score


def _multi(sample: bytes, encoding: str) -> float:
    """How likely `sample` is in a multi-byte `encoding`, from -1 to 1: the mean over the bytes outside ASCII."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return -1.0
    points, size, kana, hangul = 0.0, 0, 0, 0
    for char in text:
        if char.isascii():
            continue
        raw = char.encode(encoding)
        size += len(raw)
        kana += "\u3041" <= char <= "\u30ff"
        hangul += "\uac00" <= char <= "\ud7a3"
        points += len(raw) if _is_frequent(raw, encoding) else -0.5 * len(raw)
    mean = points / max(size, 1)
    if encoding in ("cp932", "euc_jp"):
        return mean + (0.1 if kana else 0)
    if encoding == "cp949":
        return mean + (0.05 if hangul >= _HANGUL_MIN and mean == 1 else -0.05)
    return mean - kana * 2 / max(size, 1)  # Chinese sets have kana that no Chinese text uses.


def _is_frequent(raw: bytes, encoding: str) -> bool:
    if len(raw) != 2 or (encoding in _FULL_TRAIL and raw[1] < 0xA1):
        return False
    return any(raw[0] in span for span in _FREQUENT[encoding])


def _single(sample: bytes, encoding: str) -> float:
    """The same for an encoding of one byte a character: letters belong beside letters of their own alphabet."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return -1.0
    points = [_fit(before, char, after) for before, char, after in _neighbours(text)]
    mean = 0.9 * sum(points) / max(len(points), 1)
    return mean + 0.1 if encoding == _ONE_BYTE[0] else mean


def _neighbours(text: str) -> Iterator[tuple[str, str, str]]:
    for at, char in enumerate(text):
        if not char.isascii():
            yield text[at - 1 : at] if at else "", char, text[at + 1 : at + 2]


def _fit(before: str, char: str, after: str) -> float:
    beside = [each for each in (before, after) if each.isalpha()]
    kind = unicodedata.category(char)
    if kind.startswith("C") or (kind == "Ps" and before.isalpha()):
        return -1.0
    if not char.isalpha():
        return 0.3 if len(beside) < 2 or kind.startswith("P") else -1.0
    if before.islower() and char.isupper():
        return -1.0
    is_latin = _alphabet(char) == "LATIN"
    if not beside:
        return 0.5 if is_latin else 0.2
    if not is_latin:
        return 1.0 if all(_alphabet(each) == _alphabet(char) for each in beside) else -1.0
    return 1.0 if any(each.isascii() for each in beside) else -0.5


def _alphabet(letter: str) -> str:
    return "LATIN" if letter == "µ" else unicodedata.name(letter, "").partition(" ")[0]


_CANDIDATES: Final = tuple((name, _score_of(name)) for name in (*_FREQUENT, *_ONE_BYTE))


# The text of a file together with how it is stored: encoding, byte order mark and line ends. Pure.
#
# What an agent writes comes as Unicode with LF. It is stored as the file is stored, and whatever an edit does not touch
# keeps its bytes: only encodings that give back every byte of the file are used.

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
            return f"in an unknown encoding: {pluralize(self.raw_count, 'byte')} outside ASCII"
        if self.raw_count:
            return f"UTF-8 except {pluralize(self.raw_count, 'byte')}"
        return "" if self.encoding == "utf-8" else ENCODING_NAMES[self.encoding]

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


def decode_file_text(content: bytes) -> FileText | None:
    """The text that a file with `content` holds; None for a binary file."""
    for bom, encoding in _MARKS:
        if content.startswith(bom) and round_trips(content[len(bom) :], encoding):
            return FileText(content[len(bom) :].decode(encoding), encoding, bom)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _foreign(content)
    if wide := guess_utf16(content):
        return FileText(content.decode(wide), wide)
    if looks_binary(content):
        return None
    if _ISO_2022_JP.search(content) and round_trips(content, "iso2022_jp"):
        return FileText(content.decode("iso2022_jp"), "iso2022_jp")
    return FileText(text)


def _foreign(content: bytes) -> FileText | None:
    if wide := guess_utf16(content):
        return FileText(content.decode(wide), wide)
    if looks_binary(content):
        return None
    text = content.decode(errors="surrogateescape")
    raw_count = len(_RAW.findall(text))
    if sum(not char.isascii() for char in text) >= 2 * raw_count:
        return FileText(text, raw_count=raw_count)
    encoding = guess_encoding(content)
    if encoding is not None:
        return FileText(content.decode(encoding), encoding)
    text = content.decode("ascii", "surrogateescape")
    return FileText(text, "ascii", raw_count=len(_RAW.findall(text)))


def is_binary(start: bytes) -> bool:
    """Whether a file that begins with `start` is binary, without a look at all of it."""
    has_mark = any(start.startswith(bom) for bom, _ in _MARKS)
    return not has_mark and not guess_utf16(start[: len(start) // 2 * 2]) and looks_binary(start)


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends: LF, CRLF and CR, and no other character that Unicode breaks lines at."""
    return [held + end for held, end in _split(_BREAK, text)]


def replace_text(text: str, old: str, new: str, *, every: bool) -> str | int:
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


def rewrite_text(text: str, new: str) -> str:
    """`new` with the line ends of the file's present `text`; as it is if it has CR, and so says which ends it wants."""
    return new if "\r" in new else _fitted(text, 0, len(text), new, _style_of(text))


def line_end_style(text: str) -> str:
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
    """Return the line end at or after `start`, else the last one before it."""
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
