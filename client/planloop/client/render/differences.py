"""The lines of `plan diff`: one difference a line, deletions first, with action, reason and what is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from planloop.reconciler.diff import describe
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject

SIGNS: Final = {
    "cancel": "-", "replace": "-", "restart": "~", "message": "~", "start": "+", "attach": "+", "move": ">",
    "detach": "-", "change": "~",
    "pause": "~", "resume": "~", "continue": "~", "adopt": "+", "none": " ",
}  # fmt: skip
EDITS: Final = {"add": "+", "remove": "-", "replace": "~"}
ADDED: Final = ("start", "attach", "adopt", "replace")
REMOVED: Final = ("cancel", "detach", "replace")
UNMOVED_MAX: Final = 5
UNNAMED: Final = ("work", "mind")  # No fields of a plan file: the words say what changed.


def differences_text(differences: Sequence[JsonObject], *, now: float, width: int | None = None) -> str:
    """One line an object, in the order given."""
    shown = difference_rows(differences, now=now)
    names = max((quantities.cell_width(name) for _, name, _, _ in shown), default=0)
    verbs = max((len(verb) for _, _, verb, _ in shown), default=0)
    lines = []
    for sign, name, verb, said in shown:
        line = f"  {sign} {quantities.pad_cells(name, names)}   {verb:<{verbs}}   {said}".rstrip()
        lines.append(line if width is None else quantities.truncate_cells(line, width))
    return "\n".join(lines)


def difference_rows(differences: Sequence[JsonObject], *, now: float) -> list[tuple[str, str, str, str]]:
    """What moves, in the order given: its sign, its name, what is done to it, and the words."""
    return [
        (SIGNS[one["action"]], _name(one), str(one["action"]), _said(one, now))
        for one in differences
        if one["action"] != "none"
    ]


def unchanged_text(differences: Sequence[JsonObject]) -> str:
    """What a patch named and did not move, with the reason: said only where nothing else is to be said."""
    wide = max((quantities.cell_width(one["address"]) for one in differences), default=0)
    lines = [f"  {quantities.pad_cells(one['address'], wide)}   {one['words']}" for one in differences[:UNMOVED_MAX]]
    rest = len(differences) - UNMOVED_MAX
    return "\n".join([*lines, f"  and {rest} more"] if rest > 0 else lines)


def differences_summary(differences: Sequence[JsonObject], counts: Mapping[str, int] | None = None) -> str:
    """`5 to add, 0 to change, 0 to remove`. What is replaced is removed and added.

    `counts` goes with a list that was cut: how many there are of each action in all.
    """
    every = _moving(counts or _counted(differences))
    added = sum(count for action, count in every.items() if action in ADDED)
    removed = sum(count for action, count in every.items() if action in REMOVED)
    changed = sum(count for action, count in every.items() if action not in (*ADDED, *REMOVED))
    return f"{added} to add, {changed} to change, {removed} to remove"


def hidden_count(differences: Sequence[JsonObject], counts: Mapping[str, int] | None) -> int:
    """How many more move than `differences` has; `counts` as for `summary`."""
    shown = _counted(differences)
    return sum(_moving(counts or shown).values()) - sum(_moving(shown).values())


def _counted(differences: Sequence[JsonObject]) -> Mapping[str, int]:
    return Counter(one["action"] for one in differences)


def _moving(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {action: count for action, count in counts.items() if action != "none"}


def budget_words(budget: JsonObject | None) -> str:
    """`at most $20.00, 2M tokens, 2h00m`; empty for a plan without a budget."""
    if not budget:
        return ""
    words = []
    if "usd" in budget:
        words.append(quantities.format_money(Decimal(str(budget["usd"]))))
    words += [
        f"{quantities.format_count(budget[unit])} {unit}" for unit in ("tokens", "calls", "turns") if unit in budget
    ]
    time_s = budget.get("time_s", budget.get("time"))
    if time_s is not None:
        words.append(quantities.format_duration(float(time_s)))
    return f"at most {', '.join(words)}"


def _name(one: JsonObject) -> str:
    fields = one.get("fields") or []
    is_named = len(fields) == 1 and fields[0] not in UNNAMED
    return str(one["address"]) + (f"/{describe.plan_field_name(fields[0])}" if is_named else "")


def _said(one: JsonObject, now: float) -> str:
    stake = one.get("stake") or {}
    parts = [one["words"]]
    if stake.get("is_running") or stake.get("state") in ("running", "checking"):
        since = stake.get("started_at")
        parts.append(f"running for {quantities.format_duration(now - since)}" if since else "running")
    spent = stake.get("spent") or {}
    if spent.get("usd"):
        parts.append(f"spent {quantities.format_money(Decimal(str(spent['usd'])))}")
    if spent.get("time_s"):
        parts.append(f"{quantities.format_duration(spent['time_s'])} of work")
    return "; ".join(parts)
