"""What must hold in the `models:` table and wherever a model is named: no keys in the plan, URLs that are URLs, names
that are no slips of the pen, tapes inside the plan's folder. Headers for tool servers hold no keys either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from planloop.compiler.checking import Tree
from planloop.compiler.checking_parts import agents_of
from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.naming import leads_out
from planloop.compiler.suggesting import nearest
from planloop.schemas import pointer
from planloop.schemas.encoding import JsonObject
from planloop.schemas.model import PROVIDERS, model_name
from planloop.schemas.secret import REFERENCES

_SECRET: Final = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
_SECRETS: Final = frozenset({"api_key", "key", "authorization", "extra_headers", "headers"})
_CURE: Final = "plans are read by many: write `env:NAME` for a variable, or `file:path` for a file that has it"


def check_models(document: JsonObject, tree: Tree, faults: Faults) -> None:
    """Tells of whatever is wrong with the models table and with the names of models."""
    table: JsonObject = document.get("models", {})
    for name, row in table.items():
        _check_row(row, ("models", name), faults)
    for name, server in document.get("mcp", {}).items():
        _check_headers(server, ("mcp", name), faults)
    known = [*PROVIDERS, *(name.partition("/")[0] for name in table)]
    for text, to in _named(document, tree):
        _check_name(text, to, known, faults)
    for agent, to in agents_of(document, tree):
        if "model" in agent.get("escalate", {}):
            own = model_name(str(agent.get("model", ""))).provider
            place = (*to, "escalate", "model")
            _check_escalation(str(agent["escalate"]["model"]), place, [*known, *([own] if own else [])], faults)
        for name in _SECRETS.intersection(agent.get("options", ())):
            hint = "put it under `models:`, as `key: env:NAME`"
            faults.add("P0226", "a key stands in the plan itself", hint, to=(*to, "options", name))


def _check_row(row: JsonObject, to: Pointer, faults: Faults) -> None:
    if "key" in row and not _is_reference(row["key"]):
        faults.add("P0226", "a key stands in the plan itself", _CURE, to=(*to, "key"))
    _check_headers(row, to, faults)
    if "url" in row and not str(row["url"]).startswith(("http://", "https://")):
        hint = "as in `http://localhost:11434/v1`"
        faults.add("P0223", f"`{row['url']}` is no URL", hint, to=(*to, "url"))


def _check_headers(row: JsonObject, to: Pointer, faults: Faults) -> None:
    for name, value in row.get("headers", {}).items():
        if _SECRET.search(name) and not _is_reference(str(value)):
            faults.add("P0226", f"what `{name}` holds stands in the plan itself", _CURE, to=(*to, "headers", name))


def _is_reference(text: str) -> bool:
    return any(text.startswith(kind) and len(text) > len(kind) for kind in REFERENCES)


def _named(document: JsonObject, tree: Tree) -> Iterator[tuple[str, Pointer]]:
    """Every place where a model is named, but for lines of rights, which are patterns."""
    for agent, to in agents_of(document, tree):
        yield from _of_agent(agent, to)
    for path, task in tree:
        if "model" in task.get("granted", {}):
            yield task["granted"]["model"], (*pointer.of_task(path), "granted", "model")
    for name, row in document.get("models", {}).items():
        if "as" in row:
            yield row["as"], ("models", name, "as")


def _of_agent(agent: JsonObject, to: Pointer) -> Iterator[tuple[str, Pointer]]:
    if "model" in agent:
        yield agent["model"], (*to, "model")
    for part in ("compact", "escalate"):
        if "model" in agent.get(part, {}):
            yield agent[part]["model"], (*to, part, "model")


def _check_name(text: str, to: Pointer, known: list[str], faults: Faults) -> None:
    name = model_name(text)
    if name.tape and leads_out(name.file):
        _tell_outside(name.file, to, faults)
    if name.tape == "record" and not name.real and to[0] != "models":
        hint = f"write `record/{name.file}@provider/name`"
        faults.add("P0223", f"`{text}` does not say which model is recorded", hint, to=to)
    if not text.strip() or "*" in text:
        faults.add("P0223", f"`{text}` names no single model", "write it as `provider/name`", to=to)
    if name.provider and name.provider not in known and not faults.are_many:
        near = nearest(name.provider, known)
        if near is not None:
            faults.warn("P0213", f"no provider is called `{name.provider}`", f"did you mean `{near}`?", to=to)


def _check_escalation(text: str, to: Pointer, known: list[str], faults: Faults) -> None:
    """Warn of an unknown provider, which would otherwise be found only when the agent is stuck."""
    provider = model_name(text).provider
    if provider and provider not in known and nearest(provider, known) is None and not faults.are_many:
        hint = f"name one of {', '.join(PROVIDERS[:4])} …, or say where it is: models: {{{provider}: {{url: …}}}}"
        faults.warn("P0213", f"no provider is called `{provider}`", hint, to=to)


def _tell_outside(path: str, to: Pointer, faults: Faults) -> None:
    hint = "recordings stay below the plan file's folder"
    faults.add("P0218", f"`{path}` is outside the plan's folder", hint, to=to)
