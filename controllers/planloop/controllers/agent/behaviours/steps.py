"""The steps of an agent's mixins as values: which of them a call or a turn goes through, the outermost first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from planloop.schemas import patterns
from planloop.schemas.agent import AgentSpec
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

On: TypeAlias = Literal["call", "turn"]

PROGRAMS: Final = frozenset({"python", "run"})


@frozen
class Step:
    """One layer. `verb` says what it does with `given`; `words` say which mixin it is from, `point` where it stands.

    `match` are the patterns of calls that it is for, None for all.
    """

    mixin: str
    words: str
    point: str
    verb: str
    given: Json
    on: On
    match: tuple[str, ...] | None = None
    on_fault: str = ""

    @property
    def is_program(self) -> bool:
        return self.verb in PROGRAMS

    @property
    def table(self) -> JsonObject:
        """What it was given, as the map that it is."""
        return self.given if isinstance(self.given, dict) else {}


def steps_of(spec: AgentSpec, on: On) -> tuple[Step, ...]:
    """All steps of the agent for calls or for turns."""
    return tuple(_step(mixin, raw) for mixin in spec.mixins for raw in mixin.get("steps", ()) if raw["on"] == on)


def for_call(spec: AgentSpec, tool: str, subjects: Sequence[str], *, is_free: bool) -> tuple[Step, ...]:
    """The steps that a call of `tool` on `subjects` goes through.

    A program that does not name its calls has no say in free ones: an agent can always end, and always ask upward.
    """
    if not spec.mixins:
        return ()
    found = (step for step in steps_of(spec, "call") if _matches(step, tool, subjects))
    return tuple(step for step in found if not (is_free and step.is_program and step.match is None))


def for_turn(spec: AgentSpec) -> tuple[Step, ...]:
    """The steps that the asking of the mind goes through."""
    return steps_of(spec, "turn") if spec.mixins else ()


def _step(mixin: JsonObject, raw: JsonObject) -> Step:
    match = raw.get("match")
    return Step(
        mixin=mixin["name"],
        words=mixin["from"],
        point=raw["at"],
        verb=raw["do"],
        given=raw["with"],
        on=raw["on"],
        match=None if match is None else tuple(match),
        on_fault=raw.get("on-fault", ""),
    )


def _matches(step: Step, tool: str, subjects: Sequence[str]) -> bool:
    return step.match is None or bool(patterns.denied_by(step.match, tool, subjects))
