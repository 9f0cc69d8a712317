"""Mask known secrets in text and in streams before they are stored or shown. Standard library only. Pure.

Only whole values are known, as they are and as they stand in a JSON text. One shorter than `limits.SECRET_CHARS_MIN`
is not masked, for it would eat text. No dataclasses: programs of a few milliseconds need this, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from planloop.schemas.limits import SECRET_CHARS_MIN

MASK: Final = "•••"
_MASK: Final = MASK.encode()


class SecretMasks:
    """What stands in the way of `secrets`. Of two that begin alike, the longer one is seen."""

    __slots__ = ("_firsts", "_needles", "_pattern")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret.strip() for secret in secrets}
        every = {form for secret in known if len(secret) >= SECRET_CHARS_MIN for form in _forms(secret)}
        self._needles = sorted(every, key=lambda needle: (-len(needle), needle))
        self._firsts = frozenset(needle[0] for needle in self._needles)
        self._pattern = re.compile(b"|".join(map(re.escape, self._needles))) if self._needles else None

    def __bool__(self) -> bool:
        """Whether there is anything to mask."""
        return self._pattern is not None

    def mask(self, content: bytes) -> bytes:
        """`content` without any of them."""
        return content if self._pattern is None else self._pattern.sub(_MASK, content)

    def mask_text(self, text: str) -> str:
        """`text` without any of them."""
        return text if self._pattern is None else self.mask(text.encode(errors="replace")).decode()

    def stream(self) -> MaskedStream:
        """The same for what comes in pieces."""
        return MaskedStream(self)

    def split(self, content: bytes) -> tuple[bytes, bytes]:
        """What can be said of `content` now, masked, and the rest, with which one of them may begin."""
        if self._pattern is None:
            return content, b""
        rest_at = self._beginning(content)
        said, at = b"", 0
        for found in self._pattern.finditer(content):
            if found.start() >= rest_at:
                break
            said, at = said + content[at : found.start()] + _MASK, found.end()
        rest_at = max(at, rest_at)
        return said + content[at:rest_at], content[rest_at:]

    def _beginning(self, content: bytes) -> int:
        """Where at the end of `content` one of them may begin that is not all there; its length where none does."""
        longest = len(self._needles[0])
        for at in range(max(0, len(content) - longest + 1), len(content)):
            if content[at] in self._firsts:
                tail = content[at:]
                if any(len(needle) > len(tail) and needle.startswith(tail) for needle in self._needles):
                    return at
        return len(content)


class MaskedStream:
    """Masks what comes in pieces as if it came at once: the beginning of a secret is held back until more is known."""

    __slots__ = ("_held", "_masks")

    def __init__(self, masks: SecretMasks) -> None:
        self._masks = masks
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be shown now that `piece` has come; it may be nothing."""
        said, self._held = self._masks.split(self._held + piece)
        return said

    def flush(self) -> bytes:
        """What was held back: nothing more comes."""
        said, self._held = self._masks.mask(self._held), b""
        return said


def _forms(secret: str) -> Iterable[bytes]:
    for text in (secret, json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1]):
        yield text.encode(errors="surrogateescape")
