"""Fields of a benchmark suite, its `calls`, `state` and `log` checks, and a simulated world. Not part of a plan."""

from __future__ import annotations

from typing import Final

from planloop.schemas.checks.kinds import CHECK_KINDS
from planloop.schemas.spec.agent import STEPS
from planloop.schemas.spec.field import (
    ANY,
    COMMAND,
    COUNT,
    DURATION,
    FLAG,
    TEXT,
    TEXTS,
    WORD,
    WORDS,
    EitherType,
    Field,
    FieldTable,
    ListType,
    MapType,
    ScalarType,
    TableType,
)

# Fields of a benchmark suite and of its `calls`, `state` and `log` checks. Not part of a plan.

# The words of the checks of tool calls: what had to be called, what lies in the world at the end, what was said.

ORDERS: Final = ("any", "partial", "exact")
EXTRAS: Final = ("allow", "soft", "deny")
_CALL_SHAPES: Final = ListType(EitherType(plain=TEXT, map=TableType("calls-some")))
_BY_NAME: Final = MapType(ANY, is_id=False)
_FREE: Final = Field(
    "free",
    _CALL_SHAPES,
    "Calls that are allowed at any time, in the same forms. `reads` means the world's own read-only tools.",
    ["reads"],
)

CALL_TABLES: Final = (
    FieldTable(
        "calls",
        "Tools that must, and must not, have been called.",
        (
            Field(
                "need",
                ListType(TableType("calls-need", short="tool")),
                "Calls that must be made.",
                [{"tool": "mail.send"}],
            ),
            Field(
                "order",
                ScalarType("word", ORDERS),
                "Required order: `partial` as given by `after`, `any`, or `exact` as listed.",
                "exact",
                default="partial",
            ),
            Field(
                "forbid",
                _CALL_SHAPES,
                "Calls that fail the case, whatever their outcome: names, with `*` as a wildcard, or maps.",
                ["mail.delete", {"decoys": True}],
            ),
            _FREE,
            Field(
                "extra",
                ScalarType("word", EXTRAS),
                "What other calls do: `soft` and `allow` count them, `deny` fails the case.",
                "deny",
                default="soft",
            ),
        ),
    ),
    FieldTable(
        "calls-need",
        "A call that must be made. Failed calls do not count.",
        (
            Field("id", WORD, "The name that `after` refers to. Default: `need-1` and so on.", "move"),
            Field("tool", TEXTS, "The tool, or several alternatives.", ["mail.send", "mail.reply"]),
            Field(
                "args",
                ANY,
                "Matchers by argument. Other arguments are allowed, except under `exact:`.",
                {"to": {"set": ["team@orchard.example"]}},
            ),
            Field("may", _BY_NAME, "Matchers of optional arguments. They must match if given.", {"cc": "/@/"}),
            Field("after", WORDS, "Ids of required calls that must have been made earlier.", ["move"]),
            Field("tried", FLAG, "Failed calls count too.", True, default=False),
        ),
        one_of=(("tool",),),
    ),
    FieldTable(
        "calls-some",
        "Calls that match all of these fields.",
        (
            Field("tool", TEXT, "The tool, with `*` as a wildcard.", "mail.*"),
            Field("args", ANY, "Matchers by argument.", {"to": {"contains": "/outside/"}}),
            Field("decoys", ANY, "Decoy tools: `true` for all, or only `near` or `far`.", True),
        ),
    ),
    FieldTable(
        "state",
        "The required state of the simulated world at the end.",
        (
            Field(
                "after",
                ListType(_BY_NAME),
                "Reference calls. The world must look as if these had been made.",
                [{"todo.finish": {"id": "todo-70"}}],
            ),
            Field("ignore", TEXTS, "Tables and fields of tables that `after` ignores.", ["messages.body"]),
            Field(
                "tables",
                MapType(_BY_NAME, is_id=False),
                "Matchers of rows that must exist, by table and id.",
                {"todos": {"todo-70": {"done": True}}},
            ),
            Field(
                "new",
                MapType(ListType(ANY), is_id=False),
                "Matchers of the added rows, by table. No other rows may be added.",
                {"messages": [{"to": ["team@orchard.example"]}]},
            ),
        ),
    ),
    FieldTable(
        "abstain",
        "No tool may be called, and the agent must reply.",
        (
            Field("asks-or-says", ANY, "A matcher of the reply.", "/which/"),
            _FREE,
        ),
    ),
)


# The words of a `log` check: what the log of a plan must show of how an agent planned, and what it must not.
#
# A *name* in it picks tasks below the one that is judged: the path of one, with stars for anything, or `/words/`, which
# are looked for in ids and goals. A *moment* is something that happens at one time, as `order` and `never` have it.

NEVER: Final = ("children", "left-running", "lock-violated", "over-budget", "refused", "refused-again")
ENDINGS: Final = ("done", "failed", "cancelled", "removed")
REPAIRS: Final = ("again", "another", "itself")
_MOMENT: Final = EitherType(plain=TEXT, map=TableType("log-moment"))
_LOG_READER: Final = "benchmarks/planloop/benchmarks/checks"

LOG_TABLES: Final = (
    FieldTable(
        "log",
        "What the log must show.",
        (
            Field(
                "children",
                TableType("log-children"),
                "Requirements for the tasks that the agent added.",
                {"at-least": 2, "done": "all"},
            ),
            Field(
                "order",
                ListType(ListType(_MOMENT)),
                "Lists of moments that must happen in this order.",
                [["tests", "deploy"]],
            ),
            Field(
                "never",
                ListType(EitherType(plain=ScalarType("word", NEVER), map=TableType("log-moment"))),
                "What must not happen: `children` are added; a child runs when the agent reports done "
                "(`left-running`); a command changes files that others locked (`lock-violated`); a budget is used up "
                "(`over-budget`); a call or patch is `refused`, or `refused-again`; or a moment.",
                ["refused", {"call": "shell"}],
            ),
            Field(
                "ends",
                MapType(ScalarType("word", ENDINGS), is_id=False),
                "How tasks must have ended, by name.",
                {"tests": "done"},
            ),
            Field(
                "calls",
                MapType(TableType("log-count"), is_id=False),
                "Number of the agent's calls, by tool.",
                {"send": {"at-least": 1}},
            ),
            Field(
                "recovers",
                TableType("log-recovery", short="from"),
                "The agent must recover from a failed task.",
                "flaky",
            ),
            Field(
                "tells",
                ListType(TableType("log-telling")),
                "Messages that the agent must have sent.",
                [{"to": "painter", "has": "/blue/"}],
            ),
        ),
    ),
    FieldTable(
        "log-children",
        "The tasks that the agent itself added.",
        (
            Field("at-least", COUNT, "Minimum number.", 2),
            Field("at-most", COUNT, "Maximum number.", 5),
            Field(
                "done",
                ScalarType("word", ("all",)),
                "`all`: every task that the agent did not remove is done at the end.",
                "all",
            ),
            Field("budget", FLAG, "Each task has its own budget.", True),
            Field("checks", FLAG, "Each task has its own checks.", True),
            Field("needs", COUNT, "Minimum number of tasks that need another task.", 1),
        ),
    ),
    FieldTable(
        "log-moment",
        "An event in the log. The first occurrence counts.",
        (
            Field("made", TEXT, "A task with this name is added.", "tests"),
            Field("begun", TEXT, "The task with this name starts.", "deploy"),
            Field("done", TEXT, "The task with this name is done.", "tests"),
            Field("failed", TEXT, "The task with this name fails.", "flaky"),
            Field("call", TEXT, "A successful call of this tool by the agent; `*` is a wildcard.", "write"),
            Field("has", ANY, "A matcher of the arguments of `call`.", "/report/"),
            Field("reads", TEXT, "The agent reads a message that contains this.", "/instead/"),
            Field("claims", FLAG, "The agent reports that it is done.", True),
        ),
        one_of=(("made", "begun", "done", "failed", "call", "reads", "claims"),),
    ),
    FieldTable(
        "log-count",
        "A range of counts.",
        (
            Field("at-least", COUNT, "Minimum number.", 1),
            Field("at-most", COUNT, "Maximum number.", 3),
        ),
    ),
    FieldTable(
        "log-recovery",
        "A failed task and the recovery from it.",
        (
            Field("from", TEXT, "The name of the task that fails.", "flaky"),
            Field(
                "by",
                ListType(ScalarType("word", REPAIRS)),
                "The accepted recoveries: the same task is retried and done (`again`), `another` is added later and "
                "done, or the agent does the work `itself`.",
                ["another"],
            ),
        ),
        one_of=(("from",),),
    ),
    FieldTable(
        "log-telling",
        "A message that the agent must have sent.",
        (
            Field("to", TEXT, "The name of the task that receives the message.", "painter"),
            Field("has", ANY, "A matcher of the message. Default: any message.", "/blue/"),
        ),
        one_of=(("to",),),
    ),
)


# The fields of a benchmark suite. They are read as a plan's are, and are no part of one.

_SUITE_READER: Final = "benchmarks"
_SOME: Final = ScalarType("integer", minimum=1)
SOFT: Final = ("churn", "complexity", "lint", "runtime")
"""Lines that came and went, branches, untidy places, seconds that checks took:
`planloop.benchmarks.checks.soft_figures`."""

JUDGED_FIELDS: Final = (
    Field(
        "calls", TableType("calls"), "Tools that must, and must not, have been called.", {"need": [{"tool": ["look"]}]}
    ),
    Field("state", TableType("state"), "The required state of the simulated world at the end.", {"after": []}),
    Field(
        "abstain",
        TableType("abstain"),
        "No tool may be called, and the agent must say why.",
        {"asks-or-says": "/which/"},
    ),
    Field("log", TableType("log"), "What the plan's log must show.", {"children": {"at-least": 2}}),
)
"""Checks of what an agent did. They are judged from the log, and so are none of a plan's `acceptance`."""

_PLAN_KINDS: Final = tuple(kind for kind in CHECK_KINDS.values() if kind.runner and kind.container is None)

CASE_KIND_FIELDS: Final = (*(kind.field for kind in _PLAN_KINDS), *JUDGED_FIELDS)
"""The kinds of a case's checks: those that need no container of a plan, and those of a suite alone."""

SUITE_TABLES: Final = (
    FieldTable(
        "suite",
        "A set of cases that measure agents.",
        (
            Field("suite", ScalarType("id"), "The name.", "tool-calling", read_in=_SUITE_READER),
            Field("about", TEXT, "What the suite measures, in one sentence.", "Did it call the right tools?"),
            Field("seed", ScalarType("integer"), "The seed of every random choice.", 1337, default=0),
            Field("trials", _SOME, "Number of trials of each case.", 3, default=1),
            Field(
                "report",
                TableType("suite-report"),
                "Additional figures to show with the pass rate.",
                {"pass-at": [1, 3]},
            ),
            Field("defaults", TableType("suite-case"), "Default fields of every case.", {"budget": {"turns": 12}}),
            Field("worlds", MapType(TEXT), "Files of simulated worlds, by name.", {"office": "worlds/office.yaml"}),
            Field("pools", MapType(TEXT), "Files of decoy tools, by name.", {"office": "tools/decoys.yaml"}),
            Field(
                "lexicon",
                MapType(ANY, is_id=False),
                "Names of targets for web checks, in addition to the built-in ones.",
                {},
            ),
            Field(
                "cases", MapType(TableType("suite-case")), "The cases, by id.", {"hello": {"prompts": ["say hello"]}}
            ),
        ),
        one_of=(("suite",), ("cases",)),
    ),
    FieldTable(
        "suite-report",
        "Additional figures to show with the pass rate.",
        (
            Field("pass-at", ListType(_SOME), "For each k: the rate at which at least one of k trials passes.", [1, 3]),
            Field("pass-hat", ListType(_SOME), "For each k: the rate at which all of k trials pass.", [1, 3]),
        ),
    ),
    FieldTable(
        "suite-case",
        "The agent's prompt, its tools and files, and the checks of the result.",
        (
            Field("about", TEXT, "The purpose of the case.", "A near decoy is offered."),
            Field("prompts", TEXTS, "Prompts for the agent. Each trial uses one of them.", ["say hello"]),
            Field(
                "language", WORDS, "Makes one case for each language; `{{language}}` is replaced by it.", ["typescript"]
            ),
            Field(
                "tags",
                MapType(ScalarType("loose"), is_id=False),
                "Tags that group cases in the report.",
                {"kind": "near"},
            ),
            Field("files", ANY, "Initial files of the workspace: a folder, or texts by path.", {"a.txt": "hello"}),
            Field("image", TEXT, "The image that the agent works in and is graded in.", "planloop/node"),
            Field("tools", WORDS, "Tools that the agent may use, in addition to decoys.", ["mail.send"]),
            Field(
                "decoys",
                TableType("suite-decoys"),
                "Tools that the agent does not need.",
                {"pool": "office", "pick": 8},
            ),
            Field(
                "world",
                EitherType(plain=WORD, map=TableType("suite-world")),
                "The simulated world that the tools act on.",
                "office",
            ),
            Field(
                "serve",
                EitherType(plain=TEXT, map=TableType("suite-serve")),
                "How to start the program that the agent built.",
                "auto",
            ),
            Field("agent", ANY, "Fields that override those of every measured agent.", {"prompt": "Be brief."}),
            Field("agents", ANY, "Agents for `task`, by name.", {"helper": {"script": [{"done": "ok"}]}}),
            Field("task", ANY, "More fields of the agent's task, as in a plan.", {"locks": ["a.txt"]}),
            Field("budget", TableType("budget"), "Limits for the agent.", {"turns": 12}),
            Field("within", DURATION, "Maximum elapsed time.", 600, default=3600),
            Field(
                "checks",
                MapType(TableType("suite-check", short="sh")),
                "The checks, by name. All must pass.",
                {"there": {"sh": "test -e a"}},
            ),
            Field("check-files", TEXT, "A folder that checks in the container find at /checks.", "proof/checks"),
            Field(
                "soft",
                ListType(EitherType(plain=WORD, map=MapType(TableType("suite-soft", short="max"), is_id=False))),
                "Figures that are measured but do not affect the verdict: churn, complexity, lint, runtime, or any "
                "name with your own command. Each may have a limit.",
                ["churn", {"complexity": 20}, {"eslint": {"sh": "npx eslint -f json .", "read": "/*/errorCount"}}],
            ),
            Field(
                "proof",
                TableType("suite-proof"),
                "Scripted agents that prove that the checks are right.",
                {"cheats": "standard"},
            ),
        ),
    ),
    FieldTable(
        "suite-soft",
        "A figure that does not affect the verdict: a limit for a built-in one, or a command that measures your own.",
        (
            Field("sh", TEXT, "The command. It runs like a check, after the checks.", "npx eslint -f json ."),
            Field(
                "read",
                TEXT,
                "How to read the figure from standard output: `number` (the last one), `lines` (not blank), `passes` "
                "(1 if the command exits with 0, else 0), or a JSON pointer. In a pointer, `*` matches each item, "
                "and the numbers are added up.",
                "/*/errorCount",
                default="number",
            ),
            Field(
                "max", ScalarType("number"), "Upper limit. The report also shows the share of entries within it.", 20
            ),
            Field(
                "min", ScalarType("number"), "Lower limit. The report also shows the share of entries within it.", 0.8
            ),
            Field("timeout", DURATION, "Maximum time for the command.", 60, default=60),
        ),
    ),
    FieldTable(
        "suite-decoys",
        "Unneeded tools to offer.",
        (
            Field("pool", WORD, "The source of the tools: one of the suite's `pools`.", "office"),
            Field("pick", COUNT, "Number of decoys.", 8, default=8),
            Field("near", COUNT, "Number of decoys that share a word with a required tool.", 4, default=0),
        ),
        one_of=(("pool",),),
    ),
    FieldTable(
        "suite-world",
        "A world, with changes for this case.",
        (
            Field("use", WORD, "The name of one of the suite's `worlds`.", "office"),
            Field("with", ANY, "Rows that override those of its tables.", {"todos": {}}),
        ),
        one_of=(("use",),),
    ),
    FieldTable(
        "suite-serve",
        "How to start the agent's program for grading.",
        (
            Field("run", COMMAND, "The command; `auto` looks for the usual start commands.", "auto", default="auto"),
            Field("port", _SOME, "The port to listen on, passed to the program in `PORT`.", 8080, default=8080),
            Field(
                "ready",
                ANY,
                "The readiness condition: what must respond, and within what time.",
                {"http": "/", "within": "30s"},
            ),
        ),
    ),
    FieldTable(
        "suite-check",
        "One check. The result is pass, fail, error if it could not run, or invalid if it never looked.",
        (
            *CASE_KIND_FIELDS,
            Field("timeout", DURATION, "Maximum time for the check.", 60, default=60),
            *(option for kind in _PLAN_KINDS for option in kind.options),
        ),
        one_of=(tuple(row.name for row in CASE_KIND_FIELDS),),
    ),
    FieldTable(
        "suite-proof",
        "Scripted agents with a known verdict.",
        (
            Field(
                "oracles",
                MapType(TableType("suite-act", short="files")),
                "Correct solutions. They must pass.",
                {"plain": {"says": "hi"}},
            ),
            Field(
                "mutants",
                MapType(TableType("suite-act", short="files")),
                "Broken solutions. They must fail.",
                {"mute": {"kills": "said"}},
            ),
            Field(
                "cheats",
                EitherType(plain=ScalarType("word", ("standard",)), map=MapType(TableType("suite-act"))),
                "Agents that cheat. They must fail.",
                "standard",
            ),
        ),
    ),
    FieldTable(
        "suite-act",
        "A scripted agent: the files it writes, the calls it makes and its final reply.",
        (
            Field("files", ANY, "A folder next to the suite, or texts by path.", "proof/plain"),
            Field("base", WORD, "The oracle that this agent is based on.", "plain"),
            Field(
                "replace",
                MapType(ListType(ANY), is_id=False),
                "Replacements in the files of `base`, by path.",
                {"a.py": [["yes", "no"]]},
            ),
            Field(
                "calls",
                ListType(ANY),
                "The agent's calls, in order, each `tool: arguments`.",
                [{"mail.send": {"to": "x"}}],
            ),
            Field("says", TEXT, "The agent's final reply.", "done"),
            Field("script", STEPS, "All steps of the agent, as an agent's `script`.", [{"done": "ok"}]),
            Field("kills", WORDS, "For a mutant: the checks that must fail.", ["said"]),
        ),
    ),
)


# Fields of a simulated world: tables, and tools that read and change them. Not part of a plan.

_CONDITIONS: Final = MapType(ANY, is_id=False)
_IN: Final = Field("in", WORD, "The table.", "events")
_ID: Final = Field("id", ANY, "The id of the row.", "$id")
_WHERE: Final = Field("where", _CONDITIONS, "Conditions that select rows, by field.", {"status": "open"})
_AS: Final = Field("as", WORD, "The name of the result for later steps.", "event")
_ELSE: Final = Field("else", TEXT, "The error message if the step cannot be done.", "There is no event ${id}.")

WORLD_TABLES: Final = (
    FieldTable(
        "world",
        "A simulated world, or a `pool` of tools without a world.",
        (
            Field("world", ScalarType("id"), "The name.", "office"),
            Field("pool", ScalarType("id"), "The name of a set of tools without tables.", "decoys"),
            Field("about", TEXT, "What the world simulates.", "A small office."),
            Field("values", _CONDITIONS, "Values that all tools can use as `$name`.", {"me": "ada@orchard.example"}),
            Field("tables", MapType(MapType(ANY, is_id=False)), "Rows, by table and id.", {"todos": {"todo-1": {}}}),
            Field(
                "tools", MapType(TableType("world-tool"), is_id=False), "Tools, by full name such as `todo.add`.", {}
            ),
            Field(
                "overlays",
                MapType(MapType(ANY), is_id=False),
                "Sets of rows that override those of the tables, by name.",
                {},
            ),
            Field("laid", MapType(TEXT, is_id=False), "The `overlays` that apply to the agents of a task.", {}),
        ),
    ),
    FieldTable(
        "world-tool",
        "A simulated tool. Without `does` it changes nothing, whatever it returns.",
        (
            Field("about", TEXT, "The description that models see.", "Adds a to-do."),
            Field("parameters", ANY, "The JSON Schema of the arguments.", {"type": "object", "properties": {}}),
            Field(
                "does",
                ListType(TableType("world-step")),
                "The steps, in order. Either all of them take effect or none.",
                [],
            ),
            Field("returns", ANY, "The result. Default: `{ok: true}`.", "$todo"),
            Field(
                "errors", TableType("world-errors"), "Makes the first calls fail, as real services do.", {"first": 1}
            ),
        ),
    ),
    FieldTable(
        "world-errors",
        "How a tool fails before it works.",
        (
            Field("first", COUNT, "Number of calls that fail.", 1, default=1),
            Field(
                "says",
                TEXT,
                "The error message of these calls.",
                "503: try again.",
                default="503: try again in a moment.",
            ),
        ),
    ),
    FieldTable(
        "world-step",
        "One step of a tool. With `when`, it runs only if all of these conditions hold.",
        (
            Field("when", _CONDITIONS, "Conditions, by value.", {"$room": {"given": True}}),
            Field("get", TableType("world-get"), "Finds one row.", {"in": "events", "id": "$id"}),
            Field("find", TableType("world-find"), "Finds rows.", {"in": "events"}),
            Field("insert", TableType("world-insert"), "Adds a row.", {"in": "events", "id": "evt-"}),
            Field("update", TableType("world-update"), "Changes fields of rows.", {"in": "events", "id": "$id"}),
            Field("delete", TableType("world-delete"), "Deletes rows.", {"in": "events", "id": "$id"}),
            Field(
                "append", TableType("world-append"), "Adds a value to a list in a row.", {"in": "events", "id": "$id"}
            ),
            Field(
                "remove",
                TableType("world-remove"),
                "Removes a value from a list in a row.",
                {"in": "events", "id": "$id"},
            ),
            Field("require", TableType("world-require"), "Fails unless all conditions hold.", {"that": {"$n": 1}}),
            Field("let", _CONDITIONS, "Assigns names to values.", {"left": {"subtract": ["$a", "$b"]}}),
        ),
    ),
    FieldTable("world-get", "Finds one row.", (_IN, _ID, _AS, _ELSE), one_of=(("in",), ("id",))),
    FieldTable(
        "world-find",
        "Finds rows.",
        (
            _IN,
            _WHERE,
            Field("order", WORD, "The field to sort by. Default: table order.", "start"),
            Field("descending", FLAG, "Sorts in descending order.", True, default=False),
            Field("limit", ANY, "Maximum number of rows.", "$limit"),
            Field("show", TEXTS, "The fields to return.", ["id", "title"]),
            _AS,
        ),
        one_of=(("in",), ("as",)),
    ),
    FieldTable(
        "world-insert",
        "Adds a row.",
        (
            _IN,
            Field("id", TEXT, "The row's id. If it ends with `-`, the next number is appended.", "evt-"),
            Field("with", _CONDITIONS, "The row's fields.", {"title": "$title"}),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",)),
    ),
    FieldTable(
        "world-update",
        "Changes fields of a row, or of all rows that `where` selects.",
        (
            _IN,
            _ID,
            _WHERE,
            Field(
                "set",
                _CONDITIONS,
                "Fields to set. Arguments that were not given leave theirs unchanged.",
                {"title": "$title"},
            ),
            Field("put", TableType("world-put"), "Sets one entry of a field that is a map.", {"field": "shared"}),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id", "where")),
    ),
    FieldTable(
        "world-put",
        "Sets one entry of a field that is a map.",
        (
            Field("field", WORD, "The field.", "shared"),
            Field("key", ANY, "The key.", "$email"),
            Field("value", ANY, "The value.", "$access"),
        ),
        one_of=(("field",), ("key",), ("value",)),
    ),
    FieldTable(
        "world-delete",
        "Deletes a row, or all rows that `where` selects.",
        (_IN, _ID, _WHERE, _AS, _ELSE),
        one_of=(("in",), ("id", "where")),
    ),
    FieldTable(
        "world-append",
        "Adds a value to a list in a row, unless it is already there.",
        (
            _IN,
            _ID,
            Field("to", WORD, "The field that holds the list.", "attendees"),
            Field("value", ANY, "The value to add.", "$email"),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",), ("to",), ("value",)),
    ),
    FieldTable(
        "world-remove",
        "Removes a value from a list in a row.",
        (
            _IN,
            _ID,
            Field("from", WORD, "The field that holds the list.", "attendees"),
            Field("value", ANY, "The value to remove.", "$email"),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",), ("from",), ("value",)),
    ),
    FieldTable(
        "world-require",
        "Fails unless all conditions hold.",
        (Field("that", _CONDITIONS, "Conditions, by value.", {"$order.status": "paid"}), _ELSE),
        one_of=(("that",), ("else",)),
    ),
)
