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
    "Calls that may be made at any time, in the same forms; `reads` are the world's own tools that change nothing.",
    ["reads"],
)

CALL_TABLES: Final = (
    FieldTable(
        "calls",
        "Which tools must have been called, and which not.",
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
                "`partial`: as `after` says; `any`; `exact`: as they are listed.",
                "exact",
                default="partial",
            ),
            Field(
                "forbid",
                _CALL_SHAPES,
                "Calls that fail the case however they ended: names with stars, or maps.",
                ["mail.delete", {"decoys": True}],
            ),
            _FREE,
            Field(
                "extra",
                ScalarType("word", EXTRAS),
                "Every other call: `soft` and `allow` count it, `deny` fails the case.",
                "deny",
                default="soft",
            ),
        ),
    ),
    FieldTable(
        "calls-need",
        "A call that must be made. One that failed does not count.",
        (
            Field("id", WORD, "Its name, for `after`; left out, `need-1` and so on.", "move"),
            Field("tool", TEXTS, "The tool, or several of which any will do.", ["mail.send", "mail.reply"]),
            Field(
                "args",
                ANY,
                "Matchers by argument; more may be given, unless they stand under `exact:`.",
                {"to": {"set": ["team@orchard.example"]}},
            ),
            Field("may", _BY_NAME, "Arguments that may be left out, and must match where they are not.", {"cc": "/@/"}),
            Field("after", WORDS, "Ids of needed calls that must have been made before.", ["move"]),
            Field("tried", FLAG, "One that failed will do, too.", True, default=False),
        ),
        one_of=(("tool",),),
    ),
    FieldTable(
        "calls-some",
        "Some calls: all that its members fit.",
        (
            Field("tool", TEXT, "The tool; stars match anything.", "mail.*"),
            Field("args", ANY, "Matchers by argument.", {"to": {"contains": "/outside/"}}),
            Field("decoys", ANY, "Decoys: true, or only the `near` or the `far` ones.", True),
        ),
    ),
    FieldTable(
        "state",
        "What lies in the simulated world at the end.",
        (
            Field(
                "after",
                ListType(_BY_NAME),
                "Golden calls: the world must look as if these had been made.",
                [{"todo.finish": {"id": "todo-70"}}],
            ),
            Field("ignore", TEXTS, "Tables, and fields of tables, that do not count for `after`.", ["messages.body"]),
            Field(
                "tables",
                MapType(_BY_NAME, is_id=False),
                "Matchers of rows that must be there, by table and id.",
                {"todos": {"todo-70": {"done": True}}},
            ),
            Field(
                "new",
                MapType(ListType(ANY), is_id=False),
                "By table: matchers of the rows that were added, these and no others.",
                {"messages": [{"to": ["team@orchard.example"]}]},
            ),
        ),
    ),
    FieldTable(
        "abstain",
        "No tool was called, and something was said.",
        (
            Field("asks-or-says", ANY, "A matcher of what was said.", "/which/"),
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
                "children", TableType("log-children"), "The tasks that the agent added.", {"at-least": 2, "done": "all"}
            ),
            Field(
                "order", ListType(ListType(_MOMENT)), "Rows of moments, each before the next.", [["tests", "deploy"]]
            ),
            Field(
                "never",
                ListType(EitherType(plain=ScalarType("word", NEVER), map=TableType("log-moment"))),
                "What must not have happened: a child; one that was at work when the agent said that it was done; a "
                "command that changed what others had locked; a budget used up; a call or patch that was turned down; "
                "the same once more; or a moment.",
                ["refused", {"call": "shell"}],
            ),
            Field("ends", MapType(ScalarType("word", ENDINGS), is_id=False), "How tasks ended.", {"tests": "done"}),
            Field(
                "calls",
                MapType(TableType("log-count"), is_id=False),
                "Calls of the agent by tool.",
                {"send": {"at-least": 1}},
            ),
            Field("recovers", TableType("log-recovery", short="from"), "It made good for a task that failed.", "flaky"),
            Field(
                "tells",
                ListType(TableType("log-telling")),
                "What it had others know.",
                [{"to": "painter", "has": "/blue/"}],
            ),
        ),
    ),
    FieldTable(
        "log-children",
        "The tasks that the agent added itself.",
        (
            Field("at-least", COUNT, "How many there are at least.", 2),
            Field("at-most", COUNT, "How many there are at most.", 5),
            Field("done", ScalarType("word", ("all",)), "All that it did not remove are done at the end.", "all"),
            Field("budget", FLAG, "Each has a budget of its own.", True),
            Field("checks", FLAG, "Each has checks of its own.", True),
            Field("needs", COUNT, "How many of them need another, at least.", 1),
        ),
    ),
    FieldTable(
        "log-moment",
        "Something that happens at one time. It is the first that counts.",
        (
            Field("made", TEXT, "A task of this name is added.", "tests"),
            Field("begun", TEXT, "It begins.", "deploy"),
            Field("done", TEXT, "It is done.", "tests"),
            Field("failed", TEXT, "It fails.", "flaky"),
            Field("call", TEXT, "The agent calls this tool (with stars), and it succeeds.", "write"),
            Field("has", ANY, "What the arguments of the `call` have in them.", "/report/"),
            Field("reads", TEXT, "The agent reads a message with this in it.", "/instead/"),
            Field("claims", FLAG, "The agent says that it is done.", True),
        ),
        one_of=(("made", "begun", "done", "failed", "call", "reads", "claims"),),
    ),
    FieldTable(
        "log-count",
        "How many of them.",
        (
            Field("at-least", COUNT, "How many there are at least.", 1),
            Field("at-most", COUNT, "How many there are at most.", 3),
        ),
    ),
    FieldTable(
        "log-recovery",
        "A failure below, and what came of it.",
        (
            Field("from", TEXT, "The name of the task that fails.", "flaky"),
            Field(
                "by",
                ListType(ScalarType("word", REPAIRS)),
                "How it is made good: the same task is tried again and done, another one is added later and done, or "
                "the agent does it itself.",
                ["another"],
            ),
        ),
        one_of=(("from",),),
    ),
    FieldTable(
        "log-telling",
        "Something that the agent had to tell.",
        (
            Field("to", TEXT, "The name of the task whose agent is told.", "painter"),
            Field("has", ANY, "What it is told must match this; left out, anything will do.", "/blue/"),
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
        "calls", TableType("calls"), "Which tools must have been called, and which not.", {"need": [{"tool": ["look"]}]}
    ),
    Field("state", TableType("state"), "What the simulated world must look like at the end.", {"after": []}),
    Field("abstain", TableType("abstain"), "No tool was called, and it was said why.", {"asks-or-says": "/which/"}),
    Field("log", TableType("log"), "What the plan's log must show.", {"children": {"at-least": 2}}),
)
"""Checks of what an agent did. They are judged from the log, and so are none of a plan's `acceptance`."""

_PLAN_KINDS: Final = tuple(kind for kind in CHECK_KINDS.values() if kind.runner and kind.container is None)

CASE_KIND_FIELDS: Final = (*(kind.field for kind in _PLAN_KINDS), *JUDGED_FIELDS)
"""The kinds of a case's checks: those that need no container of a plan, and those of a suite alone."""

SUITE_TABLES: Final = (
    FieldTable(
        "suite",
        "A set of cases that agents are measured with.",
        (
            Field("suite", ScalarType("id"), "Its name.", "tool-calling", read_in=_SUITE_READER),
            Field("about", TEXT, "What it measures, in a sentence.", "Did it call the right tools?"),
            Field("seed", ScalarType("integer"), "What every choice is drawn with.", 1337, default=0),
            Field("trials", _SOME, "How often each case is tried.", 3, default=1),
            Field("report", TableType("suite-report"), "Which figures are shown beside the rate.", {"pass-at": [1, 3]}),
            Field("defaults", TableType("suite-case"), "Laid under every case.", {"budget": {"turns": 12}}),
            Field("worlds", MapType(TEXT), "Files of simulated tools, by name.", {"office": "worlds/office.yaml"}),
            Field("pools", MapType(TEXT), "Files of decoy tools, by name.", {"office": "tools/decoys.yaml"}),
            Field(
                "lexicon",
                MapType(ANY, is_id=False),
                "Names of what web checks look for, beside those that everybody has.",
                {},
            ),
            Field("cases", MapType(TableType("suite-case")), "The cases by id.", {"hello": {"prompts": ["say hello"]}}),
        ),
        one_of=(("suite",), ("cases",)),
    ),
    FieldTable(
        "suite-report",
        "Which figures are shown beside the rate.",
        (
            Field("pass-at", ListType(_SOME), "Whether one of k tries passes, for each k.", [1, 3]),
            Field("pass-hat", ListType(_SOME), "Whether all of k tries pass, for each k.", [1, 3]),
        ),
    ),
    FieldTable(
        "suite-case",
        "What an agent is asked, what it has to work with, and how the outcome is judged.",
        (
            Field("about", TEXT, "What it is there for.", "A near decoy is offered."),
            Field("prompts", TEXTS, "What the agent is told: one of these in each trial.", ["say hello"]),
            Field("language", WORDS, "Makes one case of each, in which `{{language}}` is replaced.", ["typescript"]),
            Field("tags", MapType(ScalarType("loose"), is_id=False), "Slices of the report.", {"kind": "near"}),
            Field("files", ANY, "What lies in the workspace first: a folder, or texts by path.", {"a.txt": "hello"}),
            Field("image", TEXT, "What it works in, and is graded in.", "planloop/node"),
            Field("tools", WORDS, "What it may use, beside decoys.", ["mail.send"]),
            Field("decoys", TableType("suite-decoys"), "Tools that it does not need.", {"pool": "office", "pick": 8}),
            Field(
                "world",
                EitherType(plain=WORD, map=TableType("suite-world")),
                "The world that its tools act in.",
                "office",
            ),
            Field(
                "serve", EitherType(plain=TEXT, map=TableType("suite-serve")), "How what it made is started.", "auto"
            ),
            Field("agent", ANY, "Fields laid over every agent that is measured.", {"prompt": "Be brief."}),
            Field("agents", ANY, "Agents by name, for `task`.", {"helper": {"script": [{"done": "ok"}]}}),
            Field("task", ANY, "More fields of its task, as in a plan.", {"locks": ["a.txt"]}),
            Field("budget", TableType("budget"), "What it may use at most.", {"turns": 12}),
            Field("within", DURATION, "How long it may take by the clock.", 600, default=3600),
            Field(
                "checks",
                MapType(TableType("suite-check", short="sh")),
                "All must hold.",
                {"there": {"sh": "test -e a"}},
            ),
            Field("check-files", TEXT, "A folder that checks in the container find at /checks.", "proof/checks"),
            Field(
                "soft",
                ListType(EitherType(plain=WORD, map=MapType(TableType("suite-soft", short="max"), is_id=False))),
                "What is measured, and decides nothing: churn, complexity, lint, runtime, or any name with a command "
                "of your own; each may have a limit.",
                ["churn", {"complexity": 20}, {"eslint": {"sh": "npx eslint -f json .", "read": "/*/errorCount"}}],
            ),
            Field(
                "proof", TableType("suite-proof"), "Agents that show that the checks are right.", {"cheats": "standard"}
            ),
        ),
    ),
    FieldTable(
        "suite-soft",
        "A soft figure: a limit for one of those that there are, or a command that measures one of your own.",
        (
            Field("sh", TEXT, "The command; it is run as checks are, after them.", "npx eslint -f json ."),
            Field(
                "read",
                TEXT,
                "What its figure is, of its standard output: `number` (the last one), `lines` (not blank), `passes` (1 "
                "if it exits with 0, else 0), or a JSON pointer; `*` stands for each item, and numbers are added.",
                "/*/errorCount",
                default="number",
            ),
            Field("max", ScalarType("number"), "The share of entries within this limit is shown, too.", 20),
            Field("min", ScalarType("number"), "The same for a figure that must not be lower.", 0.8),
            Field("timeout", DURATION, "How long the command may take.", 60, default=60),
        ),
    ),
    FieldTable(
        "suite-decoys",
        "How many tools that are not needed are offered.",
        (
            Field("pool", WORD, "Whose tools: one of the suite's `pools`.", "office"),
            Field("pick", COUNT, "How many.", 8, default=8),
            Field("near", COUNT, "How many of them share a word with a tool that is needed.", 4, default=0),
        ),
        one_of=(("pool",),),
    ),
    FieldTable(
        "suite-world",
        "A world, and what is different in it for this case.",
        (
            Field("use", WORD, "One of the suite's `worlds`.", "office"),
            Field("with", ANY, "Rows laid over its tables.", {"todos": {}}),
        ),
        one_of=(("use",),),
    ),
    FieldTable(
        "suite-serve",
        "How the program that was made is started to be graded.",
        (
            Field("run", COMMAND, "The command; `auto` looks for what people would start.", "auto", default="auto"),
            Field("port", _SOME, "Where it listens; it is told so in `PORT`.", 8080, default=8080),
            Field("ready", ANY, "When it is: what answers, and how long it may take.", {"http": "/", "within": "30s"}),
        ),
    ),
    FieldTable(
        "suite-check",
        "One check: pass, fail, error when it could not be run, invalid when it never looked.",
        (
            *CASE_KIND_FIELDS,
            Field("timeout", DURATION, "How long it may take.", 60, default=60),
            *(option for kind in _PLAN_KINDS for option in kind.options),
        ),
        one_of=(tuple(row.name for row in CASE_KIND_FIELDS),),
    ),
    FieldTable(
        "suite-proof",
        "Agents whose verdict is known.",
        (
            Field(
                "oracles", MapType(TableType("suite-act", short="files")), "They must pass.", {"plain": {"says": "hi"}}
            ),
            Field(
                "mutants",
                MapType(TableType("suite-act", short="files")),
                "They must fail.",
                {"mute": {"kills": "said"}},
            ),
            Field(
                "cheats",
                EitherType(plain=ScalarType("word", ("standard",)), map=MapType(TableType("suite-act"))),
                "They must fail.",
                "standard",
            ),
        ),
    ),
    FieldTable(
        "suite-act",
        "What a scripted agent does: it writes files, makes calls and says something.",
        (
            Field("files", ANY, "A folder beside the suite, or texts by path.", "proof/plain"),
            Field("base", WORD, "The oracle that it begins as.", "plain"),
            Field(
                "replace",
                MapType(ListType(ANY), is_id=False),
                "What is replaced in the files of `base`, by path.",
                {"a.py": [["yes", "no"]]},
            ),
            Field("calls", ListType(ANY), "Its calls, in order, each `tool: arguments`.", [{"mail.send": {"to": "x"}}]),
            Field("says", TEXT, "What it says at the end.", "done"),
            Field("script", STEPS, "All of its steps, as an agent's `script`.", [{"done": "ok"}]),
            Field("kills", WORDS, "For a mutant: the checks that must tell of it.", ["said"]),
        ),
    ),
)


# Fields of a simulated world: tables, and tools that read and change them. Not part of a plan.

_CONDITIONS: Final = MapType(ANY, is_id=False)
_IN: Final = Field("in", WORD, "The table.", "events")
_ID: Final = Field("id", ANY, "The id of a row.", "$id")
_WHERE: Final = Field("where", _CONDITIONS, "Which rows: conditions by field.", {"status": "open"})
_AS: Final = Field("as", WORD, "The name under which later steps find it.", "event")
_ELSE: Final = Field("else", TEXT, "What the caller is told when it cannot be done.", "There is no event ${id}.")

WORLD_TABLES: Final = (
    FieldTable(
        "world",
        "A simulated world, or (`pool`) tools that belong to none.",
        (
            Field("world", ScalarType("id"), "Its name.", "office"),
            Field("pool", ScalarType("id"), "The name of a set of tools without tables.", "decoys"),
            Field("about", TEXT, "What it simulates.", "A small office."),
            Field("values", _CONDITIONS, "Values that all tools find under `$name`.", {"me": "ada@orchard.example"}),
            Field("tables", MapType(MapType(ANY, is_id=False)), "Rows by id, by table.", {"todos": {"todo-1": {}}}),
            Field(
                "tools", MapType(TableType("world-tool"), is_id=False), "Tools by full name, such as `todo.add`.", {}
            ),
            Field("overlays", MapType(MapType(ANY), is_id=False), "Rows laid over the tables, by name.", {}),
            Field("laid", MapType(TEXT, is_id=False), "Which of the `overlays` the agents of a task find.", {}),
        ),
    ),
    FieldTable(
        "world-tool",
        "A simulated tool. Without `does` it changes nothing, whatever it says.",
        (
            Field("about", TEXT, "What a model is told of it.", "Adds a to-do."),
            Field("parameters", ANY, "The JSON Schema of its arguments.", {"type": "object", "properties": {}}),
            Field("does", ListType(TableType("world-step")), "Its steps, in order: all of them or none.", []),
            Field("returns", ANY, "What it answers; left out, `{ok: true}`.", "$todo"),
            Field("errors", TableType("world-errors"), "Fails at first, as services do.", {"first": 1}),
        ),
    ),
    FieldTable(
        "world-errors",
        "How a tool fails before it works.",
        (
            Field("first", COUNT, "How many calls fail.", 1, default=1),
            Field("says", TEXT, "What these answer.", "503: try again.", default="503: try again in a moment."),
        ),
    ),
    FieldTable(
        "world-step",
        "One step of a tool. With `when`, it is taken only where all of these conditions hold.",
        (
            Field("when", _CONDITIONS, "Conditions by what they are about.", {"$room": {"given": True}}),
            Field("get", TableType("world-get"), "Finds one row.", {"in": "events", "id": "$id"}),
            Field("find", TableType("world-find"), "Finds rows.", {"in": "events"}),
            Field("insert", TableType("world-insert"), "Adds a row.", {"in": "events", "id": "evt-"}),
            Field("update", TableType("world-update"), "Changes fields of rows.", {"in": "events", "id": "$id"}),
            Field("delete", TableType("world-delete"), "Takes rows away.", {"in": "events", "id": "$id"}),
            Field("append", TableType("world-append"), "Adds to a list in a row.", {"in": "events", "id": "$id"}),
            Field("remove", TableType("world-remove"), "Takes from a list in a row.", {"in": "events", "id": "$id"}),
            Field("require", TableType("world-require"), "Fails unless something holds.", {"that": {"$n": 1}}),
            Field("let", _CONDITIONS, "Gives names to values.", {"left": {"subtract": ["$a", "$b"]}}),
        ),
    ),
    FieldTable("world-get", "Finds one row.", (_IN, _ID, _AS, _ELSE), one_of=(("in",), ("id",))),
    FieldTable(
        "world-find",
        "Finds rows.",
        (
            _IN,
            _WHERE,
            Field("order", WORD, "The field by which they are sorted; left out, as they stand.", "start"),
            Field("descending", FLAG, "The other way round.", True, default=False),
            Field("limit", ANY, "At most this many.", "$limit"),
            Field("show", TEXTS, "Only these fields.", ["id", "title"]),
            _AS,
        ),
        one_of=(("in",), ("as",)),
    ),
    FieldTable(
        "world-insert",
        "Adds a row.",
        (
            _IN,
            Field("id", TEXT, "Its id; with a `-` at its end, the next number follows.", "evt-"),
            Field("with", _CONDITIONS, "Its fields.", {"title": "$title"}),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",)),
    ),
    FieldTable(
        "world-update",
        "Changes fields of a row, or of all rows that `where` finds.",
        (
            _IN,
            _ID,
            _WHERE,
            Field("set", _CONDITIONS, "Fields; what was not given stays as it is.", {"title": "$title"}),
            Field("put", TableType("world-put"), "One entry of a field that is a map.", {"field": "shared"}),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id", "where")),
    ),
    FieldTable(
        "world-put",
        "One entry of a field that is a map.",
        (
            Field("field", WORD, "The field.", "shared"),
            Field("key", ANY, "Its key.", "$email"),
            Field("value", ANY, "What stands there.", "$access"),
        ),
        one_of=(("field",), ("key",), ("value",)),
    ),
    FieldTable(
        "world-delete",
        "Takes a row away, or all rows that `where` finds.",
        (_IN, _ID, _WHERE, _AS, _ELSE),
        one_of=(("in",), ("id", "where")),
    ),
    FieldTable(
        "world-append",
        "Adds a value to a list in a row, unless it is there.",
        (
            _IN,
            _ID,
            Field("to", WORD, "The field with the list.", "attendees"),
            Field("value", ANY, "What is added.", "$email"),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",), ("to",), ("value",)),
    ),
    FieldTable(
        "world-remove",
        "Takes a value from a list in a row.",
        (
            _IN,
            _ID,
            Field("from", WORD, "The field with the list.", "attendees"),
            Field("value", ANY, "What is taken out.", "$email"),
            _AS,
            _ELSE,
        ),
        one_of=(("in",), ("id",), ("from",), ("value",)),
    ),
    FieldTable(
        "world-require",
        "Fails unless something holds.",
        (Field("that", _CONDITIONS, "Conditions by what they are about.", {"$order.status": "paid"}), _ELSE),
        one_of=(("that",), ("else",)),
    ),
)
