"""Hooks that are programs or Python functions: one JSON question on stdin, one JSON verdict on stdout.

Each runs in its own process, by version 1 of the contract. A crash, a timeout, an invalid verdict or a missing program
gives a failed verdict; an exit code alone is never a decision. The plan does not depend on effects of the program, so
after a crash it is asked again, with the same `id` in its question.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, assert_never

from planloop.controllers.agent.deciders.port import DeciderFailed
from planloop.controllers.agent.deciders.program import python_command
from planloop.controllers.agent.hooks import claude_code
from planloop.controllers.agent.hooks.verdicts import exit_verdict, failed_verdict, strictness
from planloop.controllers.agent.models import chat_request
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.run_environment import (
    RESERVED_VARIABLES,
    agent_sandbox,
    command_environment,
    function_sandbox,
    resolve_agent_workspace,
)
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.status import OpenTurn
from planloop.controllers.agent.tools.errors import ToolDenied, ToolError
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.controllers.agent.turn import prompt, transcript
from planloop.controllers.shared.workspace import WorkspaceFault, is_git_outside, real_folder, resolve_workspace
from planloop.reconciler.effects.processes import ExitCause, ProcessCommand
from planloop.reconciler.effects.truncate import last_line
from planloop.reconciler.store import state_files
from planloop.reconciler.store.store import ReadBlob
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, decode, decode_foreign, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import arguments_as_map
from planloop.schemas.objects.hook import HOOK_VERSION, STRICTNESS, HookFunction, HookProgram, HookSpec, HookVerdict
from planloop.schemas.shell.variables import with_git_settings

# The transcript that hook scripts for Claude Code read: one JSON line per message, oldest first. It is written from
# the agent's own transcript before each such script runs, and replaced atomically.


def transcript_path(folder: Path, plan: str, agent: str) -> Path:
    """The transcript file of `agent` for scripts, in folders that follow its address."""
    name = agent.removesuffix("/.")  # The root agent is `agent/.`.
    return folder / ".plan" / plan.partition("/")[2] / "transcripts" / f"{name}.jsonl"


def write_transcript(path: Path, agent: ObservedAgent, blobs: ReadBlob) -> None:
    """Write the history of the agent, or its newest part if it is long. Raises OSError."""
    lines: list[bytes] = []
    size = 0
    for message in reversed([*_messages(agent, blobs)]):
        line = encode(_line(message, agent.resource.address)) + b"\n"
        size += len(line)
        if size > limits.HOOK_TRANSCRIPT_BYTES_MAX:
            break
        lines.append(line)
    state_files.make_folder(path.parent)
    fresh = path.with_suffix(".new")
    state_files.write_private_file(fresh, b"".join(reversed(lines)))
    fresh.replace(path)


def _messages(agent: ObservedAgent, blobs: ReadBlob) -> Iterator[JsonObject]:
    """The chat messages of the agent, including those of the open turn."""
    for chunk in agent.status.memory.transcript.values():
        for line in (blobs(chunk.blob) or b"").splitlines():
            yield decode(line)
    opened = agent.status.open
    if opened is None:
        return
    if not agent.nature.is_model and agent.task_spec is not None:
        yield {"role": "user", "content": agent.task_spec.goal}
    for line in prompt.news_messages(opened):
        yield decode(line)
    yield from _reply(opened)


def _reply(opened: OpenTurn) -> Iterator[JsonObject]:
    """The reply of the open turn, and the results of its ended calls."""
    if not opened.is_replied:
        return
    calls = [
        {"id": call.address, "function": {"name": call.tool, "arguments": arguments_as_map(call.arguments)}}
        for call in opened.reply.calls
        if not call.is_implied
    ]
    yield {"role": "assistant", "content": opened.reply.text or None, "tool_calls": calls}
    for call in opened.reply.calls:
        if call.address in opened.results and not call.is_implied:
            text = transcript.result_text(opened.results[call.address])
            yield {"role": "tool", "tool_call_id": call.address, "content": text}


def _line(message: JsonObject, agent: str) -> JsonObject:
    """A chat message as a line of a transcript of Claude Code."""
    match message["role"]:
        case "assistant":
            content = message.get("content") or []
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            text = [part for part in parts if part.get("type") == "text"]
            return _entry("assistant", [*text, *map(_use, message.get("tool_calls") or ())], agent)
        case "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            return _entry("user", [result], agent)
        case _:
            return _entry("user", message["content"], agent)


def _entry(role: str, content: Json, agent: str) -> JsonObject:
    return {"type": role, "sessionId": agent, "message": {"role": role, "content": content}}


def _use(call: JsonObject) -> JsonObject:
    given = call["function"]["arguments"]
    arguments = decode(given) if isinstance(given, str) else given
    name = claude_code.claude_tool_name(str(call["function"]["name"]).replace(chat_request.WIRE_DOT, "."))
    return {"type": "tool_use", "id": call["id"], "name": name, "input": arguments}


VERDICT_MEMBERS: Final = frozenset(
    {"version", "decision", "reason", "arguments", "comment", "say", "memory", "state", "is_last"}
)
"""The fields of a verdict. A function that returns a text sets `say`; `state` is another name of `memory`."""


async def run_hook_program(
    services: AgentServices, agent: ObservedAgent, hook: HookSpec, asked: JsonObject
) -> HookVerdict:
    """The verdict of the program or function of `hook` on the question `asked` (`facts.question_json`).

    If it gives none, the verdict is a failed one.
    """
    decider = hook.mind
    assert isinstance(decider, HookProgram | HookFunction), "rules and agents are asked differently"
    is_foreign = isinstance(decider, HookProgram) and decider.contract == "claude-code"
    timeout_s = hook.timeout_s or limits.HOOK_PROGRAM_S
    try:
        process = _hook_process(services, agent, hook)
        argv = _argv(services, decider)
    except (ToolError, DeciderFailed) as error:
        return failed_verdict(str(error))
    env, question = process.env, asked
    # Scripts for Claude Code run under `capture_child.py`, so they need our interpreter, as functions do.
    is_ours = isinstance(decider, HookProgram) and not is_foreign
    box = agent_sandbox(services, agent) if is_ours else function_sandbox(services, agent)
    if is_foreign:
        if box is not None:
            box = replace(box, readable=(*box.readable, str(_transcript(services, agent).parent)))
        question = _claude_question(services, agent, asked)
        env |= {"CLAUDE_PROJECT_DIR": str(services.folder)}
        argv = (services.programs.python, str(claude_code.CAPTURE_CHILD), str(limits.HOOK_OUTPUT_BYTES_MAX), *argv)
    command = ProcessCommand(
        cwd=process.cwd,
        argv=argv,
        env=env,
        stdin=encode(question) + b"\n",
        timeout_s=timeout_s,
        output_bytes_max=2 * limits.HOOK_OUTPUT_BYTES_MAX,
        sandbox=box,
    )
    op = services.ids.mint()
    ended = await services.programs.processes.run(op, command)
    services.programs.processes.forget([op])
    if ended.ending is ExitCause.TIMED_OUT:
        return failed_verdict(f"it gave no verdict within {timeout_s:g} s")
    if ended.ending is not ExitCause.EXITED:
        return failed_verdict(": ".join(part for part in (ended.ending.value, last_line(ended.output)) if part))
    if ended.code != 0:
        return exit_verdict(ended.code or 0, last_line(ended.output))
    return claude_code.claude_verdict(asked, ended.output) if is_foreign else parse_hook_output(ended.output)


@frozen
class HookProcess:
    """The working folder and the environment variables of a hook program."""

    cwd: str
    env: dict[str, str]


def _hook_process(services: AgentServices, agent: ObservedAgent, hook: HookSpec) -> HookProcess:
    """The workspace of the task where the hook is set: `./guard` is the same program for every watched agent.

    Raises ToolError if that workspace cannot be used.
    """
    task = services.store.view.get(f"task/{hook.set_at.partition('/')[2]}") if hook.set_at else None
    if task is None or task.address == agent.spec.task:
        space = resolve_agent_workspace(services, agent)
        space.ensure()
        return HookProcess(str(space.root), command_environment(services, agent))
    whole = real_folder(services.folder)
    folder = resolve_workspace(services.store.view, task.spec["cwd"], whole)
    if isinstance(folder, WorkspaceFault):
        raise ToolDenied(f"where the hook is set: {folder.words}")
    Workspace(whole, folder).ensure()  # Does not follow links, because one may have been created since.
    own = {
        str(name): str(value)
        for name, value in task.spec["env"].items()
        if not str(name).startswith(RESERVED_VARIABLES)
    }
    env = {**services.programs.env, **own}
    return HookProcess(str(folder), with_git_settings(env, may_run_all=False, is_owners=is_git_outside(env, whole)))


def _claude_question(services: AgentServices, agent: ObservedAgent, asked: JsonObject) -> JsonObject:
    path = _transcript(services, agent)
    with contextlib.suppress(OSError):  # Few scripts read the transcript, so a full disk does not prevent the question.
        write_transcript(path, agent, services.store.get_blob)
    return claude_code.claude_question(asked, str(path))


def _transcript(services: AgentServices, agent: ObservedAgent) -> Path:
    return transcript_path(services.folder, services.plan, agent.resource.address)


def _argv(services: AgentServices, decider: HookProgram | HookFunction) -> tuple[str, ...]:
    match decider:
        case HookProgram(argv=argv):
            return argv
        case HookFunction(target=target):
            return python_command(services, target)
        case other:
            assert_never(other)


def parse_hook_output(output: bytes) -> HookVerdict:
    """The verdict that a program printed: its whole output, or the last line that is a JSON map.

    Of several lines with decisions, the strictest counts. Without output, the verdict is an empty `allow`.
    """
    text = output.decode(errors="replace").strip()
    if not text:
        return HookVerdict()
    answer = _map_in(text)
    if answer is None:
        return failed_verdict(f"its answer is not a JSON map: {text[-limits.VALUE_SHOWN_CHARS :]}")
    return verdict_from_json(answer)


def _map_in(text: str) -> JsonObject | None:
    lines = [line for line in text.splitlines() if line.lstrip().startswith("{")]
    found = list(_maps([text])) or list(_maps(reversed(lines)))
    return max(found, key=lambda one: strictness(one.get("decision")), default=None)


def _maps(candidates: Iterable[str]) -> Iterator[JsonObject]:
    for candidate in candidates:
        with contextlib.suppress(ValueError):
            found = decode_foreign(candidate)
            if isinstance(found, dict):
                yield found


def verdict_from_json(answer: JsonObject) -> HookVerdict:
    """The verdict in `answer`, version 1; a failed verdict if it is invalid."""
    why = _error_in(answer)
    if why:
        return failed_verdict(why)
    memory: Json = answer.get("memory", answer.get("state"))
    return HookVerdict(
        decision=answer.get("decision", "allow"),
        reason=clip_words(answer.get("reason")),
        arguments=answer.get("arguments"),
        comment=clip_words(answer.get("comment") or answer.get("say")),
        memory=memory,
        is_last=answer.get("is_last", False),
    )


def _error_in(answer: JsonObject) -> str:
    version = answer.get("version", HOOK_VERSION)
    if version != HOOK_VERSION:
        return f"its answer has version {version}; the supported version is {HOOK_VERSION}"
    if unknown := sorted(set(answer) - VERDICT_MEMBERS):
        return f"its answer has unknown fields: {', '.join(unknown)}"
    if answer.get("decision", "allow") not in STRICTNESS:
        return f"`decision` must be one of {', '.join(STRICTNESS)}, not {str(answer['decision'])[:40]}"
    if not isinstance(answer.get("arguments", {}), dict | None):
        return "`arguments` must be a map"
    if not isinstance(answer.get("is_last", False), bool):
        return "`is_last` must be true or false"
    if len(encode(answer.get("memory", answer.get("state")))) > limits.HOOK_MEMORY_BYTES_MAX:
        return f"its memory is larger than {limits.HOOK_MEMORY_BYTES_MAX >> 10} KiB"
    return ""


def clip_words(words: Json) -> str:
    """A text for the agent, cut to the limit; empty if the hook gave none."""
    return str(words)[: limits.HOOK_WORDS_CHARS_MAX] if words else ""
