"""Every diagnostic code and its title. Tests compare `docs/reference/errors/` and the golden cases with it.

P01xx are errors in reading a file, P02xx in the plan, P03xx in its rights and budgets. P04xx are parts of a plan that
this version does not run.
"""

from __future__ import annotations

from typing import Final

READING_CODES: Final[dict[str, str]] = {
    "P0101": "the file is too large",
    "P0102": "the file is not UTF-8 text",
    "P0103": "the file is empty",
    "P0104": "control character in the text",
    "P0105": "the YAML cannot be read",
    "P0106": "tab used to indent YAML",
    "P0107": "unclosed bracket or quote",
    "P0108": "unmatched closing bracket",
    "P0109": "duplicate key",
    "P0110": "key that is not text",
    "P0111": "the text is nested too deeply",
    "P0112": "too many values",
    "P0113": "too many YAML aliases",
    "P0114": "undefined alias or invalid anchor",
    "P0115": "unsupported tag",
    "P0116": "several documents in one file",
    "P0117": "number that cannot be stored exactly",
    "P0118": "merge key without a map",
    "P0119": "the EDN cannot be read",
    "P0120": "key without a value",
}

PLAN_CODES: Final[dict[str, str]] = {
    "P0201": "unknown field",
    "P0202": "value of the wrong type",
    "P0203": "unknown agent",
    "P0204": "unknown task",
    "P0205": "ambiguous task id",
    "P0206": "value that YAML versions read differently",
    "P0207": "invalid id",
    "P0208": "duplicate id",
    "P0209": "field given under two names",
    "P0210": "missing field or value",
    "P0211": "settings that exclude each other",
    "P0212": "value out of range",
    "P0213": "unknown name",
    "P0214": "reference that cannot be read",
    "P0215": "definitions that form a cycle",
    "P0216": "invalid move",
    "P0217": "wait for healthy without a health check",
    "P0218": "path outside the plan's folder",
    "P0219": "part left out with `...`",
    "P0220": "unknown form",
    "P0221": "plan without work",
    "P0222": "dependency cycle",
    "P0223": "text in the wrong format",
    "P0224": "task tree too large",
    "P0225": "agent without a model",
    "P0226": "secret in the plan",
    "P0227": "hook that matches no call",
    "P0228": "hook that watches no agent",
    "P0229": "hook whose program cannot be run",
    "P0230": "model for an agent that cannot use it",
}

RIGHTS_CODES: Final[dict[str, str]] = {
    "P0301": "tool that is not allowed",
    "P0302": "model that is not allowed",
    "P0303": "rights wider than the parent's",
    "P0304": "prototype that would be widened",
    "P0305": "more children than the rights allow",
    "P0306": "budget larger than the ancestor's",
    "P0307": "budgets that exceed the ancestor's together",
}

NOT_RUN_CODES: Final[dict[str, str]] = {
    "P0406": "setting without effect",
    "P0407": "check that this version does not run",
    "P0408": "unknown or unsuitable sandbox",
    "P0410": "unknown tool",
    "P0411": "commands can use the network without a sandbox",
    "P0412": "program whose writes are not locked",
}

SUITE_CODES: Final[dict[str, str]] = {
    "P0501": "oracle that fails",
    "P0502": "mutant that passes",
    "P0503": "mutant detected by another check",
    "P0504": "cheat that scores",
    "P0505": "an agent that does nothing passes",
    "P0506": "check that detects no mutant",
    "P0507": "few oracles",
    "P0508": "case without an oracle",
    "P0509": "proof without a result",
}
"""Errors in suites, found by running their proofs (`planloop.benchmarks.validation`), not by reading the text."""

STOPS_APPLY: Final = frozenset(("P0225", "P0407", "P0408"))
"""Warnings that `plan apply` treats as errors, because the plan would not do what it says."""

CODES: Final[dict[str, str]] = {**READING_CODES, **PLAN_CODES, **RIGHTS_CODES, **NOT_RUN_CODES, **SUITE_CODES}
