"""Fields of the top of a plan, of its models, tool servers and containers."""

from __future__ import annotations

from typing import Final

from planloop.schemas.spec.field import (
    COMMAND,
    COUNT,
    DURATION,
    FLAG,
    PATTERN,
    TEXT,
    TEXTS,
    WORD,
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
from planloop.schemas.spec.task import COMMON_FIELDS

# The fields of the `models:` table: how language models are reached, what they cost, what they hold.
#
# `planloop.schemas.objects.model` reads them. Nothing of them is an agent's to change: a URL or a key is a way out of
# the plan.

MONEY: Final = ScalarType("money", minimum=0)

MODEL_TABLES: Final = (
    FieldTable(
        "model-config",
        "How the models of one provider, or those of a name or pattern, are asked.",
        (
            Field("url", TEXT, "Where an OpenAI-compatible API answers.", "http://localhost:11434/v1"),
            Field(
                "key", TEXT, "Where its key is: `env:NAME` or `file:path`; never the key itself.", "env:GROQ_API_KEY"
            ),
            Field("api", ScalarType("word", ("openai", "litellm")), "How it is spoken to.", "openai"),
            Field(
                "price", TableType("price"), "What it costs, in US dollars for a million tokens.", {"in": 1, "out": 4}
            ),
            Field("window", COUNT, "Tokens that prompt and reply may have together.", 131072),
            Field("output", COUNT, "Tokens that one reply may have.", 8192),
            Field(
                "stream",
                FLAG,
                "Whether replies come in pieces. `false` is for gateways that cannot stream calls.",
                False,
            ),
            Field(
                "headers", MapType(ScalarType("loose"), is_id=False), "Sent with every request.", {"X-Title": "plan"}
            ),
            Field(
                "as",
                PATTERN,
                "The model that is asked instead; rights still go by the name that the agent states. "
                "`record/<file>` and `replay/<file>` are put around that name. `plan apply --model` sets it for `*`.",
                "ollama/qwen3:8b",
            ),
        ),
    ),
    FieldTable(
        "price",
        "US dollars for a million tokens.",
        (
            Field("in", MONEY, "Of the prompt.", 1),
            Field("cached", MONEY, "Of the part of the prompt that the provider had seen before.", 0.1),
            Field("out", MONEY, "Of the reply.", 4),
        ),
    ),
)


# The fields that only the top of a plan has, and those of its hooks, servers and containers.

_REPLACE = ChangeClass.REPLACE
_MOMENT: Final = ScalarType("duration", minimum=0.1)
_SOME: Final = ScalarType("count", minimum=1)
MEMORY_MIN_BYTES: Final = 6 * 1024 * 1024
"""Docker takes no less."""

LIBRARY_FIELDS: Final = (
    Field(
        "agents",
        MapType(TableType("agent")),
        "Agents and prototypes by name.",
        {"writer": {"script": [{"done": "ok"}]}},
    ),
    Field("mixins", MapType(TableType("mixin")), "Mixins by name.", {"careful": {"deny": ["shell"]}}),
    Field(
        "toolsets",
        MapType(TableType("toolset", short="tools")),
        "Toolsets by name.",
        {"look": {"tools": ["read", "list"]}},
    ),
    Field("prompts", MapType(TEXT), "Prompts by name: text, `lib:name` or `file:path`.", {"polite": "Say please."}),
    Field(
        "hooks",
        MapType(TableType("hook", short="extends")),
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
            ScalarType("id"),
            "The plan's name: under it its state and its log are kept. Left out, the file's name.",
            "webchat",
            ChangeClass.IMMUTABLE,
            aliases=("name", "id"),
            read_in="compiler",
        ),
        *COMMON_FIELDS,
        *LIBRARY_FIELDS,
        Field("limits", TableType("limits"), "Bounds of the work plane.", {"parallel": 4}, read_in="owner"),
        Field(
            "models",
            MapType(TableType("model-config", short="url"), is_id=False),
            "How language models are reached and what they cost, by provider, model name or pattern.",
            {"vllm": {"url": "http://localhost:8000/v1"}},
            read_in="schemas/planloop/schemas/objects/model.py",
        ),
        Field(
            "mcp",
            MapType(TableType("mcp")),
            "Tool servers by name.",
            {"files": {"command": ["server"], "tools": ["read_file"]}},
        ),
        Field(
            "containers",
            MapType(TableType("container", short="image")),
            "Containers by name.",
            {"redis": {"image": "redis:7"}},
        ),
        Field(
            "moved",
            MapType(WORD, is_id=False),
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
                ScalarType("integer", minimum=1),
                "Commands and tool calls at once.",
                8,
                default=8,
                read_in="owner",
            ),
            Field(
                "tasks",
                ScalarType("integer", minimum=1),
                "Tasks with an agent or a command that are at work at once; those below one work in its place.",
                3,
                read_in="controllers/planloop/controllers/task/counters.py",
            ),
            Field(
                "models",
                MapType(ScalarType("integer", minimum=1), is_id=False),
                "Model calls at once, by pattern.",
                {"ollama/*": 2},
                read_in="owner",
            ),
            Field(
                "unknown-price",
                ScalarType("word", ("refuse", "estimate", "allow")),
                "What a bound on spending means for a model whose price nobody knows: it is not asked, its requests "
                "are counted at the dearest price that is known, or not counted at all.",
                "estimate",
                default="refuse",
                read_in="controllers/planloop/controllers/agent/models/catalog.py",
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
                MapType(ScalarType("loose"), is_id=False),
                "Sent with every request to its URL; `env:NAME` and `file:path` are read when it is connected to.",
                {"Authorization": "env:SEARCH_AUTH"},
                ChangeClass.RESTART,
            ),
            Field("tools", WORDS, "Which of its tools may be used; left out, all.", ["read_file"], ChangeClass.PREFIX),
            Field(
                "env",
                MapType(ScalarType("loose"), is_id=False),
                "Variables for it; `env:NAME` is read from the environment of `plan apply` when it starts.",
                {"ROOT": "."},
                ChangeClass.RESTART,
            ),
            Field(
                "share",
                ScalarType("word", ("plan", "agent")),
                "Whether all agents speak to one server, or each to one of its own.",
                "agent",
                ChangeClass.RESTART,
                default="plan",
            ),
            Field("timeout", DURATION, "How long one of its calls may take.", 60),
            Field(
                "effects",
                MapType(ScalarType("word", ("read", "idempotent", "reconcilable", "once")), is_id=False),
                "Effect classes of its tools.",
                {"read_file": "read"},
            ),
            Field(
                "writes",
                MapType(WORD, is_id=False),
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
                TableType("container-build", short="folder"),
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
                MapType(ScalarType("loose"), is_id=False),
                "Variables. `secret:NAME` is looked up when it is made, as a variable of `plan apply` or as the file "
                ".plan/secrets/NAME; `env:NAME` and `file:path` say which of the two.",
                {"CI": "1"},
                _REPLACE,
                lowered=("env",),
            ),
            Field("workdir", TEXT, "Working directory inside.", "/work", _REPLACE, lowered=("workdir",)),
            Field("user", ScalarType("loose"), "User inside.", "1000", _REPLACE, lowered=("user",)),
            Field(
                "mounts",
                EitherType(items=ListType(TableType("mount")), map=MapType(TEXT, is_id=False)),
                "What is laid into it: folders of this machine, from the plan's, each with its place inside, as in "
                "`{.: /work}`. In a list also named volumes and memory, and what may not be written.",
                {".": "/work"},
                _REPLACE,
                lowered=("mounts",),
            ),
            Field(
                "ports",
                EitherType(
                    items=ListType(TableType("port-map")), map=MapType(ScalarType("integer", minimum=1), is_id=False)
                ),
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
                EitherType(
                    items=ListType(WORD),
                    map=MapType(ScalarType("word", ("started", "healthy", "completed")), is_id=False),
                ),
                "Containers that come first, and how far they must be: in a list `healthy` for those that have a "
                "health check, else `started`.",
                {"redis": "started"},
                lowered=("needs",),
            ),
            Field(
                "health",
                TableType("health"),
                "How to tell that it is well.",
                {"cmd": ["redis-cli", "ping"]},
                lowered=("health",),
            ),
            Field(
                "limits",
                TableType("container-limits"),
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
                ScalarType("word", ("no", "always", "on-failure")),
                "Whether it is started again when it has ended.",
                "on-failure",
                default="no",
                lowered=("restart",),
            ),
            Field(
                "logs",
                TableType("container-logs", short="max"),
                "How much of what it writes is kept; counts from its next start on.",
                {"max": 10000},
                ChangeClass.NONE,
                lowered=("logs_bytes",),
            ),
            Field(
                "keep",
                ScalarType("word", ("on-failure", "always", "never")),
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
                MapType(ScalarType("loose"), is_id=False),
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
            Field("args", MapType(ScalarType("loose"), is_id=False), "Build arguments.", {"VERSION": "1"}, _REPLACE),
        ),
        one_of=(("folder",),),
    ),
    FieldTable(
        "container-logs",
        "How much of the logs is kept.",
        (Field("max", ScalarType("size", minimum=1024), "Bytes; the older part goes.", 1048576, ChangeClass.NONE),),
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
            Field("host", ScalarType("integer", minimum=1), "The port here; left out, any free one.", 6379, _REPLACE),
            Field("container", ScalarType("integer", minimum=1), "The port inside.", 6379, _REPLACE),
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
            Field("tcp", ScalarType("integer", minimum=1), "A port that must accept.", 6379),
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
            Field("cpu", ScalarType("number", minimum=0.01), "Processors.", 2),
            Field("memory", ScalarType("size", minimum=MEMORY_MIN_BYTES), "Bytes.", 536870912),
            Field("pids", _SOME, "Processes and threads at once.", 256, default=2048),
        ),
    ),
)
