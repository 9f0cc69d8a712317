"""The value of a plain YAML scalar: the YAML 1.2 core schema, and the traps of YAML 1.1.

A text that 1.1 readers take for a boolean, an octal, a base-60 or an underscored number, or a date becomes a
`YamlTrap`: it is text here, and a field that wants text can ask for quotes.
"""

from __future__ import annotations

import math
import re
from typing import Final

from planloop.compiler.source import SourceValue, YamlTrap

INTEGER_BITS_MAX: Final = 63  # What SQLite and the JSON readers of other languages still hold.

_MEANT: Final = frozenset("0123456789+-.~nNtTfFyYoO")
_WORDS: Final[dict[str, SourceValue]] = {
    **dict.fromkeys(("~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TRAP_WORDS: Final = frozenset(
    spelled for word in ("y", "n", "yes", "no", "on", "off") for spelled in (word, word.capitalize(), word.upper())
)
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TRAP: Final = re.compile(
    r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+"
    r"|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][ \t]*[0-9]{1,2}:[0-9]{2}:[0-9]{2}\S*(?:[ \t]*Z|[ \t]*[-+][0-9:]+)?)?"
)


class OutOfRange(ValueError):
    """A number that JSON, SQLite or a double cannot hold: infinite, not a number, or too long."""


def plain_scalar_value(text: str) -> SourceValue:
    """The value of the plain scalar `text`. Raises OutOfRange."""
    if not text:
        return None
    if text[0] not in _MEANT:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text in _TRAP_WORDS:
        return YamlTrap(text)
    return _number(text) if text[0] in "0123456789+-." else text


def _number(text: str) -> SourceValue:
    if _INTEGER.fullmatch(text):
        return parse_integer(text, 10)
    if _BASED.fullmatch(text):
        return parse_integer(text, 0)
    if _FLOAT.fullmatch(text):
        return parse_real(text)
    if _NOT_FINITE.fullmatch(text):
        raise OutOfRange(text)
    return YamlTrap(text) if _TRAP.fullmatch(text) else text


def parse_integer(digits: str, base: int) -> int:
    """The integer, if it fits into 64 bits with its sign. Raises OutOfRange."""
    if len(digits) > INTEGER_BITS_MAX + 3:  # Before converting: that takes quadratic time.
        raise OutOfRange(digits)
    value = int(digits, base)
    if value.bit_length() > INTEGER_BITS_MAX:
        raise OutOfRange(digits)
    return value


def parse_real(digits: str) -> float:
    """The nearest double. Raises OutOfRange when that is infinite."""
    value = float(digits)
    if not math.isfinite(value):
        raise OutOfRange(digits)
    return value
