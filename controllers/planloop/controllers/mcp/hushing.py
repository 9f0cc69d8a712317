"""Secrets that a tool server was given, masked in whatever it says: before anybody reads it, or it is kept.

A message is masked text by text, after it was read: what a number is stays one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from planloop.controllers.mcp.wire import Unreadable
from planloop.reconciler.effects import secrets
from planloop.reconciler.effects.masking import Masks
from planloop.schemas.encoding import Json
from planloop.schemas.mcp import McpSpec
from planloop.schemas.secret import REFERENCES

_PARTS: Final = ("result", "params", "error")


def masks_of(spec: McpSpec, environment: Mapping[str, str], folder: Path) -> Masks:
    """What stands in the way of what its variables and headers point at, as far as that is there."""
    values = []
    for written in (*spec.env.values(), *spec.headers.values()):
        if str(written).startswith(REFERENCES):
            try:
                value = secrets.secret(str(written), environment, folder)
            except secrets.NotThere:
                continue
            values += [value, value.rpartition(" ")[2]]  # As in `Bearer …`, which nobody says with it.
    return Masks(values)


@asynccontextmanager
async def hushed(transport: AbstractAsyncContextManager[Any], masks: Masks) -> AsyncIterator[Any]:
    """`transport`, with what comes in masked."""
    async with transport as (incoming, outgoing), anyio.create_task_group() as group:
        said, heard = anyio.create_memory_object_stream[Any](0)
        group.start_soon(_relay, incoming, said, masks)
        try:
            yield heard, outgoing
        finally:
            heard.close()
            group.cancel_scope.cancel()


async def _relay(incoming: Any, said: Any, masks: Masks) -> None:
    try:
        async with incoming, said:
            async for each in incoming:
                await said.send(_masked(each, masks))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # The end of its output, or ours.


def _masked(each: Any, masks: Masks) -> Any:
    """A message, or what was wrong with one. Its texts are masked in place: it was made for us."""
    if isinstance(each, Unreadable):
        return Unreadable(masks.mask_text(each.text), masks.mask_text(each.why), each.id)
    message = getattr(each, "message", None)
    for part in _PARTS:
        value = getattr(message, part, None)
        if isinstance(value, dict):
            setattr(message, part, _said(value, masks))
        elif value is not None:  # What is wrong, with a text of its own.
            value.message = masks.mask_text(value.message)
            value.data = _said(value.data, masks)
    return each


def _said(value: Json, masks: Masks) -> Json:
    match value:
        case str():
            return masks.mask_text(value)
        case dict():
            return {_said(key, masks): _said(item, masks) for key, item in value.items()}
        case list():
            return [_said(item, masks) for item in value]
        case _:
            return value
