"""Advice on P03xx, rights and budgets, and P04xx, what this version does not run."""

from __future__ import annotations

from typing import Final

from planloop.compiler.advice import Advice

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
