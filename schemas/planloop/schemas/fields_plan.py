"""The fields that only the top of a plan has, and those of its hooks, servers and containers."""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import (
    COMMAND,
    COUNT,
    DURATION,
    FLAG,
    TEXT,
    TEXTS,
    WORD,
    WORDS,
    ChangeClass,
    Either,
    Field,
    FieldTable,
    Keyed,
    Many,
    Scalar,
    Table,
)
from planloop.schemas.fields_task import COMMON_FIELDS

_REPLACE = ChangeClass.REPLACE
_MOMENT: Final = Scalar("duration", minimum=0.1)
_SOME: Final = Scalar("count", minimum=1)
MEMORY_MIN_BYTES: Final = 6 * 1024 * 1024
"""Docker takes no less."""

LIBRARY_FIELDS: Final = (
    Field("agents", Keyed(Table("agent")), "Agents and prototypes by name.", {"writer": {"script": [{"done": "ok"}]}}),
    Field("mixins", Keyed(Table("mixin")), "Mixins by name.", {"careful": {"deny": ["shell"]}}),
    Field(
        "toolsets", Keyed(Table("toolset", short="tools")), "Toolsets by name.", {"look": {"tools": ["read", "list"]}}
    ),
    Field("prompts", Keyed(TEXT), "Prompts by name: text, `lib:name` or `file:path`.", {"polite": "Say please."}),
    Field(
        "hooks",
        Keyed(Table("hook", short="extends")),
        "Hooks by name; those of the plan watch every agent.",
        {"no-shell": {"on": ["before-call"], "run": "python3 hooks/no_shell.py"}},
    ),
    Field(
        "use",
        TEXTS,
        "Bundles of agents, mixins, toolsets, prompts and hooks: `lib:name`, or a file beside the plan.",
        ["lib:coding"],
    ),
)

PLAN: Final = FieldTable(
    "plan",
    "The top of the file: the root task, and what the tasks share.",
    (
        Field(
            "plan",
            Scalar("id"),
            "The plan's name: under it its state and its log are kept. Left out, the file's name.",
            "webchat",
            ChangeClass.IMMUTABLE,
            aliases=("name", "id"),
            read_in="compiler",
        ),
        *COMMON_FIELDS,
        *LIBRARY_FIELDS,
        Field("limits", Table("limits"), "Bounds of the work plane.", {"parallel": 4}, read_in="app"),
        Field(
            "models",
            Keyed(Table("model-config", short="url"), is_id=False),
            "How language models are reached and what they cost, by provider, model name or pattern.",
            {"vllm": {"url": "http://localhost:8000/v1"}},
            read_in="schemas/planloop/schemas/model.py",
        ),
        Field(
            "mcp",
            Keyed(Table("mcp")),
            "Tool servers by name.",
            {"files": {"command": ["server"], "tools": ["read_file"]}},
        ),
        Field(
            "containers",
            Keyed(Table("container", short="image")),
            "Containers by name.",
            {"redis": {"image": "redis:7"}},
        ),
        Field(
            "moved",
            Keyed(WORD, is_id=False),
            "Tasks that got another id or parent, as `old: new`: what runs there is not restarted.",
            {"ui": "frontend"},
            ChangeClass.NONE,
            read_in="reconciler",
        ),
    ),
)

LIBRARY: Final = FieldTable("library", "A file that `use` may name.", LIBRARY_FIELDS)

PLAN_TABLES: Final = (
    PLAN,
    LIBRARY,
    FieldTable(
        "limits",
        "Bounds of the work plane.",
        (
            Field(
                "parallel",
                Scalar("integer", minimum=1),
                "Commands and tool calls at once.",
                8,
                default=8,
                read_in="app",
            ),
            Field(
                "tasks",
                Scalar("integer", minimum=1),
                "Tasks with an agent or a command that are at work at once; those below one work in its place.",
                3,
                read_in="controllers/planloop/controllers/task/slots.py",
            ),
            Field(
                "models",
                Keyed(Scalar("integer", minimum=1), is_id=False),
                "Model calls at once, by pattern.",
                {"ollama/*": 2},
                read_in="app",
            ),
            Field(
                "unknown-price",
                Scalar("word", ("refuse", "estimate", "allow")),
                "What a bound on spending means for a model whose price nobody knows: it is not asked, its requests "
                "are counted at the dearest price that is known, or not counted at all.",
                "estimate",
                default="refuse",
                read_in="controllers/planloop/controllers/agent/thinking/pricing.py",
            ),
        ),
    ),
    FieldTable(
        "mcp",
        "A tool server.",
        (
            Field("command", COMMAND, "Starts it, over stdio.", ["npx", "-y", "server"], ChangeClass.RESTART),
            Field("url", TEXT, "Where it listens, over HTTP.", "http://localhost:9000/mcp", ChangeClass.RESTART),
            Field(
                "world",
                TEXT,
                "A file of simulated tools, relative to the plan: those whose names begin with this server's. Each "
                "agent has a world of its own.",
                "worlds/office.yaml",
                ChangeClass.RESTART,
            ),
            Field(
                "headers",
                Keyed(Scalar("loose"), is_id=False),
                "Sent with every request to its URL; `env:NAME` and `file:path` are read when it is connected to.",
                {"Authorization": "env:SEARCH_AUTH"},
                ChangeClass.RESTART,
            ),
            Field("tools", WORDS, "Which of its tools may be used; left out, all.", ["read_file"], ChangeClass.PREFIX),
            Field(
                "env",
                Keyed(Scalar("loose"), is_id=False),
                "Variables for it; `env:NAME` is read from the environment of `plan apply` when it starts.",
                {"ROOT": "."},
                ChangeClass.RESTART,
            ),
            Field(
                "share",
                Scalar("word", ("plan", "agent")),
                "Whether all agents speak to one server, or each to one of its own.",
                "agent",
                ChangeClass.RESTART,
                default="plan",
            ),
            Field("timeout", DURATION, "How long one of its calls may take.", 60),
            Field(
                "effects",
                Keyed(Scalar("word", ("read", "idempotent", "reconcilable", "once")), is_id=False),
                "Effect classes of its tools.",
                {"read_file": "read"},
            ),
            Field(
                "writes",
                Keyed(WORD, is_id=False),
                "Its tools that write a file, with the argument that names it: locked as for `write`.",
                {"write_file": "path"},
            ),
        ),
        one_of=(("command", "url", "world"),),
    ),
    FieldTable(
        "container",
        "A container.",
        (
            Field("image", TEXT, "Image name or digest.", "redis:7", _REPLACE, lowered=("image",)),
            Field(
                "build",
                Table("container-build", short="folder"),
                "Builds the image: a folder, or a map.",
                {"folder": "docker/"},
                _REPLACE,
                lowered=("build",),
            ),
            Field("rootfs", TEXT, "Makes the image from a tar file.", "root.tar", _REPLACE, lowered=("rootfs",)),
            Field(
                "cmd",
                COMMAND,
                "The command; left out, the image's own.",
                ["bash", "-lc", "npm test"],
                _REPLACE,
                lowered=("cmd",),
            ),
            Field("entrypoint", COMMAND, "The entry point.", ["tini"], _REPLACE, lowered=("entrypoint",)),
            Field(
                "env",
                Keyed(Scalar("loose"), is_id=False),
                "Variables. `secret:NAME` is looked up when it is made, as a variable of `plan apply` or as the file "
                ".plan/secrets/NAME; `env:NAME` and `file:path` say which of the two.",
                {"CI": "1"},
                _REPLACE,
                lowered=("env",),
            ),
            Field("workdir", TEXT, "Working directory inside.", "/work", _REPLACE, lowered=("workdir",)),
            Field("user", Scalar("loose"), "User inside.", "1000", _REPLACE, lowered=("user",)),
            Field(
                "mounts",
                Either(items=Many(Table("mount")), map=Keyed(TEXT, is_id=False)),
                "What is laid into it: folders of this machine, from the plan's, each with its place inside, as in "
                "`{.: /work}`. In a list also named volumes and memory, and what may not be written.",
                {".": "/work"},
                _REPLACE,
                lowered=("mounts",),
            ),
            Field(
                "ports",
                Either(items=Many(Table("port-map")), map=Keyed(Scalar("integer", minimum=1), is_id=False)),
                "Ports at which it is reached from this machine, and only from it, each with the port inside, as in "
                "`{6379: 6379}`. In a list `host` may be left out: then any free one is taken, and `plan describe` "
                "says which.",
                {"6379": 6379},
                _REPLACE,
                lowered=("ports",),
            ),
            Field(
                "networks",
                WORDS,
                "Networks; `internal` has no way out, `none` by itself is no network at all. Left out, one that all "
                "containers of the plan share.",
                ["internal"],
                _REPLACE,
                lowered=("networks",),
            ),
            Field(
                "needs",
                Either(items=Many(WORD), map=Keyed(Scalar("word", ("started", "healthy", "completed")), is_id=False)),
                "Containers that come first, and how far they must be: in a list `healthy` for those that have a "
                "health check, else `started`.",
                {"redis": "started"},
                lowered=("needs",),
            ),
            Field(
                "health",
                Table("health"),
                "How to tell that it is well.",
                {"cmd": ["redis-cli", "ping"]},
                lowered=("health",),
            ),
            Field(
                "limits",
                Table("container-limits"),
                "Bounds, changed while it runs.",
                {"cpu": 2},
                lowered=("cpu", "memory_bytes", "pids"),
            ),
            Field(
                "read-only",
                FLAG,
                "The root file system cannot be written.",
                True,
                _REPLACE,
                default=False,
                lowered=("is_read_only",),
            ),
            Field(
                "cap-drop",
                WORDS,
                "Capabilities taken away; all by default.",
                ["NET_RAW"],
                _REPLACE,
                default=["ALL"],
                lowered=("cap_drop",),
            ),
            Field(
                "cap-add",
                WORDS,
                "Capabilities that it needs all the same. Left out with `cap-drop`: those with which an entrypoint "
                "changes its user, unless the container may write a folder of this machine.",
                ["SETUID"],
                _REPLACE,
                lowered=("cap_add",),
            ),
            Field(
                "restart",
                Scalar("word", ("no", "always", "on-failure")),
                "Whether it is started again when it has ended.",
                "on-failure",
                default="no",
                lowered=("restart",),
            ),
            Field(
                "logs",
                Table("container-logs", short="max"),
                "How much of what it writes is kept; counts from its next start on.",
                {"max": 10000},
                ChangeClass.NONE,
                lowered=("logs_bytes",),
            ),
            Field(
                "keep",
                Scalar("word", ("on-failure", "always", "never")),
                "Whether it stays for inspection when it has ended and nobody needs it.",
                "on-failure",
                default="never",
                lowered=("keep",),
            ),
            Field(
                "again",
                COUNT,
                "Raise it to have the container made anew, whatever became of it; `plan resume` does so for one that "
                "failed.",
                1,
                _REPLACE,
                default=0,
                lowered=("again",),
            ),
            Field("ttl", _MOMENT, "Removed when it has run this long.", 3600, lowered=("ttl_s",)),
            Field(
                "task",
                TEXT,
                "The path of the task that it is for: up while that is at work, gone when it has ended. Left out, it "
                "is for the whole plan.",
                "a",
                lowered=("task",),
            ),
            Field(
                "labels",
                Keyed(Scalar("loose"), is_id=False),
                "Labels of your own, put on it when it is made.",
                {"team": "chat"},
                ChangeClass.NONE,
                lowered=("labels",),
            ),
        ),
        one_of=(("image", "build", "rootfs"),),
    ),
    FieldTable(
        "container-build",
        "How an image is built.",
        (
            Field(
                "folder",
                TEXT,
                "What is sent to the engine, below the plan's folder.",
                "docker",
                _REPLACE,
                aliases=("context",),
            ),
            Field("file", TEXT, "The Dockerfile in it.", "Dockerfile.test", _REPLACE, aliases=("dockerfile",)),
            Field("target", TEXT, "The stage to stop at.", "base", _REPLACE),
            Field("args", Keyed(Scalar("loose"), is_id=False), "Build arguments.", {"VERSION": "1"}, _REPLACE),
        ),
        one_of=(("folder",),),
    ),
    FieldTable(
        "container-logs",
        "How much of the logs is kept.",
        (Field("max", Scalar("size", minimum=1024), "Bytes; the older part goes.", 1048576, ChangeClass.NONE),),
    ),
    FieldTable(
        "mount",
        "A folder, volume or memory inside a container.",
        (
            Field("host", TEXT, "The folder here, from the plan's.", ".", _REPLACE),
            Field("container", TEXT, "The folder inside.", "/work", _REPLACE),
            Field("read-only", FLAG, "It cannot be written from inside.", True, _REPLACE),
            Field("volume", TEXT, "A named volume instead of a folder.", "cache", _REPLACE),
            Field("tmpfs", FLAG, "Memory instead of a folder.", True, _REPLACE),
        ),
        one_of=(("container",), ("host", "volume", "tmpfs")),
        form="{host: ., container: /work}",
    ),
    FieldTable(
        "port-map",
        "A port of a container on this machine.",
        (
            Field("host", Scalar("integer", minimum=1), "The port here; left out, any free one.", 6379, _REPLACE),
            Field("container", Scalar("integer", minimum=1), "The port inside.", 6379, _REPLACE),
        ),
        one_of=(("container",),),
        form="{host: 6379, container: 6379}",
    ),
    FieldTable(
        "health",
        "A health check.",
        (
            Field("cmd", COMMAND, "A command inside that must end with exit code 0.", ["redis-cli", "ping"]),
            Field(
                "http",
                TEXT,
                "A URL, seen from inside, that must answer with a status below 400.",
                "http://localhost:8080/health",
            ),
            Field("tcp", Scalar("integer", minimum=1), "A port that must accept.", 6379),
            Field("interval", _MOMENT, "Between two probes.", 2, default=1),
            Field("timeout", _MOMENT, "Of one probe.", 2, default=5),
            Field("retries", _SOME, "Failures in a row before it counts as ill.", 5, default=3),
            Field("start-period", DURATION, "Failures do not count for so long.", 10),
        ),
        one_of=(("cmd", "http", "tcp"),),
        form="{cmd: [redis-cli, ping]}",
    ),
    FieldTable(
        "container-limits",
        "Bounds of a container.",
        (
            Field("cpu", Scalar("number", minimum=0.01), "Processors.", 2),
            Field("memory", Scalar("size", minimum=MEMORY_MIN_BYTES), "Bytes.", 536870912),
            Field("pids", _SOME, "Processes and threads at once.", 256, default=2048),
        ),
    ),
)
