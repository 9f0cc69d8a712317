"""The language of hook rules: conditions, effects, and the tool, counter and mark names a rule may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import FINAL_STATES, CallState, EffectClass
from planloop.schemas.objects.hook import ABOUT_CALLS, DECIDING, STARTING, STRICTNESS, HookPoint
from planloop.schemas.patterns import parse_call_pattern, star_regex
from planloop.schemas.tools import AGENT_TOOL, AGENT_TOOL_ARGUMENTS, TOLD_APART, TOOL_ARGUMENTS, TOOLS

# The language of rules: hooks that are data, asked without any process.
#
# A rule is a list of clauses. They are read from the top; each whose `when` holds has its effects, and one that decides
# (`deny`, `defer`, `ask`, `allow`) ends the reading. What each word means is said in the tables here, once, for
# `planloop.schemas.rules.validate`, for `docs/reference/hooks.md` and for `planloop.controllers.agent.hooks.rules`,
# which answers by them.
#
# Values may say `$name` for the setting of that name. Texts may say `{word}` for what is known: see
# `RULE_PLACEHOLDERS`.

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

RULE_PLACEHOLDERS: Final[Mapping[str, str]] = {
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

RULE_PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{([a-z][a-z-]*)(?:\.([^{}\s]+))?\}")
_SETTING: Final = re.compile(r"\$([A-Za-z_][\w-]*)")

NEEDS: Final[Mapping[str, tuple[HookPoint, ...]]] = {
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


def setting_name(value: Json) -> str | None:
    """The setting that a value stands for, None when it stands for itself."""
    found = _SETTING.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else found[1]


def rule_clauses(rule: Json) -> list[Json]:
    """The clauses of a rule as it is written: a list of them, or one alone."""
    return rule if isinstance(rule, list) else [rule]


# The names that a rule may mention: tools and their arguments, its own counters and marks, and words of closed sets.
#
# `planloop.schemas.rules.validate` tells of those that there are not: a condition about them never holds, and a guard
# stands open.

CLOSED_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "effect": tuple(str(effect) for effect in EffectClass),
    "outcome": tuple(sorted(str(state).lower() for state in {*FINAL_STATES, CallState.UNKNOWN})),
    "claim": ("done", "fail"),
}
"""Conditions that test one of a few words."""

BUDGET_UNITS: Final = ("tokens", "usd", "time_s", "calls", "turns", "retries")

ERRORS: Final = (
    *("BadArguments", "Cancelled", "Changed", "Denied", "Exists", "Exit", "Gone", "Interrupted", "Lost", "NoMatch"),
    *("NotFound", "NotHeld", "TimedOut", "TooLarge", "TooMany", "ToolError", "Unknown", "UnknownTool", "Unreachable"),
)
"""Words of failures that most calls may end with. It is no closed set, but all of them begin with a capital."""


@frozen
class KnownTools:
    """What calls there can be in a plan.

    `is_tool` says of a name whether there is such a tool; `others` are the names of tools that are not built in, for
    hints; `is_open`: there are tools of which nobody knows the arguments.
    """

    is_tool: Callable[[str], bool]
    others: tuple[str, ...] = ()
    is_open: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*TOOLS, *self.others)

    def has(self, tool: str) -> bool:
        """Whether some call can be of `tool`, which may have stars."""
        if "*" not in tool or tool in TOOLS:
            return self.is_tool(tool)
        return (
            self.is_open or tool.startswith(AGENT_TOOL) or any(star_regex(tool).fullmatch(name) for name in self.names)
        )

    def arguments(self, tools: frozenset[str] | None) -> frozenset[str] | None:
        """The arguments that calls of one of `tools` (None: of any) can have; None where nobody knows."""
        found: set[str] = set()
        for tool in tools or ("*",):
            if tool in TOOL_ARGUMENTS:
                found.update(TOOL_ARGUMENTS[tool])
            elif tool.startswith(AGENT_TOOL):
                found.update(AGENT_TOOL_ARGUMENTS)
            elif "*" not in tool or self.is_open:
                return None
            else:
                found.update(
                    AGENT_TOOL_ARGUMENTS, *(TOOL_ARGUMENTS[name] for name in TOOLS if star_regex(tool).fullmatch(name))
                )
        return frozenset(found)


def has_no_subject(tool: str) -> bool:
    """Whether calls of the tool have nothing that a pattern such as `shell(git *)` could be about."""
    return tool in TOOLS and tool not in TOLD_APART


def tools_in_patterns(patterns: Json) -> frozenset[str] | None:
    """The tools that patterns of calls name, with their stars; None when that cannot be told."""
    found = [parse_call_pattern(one) if isinstance(one, str) else None for one in rule_clauses(patterns)]
    return frozenset(one.tool for one in found if one is not None) if all(found) else None


def tools_of_condition(when: Json) -> frozenset[str] | None:
    """The tools of which a call must be for a condition to hold, None for any."""
    if not isinstance(when, dict):
        return None
    if "call" in when:
        return tools_in_patterns(when["call"])
    parts = when.get("all")
    for found in (tools_of_condition(part) for part in parts) if isinstance(parts, list) else ():
        if found is not None:
            return found
    ways = [tools_of_condition(way) for way in when["any"]] if isinstance(when.get("any"), list) else [None]
    known = [way for way in ways if way is not None]
    return frozenset().union(*known) if known and len(known) == len(ways) else None


@frozen
class RuleState:
    """The counters and marks that a hook may have, as patterns: where a name has a blank, a star stands for it."""

    counters: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()

    def has(self, what: str, name: str) -> bool:
        """Whether `name` is set anywhere; `what` is `count` or `turns-since`, anything else for both."""
        return any(star_regex(one).fullmatch(name) for one in self.known(what))

    def known(self, what: str) -> frozenset[str]:
        """The names of that sort."""
        return {"count": self.counters, "turns-since": self.marks}.get(what, self.counters | self.marks)


def rule_state_of(*rules: Json) -> RuleState:
    """What the clauses of all these rules set."""
    clauses = [clause for rule in rules for clause in rule_clauses(rule) if isinstance(clause, dict)]
    counters = (name for clause in clauses for name in _names(clause.get("count")))
    return RuleState(frozenset(counters), frozenset(name for clause in clauses for name in _names(clause.get("mark"))))


def _names(written: Json) -> Iterator[str]:
    several: Iterable[Json] = written if isinstance(written, list | dict) else [written]
    yield from (RULE_PLACEHOLDER.sub("*", one) for one in several if isinstance(one, str))
