"""What an incarnation was begun with, as digests: how an edit of running or finished work is noticed by level.

Three parts, because an edit of each means something else: `work` is the restart class (a new incarnation), `goal` and
`notes` are told to a running agent but give one that ended a reason to begin again.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from planloop.schemas.encoding import JsonObject, digest_of
from planloop.schemas.frozen import mutable
from planloop.schemas.resource import Resource
from planloop.schemas.task import ByAgent, Group, Run, TaskSpec, task_from_json, work_to_json

Basis: TypeAlias = dict[str, str]
DIGITS = 12  # 48 bits: a change is compared with the one before it, never searched for.


@mutable
class Wish:
    """A parsed spec with its digests, kept as long as the spec is the same. `digests` are of its checks, by key."""

    raw: JsonObject
    spec: TaskSpec
    own: Basis
    digests: dict[str, str]
    _agent: Resource | None = field(default=None)
    _whole: Basis | None = field(default=None)

    def basis(self, agent: Resource | None) -> Basis:
        """The digests, with the mind of `agent` in them when an agent does the work."""
        if agent is None:
            return self.own
        if self._whole is None or self._agent is None or self._agent.spec is not agent.spec:
            mind = {"task": self.own["work"], "mind": agent.spec.get("mind"), "sandbox": agent.spec.get("sandbox")}
            self._agent, self._whole = agent, {**self.own, "work": digest_of(mind)[:DIGITS]}
        return self._whole


def wish_of(raw: JsonObject) -> Wish:
    """Parses a task's spec."""
    spec = task_from_json(raw)
    return Wish(raw, spec, _own(spec), {check.key: digest_of(check.to_json())[:DIGITS] for check in spec.acceptance})


def _own(spec: TaskSpec) -> Basis:
    match spec.work:
        case Group():
            return {"work": ""}  # A group does nothing itself: nothing of it can be out of date.
        case Run():
            what: JsonObject = {"run": _command(spec.work), "cwd": spec.cwd, "env": spec.env, "again": spec.again}
            if spec.on_change == "restart":
                what |= {"goal": spec.goal, "notes": spec.notes}
            return {"work": digest_of(what)[:DIGITS]}
        case ByAgent():
            # Not the agent's address: a task that moves keeps its agent and goes on.
            what = {"cwd": spec.cwd, "env": spec.env, "again": spec.again}
            if spec.on_change == "restart":
                what |= {"goal": spec.goal, "notes": spec.notes}
            told = {"goal": digest_of(spec.goal)[:DIGITS], "notes": digest_of(spec.notes)[:DIGITS]}
            return {"work": digest_of(what)[:DIGITS], **told}


def _command(work: Run) -> JsonObject:
    # How long it may take and what an unknown outcome means are hot: they change nothing about what was run.
    return {key: value for key, value in work_to_json(work).items() if key in ("shell", "argv")}
