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
# (`deny`, `defer`, `ask`, `allow`) ends the reading. The tables here define each word, once, for
# `planloop.schemas.rules.validate`, for `docs/reference/hooks.md` and for `planloop.controllers.agent.hooks.rules`,
# which answers by them.
#
# Values may say `$name` for the setting of that name. Texts may say `{word}` for what is known: see
# `RULE_PLACEHOLDERS`.

CONDITIONS: Final[Mapping[str, str]] = {
    "on": "The point at which the hook is asked, or a list of points.",
    "call": "A call pattern such as `write(src/**)`, or a list. If a match is uncertain, it counts where it blocks a "
    "call, and does not count where it permits one (`allow`, or in a `not`).",
    "effect": "The call's effect class: read, idempotent, reconcilable or once.",
    "arguments": "Tests of the call's arguments, by name: `{path: {starts: src/}}`; `a.b` is `b` in `a`.",
    "result": "A test of the call's result as text.",
    "outcome": "The outcome of the call: succeeded, failed, denied, cancelled or unknown.",
    "error": "The error name of a failed call, such as NotFound.",
    "reply": "A test of the final answer before it is sent.",
    "message": "A message in the current input: tests of `text`, `from`, `kind`, and for an answered request `about`, "
    "`answer`. `from` is person, parent, child or an address.",
    "messages": "The number of messages in the current input that match the same tests; `count` tests the number.",
    "prompt": "A test of the agent's whole current input: its goal in the first turn, and messages.",
    "requests": "A test of the number of the agent's unanswered requests.",
    "children": "Number of children that match `state`, `name`, `live`, `agent` (its state), `quiet` (turns since "
    "their last message); `count` tests the number. Default: more than 0.",
    "children-then": "A test of the number of running children if all calls of the current reply were made.",
    "calls": "Tests, by tool, of the number of calls in the agent's current reply.",
    "changed": "A test of the number of files that differ on disk from what the agent knows.",
    "claim": "The agent's report at the end of its task: done or fail.",
    "nudges": "A test of how often in a row a comment at on-sleep has woken the agent.",
    "sent-back": "A test of how often this final answer has been sent back.",
    "turn": "A test of the agent's turn number.",
    "depth": "A test of the number of levels between the agent and the top of the plan.",
    "budget": "Tests of the agent's remaining budget, by unit: tokens, usd, time_s, calls, turns.",
    "count": "Tests of the hook's counters, by name. An unused counter is 0.",
    "turns-since": "Tests, by mark, of the turns since the mark was set, or since the hook started.",
    "setting": "Tests of the hook's settings, by name.",
    "is-copy": "Whether this hook is a copy, for a descendant, of an ancestor's hook.",
    "any": "A list of conditions. At least one must hold.",
    "all": "A list of conditions. All must hold.",
    "not": "A condition that must be false.",
}
"""The conditions of a `when`. All must hold. A condition on a value that is unknown at a point is false there."""

EFFECTS: Final[Mapping[str, str]] = {
    "deny": "Denies, with a reason that the agent reads. It should say how to continue.",
    "defer": "Denies for now, with a text that tells the agent what to do first.",
    "ask": "Requires a person's approval, with the reason.",
    "allow": "Allows, and stops evaluation.",
    "comment": "Adds a text for the agent, labelled with the hook's name.",
    "rewrite": "Replaces arguments, by name. Others stay unchanged; null removes one.",
    "count": "Adds 1 to one or more counters, or a number to each: `{name: 2}`.",
    "reset": "Resets counters to 0 and removes marks, by name. Texts of the same clause still use the old values.",
    "mark": "Sets one or more marks at this turn, for `turns-since`.",
    "note": "Saves a text. An agent that the hook consults later gets the newest of them.",
    "once": "Skips the clause if this text is the same as when the clause last took effect.",
    "quit": "Ends the hook.",
    "consult": "Only in `first`: asks the hook's agent and uses its answer. Evaluation stops.",
}
"""The effects of a clause."""

TEXT_EFFECTS: Final = frozenset({*STRICTNESS, "comment", "note", "once"})
"""The effects with a text as their value."""

TEXT_TESTS: Final[Mapping[str, str]] = {
    "is": "equal to this text, or to one of several",
    "not": "not equal to this text, nor to any of several",
    "like": "matches a pattern with `*`, or one of several",
    "contains": "contains this text, or one of several",
    "starts": "starts with this text",
    "ends": "ends with this text",
    "matches": "matches a regular expression, without back references and lookaround; its time is limited",
    "length": "a test of the number of characters, or of the members of a list or map",
    "any-case": "makes the tests next to it ignore case",
    "given": "whether the value exists",
}
NUMBER_TESTS: Final[tuple[str, ...]] = ("<", "<=", "=", "!=", ">=", ">")

MESSAGE_TESTS: Final = ("text", "from", "kind", "about", "answer")
CHILD_TESTS: Final = ("state", "name", "agent")

RULE_PLACEHOLDERS: Final[Mapping[str, str]] = {
    "agent": "the agent's address",
    "task": "the address of the agent's task",
    "tool": "the call's tool",
    "arguments": "all arguments, or one: `{arguments.path}`",
    "result": "the call's result",
    "prompt": "the agent's whole current input",
    "reply": "the final answer",
    "message": "the first matching message",
    "children": "the names of the matching children",
    "changed": "the files that have changed",
    "versions": "the changed files with their current versions, for `once`",
    "turn": "the turn number",
    "depth": "the number of levels below the top of the plan",
    "count": "a counter: `{count.tries}`",
    "turns-since": "turns since a mark: `{turns-since.plan}`",
    "setting": "a setting: `{setting.max}`",
}
"""The placeholders of a text, in braces; `{{` is a literal brace."""

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
"""The points at which a condition can hold and an effect can apply."""


def setting_name(value: Json) -> str | None:
    """Return the setting that a value refers to; None for a plain value."""
    found = _SETTING.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else found[1]


def rule_clauses(rule: Json) -> list[Json]:
    """Return the clauses of a rule: the list, or the single clause in a list."""
    return rule if isinstance(rule, list) else [rule]


# The names that a rule may mention: tools and their arguments, its own counters and marks, and words of closed sets.
#
# `planloop.schemas.rules.validate` reports unknown names: a condition about them never holds, so a guard would allow
# every call.

CLOSED_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "effect": tuple(str(effect) for effect in EffectClass),
    "outcome": tuple(sorted(str(state).lower() for state in {*FINAL_STATES, CallState.UNKNOWN})),
    "claim": ("done", "fail"),
}
"""Conditions with a fixed set of values."""

BUDGET_UNITS: Final = ("tokens", "usd", "time_s", "calls", "turns", "retries")

ERRORS: Final = (
    *("BadArguments", "Cancelled", "Changed", "Denied", "Exists", "Exit", "Gone", "Interrupted", "Lost", "NoMatch"),
    *("NotFound", "NotHeld", "TimedOut", "TooLarge", "TooMany", "ToolError", "Unknown", "UnknownTool", "Unreachable"),
)
"""Error names that most calls can end with. The set is open, but all start with a capital letter."""


@frozen
class KnownTools:
    """The tools that calls in a plan can use.

    `is_tool` returns whether a tool of this name exists; `others` are the names of tools that are not built in, for
    hints; `is_open`: some tools have unknown arguments.
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
        """Return the arguments that calls of one of `tools` (None: of any) can have; None if unknown."""
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
