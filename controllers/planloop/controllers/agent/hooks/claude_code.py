"""Run hook scripts written for Claude Code: translate a question into their input, and their output into a verdict.

A script gets one JSON value on stdin. Exit code 0 with JSON on stdout is an answer, exit code 2 denies with stderr as
the reason, and any other exit code is an error that blocks nothing: a failed verdict with the default policy `note`
(`planloop.controllers.agent.hooks.verdicts`). Source: the hooks reference of Claude Code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from planloop.controllers.agent.hooks.verdicts import exit_verdict, failed_verdict
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign
from planloop.schemas.linear_regex import UnsupportedRegex, compile_linear_regex
from planloop.schemas.objects.hook import Decision, HookPoint, HookVerdict
from planloop.schemas.predicates import is_number
from planloop.schemas.tools import AGENT_TOOL

# Tools get the names and arguments that those scripts expect. A tool without a counterpart keeps its name; a tool of
# an MCP server is `mcp__server__tool`. Scripts get absolute paths; paths in the agent's folder become relative again
# in their answers.

CLAUDE_TOOL_NAMES: Final[Mapping[str, str]] = {
    "write": "Write",
    "edit": "Edit",
    "read": "Read",
    "shell": "Bash",
    "list": "Glob",
    "search": "Grep",
    "fetch": "WebFetch",
    "task": "Task",
}
_ALSO: Final[Mapping[str, Sequence[str]]] = {"Task": ("Agent",), "Edit": ("MultiEdit",)}
"""Other names of the same tools, or of earlier versions. A matcher for one of them matches the tool too."""

_PLAIN: Final = re.compile(r"[\w\-|, ]*", re.ASCII)
_PATHS: Final = frozenset({"file_path", "path"})

CLAUDE_ARGUMENT_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "write": {"path": "file_path"},
    "edit": {"path": "file_path", "old": "old_string", "new": "new_string", "every": "replace_all"},
    "read": {"path": "file_path", "first": "offset", "lines": "limit"},
    "shell": {"timeout_s": "timeout"},
    "list": {"glob": "pattern"},
    "search": {"text": "pattern"},
    "task": {"goal": "description"},
}
"""Our name and theirs of each argument for which the two differ."""


def claude_tool_name(tool: str) -> str:
    """The tool's name in Claude Code; an agent that is used as a tool is `Task`, the tool for subagents."""
    if tool.startswith(AGENT_TOOL):
        return CLAUDE_TOOL_NAMES["task"]
    server, dot, own = tool.partition(".")
    return f"mcp__{server}__{own}" if dot else CLAUDE_TOOL_NAMES.get(tool, tool)


def claude_matches(matcher: str, tool: str) -> bool:
    """Whether a matcher of a `settings.json` matches `tool`: `Write|Edit`, `Edit, Write`, `^Notebook`, `*`.

    A list of plain names must contain the tool's name, with the same case. Any other matcher is a regular expression
    that is searched in the name.
    """
    if matcher.strip() in ("", "*"):
        return True
    name = claude_tool_name(tool)
    names = (name, *_ALSO.get(name, ()))
    if _PLAIN.fullmatch(matcher):
        return any(one.strip() in names for one in re.split(r"[|,]", matcher))
    try:
        return any(compile_linear_regex(matcher).found_in(each) for each in names)
    except UnsupportedRegex:
        return True  # It is safer to ask too often than never.


def claude_arguments(tool: str, arguments: JsonObject, cwd: str) -> JsonObject:
    """The arguments of a call with the names, units and absolute paths that scripts for Claude Code expect."""
    theirs = CLAUDE_ARGUMENT_NAMES.get(tool, {})
    named = {theirs.get(name, name): _scaled(name, value) for name, value in arguments.items()}
    return {name: _absolute(value, cwd) if name in _PATHS else value for name, value in named.items()}


def own_arguments(tool: str, updated: JsonObject, cwd: str) -> JsonObject:
    """Inverse of `claude_arguments`, for arguments that a script has changed."""
    ours = {theirs: name for name, theirs in CLAUDE_ARGUMENT_NAMES.get(tool, {}).items()}
    local = {name: _relative(value, cwd) if name in _PATHS else value for name, value in updated.items()}
    named = {ours.get(name, name): value for name, value in local.items()}
    return {name: _in_seconds(value) if name == "timeout_s" else value for name, value in named.items()}


def _scaled(name: str, value: object) -> object:
    return value * 1000 if name == "timeout_s" and isinstance(value, int | float) else value  # Milliseconds there.


def _in_seconds(value: object) -> object:
    return value / 1000 if is_number(value) else value


def _absolute(value: object, cwd: str) -> object:
    return os.path.normpath(Path(cwd) / value) if isinstance(value, str) else value


def _relative(value: object, cwd: str) -> object:
    if not isinstance(value, str) or not value.startswith(f"{cwd}/"):
        return value
    return value.removeprefix(f"{cwd}/")


CAPTURE_CHILD: Final = Path(__file__).with_name("capture_child.py")

CLAUDE_EVENTS: Final[Mapping[HookPoint, str]] = {
    "before-call": "PreToolUse",
    "on-patch": "PreToolUse",
    "after-call": "PostToolUse",
    "on-input": "UserPromptSubmit",
    "before-reply": "Stop",
    "on-child": "SubagentStop",
    "on-wake": "SessionStart",
    "on-sleep": "Notification",
    "on-budget": "Notification",
    "on-conflict": "Notification",
    "on-end": "SessionEnd",
}
"""The event of Claude Code for each point."""

CLAUDE_DECISIONS: Final[Mapping[str, Decision]] = {"allow": "allow", "deny": "deny", "ask": "ask", "defer": "defer"}
_STATED: Final = ("approve", "block", "allow", "deny")
_OBJECTS: Final = 2  # The exit code of a script that denies.
_CONTEXT: Final = frozenset({"UserPromptSubmit", "SessionStart"})
"""Events at which the model gets everything that a script prints."""


def claude_question(asked: JsonObject, transcript: str) -> JsonObject:
    """The question (`facts.question_json`) as input for a script. `transcript` is the path of the transcript file."""
    point: HookPoint = asked["hook_event_name"]
    event, agent = CLAUDE_EVENTS[point], str(asked["agent"])
    out: JsonObject = {
        "session_id": agent,
        "transcript_path": transcript,
        "cwd": asked["cwd"],
        "permission_mode": "default",
        "hook_event_name": event,
    }
    match event:
        case "PreToolUse" | "PostToolUse":
            out |= _call(asked)
        case "UserPromptSubmit":
            out["prompt"] = asked.get("prompt", "")
        case "Stop" | "SubagentStop":
            out |= {"stop_hook_active": asked["sent_back"] > 0, "last_assistant_message": asked.get("reply", "")}
        case "SessionStart":
            out["source"] = "startup" if asked["turn"] == 1 else "resume"
        case "SessionEnd":
            out["reason"] = "other"
        case _:
            out |= {"message": f"{agent} {_NOTICES[point]}", "notification_type": point}
    return out


_NOTICES: Final[Mapping[HookPoint, str]] = {
    "on-sleep": "waits for your input",
    "on-budget": "has little of its budget left",
    "on-conflict": "is in a conflict",
}


def _call(asked: JsonObject) -> JsonObject:
    tool, cwd = str(asked["tool_name"]), str(asked["cwd"])
    given = claude_arguments(tool, asked["tool_input"], cwd)
    out: JsonObject = {"tool_name": claude_tool_name(tool), "tool_input": given}
    out["tool_use_id"] = asked["tool_use_id"]
    if "tool_response" in asked:
        out["tool_response"] = _response(tool, asked["tool_response"], given)
    return out


def _response(tool: str, result: JsonObject, given: JsonObject) -> JsonObject:
    """The result in the form of Claude Code: a command's output is its stdout, a file tool names the file."""
    is_good = result["state"] == "Succeeded"
    out: JsonObject = {"success": is_good}
    if tool == "shell":
        out |= {"stdout": result["text"], "stderr": "", "interrupted": result.get("error") == "TimedOut"}
        out |= {"exit_code": result.get("exit_code")}
    elif "file_path" in given:
        out |= {"filePath": given["file_path"], "content": result["text"]}
    else:
        out["content"] = result["text"]
    return out if is_good else out | {"error": result["text"]}


def claude_verdict(asked: JsonObject, output: bytes) -> HookVerdict:
    """The verdict for the output of `planloop.controllers.agent.hooks.capture_child`."""
    try:
        ran = decode_foreign(output.decode(errors="replace"))
    except ValueError:
        return failed_verdict("its output cannot be parsed")
    if "fault" in ran:
        return failed_verdict(str(ran["fault"]))
    out, err = str(ran["out"]).strip(), str(ran["err"]).strip()
    if ran["code"] == _OBJECTS:
        return HookVerdict("deny", _clipped(err or out) or "no reason given")
    if ran["code"] != 0:
        return exit_verdict(int(ran["code"]), _clipped(err)[-limits.REASON_CHARS_MAX :])
    event = CLAUDE_EVENTS[asked["hook_event_name"]]
    said = _map_in(out)
    if said is None and out.startswith("{") and event not in _CONTEXT:
        return failed_verdict(f"its answer is not a JSON map: {out[-limits.VALUE_SHOWN_CHARS :]}")
    if said is None:
        return HookVerdict(comment=_clipped(out) if event in _CONTEXT else "")
    return _understood(asked, said)


def _map_in(text: str) -> JsonObject | None:
    """The JSON map that is the whole output; None if it is anything else."""
    if not text.startswith("{"):
        return None
    try:
        found = decode_foreign(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _understood(asked: JsonObject, said: JsonObject) -> HookVerdict:
    own = said.get("hookSpecificOutput")
    specific: JsonObject = own if isinstance(own, dict) else {}
    comment = _joined(specific.get("additionalContext"), said.get("additionalContext"), said.get("systemMessage"))
    if said.get("continue") is False:
        # In Claude Code this ends the session; here it denies the pending action, with the reason.
        return HookVerdict("deny", _clipped(said.get("stopReason")) or "the hook stopped the agent", comment=comment)
    decision, reason = _decision(said, specific)
    if decision == "allow" and (why := _invalid_field(said, specific)):
        return failed_verdict(why)
    updated = specific.get("updatedInput")
    arguments = None
    if isinstance(updated, dict) and decision in ("allow", "ask") and "tool_name" in asked:
        arguments = own_arguments(str(asked["tool_name"]), updated, str(asked["cwd"]))
    return HookVerdict(decision, reason, arguments, comment)


def _decision(said: JsonObject, specific: JsonObject) -> tuple[Decision, str]:
    asked_for = specific.get("permissionDecision")
    if isinstance(asked_for, str) and asked_for in CLAUDE_DECISIONS:
        return CLAUDE_DECISIONS[asked_for], _clipped(specific.get("permissionDecisionReason"))
    if said.get("decision") in ("block", "deny"):
        return "deny", _clipped(said.get("reason")) or "no reason given"
    return "allow", _clipped(said.get("reason")) if said.get("decision") == "approve" else ""


def _invalid_field(said: JsonObject, specific: JsonObject) -> str:
    """The error in an answer with an invalid field, which must not count as a permission; empty if all are valid."""
    asked_for, stated = specific.get("permissionDecision"), said.get("decision")
    if asked_for is not None and asked_for not in list(CLAUDE_DECISIONS):
        return f"`permissionDecision` must be one of {', '.join(CLAUDE_DECISIONS)}, not {str(asked_for)[:40]}"
    if stated is not None and stated not in _STATED:
        return f"`decision` must be one of {', '.join(_STATED)}, not {str(stated)[:40]}"
    if not isinstance(said.get("continue", True), bool):
        return f"`continue` must be true or false, not {str(said['continue'])[:40]}"
    if not isinstance(specific.get("updatedInput", {}), dict | None):
        return "`updatedInput` must be a map"
    return ""


def _joined(*parts: Json) -> str:
    return _clipped("\n".join(str(part) for part in parts if part))


def _clipped(words: Json) -> str:
    return str(words)[: limits.HOOK_WORDS_CHARS_MAX] if words else ""
