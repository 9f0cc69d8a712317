"""Ids: which are valid, how one is derived from a goal, which paths stay inside their folder."""

from __future__ import annotations

import re
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
    return f"letters, digits, `-`, `_` and `.`, at most 64, as in `{id_from_goal(text) or 'ui'}`"


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
    """The name of a plan that states none: the file's, without its folders and suffixes; `plan` when that is none."""
    stem = file.replace("\\", "/").rpartition("/")[2].split(".")[0]
    return stem if is_valid_id(stem) else id_from_goal(stem) or "plan"


def leaves_folder(path: str) -> bool:
    """Whether a relative path leaves the folder it starts in, or is none."""
    depth = 0
    for part in path.replace("\\", "/").split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return path.startswith(("/", "~")) or path[1:2] == ":"
