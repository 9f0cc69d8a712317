"""What a page's own socket was seen to do, and who can see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from planloop.controllers.task.checking.contract import Bench
from planloop.schemas.frozen import frozen


@frozen
class Observed:
    """The socket that a page opens. `path` is with its query, `sent` all that the page sent, in order.

    What was typed stands in one of them, unless the page sends it in another way or hides it.
    """

    path: str
    sent: tuple[str, ...] = ()


Observe: TypeAlias = Callable[[str, str, Bench, float], Awaitable[Observed | str | None]]
"""Opens the page at a URL, types a text, sends it, and tells of the page's socket, all within seconds.

None: the page has no socket that could be seen. A text: there is no browser, and why.
"""
