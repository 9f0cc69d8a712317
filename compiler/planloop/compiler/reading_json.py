"""Reads the YAML that programs write, a line of plain JSON, without YAML's parser: ten times as fast.

Only what both readers are sure to take for the same value is read here. Whatever is doubtful (a number out of the
ordinary, an escape by number, a key that stands twice) is left to `planloop.compiler.reading_yaml`, as every fault is.
"""

from __future__ import annotations

import json
import re
from typing import Final

from planloop.compiler.source import SizeLimits
from planloop.compiler.syntax import SourceValue

KEY_CHARS_MAX: Final = 100  # YAML bounds keys at 1,024 as they are written.
_DOUBTFUL: Final = re.compile(r"[^\x20-\x7e]|\\[^\"\\nrt]")
_INT: Final = re.compile(r"-?\d{1,15}")
_DECIMAL: Final = re.compile(r"-?\d{1,9}\.\d{1,6}")


class _Doubtful(ValueError):
    """YAML may take it for something else."""


def read_line(text: str, limits: SizeLimits) -> dict[str, SourceValue] | None:
    """The map that `text` is, if it is nothing but a line of JSON and within `limits` by far; else None."""
    line = text.removesuffix("\n")
    if not line.startswith("{") or _DOUBTFUL.search(line):
        return None
    if sum(map(line.count, ",:[{")) >= limits.nodes:  # At least as many as there are values.
        return None
    try:
        value: dict[str, SourceValue] = json.loads(
            line, object_pairs_hook=_map, parse_int=_int, parse_float=_decimal, parse_constant=_decimal
        )
    except (ValueError, RecursionError):
        return None
    return value if _is_within(value, limits.depth) else None


def _map(pairs: list[tuple[str, SourceValue]]) -> dict[str, SourceValue]:
    found = dict(pairs)
    if len(found) < len(pairs) or any(not key or len(key) > KEY_CHARS_MAX for key in found):
        raise _Doubtful
    return found


def _int(text: str) -> int:
    if not _INT.fullmatch(text):
        raise _Doubtful
    return int(text)


def _decimal(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise _Doubtful
    return float(text)


def _is_within(value: SourceValue, depth_left: int) -> bool:
    """Whether what `value` holds is less than `depth_left` deep."""
    if isinstance(value, dict):
        return depth_left > 0 and all(_is_within(each, depth_left - 1) for each in value.values())
    if isinstance(value, list):
        return depth_left > 0 and all(_is_within(each, depth_left - 1) for each in value)
    return True
