"""The blanks of a rule's texts, `{…}`, filled with what is known: pure. What may stand there is
`planloop.schemas.rule`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planloop.controllers.agent.hooking.comparing import text_of
from planloop.controllers.agent.hooking.conditions import (
    Known,
    children_that_fit,
    member,
    messages_that_fit,
    name_of,
    turns_since,
)
from planloop.controllers.agent.hooking.facts import Facts
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, encode
from planloop.schemas.rule import BLANK


def shown(text: str, when: Json, known: Known) -> str:
    """`text` with its blanks filled, clamped to what an agent is to read of it."""
    most = limits.RULE_WORDS_CHARS_MAX
    said = filled(text, when, known)
    return said if len(said) <= most else said[: most - 1] + "…"


def filled(text: str, when: Json, known: Known) -> str:
    """The same whole. `when` is the condition of the clause, for the children and the message that fitted it."""

    def value(blank: re.Match[str]) -> str:
        if blank[1] is None:
            return blank[0][0]  # `{{` and `}}`.
        found = _value(blank[1], blank[2] or "", when, known)
        return "" if found is None else text_of(found)

    return BLANK.sub(value, text)


def filled_value(value: Json, when: Json, known: Known) -> Json:
    """A value with the blanks of every text in it filled; a text that is a blank and nothing else keeps its type."""
    if isinstance(value, dict):
        return {key: filled_value(one, when, known) for key, one in value.items()}
    if isinstance(value, list):
        return [filled_value(one, when, known) for one in value]
    if not isinstance(value, str):
        return value
    whole = BLANK.fullmatch(value)
    if whole is not None and whole[1] is not None:
        return _value(whole[1], whole[2] or "", when, known)
    return filled(value, when, known)


def _value(name: str, key: str, when: Json, known: Known) -> Json:
    facts, memory = known.facts, known.memory
    match name:
        case "arguments":
            return member(facts.arguments, key) if key else facts.arguments
        case "setting":
            return member(known.options, key)
        case "count":
            return memory.counts.get(key, 0)
        case "turns-since":
            return turns_since(known, key)
        case "message" | "children":
            return _fitting(name, when, facts)
        case "result":
            return None if facts.result is None else facts.result.text
        case "changed" | "versions":
            changed = {path: facts.files_changed[path] for path in sorted(facts.files_changed)}
            return ", ".join(changed) if name == "changed" else encode(changed).decode()
        case _:
            return getattr(facts, name)


def _fitting(name: str, when: Json, facts: Facts) -> Json:
    """The first message, or the names of the children, that fitted the first condition about such."""
    wanted = next(_said(name, when), next(_said("messages", when), {}) if name == "message" else {})
    if name == "children":
        return ", ".join(name_of(child.task) for child in children_that_fit(wanted, facts))
    return next((one.body for one in messages_that_fit(wanted, facts)), None)


def _said(name: str, when: Json) -> Iterator[JsonObject]:
    """What a condition says under `name`, however deep in `any` and `all`."""
    if not isinstance(when, dict):
        return
    if isinstance(when.get(name), dict):
        yield when[name]
    for part in (*when.get("all", ()), *when.get("any", ())):
        yield from _said(name, part)
