"""Which encoding the bytes of a text file are in, when they are not UTF-8. Pure.

Only an encoding that gives back the same bytes is ever named, so a wrong guess shows wrong letters and loses nothing.
Libraries that guess (charset-normalizer, chardet) need longer texts: of files with one accented word or a line of
Japanese they name unrelated encodings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

NAMES: Final = {
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
"""Python's names of the encodings that are told apart, with those that people know."""

_SAMPLE_BYTES: Final = 16 << 10  # With so many bytes outside ASCII no candidate is in doubt.
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


def is_binary(content: bytes) -> bool:
    """Whether `content`, the start or all of a file, has too many control characters for a text of 8-bit units."""
    controls = len(_CONTROLS.findall(content))
    return controls > len(content) * _CONTROL_SHARE_MAX


def wide(content: bytes) -> str | None:
    """`utf-16-le` or `utf-16-be` if `content`, without a byte order mark, looks so: one byte of most pairs is 0."""
    sample = content[:_SAMPLE_BYTES]
    if len(content) < 4 or len(content) % 2:
        return None
    first, second = sample[::2].count(0), sample[1::2].count(0)
    most, few = max(first, second), min(first, second)
    if most * 2 < len(sample) * 0.6 or few * 2 > len(sample) * 0.02:
        return None
    encoding = "utf-16-be" if first > second else "utf-16-le"
    return encoding if keeps(content, encoding) else None


def keeps(content: bytes, encoding: str) -> bool:
    """Whether decoding and encoding `content` gives every byte back."""
    try:
        return content.decode(encoding).encode(encoding) == content
    except UnicodeError:
        return False


def guess(content: bytes) -> str | None:
    """The 8-bit or multi-byte encoding that `content`, which is not UTF-8, is most likely in; None: no one fits."""
    start = _HIGH.search(content)
    at = 0 if start is None else max(0, content.rfind(b"\n", 0, start.start()) + 1)
    sample = content[at : at + _SAMPLE_BYTES]
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    scored = sorted(
        ((score(sample), -place, name) for place, (name, score) in enumerate(_CANDIDATES)),
        reverse=True,
    )
    likely = (name for points, _, name in scored if points >= _PLAUSIBLE and keeps(content, name))
    return next(likely, "cp1252" if keeps(content, "cp1252") else None)


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
