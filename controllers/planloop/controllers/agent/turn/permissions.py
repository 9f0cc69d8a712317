"""Which calls an agent may make, by its rights and the plan's approval patterns. Pure.

An unknown, malformed, duplicate or forbidden call gets its result here and never starts. The file tools check rights to
single files, because only they know where a path leads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import TurnCall
from planloop.controllers.agent.tools.tool import ExplainsMissing, InvalidToolArguments, Tool, ToolCache, all_subjects
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import AgentSpec
from planloop.schemas.objects.call import NO_SUCH_TOOL, NOT_GRANTED, CallResult, CallState, EffectClass
from planloop.schemas.objects.mcp import may_use_server
from planloop.schemas.resource import Resource
from planloop.schemas.tools import FREE_TO_HOOKS, GRANTED_WITH, ON_OCCASION, ONLINE_TOOLS, PATH_TOOLS, WRITING_TOOLS

ToolMap = Mapping[str, Tool]

_STRICTNESS: Final = tuple(EffectClass)
CALL_DIGEST_CHARS: Final = 12  # Enough of a call's digest to compare it with the call before.
ENDING_TOOLS: Final = ("done", "fail")
"""The tools that an agent has in its last turn."""

_PATH_ARGUMENT: Final = re.compile(r"path|file|folder|dir|uri|url|source|dest|target", re.IGNORECASE)
"""Parts of the names of path arguments of tool servers. Other arguments may contain a file name by chance."""

MALFORMED_ERROR: Final = "Malformed"


@frozen
class CallAllowed:
    """The call may start."""


@frozen
class CallNeedsApproval:
    """The call waits for approval because of this pattern of the plan, or for the reason `why`."""

    pattern: str
    why: str = ""


@frozen
class CallRefused:
    """The call gets this result and never starts."""

    result: CallResult


CallPermission = CallAllowed | CallNeedsApproval | CallRefused


def check_calls(agent: ObservedAgent, tools: ToolMap, approve: Sequence[str]) -> list[CallPermission]:
    """One ruling for each call of the open turn, in call order."""
    turn = agent.opened
    out: list[CallPermission] = []
    keys: set[str] = set()
    calls_left = agent.budget.left.get("calls")
    for index, call in enumerate(turn.reply.calls):
        is_over = calls_left is not None and index >= calls_left and not _is_free(call, agent.spec, tools)
        if index >= limits.TURN_ACTIONS_MAX:
            out.append(_failed("TooMany", f"a reply may have at most {limits.TURN_ACTIONS_MAX} calls"))
        elif call.key and call.key in keys:
            out.append(
                _failed("DuplicateId", f"two calls of this reply have the id `{call.key}`; the first one counts")
            )
        elif turn.is_last and call.tool not in ENDING_TOOLS:
            out.append(_denied("this is your last turn: only `done` and `fail` are available"))
        elif is_over:
            out.append(_denied("the budget of calls is used up"))
        else:
            out.append(check_call(call, agent.spec, tools, approve))
        keys.add(call.key)
    return out


def check_call(call: TurnCall, spec: AgentSpec, tools: ToolMap, approve: Sequence[str]) -> CallPermission:
    """Whether `call` may start, regardless of other calls."""
    if call.fault:
        return _failed(MALFORMED_ERROR, call.fault)
    tool = tools.get(call.tool)
    if tool is None:
        return _unknown(call.tool, spec, tools)
    if not is_free_tool(tool, spec) and not is_tool_granted(tool.name, spec):
        return _denied(f"{NOT_GRANTED} `{tool.name}`; you have {', '.join(granted_tools(spec, tools))}")
    if tool.withheld:
        return _denied(f"`{tool.name}` is withheld: {tool.withheld}")
    try:
        tool.given(call.arguments)
    except InvalidToolArguments as error:
        return _failed("BadArguments", f"{tool.name}: {error}")
    if why := why_forbidden(tool, call.arguments, spec):
        return _denied(why)
    if pattern := _covering(approve, tool.name, tool.subjects(call.arguments)):
        return CallNeedsApproval(pattern)
    return CallAllowed()


def why_forbidden(tool: Tool, arguments: JsonObject, spec: AgentSpec) -> str:
    """Why the agent's rights forbid this call; empty if they allow it. A denial overrides everything else."""
    if denial := _covering((*spec.rights.deny, *spec.rights.guarded), tool.name, tool.subjects(arguments)):
        return f"`{tool.name}` on this is denied by `{denial}`"
    if "." in tool.name and tool.effect is not EffectClass.READ and _leads_to_guarded(arguments, spec):
        return f"`{tool.name}` may write this path, and you have no right to write it"
    if tool.name in ONLINE_TOOLS and not spec.rights.network:
        return f"`{tool.name}` needs the network, and your rights do not include it"
    if not is_free_tool(tool, spec) and not is_call_allowed(tool, arguments, spec):
        return f"you may use `{tool.name}` only as {', '.join(_examples(tool.name, spec))}"
    return ""


def _leads_to_guarded(arguments: JsonObject, spec: AgentSpec) -> bool:
    """Whether a path in the arguments for a tool server may be a file that decides for a hook."""
    if not spec.rights.guarded:
        return False
    paths = all_subjects({"paths": list(_path_arguments(arguments))})
    return bool(paths) and bool(patterns.find_denial(spec.rights.guarded, WRITING_TOOLS[0], paths))


def _path_arguments(value: Json) -> Iterator[Json]:
    """The values of path arguments, at any depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from (each for name, each in one.items() if _PATH_ARGUMENT.search(name))
            waiting += [each for name, each in one.items() if not _PATH_ARGUMENT.search(name)]
        elif isinstance(one, list):
            waiting += one


def why_barred(call: Resource, tool: Tool, spec: AgentSpec) -> str:
    """Why an authorized call may not start now; empty if it may.

    Its agent may have lost rights while the call waited for an approval, a lock or a slot, and an approval does not
    override a denial.
    """
    if call.state != CallState.AUTHORIZED:
        return ""
    if not is_free_tool(tool, spec) and not is_tool_granted(tool.name, spec):
        return f"you may no longer use `{tool.name}`"
    return why_forbidden(tool, call.spec["arguments"], spec)


def denied_result(why: str) -> CallResult:
    """The result of a call that rights forbid."""
    return CallResult(CallState.DENIED, why, "Denied")


def is_call_allowed(tool: Tool, arguments: JsonObject, spec: AgentSpec) -> bool:
    """Whether the agent's tools and its rights both allow this call. The file tools check paths themselves."""
    if tool.name in PATH_TOOLS:
        return True
    exact = tool.exact(arguments)
    return all(
        any(patterns.is_allowed_by(allowed, each, exact) for each in _granting(tool.name))
        for allowed in (spec.tools, spec.rights.tools)
    )


def _examples(name: str, spec: AgentSpec) -> list[str]:
    written = (*spec.tools, *(spec.rights.tools or ()))
    return [f"`{one}`" for one in dict.fromkeys(written) if "(" in one and patterns.allows_some_call((one,), name)]


def granted_tools(spec: AgentSpec, tools: ToolMap) -> tuple[str, ...]:
    """The names of the tools that the agent may use, in a stable order."""
    if isinstance(tools, ToolCache):
        return tools.kept_for(spec, lambda one: _granted(one, tools))
    return _granted(spec, tools)


def _granted(spec: AgentSpec, tools: ToolMap) -> tuple[str, ...]:
    ordered, allowed = _ordered(tuple(tools), spec.tools, spec.rights.tools)
    free = (name for name in ordered if name not in ON_OCCASION and is_free_tool(tools[name], spec))
    shown = allowed.union(free)
    return tuple(name for name in ordered if name in shown)


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX)
def _ordered(
    names: tuple[str, ...], own: tuple[str, ...], rights: tuple[str, ...] | None
) -> tuple[tuple[str, ...], frozenset[str]]:
    """The names in the order in which they are declared to a model, and those that the patterns allow."""
    # Tools of servers keep the order of the agent's list, or of their arrival. A prompt begins with the tools, so
    # sorting a late one in would change the whole prompt.
    written = {name: place for place, name in enumerate(own)}
    served = sorted((name for name in names if "." in name), key=lambda name: written.get(name, len(own)))
    ordered = (*sorted(name for name in names if "." not in name), *served)
    return ordered, frozenset(name for name in names if _is_named(own, name) and _is_named(rights, name))


def is_tool_granted(name: str, spec: AgentSpec) -> bool:
    """Whether the agent's own list and its rights both have the tool."""
    return _is_named(spec.tools, name) and _is_named(spec.rights.tools, name)


def _is_named(allowed: Sequence[str] | None, name: str) -> bool:
    return any(patterns.allows_some_call(allowed, each) for each in _granting(name))


def _granting(tool: str) -> tuple[str, ...]:
    """The names of which each one grants `tool`: its own, its server's, or that of the tool that it comes with."""
    with_it = GRANTED_WITH.get(tool)
    return _names(tool) if with_it is None else (tool, with_it)


def _names(tool: str) -> tuple[str, ...]:
    """A tool's own name; for a tool of a server also the server's, which means all its tools."""
    server, dot, _ = tool.partition(".")
    return (tool, server) if dot else (tool,)


def _covering(written: Sequence[str], tool: str, subjects: Sequence[str]) -> str:
    """The first pattern that covers a call of `tool` on any of `subjects`; empty when none does."""
    return next(filter(None, (patterns.find_denial(written, name, subjects) for name in _names(tool))), "")


def effect_of(tool: Tool, arguments: Json, spec: AgentSpec) -> EffectClass:
    """The effect class of a call: what the plan states for the tool or for such calls, else the tool's own."""
    given = arguments if isinstance(arguments, dict) else {}
    for pattern, word in spec.effects.items():
        effect = EffectClass(word)
        # A stricter class applies if the pattern may cover the call, a freer one only if it certainly does.
        if _STRICTNESS.index(effect) >= _STRICTNESS.index(tool.effect):
            is_meant = bool(_covering((pattern,), tool.name, tool.subjects(given)))
        else:
            is_meant = any(patterns.is_allowed_by((pattern,), each, tool.exact(given)) for each in _names(tool.name))
        if is_meant:
            return effect
    return tool.effect


def is_parallel(call: TurnCall, spec: AgentSpec, tools: ToolMap) -> bool:
    """Whether a call may run in parallel with others of its reply: it only reads, or the decider allows it."""
    tool = tools.get(call.tool)
    if tool is None:
        return True
    return call.is_parallel or effect_of(tool, call.arguments, spec) is EffectClass.READ


def count_same_calls(same: tuple[str, int], calls: Sequence[TurnCall]) -> tuple[str, int]:
    """How often the last call of `calls` has now been made in a row, with its digest."""
    for call in calls:
        digest = sha256_of_value([call.tool, call.arguments])[:CALL_DIGEST_CHARS]
        same = (digest, same[1] + 1) if digest == same[0] else (digest, 1)
    return same


def is_repeated_too_often(same: tuple[str, int]) -> bool:
    """Whether the same call was made too often in a row."""
    return same[1] >= limits.SAME_CALL_MAX


def is_free_tool(tool: Tool, spec: AgentSpec) -> bool:
    """Whether the agent needs no right to the tool. Agents of hooks have fewer free tools, and cannot send messages."""
    return tool.name in FREE_TO_HOOKS if spec.watches else tool.is_free


def _is_free(call: TurnCall, spec: AgentSpec, tools: ToolMap) -> bool:
    tool = tools.get(call.tool)
    return tool is not None and is_free_tool(tool, spec)


def _unknown(name: str, spec: AgentSpec, tools: ToolMap) -> CallRefused:
    if (
        isinstance(tools, ExplainsMissing)
        and may_use_server(spec.tools, name.partition(".")[0])
        and (why := tools.why_missing(name))
    ):
        return _failed("UnknownTool", f"{NO_SUCH_TOOL} `{name}`: {why}")
    names = granted_tools(spec, tools)
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"your tools are {', '.join(names)}"
    return _failed("UnknownTool", f"{NO_SUCH_TOOL} `{name}`; {hint}")


def _failed(reason: str, text: str) -> CallRefused:
    return CallRefused(CallResult(CallState.FAILED, text, reason))


def _denied(text: str) -> CallRefused:
    return CallRefused(denied_result(text))
