"""The pages in docs/reference/verbs, made by running each verb for real in a fresh folder.

A page is the verb's own help, then a session: commands with what they printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from planloop.cli.main import VERBS
from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal

PAGES = ROOT / "docs" / "reference" / "verbs"

PLAN = """\
plan: demo
goal: a greeting in a file
tasks:
  write:
    goal: write the greeting
    agent:
      tools: [write]
      script:
        - call: {write: {path: hello.txt, content: "hello"}}
        - done: it is written
    acceptance: [{require-file: hello.txt}]
  count:
    goal: count its characters
    needs: [write]
    run: wc -c < hello.txt
"""
BROKEN = PLAN.replace("needs: [write]", "needs: [wirte]")
STUCK = (
    PLAN.replace("wc -c < hello.txt", "exit 3")
    + """\
  ship:
    goal: send it
    needs: [count]
    run: "true"
"""
)
"""A plan that ends with a failed task and one that could not begin: what steering is for."""

LONGER = PLAN.replace("a greeting in a file", "a greeting for everybody")

SESSIONS: dict[str, tuple[str, ...]] = {
    "init": ("plan init webchat",),
    "validate": ("plan validate demo.plan.yaml", "plan validate broken.plan.yaml"),
    "compile": ("plan compile demo.plan.yaml",),
    "graph": ("plan graph demo.plan.yaml", "plan graph demo.plan.yaml -o dot"),
    "explain": ("plan explain retries", "plan explain P0204", "plan explain --why ./goal"),
    "schema": ("plan schema --write",),
    "diff": ("plan diff demo.plan.yaml", "plan diff longer.plan.yaml", "plan diff longer.plan.yaml --checks"),
    "apply": ("plan apply demo.plan.yaml", "plan apply broken.plan.yaml"),
    "wait": ("plan wait", "plan wait write --for failed"),
    "down": ("plan down",),
    "get": ("plan get", "plan get task/write -o name", "plan get agents", "plan get task/missing"),
    "describe": ("plan describe write",),
    "tree": ("plan tree",),
    "events": ("plan events -n 5", "plan events --type plan.patched"),
    "logs": ("plan logs count",),
    "exec": ("plan exec db -- true", "plan exec task/count -- true"),
    "history": ("plan history",),
    "top": ("plan top --once",),
    "serve": ("plan serve --plan missing", "plan serve --host 0.0.0.0", "plan serve --name demo/"),
    "mcp": ("plan mcp --as helper", "plan mcp --http --host 0.0.0.0"),
    "patch": ("plan patch write retries=2", "plan patch write retrys=2", "plan patch . goal=x --dry-run"),
    "edit": ("EDITOR=true plan edit",),
    "pull": ("plan patch write notes='in one line'", "plan pull demo.plan.yaml", "plan pull demo.plan.yaml"),
    "approve": ("plan get approvals", "plan approve approval/000000000000"),
    "reject": ("plan reject approval/000000000000",),
    "unlock": (
        "plan get locks",
        "plan unlock lock/src/app.py",
    ),
    "pause": ("plan pause ship", "plan pause missing"),
    "resume": ("plan resume .",),
    "cancel": ("plan cancel ship --dry-run", "plan cancel write"),
    "delete": ("plan delete count", "plan delete container/db"),
    "send": ("plan send write 'use fewer words'", "plan send missing hello", "plan send write 'why?' --ask"),
    "chat": ("echo 'how far are you?' | plan chat write", "echo /help | plan chat missing"),
    "rollback": ("plan patch . goal='a mistake'", "plan history", "plan rollback 2"),
    "fork": ("plan fork --at 2 --as careful", "plan history --plan careful", "plan fork --at 999 --plan demo"),
    "replay": ("plan replay", "plan replay --tree"),
    "doctor": (),
    "image": ("plan image list --help", "plan image make --help", "plan image make perl"),
    "bench": tuple(f"plan bench {verb} --help" for verb in ("run", "resume", "report", "validate", "list")),
    "completion": ("plan completion bash | head -3",),
    "version": ("plan version",),
}
WHEN_STUCK = frozenset({"pause", "resume", "cancel"})
BEFORE_APPLY = frozenset(
    {"init", "validate", "compile", "graph", "schema", "apply", "version", "image", "bench", "completion"}
)
"""Verbs whose session begins in a folder in which nothing was applied yet."""


@dataclass(frozen=True)
class Page:
    verb: str
    text: str

    @property
    def path(self) -> Path:
        return PAGES / f"{self.verb}.md"


def page(verb: str, folder: Path) -> Page:
    """The page of `verb`, from running its session in `folder`."""
    (folder / "demo.plan.yaml").write_text(STUCK if verb in WHEN_STUCK else PLAN)
    (folder / "broken.plan.yaml").write_text(BROKEN)
    (folder / "longer.plan.yaml").write_text(LONGER)
    terminal = Terminal(folder)
    if verb not in BEFORE_APPLY:
        terminal.type("plan apply demo.plan.yaml")
    lines = [f"# plan {verb}", "", VERBS[verb], "", "```", terminal.type(f"plan {verb} --help")[0], "```", ""]
    if SESSIONS[verb]:
        lines += ["```console", *(line for command in SESSIONS[verb] for line in _shown(command, terminal)), "```", ""]
    return Page(verb, "\n".join(lines))


def index() -> str:
    """docs/reference/verbs/index.md: every verb with its line."""
    rows = "\n".join(f"| [`{verb}`]({verb}.md) | {line} |" for verb, line in VERBS.items())
    return (
        "# The `plan` command\n\nEvery page is the verb's own help and a real session; a test runs them again and "
        f"compares.\n\n| verb | does |\n| --- | --- |\n{rows}\n\n"
        "[Exit codes](../exit-codes.md) are the same for every verb.\n"
    )


def _shown(command: str, terminal: Terminal) -> list[str]:
    said, code = terminal.type(command)
    return [f"$ {command}", *([said] if said else []), *([f"(exit {code})"] if code else []), ""]
