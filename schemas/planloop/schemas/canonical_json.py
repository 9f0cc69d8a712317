"""JSON values, their canonical bytes, their size and their hashes.

Everything that is stored, compared or hashed passes through here, so that "equal" means "same bytes" everywhere.
No other module calls `json.dumps` on stored values. Patching of values lives in `planloop.schemas.json_patch`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec.msgpack
import orjson

from planloop.schemas.frozen import frozen
from planloop.schemas.gc_control import gc_paused
from planloop.schemas.limits import FOREIGN_DEPTH_MAX

# Any is allowed here and in adapters only (style.md): a recursive JSON alias makes every read of a spec a cast.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]
Excess: TypeAlias = Literal["values", "size", "depth"]

GC_PAUSE_CHARS: Final = 64 << 10  # Characters of a text from which holding the collector pays.


def _may_have_no_number(value: Json) -> bool:
    """Whether a NaN or an infinity may be in `value`, by the marks they have in MessagePack (0xcb, then IEEE 754).

    Texts and large numbers can hold the same bytes, so a yes is a guess and a no is sure.
    """
    packed = msgspec.msgpack.encode(value)
    return b"\xcb\x7f" in packed or b"\xcb\xff" in packed


def _printer(*, sort_keys: bool) -> Callable[[Json], bytes]:
    """What orjson prints, of what the standard library's encoder takes.

    orjson writes NaN and infinity as null, so a text with a null has its value searched for them. What orjson refuses
    goes through the standard library, which may refuse it with errors of its own: keys that are no texts are texts
    then, and orjson prints it after all; with integers beyond 64 bits and with deep nesting it does not, and small
    numbers beside those have another form than elsewhere. A value has one form in any case. Only with orjson, enums
    and UUIDs are printed as their values; stored values contain none.
    """
    plain = json.JSONEncoder(ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"), allow_nan=False)
    options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    options |= orjson.OPT_SORT_KEYS if sort_keys else 0

    def slowly(value: Json) -> bytes:
        read = json.loads(plain.encode(value))
        try:
            return orjson.dumps(read, None, options)
        except TypeError:
            return plain.encode(read).encode()

    def printed(value: Json) -> bytes:
        try:
            quick = orjson.dumps(value, None, options)
            if b"null" in quick and _may_have_no_number(value):
                return slowly(value)
        except (TypeError, OverflowError, RecursionError):
            return slowly(value)
        return quick

    return printed


_encode_sorted = _printer(sort_keys=True)
_ordered = _printer(sort_keys=False)


def canonical_bytes(value: Json) -> bytes:
    """UTF-8 bytes of `value`: keys sorted, no spaces, no NaN. Equal values give equal bytes."""
    return _encode_sorted(value)


def encode(value: Json) -> bytes:
    """UTF-8 bytes of `value` with key order kept: for the log and the wire, where order is part of a document."""
    return _ordered(value)


def encode_text(value: Json) -> str:
    """What `encode` gives, as text."""
    return _ordered(value).decode()


def decode(text: bytes | str) -> Json:
    """The value that `encode` or `canonical` printed. Raises ValueError for anything that is not JSON."""
    try:
        if len(text) < GC_PAUSE_CHARS:
            return json.loads(text)
        with gc_paused():
            return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def decode_foreign(text: bytes | str) -> Json:
    """`decode` for what others printed, who may write what no log can hold: 1e999, NaN, half a surrogate pair, a spire.

    Raises ValueError.
    """
    value = decode(text)
    level: list[Json] = [value]
    for _ in range(FOREIGN_DEPTH_MAX):
        level = [item for one in level if isinstance(one, dict | list) for item in _items(one)]
        if not level:
            encode(value)
            return value
    raise ValueError("it is nested too deeply")


@frozen
class Extent:
    """How much a value holds: `values` counts each value in it and itself, `size_bytes` the text, keys included.

    A value that is shared, as `copy` leaves it, counts at each of its places.
    """

    values: int
    size_bytes: int


def measure_extent(value: Json, values_max: int, bytes_max: int, depth_max: int) -> Extent | Excess:
    """The extent of `value`, or the first bound that it is past. Looks at no more than `values_max` values."""
    level: list[Json] = [value]
    values = size = 0
    for _ in range(max(depth_max, 0) + 1):
        values += len(level)
        deeper: list[Json] = []
        for one in level:
            if isinstance(one, str):
                size += len(one)
            elif isinstance(one, dict):
                size += sum(map(len, one))
                deeper += one.values()
            elif isinstance(one, list):
                deeper += one
            if len(deeper) + values > values_max:
                return "values"
        if size > bytes_max:
            return "size"
        if not deeper:
            return Extent(values, size)
        level = deeper
    return "depth"


def _items(value: JsonObject | list[Json]) -> Iterable[Json]:
    return value.values() if isinstance(value, dict) else value


def printable_name(name: str) -> str:
    """The name of a file as a log can hold it: bytes that are no UTF-8, which Python has as half pairs, as `\\xff`."""
    return name if name.isascii() else name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def sha256_hex(content: bytes) -> str:
    """The 64 hex digits of SHA-256: names blobs, prompts and documents."""
    return hashlib.sha256(content).hexdigest()


def sha256_of_value(value: Json) -> str:
    """`digest` of the canonical bytes of `value`: the same for equal values."""
    return sha256_hex(canonical_bytes(value))
