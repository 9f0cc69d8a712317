"""The page of each diagnostic code, as `plan explain P0204` shows it. Its message is where the code is reported."""

from __future__ import annotations

from typing import Final

from planloop.schemas.frozen import frozen


@frozen
class Advice:
    """The problem (`why`) and the fix (`cure`). `wrong` and `right` are example plans, or empty."""

    why: str
    cure: str
    wrong: str = ""
    right: str = ""


# Advice on P01xx: files that cannot be read.

READING_ADVICE: Final[dict[str, Advice]] = {
    "P0101": Advice(
        "The file is larger than the limit for a plan (1 MiB). A plan of 5,000 tasks takes about a third of that.",
        "Check that it is the right file. If it is, raise the limit with `--max-size`.",
    ),
    "P0102": Advice(
        "A byte in the file is not valid UTF-8. The file was probably saved in another encoding.",
        "Save the file as UTF-8. Most editors offer this as Save with Encoding.",
    ),
    "P0103": Advice(
        "The file contains only blanks and comments. planloop never reads an empty file as a request to remove "
        "everything.",
        "Restore the file, or write a plan. `plan init` creates one to start from.",
    ),
    "P0104": Advice(
        "The text contains a control character. Editors do not show it, and parsers treat it differently.",
        "Delete it, or write it as an escape in a quoted string.",
    ),
    "P0105": Advice(
        "The text is not valid YAML from this place on. The message shows what the YAML parser expected.",
        "Quote any text that contains `: ` or ` #`.",
        "plan: demo\ngoal: two colons: here",
        'plan: demo\nrun: make\ngoal: "two colons: here"',
    ),
    "P0106": Advice(
        "A line is indented with a tab. YAML allows only spaces for indentation.",
        "Replace the tab with spaces. Most editors can do this when they save.",
        "plan: demo\ntasks:\n\tui: {run: make}",
        "plan: demo\ntasks:\n  ui: {run: make}",
    ),
    "P0107": Advice(
        "A bracket or quote is opened, and the file ends before it is closed.",
        "Close it. The message shows where it was opened.",
        '{:plan "demo" :run "make"',
        '{:plan "demo" :run "make"}',
    ),
    "P0108": Advice(
        "A closing bracket has no matching opening bracket.",
        "Delete it, or add the opening bracket.",
        '{:plan "demo" :run "make"})',
        '{:plan "demo" :run "make"}',
    ),
    "P0109": Advice(
        "The same key appears twice in one map. Parsers silently keep one and drop the other.",
        "Keep one of them.",
        "plan: demo\nrun: make\nrun: make test",
        "plan: demo\nrun: make test",
    ),
    "P0110": Advice(
        "A key is a list, a map or another value that is not text.",
        "Write the key as plain text.",
        "plan: demo\n? [a, b]\n: x",
        "plan: demo\nrun: make",
    ),
    "P0111": Advice(
        "The text is nested deeper than 64 levels. The cause is usually a mistake or an attack.",
        "Flatten the plan.",
    ),
    "P0112": Advice(
        "The text has more values than the limit for a plan (100,000). Each use of an alias counts.",
        "Split the plan, or remove aliases that multiply its values.",
    ),
    "P0113": Advice(
        "The text uses more YAML aliases than the limit for a plan (100). A few lines of nested aliases can expand to"
        " gigabytes.",
        "Use prototypes (`agents:` with `extends`) for settings that repeat.",
    ),
    "P0114": Advice(
        "An alias `*name` has no anchor `&name` before it.",
        "Add the anchor, or write the value. Quote a text that begins with `*`.",
        "plan: demo\ngoal: *nowhere",
        'plan: demo\nrun: make\ngoal: "*nowhere"',
    ),
    "P0115": Advice(
        "A YAML tag such as `!secret` names a type that plans do not support.",
        "Remove the tag.",
        "plan: demo\nrun: !shell make",
        "plan: demo\nrun: make",
    ),
    "P0116": Advice(
        "The file has several YAML documents, separated by `---`. A plan is a single document.",
        "Put each plan in its own file.",
        "plan: demo\nrun: make\n---\nplan: other\nrun: make",
        "plan: demo\nrun: make",
    ),
    "P0117": Advice(
        "A number cannot be stored exactly: it is too large, or it is not finite.",
        "Use integers of at most 64 bits and finite fractions. Quote the value if it is text.",
        "plan: demo\nrun: make\npriority: 99999999999999999999999",
        "plan: demo\nrun: make\npriority: 9",
    ),
    "P0118": Advice(
        "A merge key `<<` takes a map, or a list of maps, whose members are added.",
        "Give it a map, usually an alias.",
        "plan: demo\ntasks:\n  ui:\n    <<: text\n    run: make",
        "plan: demo\ntasks:\n  ui: &made {run: make}\n  docs:\n    <<: *made",
    ),
    "P0119": Advice(
        "The text is not valid EDN here, for example a reader macro or an incomplete token.",
        "A plan is data: write the value itself.",
        '{:plan "demo" :goal #"x"}',
        '{:plan "demo" :run "make"}',
    ),
    "P0120": Advice(
        "A map has a key without a value: it has an odd number of forms.",
        "Add the value, or delete the key.",
        '{:plan "demo" :run}',
        '{:plan "demo" :run "make"}',
    ),
}


# Advice on P02xx: errors in a plan.

PLAN_ADVICE: Final[dict[str, Advice]] = {
    "P0201": Advice(
        "The field does not exist here. Unknown fields are errors, because a misspelled field would otherwise be "
        "ignored.",
        "Correct the name. `plan explain task` lists the fields of a task.",
        "plan: demo\nrun: make\ngaol: build it",
        "plan: demo\nrun: make\ngoal: build it",
    ),
    "P0202": Advice(
        "The value has the wrong type for this field.",
        "Write the value as the message shows. `plan explain FIELD` has an example.",
        "plan: demo\nrun: make\npriority: high",
        "plan: demo\nrun: make\npriority: 5",
    ),
    "P0203": Advice(
        "The plan refers to an agent or prototype that neither it nor its bundles declare.",
        "Correct the name, declare it under `agents`, or use a library prototype such as `lib:child`.",
        "plan: demo\nagents:\n  worker: {run: ./work}\ntasks:\n  ui: {goal: the window, agent: worekr}",
        "plan: demo\nagents:\n  worker: {run: ./work}\ntasks:\n  ui: {goal: the window, agent: worker}",
    ),
    "P0204": Advice(
        "`needs` names a task that is not in the plan.",
        "Correct the id. To name a task elsewhere in the tree, use its path: `ui/tests`.",
        "plan: demo\ntasks:\n  ui: {run: make ui}\n  all: {run: make, needs: [iu]}",
        "plan: demo\ntasks:\n  ui: {run: make ui}\n  all: {run: make, needs: [ui]}",
    ),
    "P0205": Advice(
        "`needs` names an id that several tasks have, and none of them is a sibling.",
        "Write the path of the task that you mean.",
        "plan: demo\ntasks:\n  a: {tasks: {t: {run: make a}}}\n  b: {tasks: {t: {run: make b}}}\n"
        "  c: {run: make, needs: [t]}",
        "plan: demo\ntasks:\n  a: {tasks: {t: {run: make a}}}\n  b: {tasks: {t: {run: make b}}}\n"
        "  c: {run: make, needs: [a/t]}",
    ),
    "P0206": Advice(
        "YAML 1.1 and 1.2 read this value differently: `no` is false or text, `010` is eight or ten, and `12:30:45` "
        "can be a number in base 60.",
        "Quote the value if it is text. Otherwise write a plain number, `true` or `false`.",
        "plan: demo\nrun: make\npause: no",
        "plan: demo\nrun: make\npause: false",
    ),
    "P0207": Advice(
        "The id is invalid. Ids are parts of addresses such as `task/frontend/ui`: letters, digits, `-`, `_` and `.`,"
        " at most 64 characters, not starting with a dot or a dash.",
        "Choose another id, and put the description into `goal`.",
        "plan: demo\ntasks:\n  the user interface: {run: make ui}",
        "plan: demo\ntasks:\n  ui: {run: make ui, goal: the user interface}",
    ),
    "P0208": Advice(
        "Two siblings have the same id.",
        "Rename one of them.",
        '{:plan "demo" :tasks [{:id "ui" :run "make"} {:id "ui" :run "make more"}]}',
        '{:plan "demo" :tasks [{:id "ui" :run "make"} {:id "more" :run "make more"}]}',
    ),
    "P0209": Advice(
        "A field is given under two of its names, such as `acceptance` and `spec`.",
        "Keep one of them.",
        "plan: demo\nrun: make\nacceptance: [make test]\nspec: [make lint]",
        "plan: demo\nrun: make\nacceptance: [make test, make lint]",
    ),
    "P0210": Advice(
        "A required field or value is missing.",
        "Add the field or value that the message names.",
        "plan: demo\ntasks:\n  ui: {cwd: ui}  # Missing: what the task does, such as `run` or `goal`.",
        "plan: demo\ntasks:\n  ui: {cwd: ui, run: make}",
    ),
    "P0211": Advice(
        "Two settings exclude each other: a task is done by a command or by an agent, a check is of one kind, and a "
        "step has one verb.",
        "Keep one of them, or split it into two.",
        "plan: demo\nrun: make\nagent: {script: [{done: ok}]}",
        "plan: demo\nagent: {script: [{done: ok}]}",
    ),
    "P0212": Advice(
        "The value has the right type, but the field does not accept it.",
        "Use one of the values that the message names.",
        "plan: demo\nrun: make\neffect: sometimes",
        "plan: demo\nrun: make\neffect: idempotent",
    ),
    "P0213": Advice(
        "The plan refers to an unknown tool, toolset, mixin, hook, container or field.",
        "Correct the name, or declare it. Names from the library start with `lib:`.",
        "plan: demo\nagent: {run: ./work, tools: [shel]}",
        "plan: demo\nagent: {run: ./work, tools: [shell]}",
    ),
    "P0214": Advice(
        "A `lib:`, `file:` or `use` reference cannot be read.",
        "Correct it. Paths are relative to the plan file, and `lib:` names ship with planloop.",
        "plan: demo\nrun: make\nuse: [lib:codign]",
        "plan: demo\nrun: make\nuse: [lib:coding]",
    ),
    "P0215": Advice(
        "Prototypes extend each other, or toolsets or prompts name each other, in a cycle.",
        "Remove one of the references in the cycle.",
        "plan: demo\nrun: make\nagents:\n  one: {extends: two}\n  two: {extends: one}",
        "plan: demo\nrun: make\nagents:\n  one: {run: ./one}\n  two: {extends: one}",
    ),
    "P0216": Advice(
        "`moved` tells planloop that a task got another id or parent, so that running work is not restarted. The old "
        "path must be gone from the plan, the new path must be in it, and each task can be moved from only one path.",
        "Correct the line, or delete it if the move has already been applied.",
        "plan: demo\nmoved: {ui: window}\ntasks:\n  ui: {run: make ui}\n  window: {run: make window}",
        "plan: demo\nmoved: {ui: window}\ntasks:\n  window: {run: make window}",
    ),
    "P0217": Advice(
        "Something waits for a container to be healthy, and the container has no health check.",
        "Give the container a `health` check, or wait for `started`.",
        "plan: demo\ncontainers:\n  db: {image: db}\n  app: {image: app, needs: {db: healthy}}",
        "plan: demo\ncontainers:\n  db: {image: db, health: {tcp: 5432}}\n  app: {image: app, needs: {db: healthy}}",
    ),
    "P0218": Advice(
        "The workspaces and files that a plan names must be below the folder of the plan file, so that agents that "
        "edit the plan cannot reach other folders. A path in an agent's patch must, with links resolved, be in the "
        "agent's workspace, at a place that it may read.",
        "Move the plan file to a higher folder, or copy the files into its folder. An agent writes the text into the "
        "plan, or uses a name that the plan declares.",
        "plan: demo\nrun: make\ncwd: ../other",
        "plan: demo\nrun: make\ncwd: other",
    ),
    "P0219": Advice(
        "`...` marks something that was left out of a sketch. planloop ignores them.",
        "Replace the dots with the missing part, or delete them.",
        '(task "build" :run "make" :spec [...])',
        '(task "build" :run "make" :spec [(sh "make test")])',
    ),
    "P0220": Advice(
        "An EDN list begins with a name that plans do not know, or has a part that is not valid in it.",
        "Use `(task …)`, `(plan …)`, `(def-agent …)`, `(def-agent-proto …)` or `(def-proto …)`, and in a list of "
        'checks `(sh "…")`, `(require-file "…")` and the other kinds.',
        '(tsak "build" :run "make")',
        '(task "build" :run "make")',
    ),
    "P0221": Advice(
        "The plan has no task, command, agent or goal. A run of it would end immediately.",
        "Give it `tasks`.",
        "plan: demo",
        "plan: demo\ntasks:\n  ui: {run: make ui}",
    ),
    "P0222": Advice(
        "The dependencies form a cycle, so none of these can start. A task also waits for its parent to start, and a "
        "parent ends after its children.",
        "Remove one of these `needs`.",
        "plan: demo\ntasks:\n  a: {run: make a, needs: [b]}\n  b: {run: make b, needs: [a]}",
        "plan: demo\ntasks:\n  a: {run: make a}\n  b: {run: make b, needs: [a]}",
    ),
    "P0223": Advice(
        "The text does not have the format that the field requires: for example, a regular expression that does not "
        "compile, or a function that is not written as `file.py:name`.",
        "Write the value as the message shows.",
        "plan: demo\nagent: {python: planner}",
        "plan: demo\nagent: {python: 'planner.py:step'}",
    ),
    "P0224": Advice(
        "The tree of tasks is deeper than 16 levels, or one task has more than 10,000 children. The limits stop "
        "delegation that never ends.",
        "Flatten the tree, or group the children.",
    ),
    "P0225": Advice(
        "The agent uses a language model (the default), but neither the agent, its ancestors nor its tier names one.",
        "Give the agent or one of its ancestors a `model:`, or set one model for all LLM agents of the plan with "
        "`plan apply --model provider/name`.",
        "plan: demo\ngoal: x\nagent: {prompt: be brief}",
        "plan: demo\ngoal: x\nagent: {prompt: be brief, model: ollama/qwen3}",
    ),
    "P0226": Advice(
        "The plan contains a key or another secret. Plans are stored in repositories, shown to agents and written to "
        "the log.",
        "Refer to the secret: `env:NAME` for an environment variable of `plan apply`, or `file:path`.",
        "plan: demo\nrun: make\nmodels: {groq: {key: gsk_abcdef}}",
        "plan: demo\nrun: make\nmodels: {groq: {key: 'env:GROQ_API_KEY'}}",
    ),
    "P0227": Advice(
        "The `match` of a hook can never match a call: none of its points is about a call, the tool does not exist, "
        "or the tool does not support patterns on its arguments. The hook would guard nothing.",
        "Correct the pattern, ask the hook at `before-call`, `after-call` or `on-patch`, or delete `match`.",
        "plan: demo\nrun: make\nhooks:\n  guard: {on: on-input, match: shell, run: ./guard}",
        "plan: demo\nrun: make\nhooks:\n  guard: {on: before-call, match: shell, run: ./guard}",
    ),
    "P0228": Advice(
        "Hooks watch agents, not the command of a task (`run`). No agent is at this task or below it, so the hook "
        "guards nothing.",
        "Set the hook at a task with an agent, or at one of its ancestors. To restrict a command, use `rights` or "
        "`locks`.",
        "plan: demo\ntasks:\n  build:\n    run: make\n    hooks:\n      slow: {on: before-call, rule: {deny: not now}}",
        "plan: demo\ntasks:\n  build:\n    goal: build it\n    agent: {tools: [shell], script: [{done: ok}]}\n"
        "    hooks:\n      slow: {on: before-call, rule: {deny: not now}}",
    ),
    "P0229": Advice(
        "The program or file of a hook cannot be run, so each request to the hook fails. Before a call this denies "
        "the call, unless `on-fault` is set otherwise. Commands of hooks run in the folder of the task where the hook"
        " is set.",
        "Correct the path, make the file executable (`chmod +x`), or install the program. Ignore the warning if a "
        "task of the plan creates the file first.",
        "plan: demo\ngoal: build it\nagent: {tools: [shell], script: [{done: ok}]}\n"
        "hooks:\n  guard: {on: before-call, run: ./gaurd.sh}",
        "plan: demo\ngoal: build it\nagent: {tools: [shell], script: [{done: ok}]}\n"
        "hooks:\n  guard: {on: before-call, run: cat rules.json}",
    ),
    "P0230": Advice(
        "`escalate` and a granted `model` are for LLM agents. Scripts, programs, functions and external agents have "
        "no model, and `escalate` needs a model other than the agent's own.",
        "Delete the line, give the agent a `model`, or name another model.",
        "plan: demo\ngoal: build it\nagent: {run: ./work, escalate: {model: ollama/qwen3:32b}}",
        "plan: demo\ngoal: build it\nagent: {model: ollama/qwen3:8b, escalate: {model: ollama/qwen3:32b}}",
    ),
}


# Advice on P03xx, rights and budgets, and P04xx, what this version does not run.

RIGHTS_ADVICE: Final[dict[str, Advice]] = {
    "P0301": Advice(
        "An agent names a tool that its rights do not allow. An agent may use a tool only if every `rights` line from"
        " the root down, and the tier of its depth, allows it.",
        "Remove the tool, or add it to the line that leaves it out.",
        "plan: demo\nrights: {tools: [tiny]}\nagent: {run: ./work, tools: [shell]}",
        "plan: demo\nrights: {tools: [work]}\nagent: {run: ./work, tools: [shell]}",
    ),
    "P0302": Advice(
        "An agent names a model that its rights do not allow.",
        "Choose a model that they allow, or widen the line of its ancestor. The tier's model automatically replaces "
        "an inherited one.",
        "plan: demo\ngoal: x\nrights: {models: ['ollama/*']}\nagent: {model: openai/gpt-5}",
        "plan: demo\ngoal: x\nrights: {models: ['ollama/*']}\nagent: {model: ollama/qwen3}",
    ),
    "P0303": Advice(
        "A line of rights asks for more than its parent may grant. Rights can only get narrower from parent to child.",
        "Remove the item here, or widen the rights of the parent.",
        "plan: demo\nrights: {write: ['a/**']}\ntasks:\n  ui: {run: make, rights: {write: ['b/**']}}",
        "plan: demo\nrights: {write: ['a/**', 'b/**']}\ntasks:\n  ui: {run: make, rights: {write: ['b/**']}}",
    ),
    "P0304": Advice(
        "An agent names a tool that its prototype does not have. An agent can narrow the tools of its prototype, but "
        "not widen them.",
        "Extend another prototype, or add the tool to this one.",
        "plan: demo\nrun: make\nagents:\n  reader: {run: ./r, tools: [read]}\n  writer: {extends: reader, "
        "tools: [write]}",
        "plan: demo\nrun: make\nagents:\n  both: {run: ./r, tools: [read, write]}\n"
        "  reader: {extends: both, tools: [read]}",
    ),
    "P0305": Advice(
        "A task has more children, or deeper ones, than `spawn` and `depth` in its agent's rights allow.",
        "Raise `spawn` or `depth`, or remove children.",
        "plan: demo\nagent: {run: ./top, rights: {spawn: 1}}\ntasks:\n  a: {run: make a}\n  b: {run: make b}",
        "plan: demo\nagent: {run: ./top, rights: {spawn: 2}}\ntasks:\n  a: {run: make a}\n  b: {run: make b}",
    ),
    "P0306": Advice(
        "The budget of a task is larger than the whole budget of its nearest ancestor with a limit, so the task could"
        " never start. A budget is taken from the ancestor's budget.",
        "Raise the ancestor's budget, or lower this one.",
        "plan: demo\nbudget: {usd: 5}\ntasks:\n  a: {run: make a, budget: {usd: 6}}",
        "plan: demo\nbudget: {usd: 6}\ntasks:\n  a: {run: make a, budget: {usd: 6}}",
    ),
    "P0307": Advice(
        "The budgets of several tasks add up to more than their ancestor has. Each budget is granted in full when its"
        " task starts, so the last tasks wait until others end and return their unused budget.",
        "Do nothing if the tasks are meant to run one after another. Otherwise raise the ancestor's budget, or lower "
        "these.",
        "plan: demo\nbudget: {usd: 5}\ntasks:\n  a: {run: make a, budget: {usd: 3}}\n  b: {run: make b, "
        "budget: {usd: 3}}",
        "plan: demo\nbudget: {usd: 6}\ntasks:\n  a: {run: make a, budget: {usd: 3}}\n  b: {run: make b, "
        "budget: {usd: 3}}",
    ),
    "P0406": Advice(
        "A mixin or a hook is given a setting that it does not read. The setting stays in the plan and has no effect.",
        "Delete it, or look up the names of the settings in its file.",
        "plan: demo\nagent: {run: ./work, mixins: [{lib:retry: {often: 3}}]}",
        "plan: demo\nagent: {run: ./work, mixins: [{lib:retry: {max: 3}}]}",
    ),
    "P0407": Advice(
        "This version does not run checks of this kind, so the task could never be accepted.",
        "Use `sh` with a command that checks the same thing.",
        "plan: demo\nrun: make\nacceptance: [{judge: {prompt: is it readable?}}]",
        "plan: demo\nrun: make\nacceptance: [{sh: ./readable README.md}]",
    ),
    "P0408": Advice(
        "The agent asks for a sandbox that does not exist. The tiers are 0 (none), 1 (a process group with limits), 2"
        " (bubblewrap) and 3 (a named container of the plan). Or its task works in a fork, and the container mounts "
        "another folder.",
        "Use one of these tiers, name the container, or set `task:` of the container to that task.",
        "plan: demo\nagent: {run: ./work, sandbox: 3}",
        "plan: demo\nagent: {run: ./work, sandbox: {container: box}}\ncontainers:\n  box: {image: planloop/shell}",
    ),
    "P0410": Advice(
        "The agent names a tool that does not exist, and no existing tool has a similar name.",
        "Remove it, or correct the name. planloop ignores it. `plan explain tools` lists the available tools.",
        "plan: demo\nagent: {run: ./work, tools: [overlay_text]}",
        "plan: demo\nagent: {run: ./work, tools: [write]}",
    ),
    "P0411": Advice(
        "`fetch`, and the checks and tool servers that agents add, use the network only if the agent's rights allow "
        "it. Only a sandbox of tier 2 or 3 keeps a command from the network.",
        "If that matters, give the agent `sandbox: 2`, or deny the shell.",
        "plan: demo\nagent: {run: ./work}\nrights: {network: none}",
        "plan: demo\nagent: {run: ./work, sandbox: 2}\nrights: {network: none}",
    ),
    "P0412": Advice(
        "The agent sets how long the files that it writes stay locked, but it is another program and writes files "
        "itself. Only the tools `write` and `edit` take such locks.",
        "Name the paths under `locks` of the task. They are locked from its start to its end.",
        "plan: demo\nagent: {outside: {run: ./coder}, lock: task}",
        "plan: demo\nlocks: ['src/**']\nagent: {outside: {run: ./coder}}",
    ),
}


# Advice on P05xx: the codes of `plan bench validate`, found by `planloop.benchmarks.validation`.

SUITE_ADVICE: Final[dict[str, Advice]] = {
    "P0501": Advice(
        "`plan bench validate` ran a right answer of the case, and a check rejected it.",
        "If the check asks for more than the prompt does, make it accept every right answer. Otherwise the oracle is "
        "wrong or belongs to another check: correct it.",
    ),
    "P0502": Advice(
        "A mutant is an answer that is wrong in one way. All checks accepted it, so an agent that makes this mistake "
        "scores.",
        "Make the check under its `kills` detect the mistake. If the mutant is not wrong, make it an oracle.",
    ),
    "P0503": Advice(
        "The mutant fails, but the check under its `kills` passes, so the mutant does not prove that check.",
        "Make that check detect the mistake, or name the check that does.",
    ),
    "P0504": Advice(
        "An agent that does not do the work passes. The standard cheats claim success, repeat the right answer of "
        "another trial, forge verdicts, shadow the programs that graders run, leave a process running, and search for"
        " the answers.",
        "Check for something that only the work itself produces, with a `{{nonce.name}}` that no answer can know in "
        "advance. If a check runs files from the workspace, such as its tests, supply them with `check-files`.",
    ),
    "P0505": Advice(
        "An agent that ends immediately passes: the checks require no work and no answer.",
        "Add a check for what must exist at the end. If the right result is to do nothing, add an `abstain` check: it"
        " passes if the agent makes no calls and gives an answer that matches `asks-or-says`.",
    ),
    "P0506": Advice(
        "No mutant of the case fails the check, so the case does not prove that the check can tell right from wrong.",
        "Add a mutant that only this check detects, or delete the check.",
    ),
    "P0507": Advice(
        "The case has fewer than three right answers. This is a warning: the case counts as valid.",
        "Add oracles in other styles: other names, other libraries, another order. They show that no check requires "
        "what the prompt leaves open.",
    ),
    "P0508": Advice(
        "The case has no right answer, so the case does not prove that it can be passed.",
        "Add at least one under `proof: {oracles: …}`, better three.",
    ),
    "P0509": Advice(
        "A proof ended in an error, or with a check that passed without examining anything. The result is undecided, "
        "so the case counts as not valid.",
        "Follow the message of the proof, and validate again. `plan doctor` shows what is missing on this machine.",
    ),
}
