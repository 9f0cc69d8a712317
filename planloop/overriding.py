"""`--model`: the plan document in which every agent that thinks with a model thinks with this one. Pure.

Which agents these are only the compiled graph tells: an agent may have its mind from a prototype, or be nobody's choice
but the default. Scripts, programs and functions stay as they are.
"""

from __future__ import annotations

from compiler.graph import Graph
from schemas import patching, pointer
from schemas.address import parse
from schemas.encoding import Json, JsonObject
from schemas.patching import Op


def on_model(document: JsonObject, graph: Graph, model: str) -> JsonObject:
    """`document` with `model` for every agent of `graph` that a model moves."""
    out = document
    moved: dict[tuple[str, ...], bool] = {}
    for address, wanted in graph.objects.items():
        if not address.startswith("agent/"):
            continue
        path = parse(address).path
        at = (*pointer.of_task(path), "agent")
        written: Json = pointer.get(document, at) if pointer.has(document, at) else None
        moved[path] = wanted.spec["mind"]["kind"] == "model"
        # Without an agent of its own it has that of the nearest task above it, and with it the model.
        if moved[path] and not (written is None and _is_above_moved(path, moved)):
            out = _with_agent(out, at, _on(written, wanted.spec["prototype"], model))
    return out


def _is_above_moved(path: tuple[str, ...], moved: dict[tuple[str, ...], bool]) -> bool:
    above = (path[:length] for length in range(len(path) - 1, -1, -1))
    return next((moved[one] for one in above if one in moved), False)


def _on(written: Json, prototype: str, model: str) -> JsonObject:
    if isinstance(written, dict):
        return {**written, "model": model}
    return {"extends": written or prototype, "model": model}


def _with_agent(document: JsonObject, at: tuple[str, ...], agent: JsonObject) -> JsonObject:
    out: JsonObject = patching.apply(document, [Op("add", at, agent)])
    return out
