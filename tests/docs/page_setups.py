"""What a page needs on the machine of its reader: a model server, a coding CLI, an API."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from planloop.schemas.frozen import frozen
from tests.architecture.tree import ROOT
from tests.fakes.model_server.running import started

Steps = list[dict[str, Any]]


@frozen
class Setup:
    """`env` is added to the environment of commands, `more` to each plan, which readers do not see.

    `replaced` maps texts of the page to those of the run; `before` is typed first.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    more: str = ""
    before: str = ""


Setups = Callable[[Path], AbstractContextManager[Setup]]


POEM: Final = "grey waves fold and break\nthe gull waits on one cold leg\nsalt dries on the stones\n"


def _writes(path: str, content: str, marker: str = "", answer: str = "", folder: str = "") -> Steps:
    """The replies of an agent that works in `folder` and writes a file.

    `marker` is a text of its goal that no other agent has.
    """
    call = {"name": "write", "arguments": {"path": path, "content": content}}
    written = f"`{folder}{path}` written"
    return [
        {
            "when": {"any": marker, "not": written} if marker else {"not": written},
            "reply": {"calls": [call]},
            "usage": {"in": 1190, "out": 58},
        },
        {
            "when": {"any": [marker, written] if marker else written},
            "reply": {"text": answer or f"I wrote {path}."},
            "usage": {"in": 1272, "cached": 1152, "out": 14},
        },
    ]


HAIKU: Final = _writes("haiku.txt", POEM, answer="The haiku is in haiku.txt.")
REVIEW: Final = (
    _writes("review/security.md", "app.py:4: the password is logged\n", "security problems")
    + _writes("review/tests.md", "none\n", "no test covers")
    + _writes("review.md", "app.py:4 logs the password.\n\nVerdict: change\n", "Read the files in review")
)
NIGHT: Final = _writes("notes.fr.md", "Bonjour\n", "into French") + _writes("notes.de.md", "Hallo\n", "into German")
SLUG: Final[Steps] = [
    {"reply": {"calls": [{"name": "write", "arguments": {"path": "slug.py", "content": content}}]}}
    if content
    else {"reply": {"text": answer}}
    for content, answer in (
        ("def slug(title):\n    return title.lower()\n", ""),
        ("", "slug.py turns titles into slugs."),
        ('def slug(title):\n    return title.lower().replace(" ", "-")\n', ""),
        ("", "Spaces become hyphens now."),
    )
]
COMMIT: Final = "git -c user.name=me -c user.email=me@example.org commit -qm start"
REPOSITORY: Final = f"git init -q && echo pass > app.py && git add -A && {COMMIT}"


def _provider(name: str, key: str = "", steps: Steps = HAIKU, before: str = "") -> Setups:
    """The models of the provider `name`, which take `steps`."""

    @contextmanager
    def ready(folder: Path) -> Iterator[Setup]:
        with started({"steps": steps}, folder) as server:
            stated = f', key: "env:{key}"' if key else ""
            more = f'models: {{{name}: {{url: "{server.url}"{stated}}}}}\n'
            yield Setup({key: "sk-example"} if key else {}, {}, more, before)

    return ready


@contextmanager
def _openrouter(folder: Path) -> Iterator[Setup]:
    """OpenRouter, for a plan that states a price for its model."""
    with started({"steps": HAIKU}, folder) as server:
        reached = f'{{url: "{server.url}", key: "env:OPENROUTER_API_KEY", price: {{in'
        yield Setup({"OPENROUTER_API_KEY": "sk-example"}, {"{price: {in": reached})


def _coding_client(name: str) -> Setups:
    """The coding CLI `name`."""

    @contextmanager
    def ready(folder: Path) -> Iterator[Setup]:
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tests/fakes/coding_client.py" {name} "$@"\n')
        script.chmod(0o755)
        yield Setup({"PATH": f"{folder}:/usr/bin:/bin"})

    return ready


@contextmanager
def _repositories(folder: Path) -> Iterator[Setup]:
    """Two repositories below `repos`, and models that change them."""
    steps: Steps = []
    before: list[str] = []
    for name in ("api", "web"):
        found = _writes("app.py", "import new_logger\n", f"in {name} with", folder=f"repos/{name}/")
        found[0]["reply"]["calls"].insert(0, {"name": "read", "arguments": {"path": "app.py"}})
        steps += found
        before.append(f"(mkdir -p repos/{name} && cd repos/{name} && git init -q && echo import old_logger > app.py")
        before.append(f"git add -A && {COMMIT})")
    with started({"steps": steps}, folder) as server:
        models = f'limits: {{tasks: 4}}\nmodels: {{ollama: {{url: "{server.url}"}}}}'
        yield Setup({}, {"limits: {tasks: 4}": models}, "", " && ".join(before))


class _Engine(BaseHTTPRequestHandler):
    """A search engine that finds one page, which it serves too."""

    def do_GET(self) -> None:
        host = self.headers["Host"]
        found = {"results": [{"url": f"http://{host}/tower", "title": "The tower", "content": "…"}]}
        is_search = self.path.startswith("/search")
        body = json.dumps(found) if is_search else "<p>The tower is 42 m high."
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if is_search else "text/html")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _web_search(folder: Path) -> Iterator[Setup]:
    """A search engine, and models that read and write."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Engine) as engine:
        Thread(target=engine.serve_forever, daemon=True).start()
        page = f"http://localhost:{engine.server_port}/tower"
        report = {"path": "report.md", "content": f"The tower is 42 m high.\n\nSource: {page}\n"}
        ask = {"name": "agent:websearch", "arguments": {"prompt": "how high is the tower"}}
        fetch = {"name": "fetch", "arguments": {"url": page}}
        writer = {"model": "qwen3:14b"}
        reader = {"model": "qwen3:8b"}
        steps: Steps = [
            writer | {"reply": {"calls": [ask]}, "usage": {"in": 1190, "out": 58}},
            reader | {"reply": {"calls": [fetch]}, "usage": {"in": 900, "out": 30}},
            reader | {"reply": {"text": "42 m."}, "usage": {"in": 980, "out": 8}},
            writer | {"reply": {"calls": [{"name": "write", "arguments": report}]}, "usage": {"in": 1400, "out": 60}},
            writer | {"reply": {"text": "The report is in report.md."}, "usage": {"in": 1480, "out": 12}},
        ]
        try:
            with started({"steps": steps}, folder) as server:
                real = {"localhost:8888": f"localhost:{engine.server_port}"}
                yield Setup({}, real, f'models: {{ollama: {{url: "{server.url}"}}}}\n')
        finally:
            engine.shutdown()


@contextmanager
def _home_elsewhere(folder: Path) -> Iterator[Setup]:
    """A home outside of the plan's folder, which containers may then mount."""
    yield Setup({"HOME": str(folder)})


@contextmanager
def _nothing(_: Path) -> Iterator[Setup]:
    yield Setup()


SETUPS: Final[Mapping[str, Setups]] = {
    "start/ollama.md": _provider("ollama"),
    "start/openai.md": _provider("openai", "OPENAI_API_KEY"),
    "start/anthropic.md": _provider("anthropic", "ANTHROPIC_API_KEY"),
    "start/openrouter.md": _openrouter,
    "start/claude-code.md": _coding_client("claude"),
    "start/codex.md": _coding_client("codex"),
    "start/opencode.md": _coding_client("opencode"),
    "how-to/containers.md": _home_elsewhere,
    "how-to/from-claude-code-subagents.md": _provider("ollama", steps=_writes("review.txt", "app.py:1: spaces\n")),
    "how-to/from-langgraph.md": _provider("ollama", steps=SLUG),
    "how-to/research.md": _web_search,
    "how-to/review-team.md": _provider("ollama", steps=REVIEW, before=REPOSITORY),
    "how-to/many-repositories.md": _repositories,
    "how-to/overnight.md": _provider("openai", "OPENAI_API_KEY", NIGHT, "echo Hello > notes.md"),
}


def setup_of(page: str) -> Setups:
    """What the page at `page` needs."""
    return SETUPS.get(page, _nothing)
