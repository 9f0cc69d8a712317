"""Advice on P02xx: what a plan says."""

from __future__ import annotations

from typing import Final

from planloop.compiler.advice import Advice

PLAN_ADVICE: Final[dict[str, Advice]] = {
    "P0201": Advice(
        "There is no such field here. Fields are checked because a misspelled one would be ignored without a word.",
        "Correct it; `plan explain task` lists the fields of a task.",
        "plan: demo\nrun: make\ngaol: build it",
        "plan: demo\nrun: make\ngoal: build it",
    ),
    "P0202": Advice(
        "The value is not of the type that the field takes.",
        "Write it as the message says; `plan explain FIELD` has an example.",
        "plan: demo\nrun: make\npriority: high",
        "plan: demo\nrun: make\npriority: 5",
    ),
    "P0203": Advice(
        "An agent, or a prototype to extend, is named that neither the plan nor what it uses declares.",
        "Correct the name, declare it under `agents`, or use a library prototype as `lib:child`.",
        "plan: demo\nagents:\n  worker: {run: ./work}\ntasks:\n  ui: {goal: the window, agent: worekr}",
        "plan: demo\nagents:\n  worker: {run: ./work}\ntasks:\n  ui: {goal: the window, agent: worker}",
    ),
    "P0204": Advice(
        "`needs` names a task that is not in the plan.",
        "Correct the id. A task elsewhere in the tree is named by its path: `ui/tests`.",
        "plan: demo\ntasks:\n  ui: {run: make ui}\n  all: {run: make, needs: [iu]}",
        "plan: demo\ntasks:\n  ui: {run: make ui}\n  all: {run: make, needs: [ui]}",
    ),
    "P0205": Advice(
        "`needs` names an id that several tasks have, and none of them is a sibling.",
        "Write the path of the one that is meant.",
        "plan: demo\ntasks:\n  a: {tasks: {t: {run: make a}}}\n  b: {tasks: {t: {run: make b}}}\n"
        "  c: {run: make, needs: [t]}",
        "plan: demo\ntasks:\n  a: {tasks: {t: {run: make a}}}\n  b: {tasks: {t: {run: make b}}}\n"
        "  c: {run: make, needs: [a/t]}",
    ),
    "P0206": Advice(
        "YAML 1.1 and 1.2 read this value differently: `no` is false to one and text to the other, `010` is "
        "eight or ten, "
        "`12:30:45` a number to the base 60.",
        "Quote it when text is meant, or write the number or the truth value that is.",
        "plan: demo\nrun: make\npause: no",
        "plan: demo\nrun: make\npause: false",
    ),
    "P0207": Advice(
        "Ids are parts of addresses such as `task/frontend/ui`: letters, digits, `-`, `_` and `.`, at most 64, not "
        "beginning with a dot or a dash.",
        "Choose another id; what it is called in words belongs into `goal`.",
        "plan: demo\ntasks:\n  the user interface: {run: make ui}",
        "plan: demo\ntasks:\n  ui: {run: make ui, goal: the user interface}",
    ),
    "P0208": Advice(
        "Two things that stand side by side have the same id.",
        "Give one of them another.",
        '{:plan "demo" :tasks [{:id "ui" :run "make"} {:id "ui" :run "make more"}]}',
        '{:plan "demo" :tasks [{:id "ui" :run "make"} {:id "more" :run "make more"}]}',
    ),
    "P0209": Advice(
        "A field stands here under two of its names, such as `acceptance` and `spec`.",
        "Keep one.",
        "plan: demo\nrun: make\nacceptance: [make test]\nspec: [make lint]",
        "plan: demo\nrun: make\nacceptance: [make test, make lint]",
    ),
    "P0210": Advice(
        "Something that cannot be left out is not there.",
        "Add what the message names.",
        "plan: demo\ntasks:\n  ui: {cwd: ui}",
        "plan: demo\ntasks:\n  ui: {cwd: ui, run: make}",
    ),
    "P0211": Advice(
        "Two things stand together of which only one can hold: a task is done by a command or by an agent, a "
        "check is of "
        "one kind, a step has one verb.",
        "Keep one of them, or make two of it.",
        "plan: demo\nrun: make\nagent: {script: [{done: ok}]}",
        "plan: demo\nagent: {script: [{done: ok}]}",
    ),
    "P0212": Advice(
        "The value is of the right type, but none that the field can take.",
        "Take one of those that the message names.",
        "plan: demo\nrun: make\neffect: sometimes",
        "plan: demo\nrun: make\neffect: idempotent",
    ),
    "P0213": Advice(
        "A tool, toolset, mixin, hook, container or field is named that there is not.",
        "Correct the name, or declare it. What the library has needs `lib:` before it.",
        "plan: demo\nagent: {run: ./work, tools: [shel]}",
        "plan: demo\nagent: {run: ./work, tools: [shell]}",
    ),
    "P0214": Advice(
        "A `lib:`, `file:` or `use` reference leads to nothing that can be read.",
        "Paths are relative to the plan file. `lib:` names what ships with planloop.",
        "plan: demo\nrun: make\nuse: [lib:codign]",
        "plan: demo\nrun: make\nuse: [lib:coding]",
    ),
    "P0215": Advice(
        "Prototypes extend each other, or toolsets or prompts name each other, in a ring that has no beginning.",
        "Cut the ring at one place.",
        "plan: demo\nrun: make\nagents:\n  one: {extends: two}\n  two: {extends: one}",
        "plan: demo\nrun: make\nagents:\n  one: {run: ./one}\n  two: {extends: one}",
    ),
    "P0216": Advice(
        "`moved` says that a task got another id or parent, so that what runs is not restarted. The old path "
        "must be gone "
        "from the plan, the new one must be in it, and nothing can have two pasts.",
        "Correct the line, or take it away when the move is long done.",
        "plan: demo\nmoved: {ui: window}\ntasks:\n  ui: {run: make ui}\n  window: {run: make window}",
        "plan: demo\nmoved: {ui: window}\ntasks:\n  window: {run: make window}",
    ),
    "P0217": Advice(
        "Something waits for a container to be healthy, and the container has no way to tell that it is.",
        "Give it a `health` check, or wait for `started`.",
        "plan: demo\ncontainers:\n  db: {image: db}\n  app: {image: app, needs: {db: healthy}}",
        "plan: demo\ncontainers:\n  db: {image: db, health: {tcp: 5432}}\n  app: {image: app, needs: {db: healthy}}",
    ),
    "P0218": Advice(
        "Workspaces and files that a plan names lie below the folder of the plan file, so that agents that may "
        "edit the plan "
        "cannot reach out of it. What a patch by an agent names is in its own workspace, after links, where it may "
        "read.",
        "Move the plan file up, or copy what is needed into its folder. An agent writes a text into the plan, or uses "
        "what the plan has a name for.",
        "plan: demo\nrun: make\ncwd: ../other",
        "plan: demo\nrun: make\ncwd: other",
    ),
    "P0219": Advice(
        "`...` stands for something that was left out of a sketch. The plan is read without it.",
        "Write what belongs there, or take the dots away.",
        '(task "build" :run "make" :spec [...])',
        '(task "build" :run "make" :spec [(sh "make test")])',
    ),
    "P0220": Advice(
        "An EDN list begins with a name that means nothing in a plan, or has parts that make no sense in it.",
        "Known are `(task …)` and `(plan …)`, `(def-agent …)`, `(def-agent-proto …)`, `(def-proto …)`, and in "
        "a list of "
        'checks `(sh "…")`, `(require-file "…")` and the other kinds.',
        '(tsak "build" :run "make")',
        '(task "build" :run "make")',
    ),
    "P0221": Advice(
        "The plan has no task, no command, no agent and no goal: running it would end at once.",
        "Give it `tasks`.",
        "plan: demo",
        "plan: demo\ntasks:\n  ui: {run: make ui}",
    ),
    "P0222": Advice(
        "Each of these waits for the next, and the last for the first: none could ever start. A task also "
        "waits for its "
        "parent to start, and a parent ends after its children.",
        "Take one of the needs away.",
        "plan: demo\ntasks:\n  a: {run: make a, needs: [b]}\n  b: {run: make b, needs: [a]}",
        "plan: demo\ntasks:\n  a: {run: make a}\n  b: {run: make b, needs: [a]}",
    ),
    "P0223": Advice(
        "The text is not in the form that the field wants: a regular expression that does not compile, or a "
        "function that "
        "is not named as `file.py:name`.",
        "Write it as the message says.",
        "plan: demo\nagent: {python: planner}",
        "plan: demo\nagent: {python: 'planner.py:step'}",
    ),
    "P0224": Advice(
        "The tree of tasks is deeper than 16 levels, or one task has more than 10,000 children. Both bounds "
        "are far beyond "
        "what people steer, and stop delegation that feeds on itself.",
        "Make it flatter, or group the children.",
    ),
    "P0225": Advice(
        "The agent thinks with a language model, or says nothing of how it thinks, which means one; but neither it "
        "nor an agent above it nor its tier says which.",
        "Give it, or an agent above it, a `model:`. `plan apply --model provider/name` puts every agent of the plan "
        "that thinks with a model on that one.",
        "plan: demo\ngoal: x\nagent: {prompt: be brief}",
        "plan: demo\ngoal: x\nagent: {prompt: be brief, model: ollama/qwen3}",
    ),
    "P0226": Advice(
        "A key or another secret is written into the plan. Plans are kept in repositories, shown to agents and written "
        "to the log.",
        "Say where it is: `env:NAME` for a variable of the environment that `plan apply` runs in, or `file:path`.",
        "plan: demo\nrun: make\nmodels: {groq: {key: gsk_abcdef}}",
        "plan: demo\nrun: make\nmodels: {groq: {key: 'env:GROQ_API_KEY'}}",
    ),
    "P0227": Advice(
        "A hook's `match` narrows it to calls that there never are: at none of its points is it asked about a call, "
        "there is no such tool, or calls of that tool are not told apart by what they are about. What it is to guard "
        "would stand open.",
        "Correct the pattern, ask the hook at `before-call`, `after-call` or `on-patch`, or take `match` away.",
        "plan: demo\nrun: make\nhooks:\n  guard: {on: on-input, match: shell, run: ./guard}",
        "plan: demo\nrun: make\nhooks:\n  guard: {on: before-call, match: shell, run: ./guard}",
    ),
    "P0228": Advice(
        "Hooks watch agents. The command of a task (`run`) is none; with no agent where a hook is set or below, what "
        "it is to guard stands open.",
        "Set it at a task with an agent, or above one; keep a command from something with `rights` or `locks`.",
        "plan: demo\ntasks:\n  build:\n    run: make\n    hooks:\n      slow: {on: before-call, rule: {deny: not now}}",
        "plan: demo\ntasks:\n  build:\n    goal: build it\n    agent: {tools: [shell], script: [{done: ok}]}\n"
        "    hooks:\n      slow: {on: before-call, rule: {deny: not now}}",
    ),
    "P0229": Advice(
        "A hook that cannot be asked has a fault each time; before calls that denies them all, unless `on-fault` says "
        "otherwise. Commands of hooks run in the folder of the task where the hook is set.",
        "Correct the path, make the file executable (`chmod +x`), or install the program. Nothing is wrong when a task "
        "of the plan makes the file before.",
        "plan: demo\ngoal: build it\nagent: {tools: [shell], script: [{done: ok}]}\n"
        "hooks:\n  guard: {on: before-call, run: ./gaurd.sh}",
        "plan: demo\ngoal: build it\nagent: {tools: [shell], script: [{done: ok}]}\n"
        "hooks:\n  guard: {on: before-call, run: cat rules.json}",
    ),
    "P0230": Advice(
        "`escalate` and a granted `model` are for agents that think with a model. A script, a program, a function and "
        "an outside agent have none, and an agent's own model is no stronger one.",
        "Take the line away, give the agent a `model`, or name another model.",
        "plan: demo\ngoal: build it\nagent: {run: ./work, escalate: {model: ollama/qwen3:32b}}",
        "plan: demo\ngoal: build it\nagent: {model: ollama/qwen3:8b, escalate: {model: ollama/qwen3:32b}}",
    ),
}
