"""Pages of the documentation whose code blocks are followed from the first to the last, as a reader does.

| block | what the test does |
| --- | --- |
| `yaml` that begins with `plan: NAME` | saves it as `NAME.plan.yaml` |
| any with `title="FILE"` | saves it as `FILE` |
| `console` with lines that begin with `$ ` | types them, and compares what they print |
| `yaml` without either | a part of a plan: it must compile |
| `text` | nothing: a picture |
| any after `<!-- not run: REASON -->` | nothing; such blocks are counted |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from planloop.schemas.frozen import frozen
from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal

DOCS: Final = ROOT / "docs"
BLOCK: Final = re.compile(
    r"(?ms)^(?:<!-- not run: (?P<why>[^\n]+?) -->\n\n?)?"
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"\n]+)\")?\n(?P<text>.*?)^```\n"
)
PLAN: Final = re.compile(r"(?m)\A(?:#.*\n)*plan: (\S+)")


@frozen
class Block:
    """A code block. `why` is the reason why it is not run, else empty; `file` is the file that it is saved to."""

    language: str
    text: str
    why: str = ""
    file: str = ""

    @property
    def kind(self) -> str:
        """`not run`, `file`, `session`, `fragment`, `picture`, or `unmarked`, which no page may have."""
        if self.why:
            return "not run"
        if self.file:
            return "file"
        if self.language == "console" and self.text.startswith("$ "):
            return "session"
        return {"yaml": "fragment", "text": "picture"}.get(self.language, "unmarked")


def pages() -> list[Path]:
    """The pages that are followed, below docs."""
    folders = (DOCS / "start", DOCS / "how-to")
    single = [DOCS / name for name in ("compare.md", "faq.md", "troubleshooting.md")]
    found = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    return [path for path in (*found, *single) if path.exists()]


def blocks(text: str) -> Iterator[Block]:
    """The code blocks of a page, in order."""
    return (_block(found) for found in BLOCK.finditer(text))


def _block(found: re.Match[str]) -> Block:
    language, text, title = found["language"], found["text"], found["title"] or ""
    plan = PLAN.match(text) if language == "yaml" else None
    file = title or (f"{plan[1]}.plan.yaml" if plan else "")
    return Block(language, text, found["why"] or "", file)


def follow(text: str, terminal: Terminal, more: str = "") -> str:
    """The page with what its commands print now. `more` is added to each plan that it saves, unseen by readers."""

    def followed(found: re.Match[str]) -> str:
        block = _block(found)
        if block.kind == "file":
            content = block.text + (more if block.file.endswith(".plan.yaml") else "")
            terminal.save(block.file, content)
        elif block.kind == "session":
            return f"```console\n{terminal.play(block.text)}```\n"
        return found[0]

    return BLOCK.sub(followed, text)
