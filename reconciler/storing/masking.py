"""Keeps known secret values out of the log: whatever a writer hands in is masked before it is folded or stored.

Only values somebody declared are known, so this is a last net under "secrets are references". Addresses and uids are
never masked: they are identity. A value shorter than `limits.SECRET_CHARS_MIN` is not masked, for it would eat text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from schemas import encoding, limits
from schemas.encoding import Json
from schemas.frozen import frozen
from schemas.patching import Op
from schemas.record import Change, Draft, PatchSpec, Put, SetStatus

MASK: Final = "•••"


@frozen
class Masks:
    """What to look for: each secret, and how it looks inside a JSON text when that differs. Longest first.

    `encoded` are the needles as they stand in the JSON text of a record.
    """

    needles: tuple[str, ...] = ()
    encoded: tuple[str, ...] = ()

    def with_secrets(self, secrets: Iterable[str]) -> Masks:
        """These and more. Too short values are left out."""
        known = [secret for secret in secrets if len(secret) >= limits.SECRET_CHARS_MIN]
        every = {*self.needles, *known, *(_escaped(secret) for secret in known)}
        needles = tuple(sorted(every, key=lambda needle: (-len(needle), needle)))
        return Masks(needles, tuple(_escaped(needle) for needle in needles))

    def are_in(self, encoded: str) -> bool:
        """Whether a JSON text may hold a secret. Cheap, so that clean records cost next to nothing."""
        return any(needle in encoded for needle in self.encoded)

    def mask_text(self, text: str) -> str:
        for needle in self.needles:
            text = text.replace(needle, MASK)
        return text

    def mask_bytes(self, content: bytes) -> bytes:
        for needle in self.needles:
            content = content.replace(needle.encode(), MASK.encode())
        return content

    def mask_value(self, value: Json) -> Json:
        """`value` with every text in it masked, keys too."""
        match value:
            case str():
                return self.mask_text(value)
            case dict():
                return {self.mask_text(key): self.mask_value(item) for key, item in value.items()}
            case list() | tuple():
                return [self.mask_value(item) for item in value]
            case _:
                return value

    def mask_draft(self, draft: Draft) -> Draft:
        """`draft` with its data and changes masked."""
        changes = tuple(self._mask_change(change) for change in draft.changes)
        also = tuple(replace(one, data=self.mask_value(one.data)) for one in draft.also)
        return replace(draft, changes=changes, data=self.mask_value(draft.data), also=also)

    def _mask_change(self, change: Change) -> Change:
        match change:
            case Put():
                return replace(change, spec=self.mask_value(change.spec), status=self.mask_value(change.status))
            case SetStatus():
                return replace(change, merge=self.mask_value(change.merge))
            case PatchSpec():
                return replace(change, ops=tuple(self._mask_op(op) for op in change.ops))
            case _:
                return change

    def _mask_op(self, op: Op) -> Op:
        return replace(op, value=self.mask_value(op.value))


def _escaped(text: str) -> str:
    """`text` as it stands between the quotes of a JSON text."""
    return encoding.encode(text).decode()[1:-1]
