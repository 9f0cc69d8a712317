"""Names in a plan: valid ids, ids derived from goals, paths inside a folder, and the known name nearest a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_ID: Final = re.compile(r"\w[\w.-]{0,63}")
_WORD: Final = re.compile(r"[^\W_]+")
_SMALL_WORDS: Final = frozenset("a an the for of to and or in on with that which by from into".split())
_DERIVED_LENGTH_MAX: Final = 40  # Characters: long enough to tell siblings apart, short enough for a tree view.


def is_valid_id(text: str) -> bool:
    """Whether `text` can be a part of an address: letters, digits, `_`, `-` and `.`, at most 64, no leading dot."""
    return _ID.fullmatch(text) is not None


def id_hint(text: str) -> str:
    """What an id is made of, with the one that `text` may become."""
    return f"use letters, digits, `-`, `_` and `.`, at most 64, as in `{id_from_goal(text) or 'ui'}`"


def id_from_goal(goal: str) -> str:
    """The id made from a goal: its words without the small ones, up to 40 characters. The same goal, the same id.

    `create a frontend for a websocket based chat app` gives `create-frontend-websocket-based-chat-app`. Empty when the
    goal has no letter or digit.
    """
    words = [word.lower() for word in _WORD.findall(goal)]
    telling = [word for word in words if word not in _SMALL_WORDS] or words
    out = ""
    for word in telling:
        longer = f"{out}-{word}" if out else word[:_DERIVED_LENGTH_MAX]
        if len(longer) > _DERIVED_LENGTH_MAX:
            break
        out = longer
    return out


def plan_name(file: str) -> str:
    """The name of a plan that states none: the file's, without its folders and suffixes; `plan` if nothing is left."""
    stem = file.replace("\\", "/").rpartition("/")[2].split(".")[0]
    return stem if is_valid_id(stem) else id_from_goal(stem) or "plan"


def leaves_folder(path: str) -> bool:
    """Return whether a relative path leaves its folder, or is not relative."""
    depth = 0
    for part in path.replace("\\", "/").split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return path.startswith(("/", "~")) or path[1:2] == ":"


def nearest_name(wrong: str, known: Iterable[str]) -> str | None:
    """The known name within about a third of its letters, the first of the nearest; None when none is that near."""
    allowed = max(1, min(3, len(wrong) // 3))
    best: str | None = None
    folded = wrong.lower()
    letters = set(folded)
    for name in known:
        # Each edit changes at most two letters of the set, so most names need no distance.
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
    return list_known(names) if near is None else f"did you mean `{near}`?"


def list_known(names: Sequence[str]) -> str:
    """A hint that lists the known names."""
    if not names:
        return "none are available"
    shown = ", ".join(f"`{name}`" for name in names[:12])
    return f"available: {shown}" + (" …" if len(names) > 12 else "")
