"""The pages in docs/reference/verbs, made by running each verb for real in a fresh folder.

A page is the verb's own help, then a session: commands with what they printed. What differs from run to run (times,
uids, process ids, temporary paths) is replaced by a fixed example of the same shape.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planloop.cli.main import VERBS
from planloop.containers.engine.engine import HOST

ROOT = Path(__file__).parents[2]
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
    "get": ("plan get", "plan get task/write -o name", "plan get agents", "plan get task/nobody"),
    "describe": ("plan describe write",),
    "tree": ("plan tree",),
    "events": ("plan events -n 5", "plan events --type plan.patched"),
    "logs": ("plan logs count",),
    "exec": ("plan exec db -- true", "plan exec task/count -- true"),
    "history": ("plan history",),
    "top": ("plan top --once",),
    "serve": ("plan serve --plan nobody", "plan serve --host 0.0.0.0", "plan serve --name demo/"),
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
    "pause": ("plan pause ship", "plan pause nobody"),
    "resume": ("plan resume .",),
    "cancel": ("plan cancel ship --dry-run", "plan cancel write"),
    "delete": ("plan delete count", "plan delete container/db"),
    "send": ("plan send write 'use fewer words'", "plan send nobody hello", "plan send write 'why?' --ask"),
    "chat": ("echo 'how far are you?' | plan chat write", "echo /help | plan chat nobody"),
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

Change = tuple[str, str | Callable[[re.Match[str]], str]]
DIFFERS: Sequence[Change] = (
    (r"\b\d\d:\d\d:\d\d\b", "14:03:22"),
    (r"\b[0-9a-f]{64}\b", "5f2c…"),
    (r"(?<![\w.])(?=[0-9a-f]*\d)[0-9a-f]{12}\b", "5b1e0c77a2f4"),
    (r"(process|epoch) \d+", r"\1 4711"),
    (r"\b\d+\.\d s\b", "0.1 s"),
    (r"active_s [\d.e-]+", "active_s 0.001"),
    (r"took_s [\d.e-]+", "took_s 0.001"),
    (r"/\S*/(?=demo\.plan\.yaml|\.plan)", ""),
    (r"\b(planloop) \d+\.\d+\.\d+\S*", r"\1 0.1.0"),
)
# A task that is on its way when a command looks may be one record further the next time.
REVISION: Sequence[Change] = (
    (r"\brev \d+\b", "rev 31"),
    (r"(?m)^(14:03:22)( +\d+) ", lambda line: f"{line[1]}{'31':>{len(line[2])}} "),
    (r"(?m)^(\d+ +)(?=14:03:22)", lambda line: f"{'31':<{len(line[1])}}"),
)


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
    if verb not in BEFORE_APPLY:
        shell("plan apply demo.plan.yaml", folder)
    lines = [f"# plan {verb}", "", VERBS[verb], "", "```", shell(f"plan {verb} --help", folder)[0], "```", ""]
    if SESSIONS[verb]:
        lines += ["```console", *(line for command in SESSIONS[verb] for line in _shown(command, folder)), "```", ""]
    return Page(verb, steady("\n".join(lines)))


def index() -> str:
    """docs/reference/verbs/index.md: every verb with its line."""
    rows = "\n".join(f"| [`{verb}`]({verb}.md) | {line} |" for verb, line in VERBS.items())
    return (
        "# The `plan` command\n\nEvery page is the verb's own help and a real session; a test runs them again and "
        f"compares.\n\n| verb | does |\n| --- | --- |\n{rows}\n\n"
        "[Exit codes](../exit-codes.md) are the same for every verb.\n"
    )


def _shown(command: str, folder: Path) -> list[str]:
    said, code = shell(command, folder)
    return [f"$ {command}", *([said] if said else []), *([f"(exit {code})"] if code else []), ""]


def shell(command: str, folder: Path, *, timeout_s: float = 15) -> tuple[str, int]:
    """What the command line printed, both streams as a terminal mixes them, and its exit code."""
    plan = f'plan() {{ "{sys.executable}" -m planloop "$@"; }}\n'
    engine = {HOST: os.environ[HOST]} if HOST in os.environ else {}  # noqa: TID251 - the engine that the test uses
    done = subprocess.run(
        ["bash", "-c", f"{plan}{command.replace('EDITOR=true plan', 'export EDITOR=true; plan')}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
        env={
            "PATH": os.defpath,
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            **engine,
        },
    )
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines()), done.returncode


def steady(text: str) -> str:
    """`text` with everything that differs from run to run replaced."""
    for pattern, example in (*DIFFERS, *REVISION):
        text = re.sub(pattern, example, text)
    return text
