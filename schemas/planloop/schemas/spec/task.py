"""Fields of a task and its fork. The plan itself is the root task and has them too."""

from __future__ import annotations

from typing import Final

from planloop.schemas.objects.lock import LOCK_MODES
from planloop.schemas.spec.field import (
    COMMAND,
    COUNT,
    DURATION,
    FLAG,
    PATTERN,
    TEXT,
    TEXTS,
    WORDS,
    ChangeClass,
    EitherType,
    Field,
    FieldTable,
    ListType,
    MapType,
    ScalarType,
    TableType,
)

# The field `fork` of a task: a working tree and a branch of its own. What becomes of one is in
# `planloop.schemas.objects.fork`.

FORK_FIELD: Final = Field(
    "fork",
    EitherType(plain=FLAG, map=TableType("fork")),
    "Gives the task and those below it a git working tree and branch of their own, made from the folder as it is; when "
    "its checks hold there, what it changed is merged back. An agent at work goes on there from its next turn; a "
    "command that runs ends where it began. Files that git ignores are not in it and are not brought back.",
    {"branch": "try/new-parser"},
    ChangeClass.PREFIX,
    default=False,
    lowered=("fork",),
)

FORK: Final = FieldTable(
    "fork",
    "Where the work of a task stands until it is merged back.",
    (
        Field(
            "branch",
            TEXT,
            "The branch to make; a fork that is there keeps the one it has. One that is named is left when all of it "
            "has been brought in. Left out, it is `plan/<plan>/<task>`, and goes then.",
            "try/new-parser",
            read_in="compiler",
        ),
    ),
)


# The fields of a task. The plan itself is the root task and has them too.

WORK_FIELDS: Final = (
    Field(
        "goal",
        TEXT,
        "What is to be true at the end, in words. A running agent is told of a new goal and goes on.",
        "frontend websocket chat UI",
        ChangeClass.TAIL,
        lowered=("goal",),
    ),
    Field(
        "notes",
        TEXT,
        "What else whoever does it should know. Told to a running agent like the goal.",
        "use the design tokens in ui/",
        ChangeClass.TAIL,
        lowered=("notes",),
    ),
    Field(
        "agent",
        EitherType(plain=ScalarType("word"), map=TableType("agent")),
        "Who does it: the name of an agent, or an agent written here. Left out, the nearest ancestor's choice holds.",
        "worker",
        ChangeClass.RESTART,
        lowered=("work",),
    ),
    Field(
        "run",
        COMMAND,
        "A command instead of an agent: a shell line, or a program and its arguments as a list.",
        "make integration",
        ChangeClass.RESTART,
        lowered=("work",),
    ),
    Field(
        "effect",
        ScalarType("word", ("read", "idempotent", "reconcilable", "once")),
        "What may be done when nobody saw how `run` ended: only read and idempotent run again.",
        "idempotent",
        default="once",
        lowered=("work",),
    ),
    Field(
        "timeout",
        DURATION,
        "How long `run` may take before its process group is stopped.",
        600,
        lowered=("work",),
    ),
    Field(
        "cwd",
        TEXT,
        "The workspace: a folder below the plan file's, whatever the parent's is. Left out, the parent's.",
        "frontend",
        ChangeClass.RESTART,
        default=".",
        lowered=("cwd",),
    ),
    Field(
        "env",
        MapType(ScalarType("loose"), is_id=False),
        "Variables for the commands of this task and of those below it, added to a clean environment.",
        {"CI": "1"},
        ChangeClass.RESTART,
        lowered=("env",),
    ),
)

ORDER_FIELDS: Final = (
    Field(
        "rulings",
        MapType(TEXT, is_id=False),
        "What was ruled in conflicts about files, by conflict. Written by whoever rules; the task's agent is told.",
        {"conflict-3": "let go of src/api.py: `backend` has it next"},
        ChangeClass.PREFIX,
        lowered=("rulings",),
    ),
    Field(
        "tasks",
        MapType(TableType("task", short="goal")),
        "Child tasks by id, to any depth.",
        {"ui": {"goal": "the chat window"}},
        aliases=("children",),
        lowered=("children",),
    ),
    Field(
        "needs",
        WORDS,
        "Tasks that must be done first: a sibling's id, an id that is unique in the plan, or a path from the root.",
        ["frontend"],
        lowered=("needs",),
    ),
    Field(
        "priority",
        ScalarType("integer"),
        "Work with a higher number goes first when slots are scarce.",
        5,
        default=0,
        lowered=("priority",),
    ),
    Field(
        "pause", FLAG, "Stops the task and all below it at the next boundary, and keeps them.", True, lowered=("pause",)
    ),
    Field("cancel", FLAG, "Stops the task and all below it, and keeps them as cancelled.", True, lowered=("cancel",)),
)

CHECK_FIELDS: Final = (
    Field(
        "acceptance",
        ListType(TableType("check", short="sh")),
        "The checks that must hold for the task to be done; the controller runs them, freshly.",
        [{"sh": "npm test"}, {"require-file": "README.md"}],
        aliases=("spec",),
        lowered=("acceptance",),
    ),
    Field(
        "when",
        ScalarType("word", ("before", "after")),
        "`before` runs the checks first and skips the work when they already hold.",
        "before",
        default="after",
        lowered=("when",),
    ),
    Field(
        "heal",
        EitherType(plain=ScalarType("flag"), map=TableType("heal")),
        "Keeps a done task under watch, and reopens it when its checks stop holding.",
        {"every": 30},
        lowered=("heal", "heal_every_s"),
    ),
    Field(
        "retries",
        COUNT,
        "How often the task is started anew after it failed.",
        2,
        default=0,
        lowered=("retries",),
    ),
    Field(
        "again",
        COUNT,
        "Raise it to have the task run once more, whatever became of it; `plan resume` does so for what failed.",
        1,
        ChangeClass.RESTART,
        default=0,
        lowered=("again",),
    ),
    Field(
        "on-change",
        ScalarType("word", ("message", "restart")),
        "What a new goal or new notes do to a running agent: tell it, or start it over.",
        "restart",
        default="message",
        lowered=("on_change",),
    ),
)

SHARED_FIELDS: Final = (
    Field(
        "locks",
        ListType(EitherType(plain=TEXT, map=TableType("lock"))),
        "Paths or globs that the task must hold before it starts; taken all or none, and held until it ends.",
        ["backend/**"],
        lowered=("locks",),
    ),
    Field(
        "budget",
        TableType("budget"),
        "What the task and all below it may use at most; carved out of what its parent has left.",
        {"usd": "4", "tokens": 200000},
        lowered=("budget",),
    ),
    Field(
        "granted",
        TableType("granted"),
        "What the agent of the task was given by a yes to its `request`. It replaces what the agent's own lines say; "
        "rights above it still hold.",
        {"tools": ["fetch"], "budget": {"turns": 20}},
        ChangeClass.PREFIX,
        lowered=("tools", "budget", "granted"),
    ),
    Field(
        "rights",
        TableType("rights"),
        "Narrows what this task's agent and all below it may use. Nothing here widens what the parent may grant.",
        {"tools": ["read", "list"]},
        ChangeClass.PREFIX,
        lowered=("rights", "tools", "cap"),
    ),
    Field(
        "protect",
        FLAG,
        "The task cannot be removed by deleting its lines.",
        True,
        lowered=("protect",),
    ),
    Field(
        "open",
        TEXTS,
        "Fields of this task that agents may change though the file sets them: names or JSON pointers.",
        ["goal", "/acceptance"],
        ChangeClass.NONE,
        read_in="reconciler",
    ),
    Field(
        "approve",
        TEXTS,
        "What needs a person's yes first: tool call patterns such as `shell(git push *)`, or paths of the plan.",
        ["/tasks/*/agent"],
        ChangeClass.NONE,
        read_in="reconciler",
    ),
)

TASK_ONLY_FIELDS: Final = (
    Field(
        "containers",
        WORDS,
        "Containers that must be healthy before the task starts.",
        ["redis"],
        lowered=("containers",),
    ),
    FORK_FIELD,
    Field(
        "case",
        TableType("case", short="key"),
        "The task is an entry of a benchmark's run, and is graded when it has ended. Written by `plan bench`.",
        {"key": "6f0c"},
        ChangeClass.RESTART,
    ),
    Field(
        "hooks",
        MapType(TableType("hook", short="extends")),
        "Hooks by name that watch the task's agent and, as copies, the agents below it.",
        {"no-shell": {"on": ["before-call"], "run": "python3 hooks/no_shell.py"}},
    ),
)

COMMON_FIELDS: Final = (*WORK_FIELDS, *ORDER_FIELDS, *CHECK_FIELDS, *SHARED_FIELDS)

TASK: Final = FieldTable(
    "task",
    "A goal with where, who, after what, and the checks that say when it is done.",
    (*COMMON_FIELDS, *TASK_ONLY_FIELDS),
)

GRANTED: Final = FieldTable(
    "granted",
    "What one task's agent has been given beyond its own lines.",
    (
        Field("tools", WORDS, "Tools that it has beside its own.", ["fetch"], ChangeClass.PREFIX, lowered=("tools",)),
        Field(
            "model",
            PATTERN,
            "The model that continues its conversation.",
            "ollama/qwen3:32b",
            lowered=("granted",),
        ),
        Field(
            "budget",
            TableType("budget"),
            "Bounds that hold for this task in place of those that its agent states.",
            {"turns": 20},
            lowered=("budget",),
        ),
    ),
)

CASE: Final = FieldTable(
    "case",
    "Which entry of the run's `plan.json` the task is.",
    (
        Field("key", TEXT, "The digest of all that can change the verdict.", "6f0c"),
        Field("entry", TEXT, "The entry's name; left out, the task's id.", "login-page--oracle--1"),
        Field("attempt", ScalarType("integer", minimum=1), "Which try of the entry it is.", 2, default=1),
        Field("within", DURATION, "How long it may take by the clock, waiting counted.", 600, default=3600),
    ),
    one_of=(("key",),),
)

HEAL: Final = FieldTable(
    "heal",
    "How a done task is watched.",
    (Field("every", DURATION, "Seconds between two looks.", 30, default=60, lowered=("heal_every_s",)),),
)

LOCK: Final = FieldTable(
    "lock",
    "What a task holds while it is at work.",
    (
        Field("path", TEXT, "A file, a folder with all below it, or a glob; from the plan's folder.", "docs/**"),
        Field(
            "mode",
            ScalarType("word", LOCK_MODES),
            "`write` keeps everybody else off; `read` is shared with others that read.",
            "read",
            default="write",
            lowered=("locks",),
        ),
    ),
    one_of=(("path",),),
)

BUDGET: Final = FieldTable(
    "budget",
    "Upper bounds. A unit that is left out is bounded by what the parent has left. One that is added to a task at work "
    "counts from then on.",
    (
        Field("tokens", COUNT, "Model tokens, in and out; `2M` is two million.", 2000000),
        Field("usd", ScalarType("money", minimum=0), "Money for model calls, in US dollars.", "20"),
        Field("time", DURATION, "Active time; waiting does not count. `2h`, `90s`.", 7200),
        Field("calls", COUNT, "Model and tool calls.", 2000),
        Field("turns", COUNT, "Passes of the agent.", 400),
        Field("retries", COUNT, "Attempts that may be repeated.", 10),
    ),
)
