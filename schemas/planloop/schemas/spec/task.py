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
    "Gives the task and its descendants their own git working tree and branch, created from the folder's current "
    "content, also uncommitted, when the task starts. When its checks pass there, its changes are merged into the "
    "folder. On a merge conflict, the agent resolves it in the working tree; a task that is a command is blocked until "
    "you resolve it. A running agent moves to the working tree with its next turn; a running command finishes where it "
    "started. Files that git ignores are not copied or merged.",
    {"branch": "try/new-parser"},
    ChangeClass.PREFIX,
    default=False,
    lowered=("fork",),
)

FORK: Final = FieldTable(
    "fork",
    "The branch that holds a task's work until it is merged back.",
    (
        Field(
            "branch",
            TEXT,
            "The branch to create; an existing fork keeps its own. A branch that you name is kept after a complete "
            "merge. The default, `plan/<plan>/<task>`, is deleted then.",
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
        "What must be true at the end, in words. A running agent gets a changed goal as a message and continues.",
        "frontend websocket chat UI",
        ChangeClass.TAIL,
        lowered=("goal",),
    ),
    Field(
        "notes",
        TEXT,
        "Further information for the agent. A running agent gets changes as a message, as for `goal`.",
        "use the design tokens in ui/",
        ChangeClass.TAIL,
        lowered=("notes",),
    ),
    Field(
        "agent",
        EitherType(plain=ScalarType("word"), map=TableType("agent")),
        "The agent that does the task: a name, or an agent defined here. Default: the nearest ancestor's choice.",
        "worker",
        ChangeClass.RESTART,
        lowered=("work",),
    ),
    Field(
        "run",
        COMMAND,
        "A command to run instead of an agent: a shell line, or a program and its arguments as a list.",
        "make integration",
        ChangeClass.RESTART,
        lowered=("work",),
    ),
    Field(
        "effect",
        ScalarType("word", ("read", "idempotent", "reconcilable", "once")),
        "The effect class of `run`. If its outcome is unknown, only `read` and `idempotent` commands run again.",
        "idempotent",
        default="once",
        lowered=("work",),
    ),
    Field(
        "timeout",
        DURATION,
        "Maximum time for `run`. After that, its process group is stopped.",
        600,
        lowered=("work",),
    ),
    Field(
        "cwd",
        TEXT,
        "The workspace: a folder relative to the plan file's folder, not to the parent's. Default: the parent's.",
        "frontend",
        ChangeClass.RESTART,
        default=".",
        lowered=("cwd",),
    ),
    Field(
        "env",
        MapType(ScalarType("loose"), is_id=False),
        "Environment variables for commands of this task and its descendants, added to a clean environment.",
        {"CI": "1"},
        ChangeClass.RESTART,
        lowered=("env",),
    ),
)

ORDER_FIELDS: Final = (
    Field(
        "rulings",
        MapType(TEXT, is_id=False),
        "Decisions in file conflicts, by conflict. The agent that resolves a conflict writes them; the task's agent "
        "gets them.",
        {"conflict-3": "let go of src/api.py: `backend` has it next"},
        ChangeClass.PREFIX,
        lowered=("rulings",),
    ),
    Field(
        "tasks",
        MapType(TableType("task", short="goal")),
        "Child tasks, by id, nested to any depth.",
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
        "Tasks with a higher number start first when slots are scarce.",
        5,
        default=0,
        lowered=("priority",),
    ),
    Field(
        "pause",
        FLAG,
        "Pauses the task and its descendants at the next safe point. They remain in the plan.",
        True,
        lowered=("pause",),
    ),
    Field(
        "cancel",
        FLAG,
        "Stops the task and its descendants. They remain in the plan as cancelled.",
        True,
        lowered=("cancel",),
    ),
)

CHECK_FIELDS: Final = (
    Field(
        "acceptance",
        ListType(TableType("check", short="sh")),
        "Checks that must pass for the task to be done. planloop runs them itself, with fresh results.",
        [{"sh": "npm test"}, {"require-file": "README.md"}],
        aliases=("spec",),
        lowered=("acceptance",),
    ),
    Field(
        "when",
        ScalarType("word", ("before", "after")),
        "`before` runs the checks first and skips the work if they already pass.",
        "before",
        default="after",
        lowered=("when",),
    ),
    Field(
        "heal",
        EitherType(plain=ScalarType("flag"), map=TableType("heal")),
        "Keeps checking a done task, and reopens it when its checks fail.",
        {"every": 30},
        lowered=("heal", "heal_every_s"),
    ),
    Field(
        "retries",
        COUNT,
        "How many times to restart the task after it fails.",
        2,
        default=0,
        lowered=("retries",),
    ),
    Field(
        "again",
        COUNT,
        "Increase this number to run the task again, whatever its state. `plan resume` does this for failed tasks.",
        1,
        ChangeClass.RESTART,
        default=0,
        lowered=("again",),
    ),
    Field(
        "on-change",
        ScalarType("word", ("message", "restart")),
        "How a running agent gets a changed goal or notes: a `message`, or a `restart`.",
        "restart",
        default="message",
        lowered=("on_change",),
    ),
)

SHARED_FIELDS: Final = (
    Field(
        "locks",
        ListType(EitherType(plain=TEXT, map=TableType("lock"))),
        "Paths or globs to lock before the task starts. All are locked together and held until the task ends.",
        ["backend/**"],
        lowered=("locks",),
    ),
    Field(
        "budget",
        TableType("budget"),
        "Limits for the task and its descendants, taken from the parent's remaining budget.",
        {"usd": "4", "tokens": 200000},
        lowered=("budget",),
    ),
    Field(
        "granted",
        TableType("granted"),
        "What the agent got through an approved `request`. It replaces the agent's own fields; the rights of its "
        "ancestors still apply.",
        {"tools": ["fetch"], "budget": {"turns": 20}},
        ChangeClass.PREFIX,
        lowered=("tools", "budget", "granted"),
    ),
    Field(
        "rights",
        TableType("rights"),
        "Limits what this task's agent and its descendants may use. It never exceeds what the parent may grant.",
        {"tools": ["read", "list"]},
        ChangeClass.PREFIX,
        lowered=("rights", "tools", "cap"),
    ),
    Field(
        "protect",
        FLAG,
        "The task is not removed when you delete its lines.",
        True,
        lowered=("protect",),
    ),
    Field(
        "open",
        TEXTS,
        "Fields of this task that agents may change even if the file sets them: names or JSON pointers.",
        ["goal", "/acceptance"],
        ChangeClass.NONE,
        read_in="reconciler",
    ),
    Field(
        "approve",
        TEXTS,
        "What requires a person's approval: tool call patterns such as `shell(git push *)`, or paths of the plan.",
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
        "Marks the task as an entry of a benchmark run, graded when it ends. Written by `plan bench`.",
        {"key": "6f0c"},
        ChangeClass.RESTART,
    ),
    Field(
        "hooks",
        MapType(TableType("hook", short="extends")),
        "Hooks, by name, that watch the task's agent and, as copies, its descendants.",
        {"no-shell": {"on": ["before-call"], "run": "python3 hooks/no_shell.py"}},
    ),
)

COMMON_FIELDS: Final = (*WORK_FIELDS, *ORDER_FIELDS, *CHECK_FIELDS, *SHARED_FIELDS)

TASK: Final = FieldTable(
    "task",
    "A goal with a workspace, an agent or command, dependencies, and the checks that decide when it is done.",
    (*COMMON_FIELDS, *TASK_ONLY_FIELDS),
)

GRANTED: Final = FieldTable(
    "granted",
    "What the agent of one task has been granted beyond its own fields.",
    (
        Field("tools", WORDS, "Additional tools.", ["fetch"], ChangeClass.PREFIX, lowered=("tools",)),
        Field(
            "model",
            PATTERN,
            "The model that continues the agent's conversation.",
            "ollama/qwen3:32b",
            lowered=("granted",),
        ),
        Field(
            "budget",
            TableType("budget"),
            "Limits for this task that replace those of its agent.",
            {"turns": 20},
            lowered=("budget",),
        ),
    ),
)

CASE: Final = FieldTable(
    "case",
    "The entry in the run's `plan.json` that the task represents.",
    (
        Field("key", TEXT, "Digest of everything that can change the verdict.", "6f0c"),
        Field("entry", TEXT, "The entry's name. Default: the task's id.", "login-page--oracle--1"),
        Field("attempt", ScalarType("integer", minimum=1), "The number of this attempt at the entry.", 2, default=1),
        Field("within", DURATION, "Maximum elapsed time, including waiting.", 600, default=3600),
    ),
    one_of=(("key",),),
)

HEAL: Final = FieldTable(
    "heal",
    "How a done task is checked.",
    (Field("every", DURATION, "Seconds between two checks.", 30, default=60, lowered=("heal_every_s",)),),
)

LOCK: Final = FieldTable(
    "lock",
    "A lock that a task holds while it works.",
    (
        Field(
            "path", TEXT, "A file, a folder with everything in it, or a glob, relative to the plan's folder.", "docs/**"
        ),
        Field(
            "mode",
            ScalarType("word", LOCK_MODES),
            "`write` is exclusive; `read` is shared with other readers.",
            "read",
            default="write",
            lowered=("locks",),
        ),
    ),
    one_of=(("path",),),
)

BUDGET: Final = FieldTable(
    "budget",
    "Upper limits. An omitted unit is limited by the parent's remaining budget. A limit added to a running task "
    "counts from then on.",
    (
        Field("tokens", COUNT, "Model tokens, input and output; `2M` is two million.", 2000000),
        Field("usd", ScalarType("money", minimum=0), "Cost of model calls, in US dollars.", "20"),
        Field("time", DURATION, "Active time, without waiting: `2h`, `90s`.", 7200),
        Field("calls", COUNT, "Number of model and tool calls.", 2000),
        Field("turns", COUNT, "Number of agent turns.", 400),
        Field("retries", COUNT, "Number of repeated attempts.", 10),
    ),
)
