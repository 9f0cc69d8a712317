"""What a tool server offers, from the lists it sent: tools, prompts and resources. Pure.

Digests cover whatever a model reads of a tool, so that one that changes its words under an agreed name is found out.
What is too large for a prompt, too much or no tool at all is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, canonical_bytes, sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.mcp import ServedTool
from planloop.schemas.tool_schema import drop_non_finite

_NAME_CHARS: Final = 100  # Of the name of a tool that is left out.
_HINTS: Final = {
    "readOnlyHint": "read_only_hint",
    "destructiveHint": "destructive_hint",
    "idempotentHint": "idempotent_hint",
    "openWorldHint": "open_world_hint",
}
"""Annotations of servers about the effects of a tool, and their names in the log."""


@frozen
class ToolServerOffer:
    """Everything a server lists. `left_out` are tools that are not offered, and `missing` lists that it has not, by
    name, each with the reason.
    """

    tools: tuple[ServedTool, ...]
    prompts: tuple[JsonObject, ...]
    resources: tuple[JsonObject, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


def server_offer(
    tools: Iterable[Json],
    prompts: Iterable[Json] = (),
    resources: Iterable[Json] = (),
    missing: tuple[tuple[str, str], ...] = (),
) -> ToolServerOffer:
    """The offer of a server whose lists these are, as it wrote them. What is wrong with one entry costs that one."""
    kept: dict[str, ServedTool] = {}
    left_out: list[tuple[str, str]] = []
    for number, each in enumerate(tools, 1):
        tool = _tool(each)
        why = _why_not(tool, kept)
        if tool is not None and not why:
            kept[tool.name] = tool
        else:
            named = tool.name if tool is not None and tool.name else f"number {number}"
            left_out.append((named[:_NAME_CHARS], why))
    return ToolServerOffer(
        tuple(kept.values()),
        tuple(_prompt(each) for each in prompts if _is_named(each, "name"))[: limits.SERVER_TOOLS_MAX],
        tuple(_resource(each) for each in resources if _is_named(each, "uri"))[: limits.SERVER_TOOLS_MAX],
        tuple(left_out[: limits.SERVER_TOOLS_MAX]),
        missing,
    )


def _is_named(value: Json, member: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(member), str) and bool(value[member])


def _why_not(tool: ServedTool | None, kept: Mapping[str, ServedTool]) -> str:
    """Why a tool is not offered; empty if it is."""
    if tool is None:
        return "it is not an object with a name"
    if tool.name in kept:
        return "another tool of the server has the same name"
    if len(kept) >= limits.SERVER_TOOLS_MAX:
        return f"the server lists more than {limits.SERVER_TOOLS_MAX} tools"
    size_bytes = len(canonical_bytes([tool.name, tool.description, tool.parameters]))
    if size_bytes > limits.SERVER_OFFER_BYTES_MAX:
        return f"its name, description and schema have {size_bytes} bytes; the most is {limits.SERVER_OFFER_BYTES_MAX}"
    return ""


def _tool(given: Json) -> ServedTool | None:
    if not _is_named(given, "name"):
        return None
    name = given["name"]
    description = _words(given.get("description")) or _words(given.get("title"))
    schema = drop_non_finite(given.get("inputSchema"))
    parameters: JsonObject = schema if isinstance(schema, dict) else {}
    annotations = given.get("annotations")
    told = annotations if isinstance(annotations, dict) else {}
    hints: JsonObject = {ours: told[theirs] for theirs, ours in _HINTS.items() if isinstance(told.get(theirs), bool)}
    return ServedTool(name, description, parameters, hints, sha256_of_value([name, description, parameters]))


def _words(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _prompt(given: JsonObject) -> JsonObject:
    listed = given.get("arguments")
    arguments = [
        {"name": each["name"], "description": _words(each.get("description")), "required": each.get("required") is True}
        for each in (listed if isinstance(listed, list) else ())
        if _is_named(each, "name")
    ]
    return {"name": given["name"], "description": _words(given.get("description")), "arguments": arguments}


def _resource(given: JsonObject) -> JsonObject:
    return {"uri": given["uri"], "name": _words(given.get("name")), "type": _words(given.get("mimeType"))}


def schema_misfit(schema: Json, result: JsonObject) -> str:
    """Return how a result differs from the output schema of its tool; empty if no difference is found.

    Only the outermost level is looked at: the note is for a reader, who gets the content in any case.
    """
    if not isinstance(schema, dict) or not schema or result.get("isError"):
        return ""
    given = result.get("structuredContent")
    if given is None:
        return "[the tool's output schema promises structured content, and the answer has none]"
    if not isinstance(given, dict):
        return "[the structured content is not an object, as the tool's output schema says]"
    required, named = schema.get("required"), schema.get("properties")
    names = [name for name in (required if isinstance(required, list) else ()) if name not in given]
    types = named if isinstance(named, dict) else {}
    wrong = [name for name, value in given.items() if not _has_type(value, types.get(name))]
    words = [f"`{name}` is missing" for name in names] + [f"`{name}` has another type" for name in wrong]
    return f"[the structured content does not fit the tool's output schema: {', '.join(words[:5])}]" if words else ""


def _has_type(value: Json, schema: Json) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return not isinstance(kind, str) or kind not in _IS or _IS[kind](value)


_IS: Final[Mapping[str, Callable[[Json], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def in_known_order(known: Sequence[ServedTool], listed: Sequence[ServedTool]) -> list[ServedTool]:
    """`listed` with what was known first, in its order, and the new ones by name after it."""
    now = {tool.name: tool for tool in listed}
    old = [now[tool.name] for tool in known if tool.name in now]
    names = {tool.name for tool in old}
    return [*old, *sorted((tool for tool in now.values() if tool.name not in names), key=lambda tool: tool.name)]


def allowed_tools(listed: Sequence[ServedTool], names: Sequence[str] | None) -> list[ServedTool]:
    """Those that the plan lets it offer; None lets it offer all."""
    return [tool for tool in listed if names is None or tool.name in names]


def agreed_digests(listed: Sequence[ServedTool], digests: Mapping[str, str]) -> dict[str, str]:
    """The digests that are agreed on: a tool seen for the first time is trusted, for the plan names its server."""
    return {**{tool.name: tool.digest for tool in listed}, **digests}
