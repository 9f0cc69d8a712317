"""The fields of a benchmark suite. They are read as a plan's are, and are no part of one."""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import (
    ANY,
    COMMAND,
    COUNT,
    DURATION,
    FLAG,
    TEXT,
    TEXTS,
    WORD,
    WORDS,
    Either,
    Field,
    FieldTable,
    Keyed,
    Many,
    Scalar,
    Table,
)
from planloop.schemas.fields_agent import STEPS
from planloop.schemas.fields_checks import KIND_FIELDS

_READER: Final = "benchmarks"
_SOME: Final = Scalar("integer", minimum=1)
_OF_PLANS: Final = frozenset({"container", "run-in", "judge"})
"""Checks of what only a plan has, and of what nobody runs."""

SOFT: Final = ("churn", "complexity", "lint", "runtime")
"""Lines that came and went, branches, untidy places, seconds that checks took:
`planloop.benchmarks.grading.measuring`."""

JUDGED_FIELDS: Final = (
    Field("calls", Table("calls"), "Which tools must have been called, and which not.", {"need": [{"tool": ["look"]}]}),
    Field("state", Table("state"), "What the simulated world must look like at the end.", {"after": []}),
    Field("abstain", Table("abstain"), "No tool was called, and it was said why.", {"asks-or-says": "/which/"}),
    Field("log", Table("log"), "What the plan's log must show.", {"children": {"at-least": 2}}),
)
"""Checks of what an agent did. They are judged from the log, and so are none of a plan's `acceptance`."""

CASE_KIND_FIELDS: Final = (*(row for row in KIND_FIELDS if row.name not in _OF_PLANS), *JUDGED_FIELDS)
"""The kinds of a case's checks."""

SUITE_TABLES: Final = (
    FieldTable(
        "suite",
        "A set of cases that agents are measured with.",
        (
            Field("suite", Scalar("id"), "Its name.", "tool-calling", read_in=_READER),
            Field("about", TEXT, "What it measures, in a sentence.", "Did it call the right tools?"),
            Field("seed", Scalar("integer"), "What every choice is drawn with.", 1337, default=0),
            Field("trials", _SOME, "How often each case is tried.", 3, default=1),
            Field("report", Table("suite-report"), "Which figures are shown beside the rate.", {"pass-at": [1, 3]}),
            Field("defaults", Table("suite-case"), "Laid under every case.", {"budget": {"turns": 12}}),
            Field("worlds", Keyed(TEXT), "Files of simulated tools, by name.", {"office": "worlds/office.yaml"}),
            Field("pools", Keyed(TEXT), "Files of decoy tools, by name.", {"office": "tools/decoys.yaml"}),
            Field(
                "lexicon",
                Keyed(ANY, is_id=False),
                "Names of what web checks look for, beside those that everybody has.",
                {},
            ),
            Field("cases", Keyed(Table("suite-case")), "The cases by id.", {"hello": {"prompts": ["say hello"]}}),
        ),
        one_of=(("suite",), ("cases",)),
    ),
    FieldTable(
        "suite-report",
        "Which figures are shown beside the rate.",
        (
            Field("pass-at", Many(_SOME), "Whether one of k tries passes, for each k.", [1, 3]),
            Field("pass-hat", Many(_SOME), "Whether all of k tries pass, for each k.", [1, 3]),
        ),
    ),
    FieldTable(
        "suite-case",
        "What an agent is asked, what it has to work with, and how the outcome is judged.",
        (
            Field("about", TEXT, "What it is there for.", "A near decoy is offered."),
            Field("prompts", TEXTS, "What the agent is told: one of these in each trial.", ["say hello"]),
            Field("language", WORDS, "Makes one case of each, in which `{{language}}` is replaced.", ["typescript"]),
            Field("tags", Keyed(Scalar("loose"), is_id=False), "Slices of the report.", {"kind": "near"}),
            Field("files", ANY, "What lies in the workspace first: a folder, or texts by path.", {"a.txt": "hello"}),
            Field("image", TEXT, "What it works in, and is graded in.", "planloop/node"),
            Field("tools", WORDS, "What it may use, beside decoys.", ["mail.send"]),
            Field("decoys", Table("suite-decoys"), "Tools that it does not need.", {"pool": "office", "pick": 8}),
            Field("world", Either(plain=WORD, map=Table("suite-world")), "The world that its tools act in.", "office"),
            Field("serve", Either(plain=TEXT, map=Table("suite-serve")), "How what it made is started.", "auto"),
            Field("agent", ANY, "Fields laid over every agent that is measured.", {"prompt": "Be brief."}),
            Field("agents", ANY, "Agents by name, for `task`.", {"helper": {"script": [{"done": "ok"}]}}),
            Field("task", ANY, "More fields of its task, as in a plan.", {"locks": ["a.txt"]}),
            Field("budget", Table("budget"), "What it may use at most.", {"turns": 12}),
            Field("within", DURATION, "How long it may take by the clock.", 600, default=3600),
            Field("checks", Keyed(Table("suite-check", short="sh")), "All must hold.", {"there": {"sh": "test -e a"}}),
            Field("check-files", TEXT, "A folder that checks in the container find at /checks.", "proof/checks"),
            Field(
                "soft",
                Many(Either(plain=WORD, map=Keyed(Table("suite-soft", short="max"), is_id=False))),
                "What is measured, and decides nothing: churn, complexity, lint, runtime, or any name with a command "
                "of your own; each may have a limit.",
                ["churn", {"complexity": 20}, {"eslint": {"sh": "npx eslint -f json .", "read": "/*/errorCount"}}],
            ),
            Field("proof", Table("suite-proof"), "Agents that show that the checks are right.", {"cheats": "standard"}),
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
            Field("max", Scalar("number"), "The share of entries within this limit is shown, too.", 20),
            Field("min", Scalar("number"), "The same for a figure that must not be lower.", 0.8),
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
            Field("empty", FLAG, "For `require-file`: an empty file will do.", True, default=False),
        ),
        one_of=(tuple(row.name for row in CASE_KIND_FIELDS),),
    ),
    FieldTable(
        "suite-proof",
        "Agents whose verdict is known.",
        (
            Field("oracles", Keyed(Table("suite-act", short="files")), "They must pass.", {"plain": {"says": "hi"}}),
            Field("mutants", Keyed(Table("suite-act", short="files")), "They must fail.", {"mute": {"kills": "said"}}),
            Field(
                "cheats",
                Either(plain=Scalar("word", ("standard",)), map=Keyed(Table("suite-act"))),
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
                Keyed(Many(ANY), is_id=False),
                "What is replaced in the files of `base`, by path.",
                {"a.py": [["yes", "no"]]},
            ),
            Field("calls", Many(ANY), "Its calls, in order, each `tool: arguments`.", [{"mail.send": {"to": "x"}}]),
            Field("says", TEXT, "What it says at the end.", "done"),
            Field("script", STEPS, "All of its steps, as an agent's `script`.", [{"done": "ok"}]),
            Field("kills", WORDS, "For a mutant: the checks that must tell of it.", ["said"]),
        ),
    ),
)
