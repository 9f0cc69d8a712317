"""Mask known secrets in text and in streams before they are stored or shown. Standard library only. Pure.

Masks whole values, as they are and as they are escaped in JSON. A value shorter than `limits.SECRET_CHARS_MIN` is not
masked, because it would match ordinary text. No dataclasses: programs that run for a few milliseconds import this, too.
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
    """Replaces `secrets` in text. Of two with the same start, the longer one is matched."""

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
        """`content` with every secret masked."""
        return content if self._pattern is None else self._pattern.sub(_MASK, content)

    def mask_text(self, text: str) -> str:
        """`text` with every secret masked."""
        return text if self._pattern is None else self.mask(text.encode(errors="replace")).decode()

    def stream(self) -> MaskedStream:
        """A masker for content that arrives in pieces."""
        return MaskedStream(self)

    def split(self, content: bytes) -> tuple[bytes, bytes]:
        """The part of `content` that can be shown now, masked, and the rest, which may be the start of a secret."""
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
        """The offset at which an incomplete secret may start at the end of `content`; its length if none does."""
        longest = len(self._needles[0])
        for at in range(max(0, len(content) - longest + 1), len(content)):
            if content[at] in self._firsts:
                tail = content[at:]
                if any(len(needle) > len(tail) and needle.startswith(tail) for needle in self._needles):
                    return at
        return len(content)


class MaskedStream:
    """Masks content that arrives in pieces: holds back what may be the start of a secret until more arrives."""

    __slots__ = ("_held", "_masks")

    def __init__(self, masks: SecretMasks) -> None:
        self._masks = masks
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be shown after `piece`; possibly nothing."""
        said, self._held = self._masks.split(self._held + piece)
        return said

    def flush(self) -> bytes:
        """The held-back rest, at the end of the content."""
        said, self._held = self._masks.mask(self._held), b""
        return said


def _forms(secret: str) -> Iterable[bytes]:
    for text in (secret, json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1]):
        yield text.encode(errors="surrogateescape")
