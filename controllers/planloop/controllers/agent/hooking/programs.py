"""Programs and Python functions as hooks: one JSON question on stdin, one JSON verdict on stdout, version 1.

Each runs in a process of its own. Whatever else it does (dies, hangs, prints what is no verdict, is not there) is a
fault; an exit code is never a verdict. It has no effect that the plan depends on, so after a crash it is asked again,
with the same `id` in its question.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, assert_never

from planloop.controllers.agent.calling.workspaces import RESERVED, around_functions, environment, sandbox, workspace_of
from planloop.controllers.agent.hooking import claude_code, claude_transcript
from planloop.controllers.agent.hooking.lattice import broken, died, strictness
from planloop.controllers.agent.minds.port import MindFailed
from planloop.controllers.agent.minds.python_function import python_command
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.tools.faults import ToolDenied, ToolFault
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.controllers.sandboxes import Astray, ground, is_git_outside, without_links
from planloop.reconciler.effects.clamping import last_line
from planloop.reconciler.effects.processes import Command, Ending
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, decode_foreign, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.hook import STRICTNESS, VERSION, HookFunction, HookProgram, HookSpec, Verdict
from planloop.schemas.variables import git_set

MEMBERS: Final = frozenset(
    {"version", "decision", "reason", "arguments", "comment", "say", "memory", "state", "is_last"}
)
"""What a verdict may have. `say` is what a function gives that returns a text; `state` is `memory`, as it was asked."""


async def verdict_of(world: World, seen: Observed, hook: HookSpec, asked: JsonObject) -> Verdict:
    """What the program or function of `hook` answers to `asked` (`facts.question`); a fault when it gives none."""
    mind = hook.mind
    assert isinstance(mind, HookProgram | HookFunction), "rules and agents are asked otherwise"
    is_foreign = isinstance(mind, HookProgram) and mind.contract == "claude-code"
    timeout_s = hook.timeout_s or limits.HOOK_PROGRAM_S
    try:
        place = _place(world, seen, hook)
        argv = _argv(world, mind)
    except (ToolFault, MindFailed) as fault:
        return broken(str(fault))
    env, told = place.env, asked
    # What speaks another product's words runs through our interpreter too.
    is_ours = isinstance(mind, HookProgram) and not is_foreign
    box = sandbox(world, seen) if is_ours else around_functions(world, seen)
    if is_foreign:
        if box is not None:
            box = replace(box, readable=(*box.readable, str(_transcript(world, seen).parent)))
        told = _in_their_words(world, seen, asked)
        env |= {"CLAUDE_PROJECT_DIR": str(world.folder)}
        argv = (world.python, str(claude_code.CHILD), str(limits.HOOK_OUTPUT_BYTES_MAX), *argv)
    command = Command(
        cwd=place.cwd,
        argv=argv,
        env=env,
        stdin=encode(told) + b"\n",
        timeout_s=timeout_s,
        output_bytes_max=2 * limits.HOOK_OUTPUT_BYTES_MAX,
        sandbox=box,
    )
    op = world.ids.mint()
    ended = await world.processes.run(op, command)
    world.processes.forget([op])
    if ended.ending is Ending.TIMED_OUT:
        return broken(f"it gave no verdict within {timeout_s:g} s")
    if ended.ending is not Ending.EXITED:
        return broken(": ".join(part for part in (ended.ending.value, last_line(ended.output)) if part))
    if ended.code != 0:
        return died(ended.code or 0, last_line(ended.output))
    return claude_code.verdict(asked, ended.output) if is_foreign else understood(ended.output)


@frozen
class Place:
    """Where a program runs, and with which variables."""

    cwd: str
    env: dict[str, str]


def _place(world: World, seen: Observed, hook: HookSpec) -> Place:
    """The workspace of the task where the hook is set: what `./guard` is does not depend on whom it watches.

    Raises ToolFault where that is no folder to work in.
    """
    task = world.store.view.get(f"task/{hook.set_at.partition('/')[2]}") if hook.set_at else None
    if task is None or task.address == seen.spec.task:
        space = workspace_of(world, seen)
        space.ensure()
        return Place(str(space.root), environment(world, seen))
    whole = without_links(world.folder)
    folder = ground(world.store.view, task.spec["cwd"], whole)
    if isinstance(folder, Astray):
        raise ToolDenied(f"where the hook is set: {folder.words}")
    Workspace(whole, folder).ensure()  # Following no link: one may have come since.
    own = {str(name): str(value) for name, value in task.spec["env"].items() if not str(name).startswith(RESERVED)}
    env = {**world.env, **own}
    return Place(str(folder), git_set(env, may_run_all=False, is_owners=is_git_outside(env, whole)))


def _in_their_words(world: World, seen: Observed, asked: JsonObject) -> JsonObject:
    path = _transcript(world, seen)
    with contextlib.suppress(OSError):  # A full disk is no reason not to ask: few scripts look there.
        claude_transcript.write(path, seen, world.store.get_blob)
    return claude_code.question(asked, str(path))


def _transcript(world: World, seen: Observed) -> Path:
    return claude_transcript.place(world.folder, world.plan, seen.resource.address)


def _argv(world: World, mind: HookProgram | HookFunction) -> tuple[str, ...]:
    match mind:
        case HookProgram(argv=argv):
            return argv
        case HookFunction(target=target):
            return python_command(world, target)
        case other:
            assert_never(other)


def understood(output: bytes) -> Verdict:
    """The verdict that a program printed: its whole output, or the last line that is a JSON map, after remarks.

    Of several lines with decisions the strictest counts. Nothing printed is an `allow` that says nothing.
    """
    text = output.decode(errors="replace").strip()
    if not text:
        return Verdict()
    answer = _map_in(text)
    if answer is None:
        return broken(f"its answer is no JSON map: {text[-limits.VALUE_SHOWN_CHARS :]}")
    return verdict_in(answer)


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


def verdict_in(answer: JsonObject) -> Verdict:
    """The verdict that is `answer`, version 1; a fault that says what is wrong with it."""
    why = _fault(answer)
    if why:
        return broken(why)
    memory: Json = answer.get("memory", answer.get("state"))
    return Verdict(
        decision=answer.get("decision", "allow"),
        reason=clipped(answer.get("reason")),
        arguments=answer.get("arguments"),
        comment=clipped(answer.get("comment") or answer.get("say")),
        memory=memory,
        is_last=answer.get("is_last", False),
    )


def _fault(answer: JsonObject) -> str:
    version = answer.get("version", VERSION)
    if version != VERSION:
        return f"its answer is version {version}, and here is version {VERSION}"
    if unknown := sorted(set(answer) - MEMBERS):
        return f"its answer has {', '.join(unknown)}, which no verdict has"
    if answer.get("decision", "allow") not in STRICTNESS:
        return f"`decision` is {', '.join(STRICTNESS)}, not {str(answer['decision'])[:40]}"
    if not isinstance(answer.get("arguments", {}), dict | None):
        return "`arguments` is a map"
    if not isinstance(answer.get("is_last", False), bool):
        return "`is_last` is true or false"
    if len(encode(answer.get("memory", answer.get("state")))) > limits.HOOK_MEMORY_BYTES_MAX:
        return f"it keeps more than {limits.HOOK_MEMORY_BYTES_MAX >> 10} KiB"
    return ""


def clipped(words: Json) -> str:
    """Words for the agent, bounded; empty for none."""
    return str(words)[: limits.HOOK_WORDS_CHARS_MAX] if words else ""
