"""Fields of an agent, a prototype (the same fields) and a script step."""

from __future__ import annotations

from typing import Final

from planloop.schemas.spec.field import (
    ANY,
    COMMAND,
    COUNT,
    DURATION,
    FLAG,
    PATTERN,
    PATTERNS,
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
from planloop.schemas.spec.mixin import MIXIN_STEP_FIELDS

STEPS: Final = ListType(TableType("step", short="say"))
"""The steps of a script, wherever one is written."""

_PREFIX, _RESTART = ChangeClass.PREFIX, ChangeClass.RESTART

DECIDER_FIELDS: Final = (
    Field(
        "model",
        PATTERN,
        "The model, as `provider/name` or `name@http://host/v1`. `record/<file>@<model>` writes its answers to a "
        "file, `replay/<file>@<model>` reads them from it. Default: the nearest ancestor agent's.",
        "ollama/qwen3:32b",
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "options",
        MapType(ANY, is_id=False),
        "Options passed unchanged to the model or the Python function.",
        {"temperature": 0},
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "escalate",
        TableType("escalate", short="model"),
        "A stronger model that continues the conversation when the agent is stuck, or after `after` rejected "
        "answers. The rights of the agent and its parent apply to it too.",
        {"after": 3, "model": "openai/gpt-5", "budget": {"usd": "2"}},
        lowered=("escalate",),
    ),
    Field(
        "script",
        STEPS,
        "Steps of a scripted agent, executed in order. The agent needs no model.",
        [{"say": "on it"}, {"done": "finished"}],
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "python",
        TEXT,
        "A function `file.py:name` that takes the turns, run in a separate process; `lib:name` is a bundled one.",
        "agents/planner.py:step",
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "run",
        COMMAND,
        "A program that takes the turns. It reads one JSON line and writes actions as JSON lines.",
        ["python3", "planner.py"],
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "outside",
        EitherType(plain=FLAG, map=TableType("outside")),
        "An external agent. A command-line agent (`run`) gets a prompt, and its output is the answer. With `true`, "
        "any MCP client can take the task with `plan mcp` and make the agent's calls.",
        {"run": ["other-agent", "--print"], "prompt": "stdin"},
        _RESTART,
        lowered=("mind",),
    ),
)

NATURE_FIELDS: Final = (
    Field(
        "extends",
        WORD,
        "The agent or prototype that this one is based on.",
        "lib:child",
        _PREFIX,
        aliases=("proto",),
        lowered=("prototype",),
    ),
    Field(
        "mixins",
        ListType(EitherType(plain=WORD, map=MapType(ANY, is_id=False))),
        "Mixins applied on top of the prototype, in this order; `{lib:retry: {max: 3}}` passes settings.",
        ["lib:denylist"],
        _PREFIX,
        lowered=("mixins",),
    ),
    Field(
        "settings",
        MapType(MapType(ANY, is_id=False), is_id=False),
        "Settings for mixins, by mixin name.",
        {"retry": {"max": 3}},
        _PREFIX,
        lowered=("mixins",),
    ),
    Field(
        "from",
        TEXT,
        "The agent to start as a copy of: its transcript and memory, not its rights. A name (`ann`, `ann/x`) is "
        "relative to the parent, an address (`agent/lead/ann`) to the root. `dump:` and a digest is an agent "
        "restored from a file, `dump:kept` an agent that has left the plan. Not inherited.",
        "reviewer",
        _RESTART,
        lowered=("source",),
    ),
    Field(
        "prompt",
        TEXT,
        "The agent's instructions: `lib:name`, `file:path`, `mcp:server/name`, the name of a prompt of the plan, or "
        "text.",
        "lib:worker",
        _PREFIX,
        lowered=("prompt", "served_prompts"),
    ),
)

POWER_FIELDS: Final = (
    Field(
        "tools",
        WORDS,
        "Tools and toolsets that the agent may use, within the rights of its ancestors: names, calls such as "
        "`shell(git *)`, `lib:code`, `server.tool`, `server` for all tools of a server, `agent:name` for an agent "
        "called as a tool, or `all`.",
        ["lib:code"],
        _PREFIX,
        lowered=("tools",),
    ),
    Field(
        "deny",
        WORDS,
        "Forbidden tool calls: a name, or a pattern such as `shell(rm -rf *)`. Denials from all sources are combined; "
        "none can be removed.",
        ["shell"],
        _PREFIX,
        lowered=("rights",),
    ),
    Field(
        "effects",
        MapType(ScalarType("word", ("read", "idempotent", "reconcilable", "once")), is_id=False),
        "Effect classes by tool name, where they differ from the tool's own.",
        {"shell": "idempotent"},
        lowered=("effects",),
    ),
    Field(
        "rights",
        TableType("rights"),
        "Limits what the agent may use and grant.",
        {"spawn": 2},
        _PREFIX,
        lowered=("rights",),
    ),
    Field(
        "budget",
        TableType("budget"),
        "Limits for each task that the agent works on.",
        {"turns": 50},
        lowered=("budget", "agent_bounds"),
    ),
    Field(
        "hooks",
        ListType(EitherType(plain=WORD, map=MapType(ANY, is_id=False))),
        "Hooks that watch the agent, by name or as `lib:name`; `{lib:spawn-limit: {max: 3}}` passes settings.",
        ["no-secrets"],
        lowered=("hooks",),
    ),
    Field(
        "sandbox",
        EitherType(plain=ScalarType("integer", minimum=0), map=TableType("sandbox")),
        "The minimum sandbox tier: 0 none, 1 process group and limits, 2 bubblewrap, 3 container. A map sets the "
        "container or limits. Default: the nearest ancestor agent's.",
        1,
        _RESTART,
        lowered=("sandbox",),
    ),
)

CONDUCT_FIELDS: Final = (
    Field(
        "topology",
        TableType("topology"),
        "The agents that this agent may talk to.",
        {"talk-to": ["parent"]},
        lowered=("talk_to",),
    ),
    Field(
        "wake",
        TableType("wake"),
        "How often the agent wakes without an event while it has live children.",
        {"every": 120},
        lowered=("wake_every_s",),
    ),
    Field(
        "compact",
        TableType("compact"),
        "When and how the agent's conversation is summarized.",
        {"at": 0.7},
        lowered=("compact",),
    ),
    Field(
        "lock",
        ScalarType("word", ("turn", "task", "off")),
        "How long a file that the agent wrote stays locked: until its `turn` or `task` ends, or not at all (`off`).",
        "task",
        default="turn",
        lowered=("lock",),
    ),
)

AGENT_FIELDS: Final = (*DECIDER_FIELDS, *NATURE_FIELDS, *POWER_FIELDS, *CONDUCT_FIELDS)

AGENT: Final = FieldTable("agent", "What takes the turns of a task. Prototypes have the same fields.", AGENT_FIELDS)

STEP_VERBS: Final = tuple("say call patch task send expect sleep done fail parallel again memory".split())

STEP: Final = FieldTable(
    "step",
    "One step of a script: exactly one verb and its options.",
    (
        Field("say", ANY, "Says a text; with `to`, sends it as a message.", "on it"),
        Field(
            "call",
            ANY,
            "Calls a tool, as in `{write: {path: a.txt, content: hi}}`; a list makes several calls.",
            {"list": {}},
        ),
        Field(
            "patch",
            ListType(ANY),
            "Changes the plan with RFC 6902 operations.",
            [{"op": "add", "path": "/notes", "value": "x"}],
        ),
        Field("task", ANY, "Adds a child task; a list adds several.", {"id": "ui", "goal": "the chat window"}),
        Field(
            "send", ANY, "Sends a message, as in `{to: parent, text: half way}`.", {"to": "parent", "text": "half way"}
        ),
        Field(
            "expect",
            EitherType(plain=TEXT, map=TableType("expect")),
            "Fails the script unless the last results contain this text or match this map.",
            {"ok": True},
        ),
        Field("sleep", DURATION, "Waits for this number of seconds.", 1),
        Field("done", ANY, "Reports the task as done, with a result.", "finished"),
        Field("fail", ANY, "Reports that the task cannot be done, with a reason.", "no compiler"),
        Field("parallel", ANY, "Takes several steps in parallel.", [{"call": {"list": {}}}]),
        Field("again", FLAG, "Starts another turn immediately.", True),
        Field("memory", ANY, "Stores a value for the next turns.", {"seen": 1}),
        Field(
            "when",
            EitherType(plain=TEXT, map=TableType("when")),
            "Waits until all conditions hold: a message, a child's state, a rejected claim. A text matches part of a "
            "message.",
            {"message": "go"},
        ),
        Field("with", ANY, "Arguments of this step's `call`.", {"path": "a.txt"}),
        Field("to", ANY, "The recipient of this step's `say`.", "parent"),
        Field("reason", ANY, "The reason for this step's `patch`.", "the design changed"),
        Field("key", ANY, "A name for the step. It keeps the agent's position when you edit the script.", "first"),
    ),
    one_of=(STEP_VERBS,),
)

AGENT_TABLES: Final = (
    AGENT,
    STEP,
    FieldTable(
        "when",
        "Conditions that a step waits for. All must hold.",
        (
            Field("message", TEXT, "A message that contains this text has arrived.", "go"),
            Field("from", TEXT, "The message is from this sender.", "parent"),
            Field("child", TEXT, "This child is in `state`.", "ui"),
            Field(
                "state",
                WORD,
                "The state of `child`: `done`, `failed`, `cancelled`, or `ended` for any of these.",
                "done",
            ),
            Field("children", WORD, "All children are in this state.", "done"),
            Field("goal", TEXT, "The goal contains this text.", "dark"),
            Field("notes", TEXT, "The notes contain this text.", "tokens"),
            Field("rejected", ANY, "A claim was rejected. A text must occur in the failures.", True),
            Field(
                "result",
                ANY,
                "The results of the last calls meet these conditions, in the form of `expect`.",
                {"ok": False},
            ),
        ),
    ),
    FieldTable(
        "expect",
        "Conditions on the results of the previous step's calls.",
        (
            Field("ok", FLAG, "`true`: every call succeeded. `false`: at least one call failed.", True),
            Field("error", TEXT, "At least one call failed with this error name.", "NotFound"),
            Field("exit", ScalarType("integer"), "At least one command ended with this exit code.", 0),
            Field("contains", ScalarType("loose"), "Text that a result contains.", "42 passed"),
            Field("not", ScalarType("loose"), "Text that no result contains.", "warning"),
        ),
    ),
    FieldTable(
        "mixin",
        "A named set of agent fields, steps and settings. Agents that list it under `mixins` add it to their own.",
        (
            *POWER_FIELDS,
            *CONDUCT_FIELDS,
            Field("prompt", TEXT, "Text appended to the agent's own prompt.", "be brief", lowered=("prompt",)),
            *MIXIN_STEP_FIELDS,
        ),
    ),
    FieldTable(
        "toolset",
        "A named set of tools.",
        (
            Field("extends", WORD, "The toolset that this one extends.", "lib:tiny"),
            Field("tools", WORDS, "Names of tools and toolsets.", ["read", "list"]),
        ),
    ),
    FieldTable(
        "topology",
        "The agents that an agent may talk to.",
        (
            Field(
                "talk-to",
                WORDS,
                "`parent`, `children`, `siblings`, or task paths. Requests to the parent are always allowed.",
                ["parent"],
                aliases=("can-talk-to",),
                lowered=("talk_to",),
            ),
        ),
    ),
    FieldTable(
        "wake",
        "A timer that wakes the agent.",
        (Field("every", DURATION, "Seconds between wake-ups.", 120, lowered=("wake_every_s",)),),
    ),
    FieldTable(
        "outside",
        "A command-line agent and its input and output format, or the lease of an MCP client.",
        (
            Field("run", COMMAND, "The command that starts the agent.", ["other-agent", "--print"]),
            Field(
                "lease",
                DURATION,
                "The lease of an MCP client on the task. It expires if the client is silent for this time.",
                120,
                default=300,
            ),
            Field(
                "prompt",
                ScalarType("word", ("stdin", "argument")),
                "How the agent gets the prompt: on `stdin`, or as the last `argument`.",
                "argument",
                default="stdin",
            ),
            Field(
                "output",
                ScalarType("word", ("text", "json-lines", "json")),
                "Output format: `text` (all output is the answer, stderr included), `json-lines` (each line is "
                "JSON), or `json` (one value).",
                "json-lines",
                default="text",
            ),
            Field(
                "field",
                TEXT,
                "For JSON: a pointer to the answer; the last line that has it is used. Default: the usual places.",
                "/result",
            ),
            Field(
                "continue",
                COMMAND,
                "The command from the second turn on, for agents with sessions; `{session}` is replaced by the "
                "session name.",
                ["other-agent", "--print", "--resume", "{session}"],
            ),
            Field("session", TEXT, "For JSON: a pointer to the session name.", "/session_id"),
            Field(
                "env",
                MapType(ScalarType("loose"), is_id=False),
                "Environment variables; a value `env:NAME` is read from the owner's environment.",
                {"API_KEY": "env:API_KEY"},
            ),
            Field("timeout", DURATION, "Maximum time for one turn.", 1800, default=3600),
        ),
        one_of=(("run", "lease"),),
    ),
    FieldTable(
        "escalate",
        "When another model takes over an agent's conversation, and its budget.",
        (
            Field(
                "after",
                ScalarType("integer", minimum=1),
                "Number of rejected answers before escalation. A stuck agent escalates immediately.",
                2,
                default=3,
            ),
            Field("model", PATTERN, "The stronger model.", "openai/gpt-5"),
            Field("budget", TableType("budget"), "Limits for this model's work for the agent.", {"usd": "2"}),
        ),
    ),
    FieldTable(
        "compact",
        "When and how a conversation is summarized.",
        (
            Field(
                "at",
                ScalarType("number", minimum=0),
                "Fraction of the model's context window at which the conversation is summarized.",
                0.7,
                default=0.8,
            ),
            Field("keep", COUNT, "Number of the newest tokens to keep unchanged.", 8000),
            Field("model", PATTERN, "The model that writes the summary. Default: the agent's own.", "ollama/qwen3:8b"),
        ),
    ),
    FieldTable(
        "sandbox",
        "The isolation of an agent's commands.",
        (
            Field("tier", ScalarType("integer", minimum=0), "The minimum tier.", 1),
            Field("container", WORD, "The container in which the agent's shell, file tools and checks run.", "sut"),
            Field("memory", ScalarType("size", minimum=0), "Memory limit for each command, in bytes.", 536870912),
            Field("processes", COUNT, "Maximum number of processes for each command.", 64),
            Field(
                "alone",
                FLAG,
                "Commands see only the task's own folder within the plan's folder. Requires bubblewrap.",
                True,
            ),
        ),
    ),
    FieldTable(
        "rights",
        "What an agent may use. `grant` sets what it may pass on to its children. An omitted field keeps the parent's "
        "limit.",
        (
            Field(
                "models",
                PATTERNS,
                "Model names or patterns such as `ollama/*`, or `all`.",
                ["ollama/*"],
                _PREFIX,
                aliases=("allowed-models",),
            ),
            Field("tools", WORDS, "Tools, toolsets, or `all`.", ["work"], _PREFIX),
            Field(
                "deny",
                WORDS,
                "Tool calls that are forbidden for the agent and its descendants.",
                ["shell(rm -rf *)"],
                _PREFIX,
            ),
            Field("read", TEXTS, "Globs of readable files.", ["**"], _PREFIX),
            Field("write", TEXTS, "Globs of writable files.", ["frontend/**"], _PREFIX),
            Field("network", ScalarType("word", ("none", "all")), "Network access: `none` or `all`.", "all", _PREFIX),
            Field(
                "hosts",
                TEXTS,
                "Hosts, as `host:port`. `fetch` may access these local and private hosts. Commands in a sandbox "
                "without network may access only these hosts.",
                ["localhost:8888"],
                _PREFIX,
            ),
            Field(
                "containers",
                COUNT,
                "Maximum number of containers that the agent and its descendants have at a time. If no ancestor sets "
                "it: 4.",
                2,
                _PREFIX,
            ),
            Field(
                "ports",
                ListType(ScalarType("integer", minimum=1)),
                "Fixed host ports that containers of agents may publish. Without a fixed port, any free port is used.",
                [8080],
                _PREFIX,
            ),
            Field("spawn", COUNT, "Maximum number of child tasks that the agent may add.", 4, _PREFIX),
            Field(
                "depth",
                COUNT,
                "Maximum number of levels of child tasks below the agent. In an entry of `tiers`, instead: the depth "
                "of the agents that the entry is for. Default: its position in the list.",
                2,
                _PREFIX,
            ),
            Field(
                "grant",
                TableType("grant"),
                "What the agent may pass on to its children. Default: what it may use.",
                {"tools": ["tiny"]},
                _PREFIX,
            ),
            Field(
                "tiers",
                ListType(TableType("rights")),
                "Rights of agents by depth in the task tree, from 0. The last entry applies to all deeper levels.",
                [{"models": ["ollama/*"]}],
                _PREFIX,
            ),
            Field(
                "budget",
                TableType("budget"),
                "Only in an entry of `tiers`: the maximum for each agent at that depth. It reserves nothing from "
                "the parent's budget.",
                {"turns": 10},
            ),
        ),
    ),
    FieldTable(
        "grant",
        "What an agent may pass on to its children.",
        (
            Field("models", PATTERNS, "Model names or patterns, or `all`.", ["ollama/*"], _PREFIX),
            Field("tools", WORDS, "Tools, toolsets, or `all`.", ["code"], _PREFIX),
        ),
    ),
)
