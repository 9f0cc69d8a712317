"""The language of rules: hooks that are data, asked without any process.

A rule is a list of clauses. They are read from the top; each whose `when` holds has its effects, and one that decides
(`deny`, `defer`, `ask`, `allow`) ends the reading. What each word means is said in the tables here, once, for
`rule_faults.py`, for `docs/hooks.md` and for `planloop.controllers.agent.hooking.rules`, which answers by them.

Values may say `$name` for the setting of that name. Texts may say `{word}` for what is known: see `BLANKS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planloop.schemas.encoding import Json
from planloop.schemas.hook import ABOUT_CALLS, DECIDING, STARTING, STRICTNESS, Point

CONDITIONS: Final[Mapping[str, str]] = {
    "on": "The point at which the hook is asked, or one of several.",
    "call": "A pattern of calls such as `write(src/**)`, or one of several. Where it holds a call back it covers "
    "rather too much, where it lets one through (with `allow`, or in a `not`) rather too little.",
    "effect": "The call's class: read, idempotent, reconcilable or once.",
    "arguments": "Tests of the call's arguments by name: `{path: {starts: src/}}`; `a.b` is `b` within `a`.",
    "result": "A test of the text that came of the call.",
    "outcome": "How the call ended: succeeded, failed, denied, cancelled or unknown.",
    "error": "The one word of its failure, such as NotFound.",
    "reply": "A test of the final answer that is about to go out.",
    "message": "Some message that is read now: tests of `text`, `from`, `kind`, and of an answered request `about`, "
    "`answer`. `from` is person, parent, child or an address.",
    "messages": "How many messages are read now that fit the same tests; `count` is the test of their number.",
    "prompt": "A test of all that the agent is told now: its goal in the first turn, and messages.",
    "requests": "A test of how many requests of its own nobody has answered yet.",
    "children": "How many children fit `state`, `name`, `live`, `agent` (its state) and `quiet` (turns without a word "
    "between them); `count` is the test of their number, more than 0 when left out.",
    "children-then": "A test of how many children would be at work if all calls of the present reply were made.",
    "calls": "Tests, by tool, of how many calls there are in the agent's present reply.",
    "changed": "A test of how many files have another content on disk than the agent knows.",
    "claim": "What the agent says of its task at its end: done or fail.",
    "nudges": "A test of how often in a row a comment at on-sleep has woken the agent.",
    "sent-back": "A test of how often this final answer has been sent back.",
    "turn": "A test of the number of the agent's turn.",
    "depth": "A test of how many levels the agent is below the top of the plan.",
    "budget": "Tests of what budgets leave it, by unit: tokens, usd, time_s, calls, turns.",
    "count": "Tests of the hook's own counters by name; one never counted is 0.",
    "turns-since": "Tests, by mark, of the turns since the mark was set; if never, since the hook began.",
    "setting": "Tests of the hook's own settings by name.",
    "is-copy": "Whether this hook is the copy, for an agent below, of one that is set further up.",
    "any": "A list of conditions of which one holds.",
    "all": "A list of conditions that all hold.",
    "not": "A condition that does not hold.",
}
"""What a `when` may say. All that it says must hold; what is not known at a point does not hold there."""

EFFECTS: Final[Mapping[str, str]] = {
    "deny": "No, with the reason, which the agent reads; it should say how to go on.",
    "defer": "Not now: the agent is told what to do first.",
    "ask": "A person's yes is needed, and why.",
    "allow": "Yes, and no further clause is read.",
    "comment": "A text for the agent, labelled with the hook's name.",
    "rewrite": "Other arguments by name; what is not named stays, null takes one away.",
    "count": "Adds 1 to a counter or several, or a number to each: `{name: 2}`.",
    "reset": "Sets counters to 0 and forgets marks, by name; the texts of the clause still have them.",
    "mark": "Sets a mark, or several, at this turn, for `turns-since`.",
    "note": "A text that the hook keeps; an agent that it consults later is shown the newest of them.",
    "once": "The clause is left out when this text is what it was the last time it had effect.",
    "quit": "The hook is over.",
    "consult": "The hook's agent is asked, and what it says counts; in `first`, and no further clause is read.",
}
"""What a clause may do."""

TEXT_EFFECTS: Final = frozenset({*STRICTNESS, "comment", "note", "once"})
"""Those that are a text for somebody."""

TEXT_TESTS: Final[Mapping[str, str]] = {
    "is": "the same text, or one of several",
    "not": "another text than this, or than any of several",
    "like": "a text with stars, or one of several",
    "contains": "this is in it, or one of several",
    "starts": "it begins so",
    "ends": "it ends so",
    "matches": "a regular expression, without back references and looking around; its time is bounded",
    "length": "a test of its number of characters, or of the members of a list or map",
    "any-case": "capitals and small letters are the same to the tests beside it",
    "given": "whether there is one at all",
}
NUMBER_TESTS: Final[tuple[str, ...]] = ("<", "<=", "=", "!=", ">=", ">")

MESSAGE_TESTS: Final = ("text", "from", "kind", "about", "answer")
CHILD_TESTS: Final = ("state", "name", "agent")

BLANKS: Final[Mapping[str, str]] = {
    "agent": "its address",
    "task": "its task's address",
    "tool": "the call's tool",
    "arguments": "all arguments, or one: `{arguments.path}`",
    "result": "what came of the call",
    "prompt": "all that the agent is told now",
    "reply": "the final answer",
    "message": "the first message that fitted",
    "children": "the names of the children that fitted",
    "changed": "the files that have changed",
    "versions": "the same with what they are now, for `once`",
    "turn": "the number of the turn",
    "depth": "levels below the top",
    "count": "a counter: `{count.tries}`",
    "turns-since": "turns since a mark: `{turns-since.plan}`",
    "setting": "a setting: `{setting.max}`",
}
"""What a text may have between braces; `{{` is a brace."""

BLANK: Final = re.compile(r"\{\{|\}\}|\{([a-z][a-z-]*)(?:\.([^{}\s]+))?\}")
_SETTING: Final = re.compile(r"\$([A-Za-z_][\w-]*)")

NEEDS: Final[Mapping[str, tuple[Point, ...]]] = {
    "call": ABOUT_CALLS,
    "effect": ABOUT_CALLS,
    "arguments": ABOUT_CALLS,
    "children-then": STARTING,
    "result": ("after-call",),
    "outcome": ("after-call",),
    "error": ("after-call",),
    "reply": ("before-reply", "on-sleep", "on-end"),
    "prompt": ("on-input",),
    "nudges": ("on-sleep",),
    "sent-back": ("before-reply",),
    **dict.fromkeys(STRICTNESS, DECIDING),
    "rewrite": STARTING,
}
"""The points at which a condition can hold, and an effect can have effect."""


def setting_of(value: Json) -> str | None:
    """The setting that a value stands for, None when it stands for itself."""
    found = _SETTING.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else found[1]


def clauses_of(rule: Json) -> list[Json]:
    """The clauses of a rule as it is written: a list of them, or one alone."""
    return rule if isinstance(rule, list) else [rule]
