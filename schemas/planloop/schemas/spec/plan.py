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
        "How to access the models of a provider, or models selected by name or pattern.",
        (
            Field("url", TEXT, "The URL of an OpenAI-compatible API.", "http://localhost:11434/v1"),
            Field(
                "key",
                TEXT,
                "Where to find the API key: `env:NAME` or `file:path`, never the key itself.",
                "env:GROQ_API_KEY",
            ),
            Field("api", ScalarType("word", ("openai", "litellm")), "The API to use.", "openai"),
            Field("price", TableType("price"), "Price in US dollars per million tokens.", {"in": 1, "out": 4}),
            Field("window", COUNT, "Context window: maximum tokens of prompt and reply together.", 131072),
            Field("output", COUNT, "Maximum tokens of a reply.", 8192),
            Field(
                "stream",
                FLAG,
                "Whether replies are streamed. Use `false` for gateways that cannot stream calls.",
                False,
            ),
            Field(
                "headers",
                MapType(ScalarType("loose"), is_id=False),
                "HTTP headers to send with every request.",
                {"X-Title": "plan"},
            ),
            Field(
                "as",
                PATTERN,
                "The model to use instead. Rights still apply to the name that the agent uses; `record/<file>` and "
                "`replay/<file>` wrap that name. `plan apply --model` sets this for `*`.",
                "ollama/qwen3:8b",
            ),
        ),
    ),
    FieldTable(
        "price",
        "Prices in US dollars per million tokens.",
        (
            Field("in", MONEY, "Price of prompt tokens.", 1),
            Field("cached", MONEY, "Price of prompt tokens that the provider read from its cache.", 0.1),
            Field("out", MONEY, "Price of reply tokens.", 4),
        ),
    ),
)


# The fields that only the top of a plan has, and those of its hooks, servers and containers.

_REPLACE = ChangeClass.REPLACE
_MOMENT: Final = ScalarType("duration", minimum=0.1)
_SOME: Final = ScalarType("count", minimum=1)
MEMORY_MIN_BYTES: Final = 6 * 1024 * 1024
"""The minimum that Docker accepts."""

LIBRARY_FIELDS: Final = (
    Field(
        "agents",
        MapType(TableType("agent")),
        "Agents and prototypes, by name.",
        {"writer": {"script": [{"done": "ok"}]}},
    ),
    Field(
        "mixins",
        MapType(TableType("mixin")),
        "Named sets of agent fields, steps and settings, which agents add with `mixins`.",
        {"careful": {"deny": ["shell"]}},
    ),
    Field(
        "toolsets",
        MapType(TableType("toolset", short="tools")),
        "Toolsets, by name.",
        {"look": {"tools": ["read", "list"]}},
    ),
    Field("prompts", MapType(TEXT), "Prompts, by name: text, `lib:name` or `file:path`.", {"polite": "Say please."}),
    Field(
        "hooks",
        MapType(TableType("hook", short="extends")),
        "Hooks, by name. Hooks of the plan watch every agent.",
        {"no-shell": {"on": ["before-call"], "run": "python3 hooks/no_shell.py"}},
    ),
    Field(
        "use",
        TEXTS,
        "Bundles of agents, mixins, toolsets, prompts and hooks to include: `lib:name`, or a file next to the plan.",
        ["lib:coding"],
    ),
)

PLAN: Final = FieldTable(
    "plan",
    "The top level of the file: the root task and everything that tasks share.",
    (
        Field(
            "plan",
            ScalarType("id"),
            "The plan's name. State and log are stored under it. Default: the file's name.",
            "webchat",
            ChangeClass.IMMUTABLE,
            aliases=("name", "id"),
            read_in="compiler",
        ),
        *COMMON_FIELDS,
        *LIBRARY_FIELDS,
        Field(
            "limits",
            TableType("limits"),
            "Limits on parallel work and unknown prices.",
            {"parallel": 4},
            read_in="owner",
        ),
        Field(
            "models",
            MapType(TableType("model-config", short="url"), is_id=False),
            "How to access language models and what they cost, by provider, model name or pattern.",
            {"vllm": {"url": "http://localhost:8000/v1"}},
            read_in="schemas/planloop/schemas/objects/model.py",
        ),
        Field(
            "mcp",
            MapType(TableType("mcp")),
            "Tool servers, by name.",
            {"files": {"command": ["server"], "tools": ["read_file"]}},
        ),
        Field(
            "containers",
            MapType(TableType("container", short="image")),
            "Containers, by name.",
            {"redis": {"image": "redis:7"}},
        ),
        Field(
            "moved",
            MapType(WORD, is_id=False),
            "Renamed or moved tasks, as `old: new`. Their running work is not restarted.",
            {"ui": "frontend"},
            ChangeClass.NONE,
            read_in="reconciler",
        ),
    ),
)

LIBRARY: Final = FieldTable("library", "A file that `use` can include.", LIBRARY_FIELDS)

PLAN_TABLES: Final = (
    PLAN,
    LIBRARY,
    FieldTable(
        "limits",
        "Limits on parallel work and unknown prices.",
        (
            Field(
                "parallel",
                ScalarType("integer", minimum=1),
                "Maximum number of commands and tool calls at the same time.",
                8,
                default=8,
                read_in="owner",
            ),
            Field(
                "tasks",
                ScalarType("integer", minimum=1),
                "Maximum number of tasks with an agent or command that run at the same time. Descendants of a "
                "running task use its slot.",
                3,
                read_in="controllers/planloop/controllers/task/counters.py",
            ),
            Field(
                "models",
                MapType(ScalarType("integer", minimum=1), is_id=False),
                "Maximum number of model calls at the same time, by pattern.",
                {"ollama/*": 2},
                read_in="owner",
            ),
            Field(
                "unknown-price",
                ScalarType("word", ("refuse", "estimate", "allow")),
                "How a cost limit treats a model of unknown price: `refuse` to call it, `estimate` with the highest "
                "known price, or `allow` it without counting its cost.",
                "estimate",
                default="refuse",
                read_in="controllers/planloop/controllers/agent/models/catalog.py",
            ),
        ),
    ),
    FieldTable(
        "mcp",
        "A tool server (MCP).",
        (
            Field(
                "command",
                COMMAND,
                "The command that starts the server, which communicates over stdio.",
                ["npx", "-y", "server"],
                ChangeClass.RESTART,
            ),
            Field("url", TEXT, "The URL of the server, over HTTP.", "http://localhost:9000/mcp", ChangeClass.RESTART),
            Field(
                "world",
                TEXT,
                "A file of simulated tools, relative to the plan. Uses the tools with names that start with this "
                "server's name. Each agent has its own world.",
                "worlds/office.yaml",
                ChangeClass.RESTART,
            ),
            Field(
                "headers",
                MapType(ScalarType("loose"), is_id=False),
                "HTTP headers for every request to `url`; `env:NAME` and `file:path` are read when planloop connects.",
                {"Authorization": "env:SEARCH_AUTH"},
                ChangeClass.RESTART,
            ),
            Field(
                "tools", WORDS, "The server's tools that may be used. Default: all.", ["read_file"], ChangeClass.PREFIX
            ),
            Field(
                "env",
                MapType(ScalarType("loose"), is_id=False),
                "Environment variables; `env:NAME` is read from the environment of `plan apply` when the server "
                "starts.",
                {"ROOT": "."},
                ChangeClass.RESTART,
            ),
            Field(
                "share",
                ScalarType("word", ("plan", "agent")),
                "Whether all agents share one server (`plan`) or each has its own (`agent`).",
                "agent",
                ChangeClass.RESTART,
                default="plan",
            ),
            Field("timeout", DURATION, "Maximum time for one call.", 60),
            Field(
                "effects",
                MapType(ScalarType("word", ("read", "idempotent", "reconcilable", "once")), is_id=False),
                "Effect classes of the server's tools, by name.",
                {"read_file": "read"},
            ),
            Field(
                "writes",
                MapType(WORD, is_id=False),
                "Tools that write a file, with the argument that holds its path. The file is locked as for `write`.",
                {"write_file": "path"},
            ),
        ),
        one_of=(("command", "url", "world"),),
    ),
    FieldTable(
        "container",
        "A container that planloop runs for the plan.",
        (
            Field("image", TEXT, "Image name or digest.", "redis:7", _REPLACE, lowered=("image",)),
            Field(
                "build",
                TableType("container-build", short="folder"),
                "How to build the image: a folder or a map.",
                {"folder": "docker/"},
                _REPLACE,
                lowered=("build",),
            ),
            Field(
                "rootfs", TEXT, "A tar file from which to create the image.", "root.tar", _REPLACE, lowered=("rootfs",)
            ),
            Field(
                "cmd",
                COMMAND,
                "The command. Default: the image's own.",
                ["bash", "-lc", "npm test"],
                _REPLACE,
                lowered=("cmd",),
            ),
            Field("entrypoint", COMMAND, "The entrypoint.", ["tini"], _REPLACE, lowered=("entrypoint",)),
            Field(
                "env",
                MapType(ScalarType("loose"), is_id=False),
                "Environment variables. `secret:NAME` is read when the container is created, from a variable of "
                "`plan apply` or the file .plan/secrets/NAME; `env:NAME` and `file:path` select one source.",
                {"CI": "1"},
                _REPLACE,
                lowered=("env",),
            ),
            Field("workdir", TEXT, "Working directory in the container.", "/work", _REPLACE, lowered=("workdir",)),
            Field("user", ScalarType("loose"), "User in the container.", "1000", _REPLACE, lowered=("user",)),
            Field(
                "mounts",
                EitherType(items=ListType(TableType("mount")), map=MapType(TEXT, is_id=False)),
                "Host folders to mount, relative to the plan's, with the path in the container, as in `{.: /work}`. "
                "In a list also named volumes, memory (`tmpfs`) and read-only mounts.",
                {".": "/work"},
                _REPLACE,
                lowered=("mounts",),
            ),
            Field(
                "ports",
                EitherType(
                    items=ListType(TableType("port-map")), map=MapType(ScalarType("integer", minimum=1), is_id=False)
                ),
                "Ports published on this machine only, each with the container port, as in `{6379: 6379}`. In a "
                "list, `host` is optional: any free port is used, and `plan describe` shows it.",
                {"6379": 6379},
                _REPLACE,
                lowered=("ports",),
            ),
            Field(
                "networks",
                WORDS,
                "Networks. `internal` has no external access; `none` alone means no network. Default: one network "
                "shared by all containers of the plan.",
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
                "Containers that must be ready first, and the state required. In a list: `healthy` if they have a "
                "health check, else `started`.",
                {"redis": "started"},
                lowered=("needs",),
            ),
            Field(
                "health",
                TableType("health"),
                "The health check.",
                {"cmd": ["redis-cli", "ping"]},
                lowered=("health",),
            ),
            Field(
                "limits",
                TableType("container-limits"),
                "Resource limits. They can be changed while the container runs.",
                {"cpu": 2},
                lowered=("cpu", "memory_bytes", "pids"),
            ),
            Field(
                "read-only",
                FLAG,
                "Makes the root file system read-only.",
                True,
                _REPLACE,
                default=False,
                lowered=("is_read_only",),
            ),
            Field(
                "cap-drop",
                WORDS,
                "Capabilities to drop. Default: all.",
                ["NET_RAW"],
                _REPLACE,
                default=["ALL"],
                lowered=("cap_drop",),
            ),
            Field(
                "cap-add",
                WORDS,
                "Capabilities to add. Default, if `cap-drop` is omitted too: those that an entrypoint needs to "
                "change its user, unless the container may write to a host folder.",
                ["SETUID"],
                _REPLACE,
                lowered=("cap_add",),
            ),
            Field(
                "restart",
                ScalarType("word", ("no", "always", "on-failure")),
                "Whether to restart the container when it exits.",
                "on-failure",
                default="no",
                lowered=("restart",),
            ),
            Field(
                "logs",
                TableType("container-logs", short="max"),
                "How much output to keep. A change applies from the next start.",
                {"max": 10000},
                ChangeClass.NONE,
                lowered=("logs_bytes",),
            ),
            Field(
                "keep",
                ScalarType("word", ("on-failure", "always", "never")),
                "Whether to keep the container for inspection when it has exited and is no longer needed.",
                "on-failure",
                default="never",
                lowered=("keep",),
            ),
            Field(
                "again",
                COUNT,
                "Increase this number to recreate the container, whatever its state. `plan resume` does this for a "
                "failed one.",
                1,
                _REPLACE,
                default=0,
                lowered=("again",),
            ),
            Field(
                "ttl",
                _MOMENT,
                "Time to live: the container is removed after running this long.",
                3600,
                lowered=("ttl_s",),
            ),
            Field(
                "task",
                TEXT,
                "The path of the task that uses the container: it runs while the task works and is removed when the "
                "task ends. Default: the whole plan.",
                "a",
                lowered=("task",),
            ),
            Field(
                "labels",
                MapType(ScalarType("loose"), is_id=False),
                "Your own labels, set when the container is created.",
                {"team": "chat"},
                ChangeClass.NONE,
                lowered=("labels",),
            ),
        ),
        one_of=(("image", "build", "rootfs"),),
    ),
    FieldTable(
        "container-build",
        "How to build an image.",
        (
            Field(
                "folder",
                TEXT,
                "The build context: a folder, relative to the plan's folder.",
                "docker",
                _REPLACE,
                aliases=("context",),
            ),
            Field("file", TEXT, "The Dockerfile in `folder`.", "Dockerfile.test", _REPLACE, aliases=("dockerfile",)),
            Field("target", TEXT, "The build stage to stop at.", "base", _REPLACE),
            Field("args", MapType(ScalarType("loose"), is_id=False), "Build arguments.", {"VERSION": "1"}, _REPLACE),
        ),
        one_of=(("folder",),),
    ),
    FieldTable(
        "container-logs",
        "How much of a container's logs to keep.",
        (
            Field(
                "max",
                ScalarType("size", minimum=1024),
                "Maximum size in bytes. The oldest output is dropped.",
                1048576,
                ChangeClass.NONE,
            ),
        ),
    ),
    FieldTable(
        "mount",
        "A folder, volume or memory mounted in a container.",
        (
            Field("host", TEXT, "The folder on this machine, relative to the plan's folder.", ".", _REPLACE),
            Field("container", TEXT, "The path in the container.", "/work", _REPLACE),
            Field("read-only", FLAG, "Makes the mount read-only in the container.", True, _REPLACE),
            Field("volume", TEXT, "A named volume instead of a folder.", "cache", _REPLACE),
            Field("tmpfs", FLAG, "Memory instead of a folder.", True, _REPLACE),
        ),
        one_of=(("container",), ("host", "volume", "tmpfs")),
        form="{host: ., container: /work}",
    ),
    FieldTable(
        "port-map",
        "A container port that is published on this machine.",
        (
            Field(
                "host",
                ScalarType("integer", minimum=1),
                "The port on this machine. Default: any free port.",
                6379,
                _REPLACE,
            ),
            Field("container", ScalarType("integer", minimum=1), "The port in the container.", 6379, _REPLACE),
        ),
        one_of=(("container",),),
        form="{host: 6379, container: 6379}",
    ),
    FieldTable(
        "health",
        "A container's health check.",
        (
            Field("cmd", COMMAND, "A command in the container that must exit with code 0.", ["redis-cli", "ping"]),
            Field(
                "http",
                TEXT,
                "A URL, as seen from the container, that must respond with a status below 400.",
                "http://localhost:8080/health",
            ),
            Field("tcp", ScalarType("integer", minimum=1), "A port that must accept connections.", 6379),
            Field("interval", _MOMENT, "Time between two probes.", 2, default=1),
            Field("timeout", _MOMENT, "Maximum time for one probe.", 2, default=5),
            Field("retries", _SOME, "Consecutive failures before the container counts as unhealthy.", 5, default=3),
            Field("start-period", DURATION, "Time after the start during which failures do not count.", 10),
        ),
        one_of=(("cmd", "http", "tcp"),),
        form="{cmd: [redis-cli, ping]}",
    ),
    FieldTable(
        "container-limits",
        "Resource limits of a container.",
        (
            Field("cpu", ScalarType("number", minimum=0.01), "Number of CPUs.", 2),
            Field("memory", ScalarType("size", minimum=MEMORY_MIN_BYTES), "Memory in bytes.", 536870912),
            Field("pids", _SOME, "Maximum number of processes and threads.", 256, default=2048),
        ),
    ),
)
