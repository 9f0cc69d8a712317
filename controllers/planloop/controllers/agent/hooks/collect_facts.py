"""Collect the facts for a question from the observed agent and from its files on disk."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from planloop.controllers.agent.hooks.facts import CallFact, ChildFact, HookFacts
from planloop.controllers.agent.hooks.questions import HookQuestion
from planloop.controllers.agent.mail.wake_reasons import is_own_news
from planloop.controllers.agent.observe import ObservedAgent, ObservedChild
from planloop.controllers.agent.run_environment import resolve_agent_workspace
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.status import OpenTurn, TurnCall
from planloop.controllers.agent.tools.delegation import count_sketches
from planloop.controllers.agent.tools.errors import ToolError
from planloop.controllers.agent.tools.tool import SubjectsFunction, Tool
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.controllers.agent.turn.permissions import ENDING_TOOLS, ToolMap
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text, sha256_hex
from planloop.schemas.frozen import remade
from planloop.schemas.objects.approval import WAITING
from planloop.schemas.objects.call import arguments_as_map
from planloop.schemas.tools import AGENT_TOOL, PATH_TOOLS

# Tools whose calls are about the files that they lead to: a hook on `write(src/**)` is not passed by `./src/a`.
#
# The rights look at a path where it is used; a hook is asked before, so here a path is followed through `..` and links.


class FollowedTools:
    """Tools with their paths followed, as they were at the last look at an agent: one step asks for them often."""

    def __init__(self) -> None:
        self._last: tuple[ObservedAgent, ToolMap] | None = None

    def of(self, seen: ObservedAgent, world: AgentServices, tools: ToolMap) -> ToolMap:
        """`tools` as the agent of `seen` has them; unchanged where its folder cannot be entered."""
        if self._last is None or self._last[0] is not seen:
            try:
                space = resolve_agent_workspace(world, seen)
            except ToolError:
                return tools
            self._last = seen, PathFollowing(tools, space.folder, space.root)
        return self._last[1]


class PathFollowing(Mapping[str, Tool]):
    """`tools` with wider subjects for those that take a path: as it was given, and where it leads below `folder`.

    A path that is not absolute is below `root`. Each is followed once: this is for one look at an agent.
    """

    def __init__(self, tools: ToolMap, folder: Path, root: Path) -> None:
        self._tools = tools
        self._folder = folder
        self._root = root
        self._followed: dict[str, tuple[str, ...]] = {}

    def __getitem__(self, name: str) -> Tool:
        tool = self._tools[name]
        if name not in PATH_TOOLS:
            return tool
        return remade(tool, subjects=partial(self._subjects, tool.subjects))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def _subjects(self, given: SubjectsFunction, arguments: JsonObject) -> tuple[str, ...]:
        path = str(arguments.get("path", "."))
        if path not in self._followed:
            self._followed[path] = self._places(path)
        return tuple(dict.fromkeys((*given(arguments), *self._followed[path])))

    def _places(self, path: str) -> tuple[str, ...]:
        real = _real(self._root, path)
        return (os.path.normpath(path), *(os.path.relpath(real, base) for base in (self._folder, self._root)))


def followed_paths(root: Path, path: str) -> tuple[str, ...]:
    """Where `path` leads, relative to `root`: as it is written, without steps back, and after links."""
    return tuple(os.path.relpath(each, root) for each in (os.path.normpath(root / path), _real(root, path)))


def _real(root: Path, path: str) -> str:
    try:
        return os.path.realpath(root / path)
    except ValueError:  # A null byte: no file has such a name.
        return path


# The facts for a question, from what is observed of the agent and from its files on disk.

_Stamp = tuple[int, int, int]


class FileFacts:
    """What files have on disk now, read again when their times or sizes move; of all agents together."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Stamp, str]] = {}
        self._last: tuple[ObservedAgent, dict[str, str]] | None = None

    def changed(self, folder: Path, seen: ObservedAgent) -> dict[str, str]:
        """The files that the agent knows, by path below `folder`, with another content now: its digest, or empty.

        All hooks that are asked after one look at the agent are told the same.
        """
        if self._last is None or self._last[0] is not seen:
            self._last = seen, self._changed(folder, seen.status.memory.files)
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
            found = sha256_hex(path.read_bytes())
        except OSError:
            return ""
        if len(self._kept) >= limits.HOOK_FILES_KEPT_MAX:
            self._kept.clear()
        self._kept[name] = (stamp, found)
        return found


def collect_facts(
    world: AgentServices, seen: ObservedAgent, view: View, question: HookQuestion, tool: Tool | None, files: FileFacts
) -> HookFacts:
    """What the hook of `question` can look at."""
    opened, spec = seen.status.open, seen.spec
    assert opened is not None, "hooks are asked inside a turn"
    space = _space(world, seen)
    known = seen.status.memory.files
    path = addresses.parse_address(seen.resource.address).path
    return HookFacts(
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
        reply=reply_text(opened),
        reasons=opened.news.reasons,
        messages=opened.news.messages,
        children=tuple(_child_fact(seen, view, opened, child) for child in seen.context.children),
        files_known=tuple(sorted(known)),
        files_changed=files.changed(world.folder, seen) if known else {},
        turn_calls=Counter(call.tool for call in opened.reply.calls),
        begins=sum(_begun_by(call) for call in opened.reply.calls),
        calls=seen.status.used.calls,
        budget_left=dict(seen.budget.left),
        approvals=tuple(sorted(name for name, one in seen.objects.approvals.items() if one.state == WAITING)),
        requests=tuple(
            sorted(name for name, one in seen.objects.approvals.items() if _is_request(one.spec, one.state))
        ),
        claim="" if opened.claim is None else str(opened.claim["kind"]),
        sent_back=seen.status.progress.sent_back,
        nudges=seen.status.progress.nudges,
    )


def _begun_by(call: TurnCall) -> int:
    """How many children a call would begin."""
    if call.tool == "task":
        return count_sketches(arguments_as_map(call.arguments))
    return int(call.tool == "restore" or call.tool.startswith(AGENT_TOOL))


def _space(world: AgentServices, seen: ObservedAgent) -> Workspace | None:
    try:
        return resolve_agent_workspace(world, seen)
    except ToolError:
        return None


def _is_request(spec: Mapping[str, Json], state: str) -> bool:
    return state == WAITING and spec["kind"] == "request"


def _call_fact(
    seen: ObservedAgent,
    opened: OpenTurn,
    question: HookQuestion,
    call: TurnCall,
    tool: Tool | None,
    space: Workspace | None,
) -> CallFact:
    arguments, original = (
        arguments_as_map(call.arguments),
        arguments_as_map(opened.reply.calls[question.index].arguments),
    )
    if tool is not None:
        original = tool.plain(original)
    made = seen.objects.calls.get(call.address)
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
    return followed_paths(space.root, path)


def _exact(tool: Tool, arguments: JsonObject) -> tuple[str, ...] | None:
    return tool.subjects(arguments) if tool.name in PATH_TOOLS else tool.exact(arguments)


def _prompt(seen: ObservedAgent, opened: OpenTurn) -> str:
    """What the agent is told at this point in words: the goal at first, and what others wrote."""
    said = [_text(message.body) for message in opened.news.messages if not is_own_news(message)]
    goal = [seen.task_spec.goal] if opened.turn == 1 and seen.task_spec is not None else []
    return "\n\n".join(text for text in (*goal, *said) if text)


def reply_text(opened: OpenTurn) -> str:
    """What the agent says in its reply: its text, and what it gives as the result or reason of its end."""
    ends = [arguments_as_map(call.arguments) for call in opened.reply.calls if call.tool in ENDING_TOOLS]
    said = (opened.reply.text, *(_text(given.get("result", given.get("reason"))) for given in ends))
    return "\n\n".join(dict.fromkeys(text for text in said if text))


def _text(body: Json) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else encode_text(body)


def _child_fact(seen: ObservedAgent, view: View, opened: OpenTurn, child: ObservedChild) -> ChildFact:
    name = child.address.replace("task/", "agent/", 1)
    agent = view.get(name)
    since = seen.status.mail.spoken.get(name, opened.turn)
    return ChildFact(
        agent=name,
        task=child.address,
        state=child.state,
        goal=child.view.goal,
        is_live=child.is_live,
        agent_state="" if agent is None else agent.state,
        turns_silent=max(0, opened.turn - since),
    )
