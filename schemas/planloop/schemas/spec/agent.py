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
        "The language model, as `provider/name` or `name@http://host/v1`; `record/<file>@<model>` writes its answers "
        "to a file, `replay/<file>@<model>` reads them from there. Left out, that of the nearest agent above.",
        "ollama/qwen3:32b",
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "options",
        MapType(ANY, is_id=False),
        "Passed to the model, or to the Python function, as they stand.",
        {"temperature": 0},
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "escalate",
        TableType("escalate", short="model"),
        "A stronger model that continues the conversation when the agent is stuck, or after so many rejected "
        "answers. The rights of the agent and of its parent hold for this model too.",
        {"after": 3, "model": "openai/gpt-5", "budget": {"usd": "2"}},
        lowered=("escalate",),
    ),
    Field(
        "script",
        STEPS,
        "Makes the agent deterministic: it takes these steps, one after the other.",
        [{"say": "on it"}, {"done": "finished"}],
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "python",
        TEXT,
        "A function `file.py:name` that takes the turns, run in a process of its own; `lib:name` is one of ours.",
        "agents/planner.py:step",
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "run",
        COMMAND,
        "A program that takes the turns: one JSON line in, JSON lines of actions out.",
        ["python3", "planner.py"],
        _RESTART,
        lowered=("mind",),
    ),
    Field(
        "outside",
        EitherType(plain=FLAG, map=TableType("outside")),
        "Another agent that does the task. A command-line one (`run`) is given a prompt, and what it prints is its "
        "answer; with `true`, any MCP client takes the task by `plan mcp` and makes the agent's calls.",
        {"run": ["other-agent", "--print"], "prompt": "stdin"},
        _RESTART,
        lowered=("mind",),
    ),
)

NATURE_FIELDS: Final = (
    Field(
        "extends",
        WORD,
        "The agent or prototype it is made from.",
        "lib:child",
        _PREFIX,
        aliases=("proto",),
        lowered=("prototype",),
    ),
    Field(
        "mixins",
        ListType(EitherType(plain=WORD, map=MapType(ANY, is_id=False))),
        "Behaviours merged over the prototype, in this order; `{lib:retry: {max: 3}}` gives one its settings.",
        ["lib:denylist"],
        _PREFIX,
        lowered=("mixins",),
    ),
    Field(
        "settings",
        MapType(MapType(ANY, is_id=False), is_id=False),
        "Settings of mixins, by the mixin's name.",
        {"retry": {"max": 3}},
        _PREFIX,
        lowered=("mixins",),
    ),
    Field(
        "from",
        TEXT,
        "The agent that it begins as a copy of: with its transcript and memory, not its rights. A name goes down "
        "from the same parent (`ann`, `ann/x`), an address from the root (`agent/lead/ann`). `dump:` and a digest is "
        "what was restored from a file, `dump:kept` an agent that has left the plan. Not handed down.",
        "reviewer",
        _RESTART,
        lowered=("source",),
    ),
    Field(
        "prompt",
        TEXT,
        "Its instructions: `lib:name`, `file:path`, `mcp:server/name`, the name of one of the plan's prompts, or the "
        "text itself.",
        "lib:worker",
        _PREFIX,
        lowered=("prompt", "served_prompts"),
    ),
)

POWER_FIELDS: Final = (
    Field(
        "tools",
        WORDS,
        "Tools and toolsets it may use: names, calls such as `shell(git *)`, `lib:code`, `server.tool` or `server` for "
        "the tools of a server, `agent:name` for an agent that is called like a tool, or `all`; the rights on its path "
        "still hold.",
        ["lib:code"],
        _PREFIX,
        lowered=("tools",),
    ),
    Field(
        "deny",
        WORDS,
        "Tool calls it may not make: a name, or a pattern such as `shell(rm -rf *)`. Denials unite; nothing lifts one.",
        ["shell"],
        _PREFIX,
        lowered=("rights",),
    ),
    Field(
        "effects",
        MapType(ScalarType("word", ("read", "idempotent", "reconcilable", "once")), is_id=False),
        "The effect class of tools, by name, where it differs from the tool's own.",
        {"shell": "idempotent"},
        lowered=("effects",),
    ),
    Field(
        "rights", TableType("rights"), "Narrows what it may use and grant.", {"spawn": 2}, _PREFIX, lowered=("rights",)
    ),
    Field(
        "budget",
        TableType("budget"),
        "What each task that it does may use at most.",
        {"turns": 50},
        lowered=("budget", "agent_bounds"),
    ),
    Field(
        "hooks",
        ListType(EitherType(plain=WORD, map=MapType(ANY, is_id=False))),
        "Hooks that watch it, by name or as `lib:name`; `{lib:spawn-limit: {max: 3}}` gives one its settings.",
        ["no-secrets"],
        lowered=("hooks",),
    ),
    Field(
        "sandbox",
        EitherType(plain=ScalarType("integer", minimum=0), map=TableType("sandbox")),
        "The least sandbox tier that will do: 0 none, 1 process group and limits, 2 bubblewrap, 3 container. A map "
        "names the container, or bounds. Left out, that of the nearest agent above.",
        1,
        _RESTART,
        lowered=("sandbox",),
    ),
)

CONDUCT_FIELDS: Final = (
    Field(
        "topology",
        TableType("topology"),
        "Whom it may talk to.",
        {"talk-to": ["parent"]},
        lowered=("talk_to",),
    ),
    Field(
        "wake",
        TableType("wake"),
        "When it wakes though nothing happened, while it has children that live.",
        {"every": 120},
        lowered=("wake_every_s",),
    ),
    Field(
        "compact",
        TableType("compact"),
        "When and how what it has said and seen is made shorter.",
        {"at": 0.7},
        lowered=("compact",),
    ),
    Field(
        "lock",
        ScalarType("word", ("turn", "task", "off")),
        "How long a file it wrote stays locked for others: to the end of the turn, of the task, or not at all.",
        "task",
        default="turn",
        lowered=("lock",),
    ),
)

AGENT_FIELDS: Final = (*DECIDER_FIELDS, *NATURE_FIELDS, *POWER_FIELDS, *CONDUCT_FIELDS)

AGENT: Final = FieldTable("agent", "Who takes turns for a task; prototypes have the same fields.", AGENT_FIELDS)

STEP_VERBS: Final = tuple("say call patch task send expect sleep done fail parallel again memory".split())

STEP: Final = FieldTable(
    "step",
    "One step of a script: exactly one verb, with what belongs to it.",
    (
        Field("say", ANY, "Says a text; with `to`, sends it.", "on it"),
        Field("call", ANY, "Calls a tool, `{write: {path: a.txt, content: hi}}`, or several as a list.", {"list": {}}),
        Field(
            "patch", ListType(ANY), "RFC 6902 operations on the plan.", [{"op": "add", "path": "/notes", "value": "x"}]
        ),
        Field("task", ANY, "Adds a child task, or several as a list.", {"id": "ui", "goal": "the chat window"}),
        Field("send", ANY, "Sends a message: `{to: parent, text: half way}`.", {"to": "parent", "text": "half way"}),
        Field(
            "expect",
            EitherType(plain=TEXT, map=TableType("expect")),
            "Ends the script as failed unless the last results have this text, or are like this.",
            {"ok": True},
        ),
        Field("sleep", DURATION, "Waits so many seconds of the clock.", 1),
        Field("done", ANY, "Claims that the task is done, with a result.", "finished"),
        Field("fail", ANY, "Claims that it cannot be done, with a reason.", "no compiler"),
        Field("parallel", ANY, "Takes several steps at once.", [{"call": {"list": {}}}]),
        Field("again", FLAG, "Takes another turn at once.", True),
        Field("memory", ANY, "Keeps a value for the next turns.", {"seen": 1}),
        Field(
            "when",
            EitherType(plain=TEXT, map=TableType("when")),
            "Waits until all of this holds: a message, a child's state, a rejected claim. A text is part of a message.",
            {"message": "go"},
        ),
        Field("with", ANY, "Arguments of the `call` beside it.", {"path": "a.txt"}),
        Field("to", ANY, "Who hears what the `say` beside it says.", "parent"),
        Field("reason", ANY, "Why the `patch` beside it is made.", "the design changed"),
        Field("key", ANY, "A name for the step, so that editing the script keeps its place.", "first"),
    ),
    one_of=(STEP_VERBS,),
)

AGENT_TABLES: Final = (
    AGENT,
    STEP,
    FieldTable(
        "when",
        "What a step waits for; all that is said must hold.",
        (
            Field("message", TEXT, "A message with this text in it has come.", "go"),
            Field("from", TEXT, "It is from this sender.", "parent"),
            Field("child", TEXT, "This child is in `state`.", "ui"),
            Field("state", WORD, "The state of `child`: done, failed, cancelled, or ended for any of these.", "done"),
            Field("children", WORD, "All children are in this state.", "done"),
            Field("goal", TEXT, "The goal has this text in it.", "dark"),
            Field("notes", TEXT, "The notes have this text in them.", "tokens"),
            Field("rejected", ANY, "A claim was turned down; a text must be among what failed.", True),
            Field("result", ANY, "The last results are as `expect` would have them.", {"ok": False}),
        ),
    ),
    FieldTable(
        "expect",
        "How the last results must be.",
        (
            Field("ok", FLAG, "Every call succeeded, or none did.", True),
            Field("error", TEXT, "One failed with this word.", "NotFound"),
            Field("exit", ScalarType("integer"), "The exit code of the command.", 0),
            Field("contains", ScalarType("loose"), "The text is in a result.", "42 passed"),
            Field("not", ScalarType("loose"), "The text is in no result.", "warning"),
        ),
    ),
    FieldTable(
        "mixin",
        "Fields and settings that agents merge over their prototype.",
        (
            *POWER_FIELDS,
            *CONDUCT_FIELDS,
            Field("prompt", TEXT, "Added after the agent's own prompt.", "be brief", lowered=("prompt",)),
            *MIXIN_STEP_FIELDS,
        ),
    ),
    FieldTable(
        "toolset",
        "Tools under one name.",
        (
            Field("extends", WORD, "The toolset it adds to.", "lib:tiny"),
            Field("tools", WORDS, "Tools and toolsets.", ["read", "list"]),
        ),
    ),
    FieldTable(
        "topology",
        "Whom an agent may talk to.",
        (
            Field(
                "talk-to",
                WORDS,
                "`parent`, `children`, `siblings`, or paths of tasks. Asking upward is always possible.",
                ["parent"],
                aliases=("can-talk-to",),
                lowered=("talk_to",),
            ),
        ),
    ),
    FieldTable(
        "wake",
        "The watchdog.",
        (Field("every", DURATION, "Seconds between two wakes.", 120, lowered=("wake_every_s",)),),
    ),
    FieldTable(
        "outside",
        "A command-line agent and how to speak to it, or how long an MCP client has a task.",
        (
            Field("run", COMMAND, "The command.", ["other-agent", "--print"]),
            Field(
                "lease",
                DURATION,
                "An MCP client that has taken the task and is silent for so long has it no longer.",
                120,
                default=300,
            ),
            Field(
                "prompt",
                ScalarType("word", ("stdin", "argument")),
                "Whether it reads the prompt, or is given it as its last argument.",
                "argument",
                default="stdin",
            ),
            Field(
                "output",
                ScalarType("word", ("text", "json-lines", "json")),
                "Whether all that it prints, stderr too, is its answer, or each line is JSON, or all of it is one JSON "
                "value.",
                "json-lines",
                default="text",
            ),
            Field(
                "field",
                TEXT,
                "With JSON: where the answer is, as a pointer; the last line that has it counts. Left out, where such "
                "programs usually have it.",
                "/result",
            ),
            Field(
                "continue",
                COMMAND,
                "Its command from the second turn on, if it has sessions; `{session}` stands for the session's name.",
                ["other-agent", "--print", "--resume", "{session}"],
            ),
            Field("session", TEXT, "With JSON: where the name of its session is, as a pointer.", "/session_id"),
            Field(
                "env",
                MapType(ScalarType("loose"), is_id=False),
                "Variables for it; a value `env:NAME` is read from the environment of the owner.",
                {"API_KEY": "env:API_KEY"},
            ),
            Field("timeout", DURATION, "How long one turn of it may take.", 1800, default=3600),
        ),
        one_of=(("run", "lease"),),
    ),
    FieldTable(
        "escalate",
        "When another model continues an agent's conversation, and what it may use.",
        (
            Field(
                "after",
                ScalarType("integer", minimum=1),
                "How many answers are rejected before. An agent that is stuck escalates at once.",
                2,
                default=3,
            ),
            Field("model", PATTERN, "The stronger model.", "openai/gpt-5"),
            Field("budget", TableType("budget"), "What this model may use for the agent at most.", {"usd": "2"}),
        ),
    ),
    FieldTable(
        "compact",
        "When and how a conversation is made shorter.",
        (
            Field(
                "at",
                ScalarType("number", minimum=0),
                "The share of the model's window at which it is done.",
                0.7,
                default=0.8,
            ),
            Field("keep", COUNT, "Tokens of the newest part that stay as they are.", 8000),
            Field("model", PATTERN, "The model that writes the summary; left out, the agent's own.", "ollama/qwen3:8b"),
        ),
    ),
    FieldTable(
        "sandbox",
        "What an agent's commands run in.",
        (
            Field("tier", ScalarType("integer", minimum=0), "The least tier that will do.", 1),
            Field("container", WORD, "The container that its shell, file tools and checks act in.", "sut"),
            Field("memory", ScalarType("size", minimum=0), "Bytes of memory for each command.", 536870912),
            Field("processes", COUNT, "Processes at once for each command.", 64),
            Field("alone", FLAG, "Commands see nothing of the plan's folder but the task's: bubblewrap.", True),
        ),
    ),
    FieldTable(
        "rights",
        "What may be used, and under `grant` what may be handed on. A line that is left out narrows nothing.",
        (
            Field(
                "models",
                PATTERNS,
                "Model names or patterns such as `ollama/*`; `all`.",
                ["ollama/*"],
                _PREFIX,
                aliases=("allowed-models",),
            ),
            Field("tools", WORDS, "Tools, toolsets, or `all`.", ["work"], _PREFIX),
            Field("deny", WORDS, "Tool calls that nobody below may make.", ["shell(rm -rf *)"], _PREFIX),
            Field("read", TEXTS, "Globs of what may be read.", ["**"], _PREFIX),
            Field("write", TEXTS, "Globs of what may be written.", ["frontend/**"], _PREFIX),
            Field("network", ScalarType("word", ("none", "all")), "Whether the network may be used.", "all", _PREFIX),
            Field(
                "hosts",
                TEXTS,
                "`host:port` of this machine or of a private network that `fetch` may ask, and all that commands "
                "in a sandbox without the network may.",
                ["localhost:8888"],
                _PREFIX,
            ),
            Field(
                "containers",
                COUNT,
                "How many containers it and those below it may have made at a time; left out, 4.",
                2,
                _PREFIX,
            ),
            Field(
                "ports",
                ListType(ScalarType("integer", minimum=1)),
                "Ports of this machine that containers of agents may take; others get any free one.",
                [8080],
                _PREFIX,
            ),
            Field("spawn", COUNT, "How many child tasks it may add.", 4, _PREFIX),
            Field(
                "depth",
                COUNT,
                "How many levels it may add below itself. In a tier: the depth the tier is for.",
                2,
                _PREFIX,
            ),
            Field(
                "grant",
                TableType("grant"),
                "What may be handed on; left out, what may be used.",
                {"tools": ["tiny"]},
                _PREFIX,
            ),
            Field(
                "tiers",
                ListType(TableType("rights")),
                "Rights by depth; the last line holds for all deeper levels.",
                [{"models": ["ollama/*"]}],
                _PREFIX,
            ),
            Field(
                "budget",
                TableType("budget"),
                "In a tier: the most that each agent of that depth may use itself. Nothing is set aside for it.",
                {"turns": 10},
            ),
        ),
    ),
    FieldTable(
        "grant",
        "What may be handed on.",
        (
            Field("models", PATTERNS, "Model names or patterns; `all`.", ["ollama/*"], _PREFIX),
            Field("tools", WORDS, "Tools, toolsets, or `all`.", ["code"], _PREFIX),
        ),
    ),
)
