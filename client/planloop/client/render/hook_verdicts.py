"""Verdicts of hooks in words: which hook, at which point, what it decided."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.client.render.cells import one_line
from planloop.schemas import amounts
from planloop.schemas.canonical_json import JsonObject, encode_text
from planloop.schemas.log.record import RecordDraft
from planloop.schemas.objects.hook import OVER

COUNTED_S = 0.5  # A hook that took less did not keep anybody waiting.


def verdict_words(data: JsonObject) -> str:
    """One line of a record: all verdicts, those that say nothing by their names only."""
    said = "; ".join(_line(one) for one in data.get("fired", ()))
    took = float(data.get("cost", {}).get("time_s", 0.0))
    late = " (late, of no effect)" if data.get("late") else ""
    return said + (f", {amounts.format_duration(took)}" if took >= COUNTED_S else "") + late


def verdict_lines(data: JsonObject) -> Iterator[str]:
    """A line for each verdict that did something, for a transcript."""
    for one in data.get("fired", ()):
        if not _is_silent(one):
            yield _line(one)


def is_silent_verdict(data: JsonObject) -> bool:
    """Whether the hooks let everything pass and said nothing: nobody wants to read that. That one is over is said."""
    return data.get("state") != OVER and all(_is_silent(one) for one in data.get("fired", ()))


def is_verdict_of(draft: RecordDraft, hook: str) -> bool:
    """Whether the record tells of a verdict of the hook at that address."""
    return draft.type == "hook.fired" and any(one["hook"] == hook for one in draft.data.get("fired", ()))


def hook_asking(data: JsonObject) -> str:
    """That a hook's agent is asked."""
    return f"asks {data['to']} at {data['point']}"


def _is_silent(one: JsonObject) -> bool:
    return not one["verdict"].keys() - {"memory"}


def _line(one: JsonObject) -> str:
    verdict = one["verdict"]
    tool = f" {one['tool']}" if one.get("tool") else ""
    return f"{one['hook']} {one['point']}{tool}: {'; '.join(_parts(verdict))}"


def _parts(verdict: JsonObject) -> Iterator[str]:
    if verdict.get("fault"):
        yield f"broke, {one_line(verdict['fault'])}"
    decision, reason = verdict.get("decision", "allow"), verdict.get("reason", "")
    is_told = bool(reason) and not verdict.get("fault")
    yield f"{decision}, {one_line(reason)}" if is_told else decision
    if verdict.get("arguments") is not None:
        yield f"with {one_line(encode_text(verdict['arguments']))}"
    if verdict.get("comment"):
        yield f"says {one_line(verdict['comment'])}"
    if verdict.get("is_last"):
        yield "quits"
