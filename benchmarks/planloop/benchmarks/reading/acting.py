"""The proofs of a case: what oracles, mutants and cheats do, with the files that they are made from read in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from planloop.benchmarks.reading.placing import Reader
from planloop.benchmarks.reading.suite import Act
from planloop.compiler.checking_parts import check_steps
from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.suggesting import did_you_mean
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

_FORM = "write `path: [[old, new]]`"
_CALL = "write `- tool: {argument: value}`, a line for each call"


@frozen
class Proof:
    """All agents of a case whose verdict is known; `cheats` by the word `standard` are those that every case has."""

    oracles: Mapping[str, Act]
    mutants: Mapping[str, Act]
    cheats: Mapping[str, Act] | Literal["standard"]


def proof_of(written: JsonObject, checks: Iterable[str], to: Pointer, reader: Reader) -> Proof:
    """The proofs as `written`. Each mutant names the `checks` of its case that it is killed by."""
    checks = list(checks)
    oracles = {name: _act(one, {}, (*to, "oracles", name), reader) for name, one in written.get("oracles", {}).items()}
    mutants = {
        name: _act(one, oracles, (*to, "mutants", name), reader) for name, one in written.get("mutants", {}).items()
    }
    for name, mutant in mutants.items():
        _check_kills(name, mutant.kills, checks, (*to, "mutants", name), reader)
    cheats = written.get("cheats", {})
    if isinstance(cheats, str):
        return Proof(oracles, mutants, "standard")
    return Proof(
        oracles, mutants, {name: _act(one, oracles, (*to, "cheats", name), reader) for name, one in cheats.items()}
    )


def _act(written: JsonObject, oracles: Mapping[str, Act], to: Pointer, reader: Reader) -> Act:
    base = _base(written, oracles, to, reader)
    files = {**base.files, **reader.texts(written.get("files", {}), (*to, "files"))}
    for path, pairs in written.get("replace", {}).items():
        files[path] = _replaced(path, files.get(path), pairs, (*to, "replace"), reader)
    script, calls = written.get("script"), written.get("calls")
    check_steps(script or (), (*to, "script"), reader.faults)
    _check_calls(calls or (), (*to, "calls"), reader.faults)
    return Act(
        files=files,
        calls=base.calls if calls is None else tuple(calls),
        says=written.get("says", base.says),
        script=base.script if script is None else tuple(script),
        kills=tuple(written.get("kills", ())),
    )


def _check_calls(calls: Iterable[Json], to: Pointer, faults: Faults) -> None:
    for index, call in enumerate(calls):
        if not isinstance(call, dict) or len(call) != 1 or not isinstance(next(iter(call.values())), dict):
            faults.add("P0202", "a call is one tool with its arguments", _CALL, to=(*to, str(index)))


def _base(written: JsonObject, oracles: Mapping[str, Act], to: Pointer, reader: Reader) -> Act:
    name = written.get("base")
    if name is None:
        return Act()
    if name not in oracles:
        hint = did_you_mean(name, oracles) or "a mutant begins as one of the case's oracles"
        reader.faults.add("P0213", f"there is no oracle `{name}`", hint, to=(*to, "base"))
        return Act()
    return replace(oracles[name], kills=())


def _replaced(path: str, text: str | None, pairs: list[Any], to: Pointer, reader: Reader) -> str:
    if text is None:
        reader.faults.add("P0213", f"its base has no file `{path}`", "name one of its files", to=(*to, path))
        return ""
    if not all(map(_is_pair, pairs)):
        reader.faults.add("P0202", f"what is replaced in `{path}` is a list of pairs of texts", _FORM, to=(*to, path))
        return text
    for old, new in pairs:
        if old not in text:
            reader.faults.add("P0213", f"`{path}` has no `{old}`", "a mutant must differ", to=(*to, path))
        text = text.replace(old, new)
    return text


def _is_pair(pair: Json) -> bool:
    is_two = isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
    return is_two and pair[0] != ""


def _check_kills(name: str, kills: Iterable[str], checks: Iterable[str], to: Pointer, reader: Reader) -> None:
    kills = list(kills)
    if not kills:
        reader.faults.on_key("P0210", f"the mutant `{name}` lacks `kills`", "name the check that tells of it", to=to)
    for check in kills:
        if check not in checks:
            hint = did_you_mean(check, list(checks)) or "one of the case's checks"
            reader.faults.add("P0213", f"the case has no check `{check}`", hint, to=(*to, "kills"))
