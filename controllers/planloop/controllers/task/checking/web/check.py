"""`web`: holds when a person in a browser can do the steps of `can`, or cannot come to the end of `never`.

The browser is driven by a process of its own (`child.py`), which is given the check and prints what it found: no page
comes near the owner.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from planloop.controllers.task.checking import browsing, shell
from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.controllers.task.checking.distinct import nonces_of
from planloop.controllers.task.checking.web.child import MARK
from planloop.reconciler.effects.processes import Ending
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.task import CheckSpec

NONCES: Final = "nonces"
ALONE: Final = "alone"
"""Set by who grades a program: its pages reach nobody else, who might answer for it or be harmed."""
CHILD: Final = "planloop.controllers.task.checking.web.child"


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Asks a browser. Whatever is not about the page is an `error`."""
    arguments = {name: value for name, value in spec.arguments.items() if name not in (NONCES, ALONE)}
    nonces = nonces_of(spec.arguments, bench.ids)
    question: JsonObject = {"arguments": arguments, "nonces": dict(nonces.words), "timeout_s": spec.timeout_s}
    if spec.arguments.get(ALONE):
        question["host"] = urlsplit(str(arguments["url"])).hostname or ""
    timeout_s = spec.timeout_s + limits.WEB_START_S_MAX
    exit_ = await browsing.asked(CHILD, question, bench, timeout_s)
    trouble = shell.not_ended(exit_, timeout_s)
    if trouble is not None:
        # Pages have a time of their own, within this one: only the browser was too slow.
        return replace(trouble, is_own=exit_.ending is Ending.TOO_MUCH_OUTPUT)
    answer = browsing.answer_of(exit_, MARK)
    return Finding("error", answer, exit_.output, probes=0) if isinstance(answer, str) else finding_of(answer)


def finding_of(answer: JsonObject) -> Finding:
    """Return what the check found, from the answer of its process."""
    evidence = {name: base64.b64decode(content) for name, content in answer["evidence"].items()}
    output, figures = answer["output"].encode(), answer["figures"]
    return Finding(answer["result"], answer["message"], output, answer["probes"], evidence, figures)
