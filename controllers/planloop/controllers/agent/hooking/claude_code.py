"""The contract of Claude Code's hook scripts: our question in their words, their answer as a verdict.

A script gets one JSON value on stdin. Exit 0 with JSON on stdout says what it wants, exit 2 objects with stderr as the
reason, any other exit code is an error that blocks nothing: here a fault, whose policy is `note` unless the hook states
another (`lattice.py`). Source: the hooks reference of Claude Code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from planloop.controllers.agent.hooking import claude_names
from planloop.controllers.agent.hooking.lattice import broken, died
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, decode_foreign
from planloop.schemas.hook import Decision, Point, Verdict

CHILD: Final = Path(__file__).with_name("separate_child.py")

EVENTS: Final[Mapping[Point, str]] = {
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
"""Their event for each of our points."""

DECISIONS: Final[Mapping[str, Decision]] = {"allow": "allow", "deny": "deny", "ask": "ask", "defer": "defer"}
_STATED: Final = ("approve", "block", "allow", "deny")
_OBJECTS: Final = 2  # The exit code by which a script objects.
_CONTEXT: Final = frozenset({"UserPromptSubmit", "SessionStart"})
"""Events at which whatever a script prints is told to the model."""


def question(asked: JsonObject, transcript: str) -> JsonObject:
    """Our question (`facts.question`) as such a script reads it; it may look at what was said in `transcript`."""
    point: Point = asked["hook_event_name"]
    event, agent = EVENTS[point], str(asked["agent"])
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


_NOTICES: Final[Mapping[Point, str]] = {
    "on-sleep": "waits for your input",
    "on-budget": "has little of its budget left",
    "on-conflict": "is in a conflict",
}


def _call(asked: JsonObject) -> JsonObject:
    tool, cwd = str(asked["tool_name"]), str(asked["cwd"])
    given = claude_names.given(tool, asked["tool_input"], cwd)
    out: JsonObject = {"tool_name": claude_names.name_of(tool), "tool_input": given}
    out["tool_use_id"] = asked["tool_use_id"]
    if "tool_response" in asked:
        out["tool_response"] = _response(tool, asked["tool_response"], given)
    return out


def _response(tool: str, result: JsonObject, given: JsonObject) -> JsonObject:
    """The result as they have it: a command's output is its stdout, a file tool names the file."""
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


def verdict(asked: JsonObject, output: bytes) -> Verdict:
    """What `separate_child.py` saw the script do, as a verdict."""
    try:
        ran = decode_foreign(output.decode(errors="replace"))
    except ValueError:
        return broken("what it printed cannot be read")
    if "fault" in ran:
        return broken(str(ran["fault"]))
    out, err = str(ran["out"]).strip(), str(ran["err"]).strip()
    if ran["code"] == _OBJECTS:
        return Verdict("deny", _clipped(err or out) or "no reason given")
    if ran["code"] != 0:
        return died(int(ran["code"]), _clipped(err)[-limits.REASON_CHARS_MAX :])
    event = EVENTS[asked["hook_event_name"]]
    said = _map_in(out)
    if said is None and out.startswith("{") and event not in _CONTEXT:
        return broken(f"its answer is no JSON map: {out[-limits.VALUE_SHOWN_CHARS :]}")
    if said is None:
        return Verdict(comment=_clipped(out) if event in _CONTEXT else "")
    return _understood(asked, said)


def _map_in(text: str) -> JsonObject | None:
    """The JSON map that is the whole output; anything else is a remark."""
    if not text.startswith("{"):
        return None
    try:
        found = decode_foreign(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _understood(asked: JsonObject, said: JsonObject) -> Verdict:
    own = said.get("hookSpecificOutput")
    specific: JsonObject = own if isinstance(own, dict) else {}
    comment = _joined(specific.get("additionalContext"), said.get("additionalContext"), said.get("systemMessage"))
    if said.get("continue") is False:
        # Theirs ends the whole session; here what was about to happen does not, and the agent is told why.
        return Verdict("deny", _clipped(said.get("stopReason")) or "it was told to stop", comment=comment)
    decision, reason = _decision(said, specific)
    if decision == "allow" and (why := _misunderstood(said, specific)):
        return broken(why)
    updated = specific.get("updatedInput")
    arguments = None
    if isinstance(updated, dict) and decision in ("allow", "ask") and "tool_name" in asked:
        arguments = claude_names.taken(str(asked["tool_name"]), updated, str(asked["cwd"]))
    return Verdict(decision, reason, arguments, comment)


def _decision(said: JsonObject, specific: JsonObject) -> tuple[Decision, str]:
    asked_for = specific.get("permissionDecision")
    if isinstance(asked_for, str) and asked_for in DECISIONS:
        return DECISIONS[asked_for], _clipped(specific.get("permissionDecisionReason"))
    if said.get("decision") in ("block", "deny"):
        return "deny", _clipped(said.get("reason")) or "no reason given"
    return "allow", _clipped(said.get("reason")) if said.get("decision") == "approve" else ""


def _misunderstood(said: JsonObject, specific: JsonObject) -> str:
    """What of the answer is no word of that contract, so that it is no permission either; empty for nothing."""
    asked_for, stated = specific.get("permissionDecision"), said.get("decision")
    if asked_for is not None and asked_for not in list(DECISIONS):
        return f"`permissionDecision` is {', '.join(DECISIONS)}, not {str(asked_for)[:40]}"
    if stated is not None and stated not in _STATED:
        return f"`decision` is {', '.join(_STATED)}, not {str(stated)[:40]}"
    if not isinstance(said.get("continue", True), bool):
        return f"`continue` is true or false, not {str(said['continue'])[:40]}"
    if not isinstance(specific.get("updatedInput", {}), dict | None):
        return "`updatedInput` is a map"
    return ""


def _joined(*parts: Json) -> str:
    return _clipped("\n".join(str(part) for part in parts if part))


def _clipped(words: Json) -> str:
    return str(words)[: limits.HOOK_WORDS_CHARS_MAX] if words else ""
