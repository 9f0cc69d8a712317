"""What a server offers, from the SDK's values to plain JSON: tools, prompts and resources. Pure.

Digests cover whatever a model reads of a tool, so that one that changes its words under an agreed name is found out.
What is too large for a prompt, or too much, is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas import limits
from schemas.encoding import JsonObject, canonical, digest_of
from schemas.frozen import frozen
from schemas.mcp import ServedTool


@frozen
class Offer:
    """Everything a server lists. `left_out` are names of tools that are too large or too many."""

    tools: tuple[ServedTool, ...]
    prompts: tuple[JsonObject, ...]
    resources: tuple[JsonObject, ...]
    left_out: tuple[str, ...] = ()


def offer(tools: Iterable[Any], prompts: Iterable[Any], resources: Iterable[Any]) -> Offer:
    """The offer of a server whose lists these are; the values are the SDK's."""
    described = [_tool(tool) for tool in tools]
    fitting = [tool for tool in described if _fits(tool)]
    kept = fitting[: limits.SERVER_TOOLS_MAX]
    names = {tool.name for tool in kept}
    return Offer(
        tuple(kept),
        tuple(_prompt(prompt) for prompt in prompts)[: limits.SERVER_TOOLS_MAX],
        tuple(_resource(resource) for resource in resources)[: limits.SERVER_TOOLS_MAX],
        tuple(tool.name for tool in described if tool.name not in names),
    )


def _fits(tool: ServedTool) -> bool:
    return len(canonical([tool.name, tool.description, tool.parameters])) <= limits.SERVER_OFFER_BYTES_MAX


def _tool(tool: Any) -> ServedTool:
    description = str(tool.description or tool.title or "")
    # No provider takes a prompt with a tool whose arguments are no object.
    schema: JsonObject = tool.input_schema or {}
    parameters: JsonObject = schema if schema.get("type") == "object" else {"type": "object"}
    hints: JsonObject = {} if tool.annotations is None else tool.annotations.model_dump(exclude_none=True)
    hints.pop("title", None)
    return ServedTool(tool.name, description, parameters, hints, digest_of([tool.name, description, parameters]))


def _prompt(prompt: Any) -> JsonObject:
    arguments = [
        {"name": each.name, "description": each.description or "", "required": bool(each.required)}
        for each in prompt.arguments or ()
    ]
    return {"name": prompt.name, "description": prompt.description or "", "arguments": arguments}


def _resource(resource: Any) -> JsonObject:
    return {"uri": str(resource.uri), "name": resource.name, "type": resource.mime_type or ""}


def in_order(known: Sequence[ServedTool], listed: Sequence[ServedTool]) -> list[ServedTool]:
    """`listed` with what was known first, in its order, and the new ones by name after it."""
    now = {tool.name: tool for tool in listed}
    old = [now[tool.name] for tool in known if tool.name in now]
    names = {tool.name for tool in old}
    return [*old, *sorted((tool for tool in now.values() if tool.name not in names), key=lambda tool: tool.name)]


def allowed(listed: Sequence[ServedTool], names: Sequence[str] | None) -> list[ServedTool]:
    """Those that the plan lets it offer; None lets it offer all."""
    return [tool for tool in listed if names is None or tool.name in names]


def agreed(listed: Sequence[ServedTool], digests: Mapping[str, str]) -> dict[str, str]:
    """The digests that are agreed on: a tool seen for the first time is trusted, for the plan names its server."""
    return {**{tool.name: tool.digest for tool in listed}, **digests}
