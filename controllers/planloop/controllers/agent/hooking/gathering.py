"""The facts for a question, from what is observed of the agent and from its files on disk."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from planloop.controllers.agent.calling.calls import ENDINGS
from planloop.controllers.agent.calling.workspaces import workspace_of
from planloop.controllers.agent.hooking import placing
from planloop.controllers.agent.hooking.facts import CallFact, ChildFact, Facts
from planloop.controllers.agent.hooking.moments import Question
from planloop.controllers.agent.mail.telling import is_made
from planloop.controllers.agent.observing import Child, Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.status import OpenTurn, TurnCall
from planloop.controllers.agent.tools.faults import ToolFault
from planloop.controllers.agent.tools.sketching import count_of
from planloop.controllers.agent.tools.tool import Tool
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.approval import WAITING
from planloop.schemas.call import as_map
from planloop.schemas.encoding import Json, JsonObject, digest, encode_text
from planloop.schemas.tools import AGENT_TOOL, PATH_TOOLS

_Stamp = tuple[int, int, int]


class Files:
    """What files have on disk now, read again when their times or sizes move; of all agents together."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Stamp, str]] = {}
        self._last: tuple[Observed, dict[str, str]] | None = None

    def changed(self, folder: Path, seen: Observed) -> dict[str, str]:
        """The files that the agent knows, by path below `folder`, with another content now: its digest, or empty.

        All hooks that are asked after one look at the agent are told the same.
        """
        if self._last is None or self._last[0] is not seen:
            self._last = seen, self._changed(folder, seen.status.files)
        return self._last[1]

    def _changed(self, folder: Path, known: Mapping[str, str]) -> dict[str, str]:
        found = {path: self._digest(folder / path) for path in known}
        return {path: now for path, now in found.items() if now != known[path]}

    def _digest(self, path: Path) -> str:
        try:
            at = path.lstat()
            if not stat.S_ISREG(at.st_mode) or at.st_size > limits.FILE_BYTES_MAX:
                return ""
            stamp, name = (at.st_mtime_ns, at.st_size, at.st_ino), str(path)
            kept = self._kept.get(name)
            if kept is not None and kept[0] == stamp:
                return kept[1]
            found = digest(path.read_bytes())
        except OSError:
            return ""
        if len(self._kept) >= limits.HOOK_FILES_KEPT_MAX:
            self._kept.clear()
        self._kept[name] = (stamp, found)
        return found


def facts_of(world: World, seen: Observed, view: View, question: Question, tool: Tool | None, files: Files) -> Facts:
    """What the hook of `question` can look at."""
    opened, spec = seen.status.open, seen.spec
    assert opened is not None, "hooks are asked inside a turn"
    space = _space(world, seen)
    known = seen.status.files
    path = addresses.parse(seen.resource.address).path
    return Facts(
        point=question.point,
        agent=seen.resource.address,
        task=spec.task,
        cwd=str(world.folder if space is None else space.root),
        turn=opened.turn,
        now=seen.now,
        incarnation=seen.status.incarnation,
        depth=len(path),
        goal="" if seen.task_spec is None else seen.task_spec.goal,
        call=None if question.call is None else _call_fact(seen, opened, question, question.call, tool, space),
        prompt=_prompt(seen, opened),
        reply=reply_of(opened),
        reasons=opened.reasons,
        messages=opened.messages,
        children=tuple(_child_fact(seen, view, opened, child) for child in seen.children),
        files_known=tuple(sorted(known)),
        files_changed=files.changed(world.folder, seen) if known else {},
        turn_calls=Counter(call.tool for call in opened.calls),
        begins=sum(_begun_by(call) for call in opened.calls),
        calls=seen.status.used.calls,
        budget_left=dict(seen.left),
        approvals=tuple(sorted(name for name, one in seen.approvals.items() if one.state == WAITING)),
        requests=tuple(sorted(name for name, one in seen.approvals.items() if _is_request(one.spec, one.state))),
        claim="" if opened.claim is None else str(opened.claim["kind"]),
        sent_back=seen.status.sent_back,
        nudges=seen.status.nudges,
    )


def _begun_by(call: TurnCall) -> int:
    """How many children a call would begin."""
    if call.tool == "task":
        return count_of(as_map(call.arguments))
    return int(call.tool == "restore" or call.tool.startswith(AGENT_TOOL))


def _space(world: World, seen: Observed) -> Workspace | None:
    try:
        return workspace_of(world, seen)
    except ToolFault:
        return None


def _is_request(spec: Mapping[str, Json], state: str) -> bool:
    return state == WAITING and spec["kind"] == "request"


def _call_fact(
    seen: Observed, opened: OpenTurn, question: Question, call: TurnCall, tool: Tool | None, space: Workspace | None
) -> CallFact:
    arguments, original = as_map(call.arguments), as_map(opened.calls[question.index].arguments)
    if tool is not None:
        original = tool.plain(original)
    made = seen.calls.get(call.address)
    return CallFact(
        id=call.address,
        tool=call.tool,
        arguments=arguments,
        effect="" if made is None else str(made.spec["effect"]),
        subjects=() if tool is None else tool.subjects(arguments),
        exact=None if tool is None else _exact(tool, arguments),
        places=_places(tool, arguments, space),
        original=None if original == arguments else original,
        result=opened.results.get(call.address),
    )


def _places(tool: Tool | None, arguments: JsonObject, space: Workspace | None) -> tuple[str, ...]:
    path = arguments.get("path")
    if tool is None or space is None or tool.name not in PATH_TOOLS or not isinstance(path, str):
        return ()
    return placing.places(space.root, path)


def _exact(tool: Tool, arguments: JsonObject) -> tuple[str, ...] | None:
    return tool.subjects(arguments) if tool.name in PATH_TOOLS else tool.exact(arguments)


def _prompt(seen: Observed, opened: OpenTurn) -> str:
    """What the agent is told at this point in words: the goal at first, and what others wrote."""
    said = [_text(message.body) for message in opened.messages if not is_made(message)]
    goal = [seen.task_spec.goal] if opened.turn == 1 and seen.task_spec is not None else []
    return "\n\n".join(text for text in (*goal, *said) if text)


def reply_of(opened: OpenTurn) -> str:
    """What the agent says in its reply: its text, and what it gives as the result or reason of its end."""
    ends = [as_map(call.arguments) for call in opened.calls if call.tool in ENDINGS]
    said = (opened.text, *(_text(given.get("result", given.get("reason"))) for given in ends))
    return "\n\n".join(dict.fromkeys(text for text in said if text))


def _text(body: Json) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else encode_text(body)


def _child_fact(seen: Observed, view: View, opened: OpenTurn, child: Child) -> ChildFact:
    name = child.address.replace("task/", "agent/", 1)
    agent = view.get(name)
    since = seen.status.spoken.get(name, opened.turn)
    return ChildFact(
        agent=name,
        task=child.address,
        state=child.state,
        goal=child.view.goal,
        is_live=child.is_live,
        agent_state="" if agent is None else agent.state,
        turns_silent=max(0, opened.turn - since),
    )
