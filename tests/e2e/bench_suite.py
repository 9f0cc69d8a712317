"""A small suite of every kind of work that needs no container, and what runs of it have said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import needs
from tests.e2e.folder import Folder

SUITE = """\
suite: mixed
seed: 11
defaults: {budget: {turns: 20}}
worlds: {shelf: shelf.yaml}
cases:
  writes:
    prompts: ["write {{nonce.word}} into a.txt", "a.txt should say {{nonce.word}}"]
    files: {readme.txt: hello}
    checks:
      right: {contains: {path: a.txt, text: "{{nonce.word}}"}}
      slow: {sh: "sleep 0.2; test -s a.txt"}
    proof:
      oracles:
        plain: {files: {a.txt: "{{nonce.word}}"}}
        shell: {script: [{call: {shell: {command: "sleep 0.2; echo {{nonce.word}} > a.txt"}}}, {done: ok}]}
  calls:
    prompts: ["put the book back"]
    tools: [shelf.put]
    world: shelf
    checks:
      right: {calls: {need: [{tool: shelf.put, args: {id: book-1}}], extra: deny}}
    proof:
      oracles:
        plain: {calls: [{shelf.put: {id: book-1}}], says: done}
        shell: {calls: [{shelf.put: {id: book-1}}], says: it is back}
  says:
    prompts: ["which one?"]
    tools: [shelf.put]
    world: shelf
    checks:
      asks: {abstain: {asks-or-says: /which/}}
    proof:
      oracles:
        plain: {says: which one do you mean}
        shell: {says: which}
"""
SHELF = """\
world: shelf
about: One book.
tables:
  books: {book-1: {place: table}}
tools:
  shelf.put:
    about: Puts a book back.
    parameters: {type: object, properties: {id: {type: string}}, required: [id]}
    does:
      - update: {in: books, id: $id, set: {place: shelf}, as: book, else: "There is no book ${id}."}
    returns: $book
"""
CASES = 3


def lay(folder: Folder) -> None:
    """Writes the suite and its world. Its workspaces are graded in a sandbox."""
    needs.bubblewrap()
    folder.write("suite.yaml", SUITE)
    folder.write("shelf.yaml", SHELF)


def events(run: Path) -> list[dict[str, Any]]:
    """All whole lines of a run's events."""
    file = run / "events.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def ends(run: Path) -> dict[str, dict[str, Any]]:
    """The newest end of each entry, by `case model trial`."""
    found = (event for event in events(run) if event["type"] == "case/end")
    return {f"{event['case']} {event['model']} {event['trial']}": event["data"] for event in found}


def untimed(event: dict[str, Any]) -> dict[str, Any]:
    """An event without what may differ between equal runs."""
    data = {name: value for name, value in event["data"].items() if name not in ("timing", "run")}
    return {name: value for name, value in event.items() if name not in ("ts", "rev", "n")} | {"data": data}
