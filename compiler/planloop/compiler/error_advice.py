"""The page of each diagnostic code, as `plan explain P0204` shows it. Its message is where the code is reported."""

from __future__ import annotations

from typing import Final

from planloop.schemas.frozen import frozen


@frozen
class Advice:
    """`why` is what is wrong, `cure` what to do; `wrong` and `right` are plan texts, empty where none can be shown."""

    why: str
    cure: str
    wrong: str = ""
    right: str = ""


# Advice on P01xx: texts that cannot be read.

READING_ADVICE: Final[dict[str, Advice]] = {
    "P0101": Advice(
        "The file is larger than a plan may be (1 MiB). A plan of 5,000 tasks takes a third of that.",
        "Look whether it is the right file; if it is, raise the limit with `--max-size`.",
    ),
    "P0102": Advice(
        "A byte in the file is not part of any UTF-8 character. Often the file was saved in another encoding.",
        "Save it as UTF-8: in most editors under Save with Encoding.",
    ),
    "P0103": Advice(
        "There is nothing in the file but blanks and comments. An empty file never means that everything is to "
        "be removed.",
        "Undo what emptied it, or write a plan: `plan init` writes one to start from.",
    ),
    "P0104": Advice(
        "The text has a control character, which no editor shows and every reader takes differently.",
        "Delete it. In a quoted string it can be written as an escape.",
    ),
    "P0105": Advice(
        "The text is not YAML from this place on. What YAML needs here is in the message.",
        "Texts with `: ` or ` #` in them want quotes.",
        "plan: demo\ngoal: two colons: here",
        'plan: demo\nrun: make\ngoal: "two colons: here"',
    ),
    "P0106": Advice(
        "YAML indents with spaces. A tab has no width that two readers agree on.",
        "Replace the tab by spaces; editors do it on saving if told to.",
        "plan: demo\ntasks:\n\tui: {run: make}",
        "plan: demo\ntasks:\n  ui: {run: make}",
    ),
    "P0107": Advice(
        "A bracket or quote is opened and the file ends before it is closed. Everything after it would be misread.",
        "Close it; the message stands where it was opened.",
        '{:plan "demo" :run "make"',
        '{:plan "demo" :run "make"}',
    ),
    "P0108": Advice(
        "A bracket is closed that was not opened, or another kind was.",
        "Take it away, or open it where it should begin.",
        '{:plan "demo" :run "make"})',
        '{:plan "demo" :run "make"}',
    ),
    "P0109": Advice(
        "A key stands twice in one map. Readers keep one of the two and drop the other without a word.",
        "Keep one of them.",
        "plan: demo\nrun: make\nrun: make test",
        "plan: demo\nrun: make test",
    ),
    "P0110": Advice(
        "A key is a list, a map or something else that is no text.",
        "Write the key as plain text.",
        "plan: demo\n? [a, b]\n: x",
        "plan: demo\nrun: make",
    ),
    "P0111": Advice(
        "The text is nested deeper than 64 levels. No plan for people is; most often it is an attack or a mistake.",
        "Make the tree flatter.",
    ),
    "P0112": Advice(
        "The text holds more values than a plan may have (100,000), aliases counted as often as they are used.",
        "Cut the plan into several, or take the aliases out that multiply it.",
    ),
    "P0113": Advice(
        "The text uses more YAML aliases than a plan may (100). Aliases of aliases grow to gigabytes from a few lines.",
        "Use prototypes (`agents:` with `extends`) for what repeats.",
    ),
    "P0114": Advice(
        "An alias `*name` has no anchor `&name` before it.",
        "Add the anchor, or write the value. A text that begins with `*` wants quotes.",
        "plan: demo\ngoal: *nowhere",
        'plan: demo\nrun: make\ngoal: "*nowhere"',
    ),
    "P0115": Advice(
        "A YAML tag such as `!secret` names a type that plans do not have.",
        "Take the tag away.",
        "plan: demo\nrun: !shell make",
        "plan: demo\nrun: make",
    ),
    "P0116": Advice(
        "The file holds several YAML documents, separated by `---`. A plan is one.",
        "Put the others into files of their own.",
        "plan: demo\nrun: make\n---\nplan: other\nrun: make",
        "plan: demo\nrun: make",
    ),
    "P0117": Advice(
        "A number is too large or too strange to be kept exactly in every place that a plan goes to.",
        "Use whole numbers of at most 64 bits and finite fractions; quote it when text is meant.",
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
        "The text is not EDN at this place: a reader macro, an unfinished token or the like.",
        "A plan is data: write the value itself.",
        '{:plan "demo" :goal #"x"}',
        '{:plan "demo" :run "make"}',
    ),
    "P0120": Advice(
        "A map has a key without a value: its forms do not come in pairs.",
        "Add the value, or take the key away.",
        '{:plan "demo" :run}',
        '{:plan "demo" :run "make"}',
    ),
}


# Advice on P02xx: what a plan says.

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


# Advice on P03xx, rights and budgets, and P04xx, what this version does not run.

RIGHTS_ADVICE: Final[dict[str, Advice]] = {
    "P0301": Advice(
        "An agent names a tool that the rights on its path do not allow. Rights are the meet of every line "
        "from the root "
        "down, with the tier of its depth.",
        "Take the tool away, or widen the line above that leaves it out.",
        "plan: demo\nrights: {tools: [tiny]}\nagent: {run: ./work, tools: [shell]}",
        "plan: demo\nrights: {tools: [work]}\nagent: {run: ./work, tools: [shell]}",
    ),
    "P0302": Advice(
        "An agent names a model that the rights on its path do not allow.",
        "Choose one that they allow, or widen the line above. An inherited model gives way to the tier's by itself.",
        "plan: demo\ngoal: x\nrights: {models: ['ollama/*']}\nagent: {model: openai/gpt-5}",
        "plan: demo\ngoal: x\nrights: {models: ['ollama/*']}\nagent: {model: ollama/qwen3}",
    ),
    "P0303": Advice(
        "A line of rights asks for more than what is above it may grant. Rights only narrow on the way down.",
        "Take it away here, or widen what is above.",
        "plan: demo\nrights: {write: ['a/**']}\ntasks:\n  ui: {run: make, rights: {write: ['b/**']}}",
        "plan: demo\nrights: {write: ['a/**', 'b/**']}\ntasks:\n  ui: {run: make, rights: {write: ['b/**']}}",
    ),
    "P0304": Advice(
        "An agent that extends another names a tool that the other does not have. A prototype can be narrowed, "
        "never widened.",
        "Extend another prototype, or give the tool to this one.",
        "plan: demo\nrun: make\nagents:\n  reader: {run: ./r, tools: [read]}\n  writer: {extends: reader, "
        "tools: [write]}",
        "plan: demo\nrun: make\nagents:\n  both: {run: ./r, tools: [read, write]}\n"
        "  reader: {extends: both, tools: [read]}",
    ),
    "P0305": Advice(
        "A task has more children, or deeper ones, than `spawn` and `depth` of its agent's rights allow.",
        "Raise them, or take children away.",
        "plan: demo\nagent: {run: ./top, rights: {spawn: 1}}\ntasks:\n  a: {run: make a}\n  b: {run: make b}",
        "plan: demo\nagent: {run: ./top, rights: {spawn: 2}}\ntasks:\n  a: {run: make a}\n  b: {run: make b}",
    ),
    "P0306": Advice(
        "A task is given more than the nearest task above it with a bound has in all. It could never start: budgets "
        "are carved out of what is above them.",
        "Raise the one above, or lower this one.",
        "plan: demo\nbudget: {usd: 5}\ntasks:\n  a: {run: make a, budget: {usd: 6}}",
        "plan: demo\nbudget: {usd: 6}\ntasks:\n  a: {run: make a, budget: {usd: 6}}",
    ),
    "P0307": Advice(
        "The budgets of several tasks add up to more than there is above them. Each is granted when its task starts, "
        "whole or not at all, so the last of them wait until others have ended and given back what they did not use.",
        "Nothing, if they are meant to run one after another. Else raise the one above, or lower these.",
        "plan: demo\nbudget: {usd: 5}\ntasks:\n  a: {run: make a, budget: {usd: 3}}\n  b: {run: make b, "
        "budget: {usd: 3}}",
        "plan: demo\nbudget: {usd: 6}\ntasks:\n  a: {run: make a, budget: {usd: 3}}\n  b: {run: make b, "
        "budget: {usd: 3}}",
    ),
    "P0406": Advice(
        "A mixin or a hook is given a setting that nothing in it reads. It is kept in the plan and changes nothing.",
        "Take it away, or look at its file for what its settings are called.",
        "plan: demo\nagent: {run: ./work, mixins: [{lib:retry: {often: 3}}]}",
        "plan: demo\nagent: {run: ./work, mixins: [{lib:retry: {max: 3}}]}",
    ),
    "P0407": Advice(
        "The check is of a kind that this version does not run, so the task could never be accepted.",
        "Use `sh` with a command that looks at the same thing.",
        "plan: demo\nrun: make\nacceptance: [{judge: {prompt: is it readable?}}]",
        "plan: demo\nrun: make\nacceptance: [{sh: ./readable README.md}]",
    ),
    "P0408": Advice(
        "The agent wants a sandbox that there is not: the tiers are 0 nothing, 1 a process group with limits, 2 "
        "bubblewrap and 3 a container of the plan, which is named. Or its task works in a fork, and the container "
        "shows another folder.",
        "Write one of these, name the container, or say by `task:` of the container that it is for that task.",
        "plan: demo\nagent: {run: ./work, sandbox: 3}",
        "plan: demo\nagent: {run: ./work, sandbox: {container: box}}\ncontainers:\n  box: {image: planloop/shell}",
    ),
    "P0410": Advice(
        "A tool is named that there is not, and that is no slip of the pen for one that there is.",
        "It is left out. `plan explain tools` lists what there is.",
        "plan: demo\nagent: {run: ./work, tools: [overlay_text]}",
        "plan: demo\nagent: {run: ./work, tools: [write]}",
    ),
    "P0411": Advice(
        "`fetch`, and the checks and tool servers that agents add, ask the network only with the right to it. A "
        "command is kept from it by a sandbox of tier 2 or 3, and by nothing less.",
        "Give the agent `sandbox: 2`, or deny the shell, if that matters.",
        "plan: demo\nagent: {run: ./work}\nrights: {network: none}",
        "plan: demo\nagent: {run: ./work, sandbox: 2}\nrights: {network: none}",
    ),
    "P0412": Advice(
        "The agent says how long a file it wrote stays locked, and is another program that writes files by itself: "
        "only files that are written with the tools `write` and `edit` are locked by that.",
        "Name the paths under `locks` of the task: those are held from its start to its end.",
        "plan: demo\nagent: {outside: {run: ./coder}, lock: task}",
        "plan: demo\nlocks: ['src/**']\nagent: {outside: {run: ./coder}}",
    ),
}


# What is said about the codes of `plan bench validate`, which `planloop.benchmarks.validation` finds.

SUITE_ADVICE: Final[dict[str, Advice]] = {
    "P0501": Advice(
        "`plan bench validate` ran a right answer of the case, and a check did not take it.",
        "The check asks for more than the prompt does: make it accept every right answer. Or the oracle is wrong, or "
        "made for another check: mend it.",
    ),
    "P0502": Advice(
        "A mutant is an answer that is wrong in one way. All checks took it, so an agent that makes this "
        "mistake scores.",
        "Make the check that it names under `kills` look at what is wrong; or the mutant is not wrong, and is "
        "an oracle.",
    ),
    "P0503": Advice(
        "The mutant fails, but the check that it names under `kills` holds. What it was made to show is not shown.",
        "Make that check look at what is wrong, or name the check that does.",
    ),
    "P0504": Advice(
        "An agent that does not do the work passes. The standard cheats say that they passed, answer with what "
        "was right "
        "in another trial, forge verdicts, put programs in the way of those that graders run, leave a process behind "
        "and look for the answers.",
        "Ask in a check for what only the work itself gives, with a `{{nonce.name}}` that no answer can know "
        "beforehand. "
        "Where a check runs something of the workspace's, such as its tests, bring them with `check-files` instead.",
    ),
    "P0505": Advice(
        "The agent that ends at once passes: the checks ask for nothing to have been done, or to have been said.",
        "Add a check for what must be there at the end. Where nothing was to be done, ask with `abstain` for what has "
        "to be said.",
    ),
    "P0506": Advice(
        "No mutant of the case fails the check, so nobody knows whether it can tell right from wrong.",
        "Add a mutant that only this check tells of, or leave the check out.",
    ),
    "P0507": Advice(
        "The case has fewer than three right answers. This is a warning: the case counts as valid.",
        "Add oracles in other styles: other names, other libraries, another order. They show that no check asks for "
        "what the prompt leaves open.",
    ),
    "P0508": Advice(
        "The case has no right answer, so nobody knows whether it can be passed.",
        "Add one under `proof: {oracles: …}`, better three.",
    ),
    "P0509": Advice(
        "One of the proofs ended in an error, or with a check that passed without looking at anything. That "
        "says nothing "
        "of the case, so the case counts as not valid.",
        "Do what its message says, and validate again. `plan doctor` says what this machine lacks.",
    ),
}
