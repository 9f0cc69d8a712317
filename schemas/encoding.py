"""JSON values, their canonical bytes and their hashes.

Everything that is stored, compared or hashed passes through here, so that "equal" means "same bytes" everywhere.
No other module calls `json.dumps` on stored values. Patching of values lives in `schemas/patching.py`.
"""

from __future__ import annotations

import hashlib
import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import orjson

from schemas.collecting import collector_off
from schemas.limits import FOREIGN_DEPTH_MAX

# Any is allowed here and in adapters only (style.md): a recursive JSON alias makes every read of a spec a cast.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

LARGE: Final = 64 << 10  # Characters of a text from which holding the collector pays.


def _plain_printer(*, sort_keys: bool) -> Callable[[Json], bytes]:
    """What `JSONEncoder.encode` does, with the compiled encoder made once: it makes a new one for every value.

    An interpreter without the compiled encoder takes the slow way.
    """
    plain = json.JSONEncoder(ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"), allow_nan=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value: plain.encode(value).encode()
    pieces = make(None, plain.default, json.encoder.encode_basestring, None, ":", ",", sort_keys, False, False)
    return lambda value: "".join(pieces(value, 0)).encode()


SMALL: Final = (b"e-1", b"e-2", b"e-3", b"e-6", b"e-7", b"e-8", b"e-9")
"""One of these is in every text with a number below a millionth, and now and then in another."""


def _has_small(text: bytes) -> bool:
    """Whether there may be a number below a ten-thousandth in what orjson printed."""
    return b"0.0000" in text or (b"e-" in text and any(map(text.__contains__, SMALL)))


def _printer(*, sort_keys: bool) -> Callable[[Json], bytes]:
    """What the standard library's encoder prints, by orjson in an eighth of the time wherever it does the same.

    What is no number would be null with it, so a text with a null in it is read back and held against the value. What
    it refuses, the other may take, or refuses with errors of its own. Small numbers they print in two ways. Only with
    orjson, enums and UUIDs are printed as their values; nobody here has any in what is stored.
    """
    plain = _plain_printer(sort_keys=sort_keys)
    options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    options |= orjson.OPT_SORT_KEYS if sort_keys else 0

    def printed(value: Json) -> bytes:
        try:
            quick = orjson.dumps(value, None, options)
        except TypeError:
            return plain(value)
        if _has_small(quick) or (b"null" in quick and orjson.loads(quick) != value):
            return plain(value)
        return quick

    return printed


_canonical = _printer(sort_keys=True)
_ordered = _printer(sort_keys=False)


def canonical(value: Json) -> bytes:
    """UTF-8 bytes of `value`: keys sorted, no spaces, no NaN. Equal values give equal bytes."""
    return _canonical(value)


def encode(value: Json) -> bytes:
    """UTF-8 bytes of `value` with key order kept: for the log and the wire, where order is part of a document."""
    return _ordered(value)


def encode_text(value: Json) -> str:
    """What `encode` gives, as text."""
    return _ordered(value).decode()


def decode(text: bytes | str) -> Json:
    """The value that `encode` or `canonical` printed. Raises ValueError for anything that is not JSON."""
    try:
        if len(text) < LARGE:
            return json.loads(text)
        with collector_off():
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


def _items(value: JsonObject | list[Json]) -> Iterable[Json]:
    return value.values() if isinstance(value, dict) else value


def printable(name: str) -> str:
    """The name of a file as a log can hold it: bytes that are no UTF-8, which Python has as half pairs, as `\\xff`."""
    return name if name.isascii() else name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def digest(content: bytes) -> str:
    """The 64 hex digits of SHA-256: names blobs, prompts and documents."""
    return hashlib.sha256(content).hexdigest()


def digest_of(value: Json) -> str:
    """`digest` of the canonical bytes of `value`: the same for equal values."""
    return digest(canonical(value))
