"""Mask a tool server's own secrets in everything that it sends, before it is read or stored.

A message is masked text by text, after it was read: what a number is stays one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from planloop.controllers.mcp.json_rpc import UnreadableMessage
from planloop.reconciler.effects import secrets
from planloop.reconciler.effects.secret_masks import SecretMasks
from planloop.schemas.canonical_json import Json
from planloop.schemas.objects.mcp import McpSpec
from planloop.schemas.secret import REFERENCES

_PARTS: Final = ("result", "params", "error")


def server_masks(spec: McpSpec, environment: Mapping[str, str], folder: Path) -> SecretMasks:
    """What stands in the way of what its variables and headers point at, as far as that is there."""
    values = []
    for written in (*spec.env.values(), *spec.headers.values()):
        if str(written).startswith(REFERENCES):
            try:
                value = secrets.resolve_secret(str(written), environment, folder)
            except secrets.SecretMissing:
                continue
            values += [value, value.rpartition(" ")[2]]  # As in `Bearer …`, which nobody says with it.
    return SecretMasks(values)


@asynccontextmanager
async def masked_transport(transport: AbstractAsyncContextManager[Any], masks: SecretMasks) -> AsyncIterator[Any]:
    """`transport`, with what comes in masked."""
    async with transport as (incoming, outgoing), anyio.create_task_group() as group:
        said, heard = anyio.create_memory_object_stream[Any](0)
        group.start_soon(_relay, incoming, said, masks)
        try:
            yield heard, outgoing
        finally:
            heard.close()
            group.cancel_scope.cancel()


async def _relay(incoming: Any, said: Any, masks: SecretMasks) -> None:
    try:
        async with incoming, said:
            async for each in incoming:
                await said.send(_masked(each, masks))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # The end of its output, or ours.


def _masked(each: Any, masks: SecretMasks) -> Any:
    """A message, or what was wrong with one. Its texts are masked in place: it was made for us."""
    if isinstance(each, UnreadableMessage):
        return UnreadableMessage(masks.mask_text(each.text), masks.mask_text(each.why), each.id)
    message = getattr(each, "message", None)
    for part in _PARTS:
        value = getattr(message, part, None)
        if isinstance(value, dict):
            setattr(message, part, _said(value, masks))
        elif value is not None:  # What is wrong, with a text of its own.
            value.message = masks.mask_text(value.message)
            value.data = _said(value.data, masks)
    return each


def _said(value: Json, masks: SecretMasks) -> Json:
    match value:
        case str():
            return masks.mask_text(value)
        case dict():
            return {_said(key, masks): _said(item, masks) for key, item in value.items()}
        case list():
            return [_said(item, masks) for item in value]
        case _:
            return value
