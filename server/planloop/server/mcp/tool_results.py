"""Results of tools for MCP clients, as text for models and fields for programs. Pure."""

from __future__ import annotations

from typing import Final

from planloop.client.exit_codes import CommandError
from planloop.controllers.agent.turn.transcript import result_text
from planloop.schemas import amounts
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.task import TaskState
from planloop.schemas.resource import Resource
from planloop.server.mcp.call_tracker import CallEnded, news_text
from planloop.server.mcp.identities import ExternalRole
from planloop.server.mcp.leases import TaskLease
from planloop.server.mcp.resources import task_summary

NEWS: Final = "What is new for you:"


@frozen
class ToolAnswer:
    """`texts` in the order in which they are read, which have everything; `facts` are the same for programs."""

    texts: tuple[str, ...]
    facts: JsonObject
    is_error: bool = False

    def then(self, ended: CallEnded) -> ToolAnswer:
        """The same, followed by what is new."""
        return ToolAnswer((*self.texts, *_news(ended)), self.facts | _facts_of_news(ended), self.is_error)


NOTHING: Final = ToolAnswer(("Nothing is new.",), {"state": "Succeeded"})


def call_answer(ended: CallEnded) -> ToolAnswer:
    """What came of a call, and what its turn began with."""
    result = ended.result
    facts: JsonObject = {"state": str(result.state)}
    facts |= {"error": result.error} if result.error else {}
    facts |= {"exit_code": result.exit_code} if result.exit_code is not None else {}
    facts |= {"value": result.value} if result.value is not None else {}
    texts = (result_text(result), *ended.comments)
    return ToolAnswer(texts, facts, result.state is not CallState.SUCCEEDED).then(ended)


def news_answer(ended: CallEnded) -> ToolAnswer:
    """What is new, or that nothing is."""
    if ended.result.state is not CallState.SUCCEEDED:
        return call_answer(ended)
    return ToolAnswer((*ended.comments, *_news(ended)) or NOTHING.texts, NOTHING.facts | _facts_of_news(ended))


def lease_answer(taken: TaskLease, ended: CallEnded, *, shows_lease: bool) -> ToolAnswer:
    """What a task is about, for who has just taken it."""
    lease = amounts.format_duration(taken.lease_s)
    yours = f"{taken.task} is yours for as long as you go on: after {lease} of silence it is not."
    handle = f"Give `lease: {taken.key}` with every call." if shows_lease else ""
    facts: JsonObject = {"task": taken.path, "agent": taken.agent, "lease_s": taken.lease_s}
    facts |= {"lease": taken.key} if shows_lease else {}
    texts = tuple(text for text in (yours, handle, taken.briefing) if text)
    return ToolAnswer(texts, facts).then(ended)


def tasks_answer(parts: list[ExternalRole], mine: str) -> ToolAnswer:
    """The tasks of an identity."""
    lines = [_line(part, is_mine=part.path == mine) for part in parts]
    return ToolAnswer(("\n".join(lines),), {"tasks": [task_summary(part) for part in parts]})


def _line(part: ExternalRole, *, is_mine: bool) -> str:
    short = task_summary(part)
    who = "yours" if is_mine else "free" if part.is_free else f"taken by {part.holder}" if part.holder else ""
    marks = ", ".join(word for word in (str(short["state"]), who) if word)
    line = f"{part.path} [{marks}] {short['goal']}".rstrip()
    return f"{line}\n  {short['why']}" if short["why"] and not (is_mine or part.is_free) else line


def claim_answer(task: Resource) -> ToolAnswer:
    """What the checks say of a claim that they have judged for good."""
    ready = task.status.get("conditions", {}).get("Ready") or {}
    words = str(ready.get("message") or "")
    said = f"{task.address} is {task.state}" + (f": {words}" if words else "")
    facts: JsonObject = {"state": "Succeeded", "task_state": task.state, "accepted": task.state == TaskState.DONE}
    return ToolAnswer((said,), facts, task.state == TaskState.FAILED)


def rejection_answer(ended: CallEnded) -> ToolAnswer:
    """The claim did not count; what has to be mended is among what is new."""
    facts: JsonObject = {"state": "Failed", "error": "NotAccepted", "accepted": False}
    return ToolAnswer(("Not accepted.",), facts, is_error=True).then(ended)


def diff_answer(preview: JsonObject) -> ToolAnswer:
    """What a patch would do, or why it would be refused."""
    faults = [str(fault.get("message")) for fault in (*preview.get("faults", ()), *preview.get("stops", ()))]
    if faults:
        return ToolAnswer(("It would be refused: " + "; ".join(faults),), preview, is_error=True)
    lines = [_difference(one) for one in preview.get("differences", ())]
    held = [f"It would wait for a yes: {preview['hold']}"] if preview.get("hold") else []
    return ToolAnswer(("\n".join((*lines, *held)) or "It would change nothing.",), preview)


def _difference(one: JsonObject) -> str:
    words = one.get("message") or one.get("why") or ""
    return f"{one.get('action', '')} {one.get('address', '')}: {words}".rstrip(": ")


def error_answer(halt: CommandError) -> ToolAnswer:
    """Why something was not done, and what would help."""
    hint = f" ({halt.hint})" if halt.hint else ""
    return ToolAnswer((f"{halt.summary}{hint}",), {"state": "Denied", "error": halt.exit.name}, is_error=True)


def _news(ended: CallEnded) -> tuple[str, ...]:
    text = news_text(ended.told)
    return (f"{NEWS}\n\n{text}",) if text else ()


def _facts_of_news(ended: CallEnded) -> JsonObject:
    told = [{"kind": one.kind, "from": one.sender, "body": one.body} for one in ended.told]
    return {"news": told} if told else {}
