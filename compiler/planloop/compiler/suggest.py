"""Did you mean: suggest the known name nearest to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_name(wrong: str, known: Iterable[str]) -> str | None:
    """The known name within about a third of its letters, the first of the nearest; None when none is that near."""
    allowed = max(1, min(3, len(wrong) // 3))
    best: str | None = None
    folded = wrong.lower()
    letters = set(folded)
    for name in known:
        # Each edit changes at most two letters of the set: most names are told apart without a distance.
        if abs(len(name) - len(wrong)) > allowed or len(letters.symmetric_difference(name.lower())) > 2 * allowed:
            continue
        distance = edit_distance(folded, name.lower())
        if distance <= allowed and distance < len(name):
            best, allowed = name, distance - 1
        if allowed < 0:
            break
    return best


def edit_distance(one: str, other: str) -> int:
    """Letters to add, drop, replace, or swap with their neighbour (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        earlier, before = before, row
        row = [i]
        for j, right in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A hint that names the nearest, or lists what there is when the list is short."""
    names = list(dict.fromkeys(known))
    near = nearest_name(wrong, names)
    if near is not None:
        return f"did you mean `{near}`?"
    if not names:
        return "there are none"
    shown = ", ".join(f"`{name}`" for name in names[:12])
    return f"there are {shown}" + (" …" if len(names) > 12 else "")
