"""Answers of reading calls kept in memory: for the same agent and arguments, until something may have changed.

Any call that is not a mere read, of whichever agent, makes every answer stale, and so does a change of a file below the
path that an answer is about. What is lost with the owner is only time.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from pathlib import Path

import anyio

from planloop.controllers.agent.behaviours.steps import Step
from planloop.controllers.agent.tools.faults import ToolDenied
from planloop.controllers.agent.tools.finding import SKIPPED
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement
from planloop.schemas import limits
from planloop.schemas.call import CallState, EffectClass
from planloop.schemas.encoding import Json, digest_of
from planloop.schemas.frozen import frozen, mutable


@frozen
class _Kept:
    answer: Settlement
    at: float
    writes: int
    marks: str


@mutable
class Cache:
    """The answers of one owner. `writes` counts the moments at which something may have changed."""

    writes: int = 0
    _kept: dict[str, OrderedDict[str, _Kept]] = field(default_factory=dict)

    def changed(self) -> None:
        """Something may have been written: no answer is good any more."""
        self.writes += 1
        self._kept.clear()

    async def answered(self, context: Context, step: Step, inner: Callable[[], Awaitable[Ending]]) -> Ending:
        """The kept answer if it is still good, else that of `inner`, kept if it may be."""
        if context.spec.effect is not EffectClass.READ or isinstance(context.space, ToolDenied):
            return await inner()
        agent = f"{context.seen.resource.uid}:{context.spec.incarnation}"
        key = digest_of([context.spec.tool, context.spec.arguments])
        marks = await anyio.to_thread.run_sync(_marks, context) if _paths(context) else ""
        good_s = float(step.table.get("for", limits.CACHE_GOOD_S))
        kept = self._kept.get(agent, OrderedDict()).get(key)
        now = context.world.clock.now()
        if kept is not None and kept.marks == marks and now - kept.at <= good_s:
            self._kept[agent].move_to_end(key)
            return replace(kept.answer, data={**kept.answer.data, "cached": True})
        writes = self.writes
        ending = await inner()
        if _may_keep(ending) and writes == self.writes:
            assert isinstance(ending, Settlement), "only settlements are kept"
            self._keep(agent, key, _Kept(ending, now, writes, marks), int(step.table.get("entries", 64)))
        return ending

    def _keep(self, agent: str, key: str, kept: _Kept, entries: int) -> None:
        if len(self._kept) > limits.SPECS_KEPT_MAX:
            self._kept.clear()
        answers = self._kept.setdefault(agent, OrderedDict())
        answers[key] = kept
        while len(answers) > min(entries, limits.CACHE_ENTRIES_MAX):
            answers.popitem(last=False)


def _may_keep(ending: Ending) -> bool:
    if not isinstance(ending, Settlement) or ending.result.state is not CallState.SUCCEEDED:
        return False
    return not (ending.changes or ending.agent or ending.turn)


def _paths(context: Context) -> list[Path]:
    """What on disk the call is about: its arguments that name something in the workspace."""
    root = context.workspace.root
    named = [str(value) for name, value in context.spec.arguments.items() if name == "path"]
    if not named and context.spec.tool == "search":
        named = ["."]
    return [root / name for name in named]


def _marks(context: Context) -> str:
    """A digest of names, sizes and times below the paths of the call: another one after nearly any change."""
    marks: list[Json] = []
    for path in _paths(context):
        marks += _mark_below(path)
    return digest_of(marks)


def _mark_below(path: Path) -> list[Json]:
    found: list[Json] = [_mark(path)]
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            found.append(_mark(Path(folder) / name))
            if len(found) > limits.FILES_SEARCHED_MAX:
                return found
    return found


def _mark(path: Path) -> Json:
    try:
        about = path.lstat()
    except OSError:
        return [str(path), None]
    out: list[Json] = [str(path), about.st_size, about.st_mtime_ns, about.st_ino]
    return out
