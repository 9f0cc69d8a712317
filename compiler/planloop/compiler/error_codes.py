"""Every diagnostic code and its title. `docs/reference/errors/` and the golden cases are held to it.

P01xx are faults of reading a text, P02xx of what the plan says, P03xx of rights and budgets, P04xx of what this
version does not run.
"""

from __future__ import annotations

from typing import Final

READING_CODES: Final[dict[str, str]] = {
    "P0101": "the file is too large",
    "P0102": "the file is not UTF-8 text",
    "P0103": "the file is empty",
    "P0104": "a control character in the text",
    "P0105": "the YAML cannot be read",
    "P0106": "a tab where YAML needs spaces",
    "P0107": "a bracket or quote is not closed",
    "P0108": "a bracket closes nothing",
    "P0109": "a key is given twice",
    "P0110": "a key is not text",
    "P0111": "the text is nested too deeply",
    "P0112": "the plan holds too many values",
    "P0113": "too many YAML aliases",
    "P0114": "an alias or anchor leads nowhere",
    "P0115": "a tag that plans do not know",
    "P0116": "several documents in one file",
    "P0117": "a number that cannot be kept",
    "P0118": "a merge key without a map",
    "P0119": "the EDN cannot be read",
    "P0120": "a key without a value",
}

PLAN_CODES: Final[dict[str, str]] = {
    "P0201": "an unknown field",
    "P0202": "a value of the wrong type",
    "P0203": "an unknown agent",
    "P0204": "an unknown task",
    "P0205": "a name that several tasks have",
    "P0206": "a value that YAML readers disagree on",
    "P0207": "not an id",
    "P0208": "an id that is given twice",
    "P0209": "a field that is given under two names",
    "P0210": "something is missing",
    "P0211": "things that exclude each other",
    "P0212": "a value out of bounds",
    "P0213": "an unknown name",
    "P0214": "a reference that cannot be read",
    "P0215": "definitions that go round in a ring",
    "P0216": "a move that makes no sense",
    "P0217": "healthy without a health check",
    "P0218": "a path outside the plan's folder",
    "P0219": "something is left out",
    "P0220": "a form that plans do not know",
    "P0221": "a plan that says nothing to do",
    "P0222": "things that wait for each other",
    "P0223": "a text in the wrong form",
    "P0224": "a tree that is too large",
    "P0225": "an agent without a model",
    "P0226": "a key in the plan",
    "P0227": "a hook that no call can reach",
    "P0228": "a hook that watches nobody",
    "P0229": "a hook's program that there is not",
    "P0230": "a model for an agent that cannot use it",
}

RIGHTS_CODES: Final[dict[str, str]] = {
    "P0301": "a tool that is not allowed",
    "P0302": "a model that is not allowed",
    "P0303": "rights wider than those above",
    "P0304": "a prototype that would be widened",
    "P0305": "more children than its rights allow",
    "P0306": "a budget over what there is",
    "P0307": "budgets that are over it together",
}

NOT_RUN_CODES: Final[dict[str, str]] = {
    "P0406": "a setting that nothing reads",
    "P0407": "a check that this version does not run",
    "P0408": "a sandbox that there is not",
    "P0410": "a tool that there is not",
    "P0411": "commands are not kept from the network without a sandbox",
    "P0412": "a program whose writes take no lock",
}

SUITE_CODES: Final[dict[str, str]] = {
    "P0501": "an oracle that fails",
    "P0502": "a mutant that lives",
    "P0503": "a mutant that another check tells of",
    "P0504": "a cheat that scores",
    "P0505": "doing nothing scores",
    "P0506": "a check that kills nothing",
    "P0507": "few oracles",
    "P0508": "a case without an oracle",
    "P0509": "a proof that was not decided",
}
"""Of suites, found by running what they prove themselves with (`planloop.benchmarks.validation`); no text alone shows
them."""

STOPS_APPLY: Final = frozenset(("P0225", "P0407", "P0408"))
"""Warnings that a run must not start with: the plan would not do what it says. `plan apply` takes them for errors."""

CODES: Final[dict[str, str]] = {**READING_CODES, **PLAN_CODES, **RIGHTS_CODES, **NOT_RUN_CODES, **SUITE_CODES}
