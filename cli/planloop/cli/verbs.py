"""Every verb with its one line, so that `plan --help` and completion import none of them.

A test holds each line equal to the first line of the verb's own help. The order is that of a first day's use.
"""

from __future__ import annotations

from typing import Final

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Write a plan": {
        "init": "Write a commented plan, the editor schema and a library folder.",
        "validate": "Say what is wrong with a plan file.",
        "compile": "Print the canonical plan, the graph it compiles to, or its containers for Compose.",
        "graph": "Draw the tasks and containers and what they need.",
        "explain": "Explain a field, an error code, or who set a value and why.",
        "schema": "Print the JSON Schema that editors complete and check with.",
    },
    "Run it": {
        "diff": "Show what applying a plan file would do.",
        "apply": "Make what runs follow the plan file, and watch both.",
        "wait": "Wait until tasks are done, failed or show a condition.",
        "down": "Stop the process that runs a plan.",
    },
    "Look at it": {
        "get": "List objects.",
        "describe": "Show one object: its conditions, why it waits, what would unblock it.",
        "tree": "Show the tree of tasks with their states.",
        "top": "Show agents at work: turns, calls, tokens and cost, the most first.",
        "events": "Show the log.",
        "logs": "Show outputs of commands and containers, and transcripts of agents.",
        "exec": "Run a command in a container of the plan.",
        "history": "List the plan's revisions with author and cause.",
        "serve": "Show a plan in the browser, and serve its API.",
        "mcp": "Let programs from outside work on tasks of a plan, over MCP.",
    },
    "Change it while it runs": {
        "patch": "Change fields of the live plan.",
        "edit": "Open the live plan in your editor.",
        "pull": "Write the live plan back into the file.",
        "approve": "Let something go on that waits for a person.",
        "reject": "Turn down something that waits for a person.",
        "unlock": "Take a lock from whoever holds it.",
        "pause": "Stop a subtree at its next boundary and keep its work.",
        "resume": "Let a paused subtree go on, and what failed in it try once more.",
        "cancel": "Stop a subtree for good and keep it as cancelled.",
        "delete": "Remove a subtree or a container from the live plan.",
        "send": "Send a message to an agent, or to several.",
        "chat": "Talk with an agent of a running plan.",
        "rollback": "Go back to an earlier revision, as a new one.",
        "fork": "Make a copy of the plan that goes on from a revision.",
    },
    "Measure agents": {
        "bench": "Measure agents with suites of cases, and compare them.",
    },
    "Keep it healthy": {
        "replay": "Fold the log again and compare.",
        "doctor": "Say what is missing on this machine and how to get it.",
        "image": "Make the images that plans may name without a registry, and list them.",
        "completion": "Print the shell completion script.",
        "version": "Print the version.",
    },
}

VERBS: Final[dict[str, str]] = {name: line for group in GROUPS.values() for name, line in group.items()}
