"""`--model`: the plan document in which every agent that thinks with a model is answered by this one. Pure.

It is written as one redirect in the document's `models` table, `{"*": {as: M}}`, and no agent is touched: whoever is
added later, by a person or by an agent, is redirected too, and rights go on being judged by the names that the plan
states. A bare `record/<file>` or `replay/<file>` is put around whatever model would have been asked.
"""

from __future__ import annotations

from planloop.schemas.encoding import JsonObject
from planloop.schemas.model import EVERY, model_name, redirected


def on_model(document: JsonObject, model: str) -> JsonObject:
    """`document` with every model redirected to `model`."""
    table: JsonObject = document.get("models", {})
    name = model_name(model)
    if name.tape and not name.real:
        rows = {key: _around(row, model) for key, row in table.items()}
    else:
        # Redirects of the plan itself give way: the one for all could not reach past them.
        rows = {key: {name: value for name, value in row.items() if name != "as"} for key, row in table.items()}
    every = {**rows.get(EVERY, {})}
    every.setdefault("as", model)
    kept = {key: row for key, row in rows.items() if row and key != EVERY}
    return {**document, "models": {**kept, EVERY: every}}


def _around(row: JsonObject, tape: str) -> JsonObject:
    return {**row, "as": redirected(row["as"], tape)} if "as" in row else row
