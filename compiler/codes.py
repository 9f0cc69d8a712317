"""Every diagnostic code and its title, in one place: the pages in `docs/errors/` and the golden cases are held to it.

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

CODES: Final[dict[str, str]] = {**READING_CODES}
