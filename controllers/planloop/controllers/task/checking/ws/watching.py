"""Has a browser look at a page's own socket, in a process of its own."""

from __future__ import annotations

from typing import Final

from planloop.controllers.task.checking import browsing
from planloop.controllers.task.checking.contract import Bench
from planloop.controllers.task.checking.ws.observed import Observed
from planloop.controllers.task.checking.ws.page_child import MARK
from planloop.reconciler.effects.processes import Ending

CHILD: Final = "planloop.controllers.task.checking.ws.page_child"


async def observe(url: str, said: str, bench: Bench, within_s: float) -> Observed | str | None:
    """The socket that the page at `url` opens, and what it sends when somebody says `said` there."""
    exit_ = await browsing.asked(CHILD, {"url": url, "say": said}, bench, within_s)
    if exit_.ending is Ending.TIMED_OUT:
        return f"the browser is not done after {within_s:g} s"
    answer = browsing.answer_of(exit_, MARK)
    if isinstance(answer, str):
        return answer
    if "why" in answer:
        return str(answer["why"])
    return Observed(answer["path"], tuple(answer["sent"])) if "path" in answer else None
