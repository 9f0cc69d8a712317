"""Who is measured: models, and the scripts of a suite's proofs. All of them are agents of a plan like any other."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Literal, TypeAlias

from planloop.benchmarks.compiling.cheats import cheats_of
from planloop.benchmarks.reading.suite import Act, Case
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

Kind: TypeAlias = Literal["oracle", "mutant", "cheat", "nop", "script", "model"]
NOP: Final = "nop"
EVERY_CASE: Final = "*"
"""In a file of scripts: the steps for each case that it does not name."""
_NOT_OF_IDS: Final = re.compile(r"[^A-Za-z0-9_.]+")


@frozen
class Contestant:
    """`name` is what reports call it, `ref` which one of its kind: an oracle's name, a model, empty for the first.

    `steps` are the scripts of a scripted model by case, under `*` for all others.
    """

    name: str
    kind: Kind
    ref: str = ""
    steps: JsonObject | None = None

    @property
    def id(self) -> str:
        """Its name as part of a task's id."""
        return _NOT_OF_IDS.sub("-", self.name).strip("-.") or "model"

    def to_json(self) -> JsonObject:
        """What of it can change a verdict."""
        own: JsonObject = {} if self.steps is None else {"steps": self.steps}
        return {"name": self.name, "kind": self.kind, "ref": self.ref} | own


def contestant(name: str) -> Contestant:
    """The one that `--model NAME` means, but for scripts, which are read from files."""
    kind, _, ref = name.partition(":")
    if name == NOP:
        return Contestant(NOP, "nop")
    if kind in ("oracle", "mutant", "cheat"):
        return Contestant(name, kind, ref)  # type: ignore[arg-type]  # One of these three.
    return Contestant(name, "model", name)


def provers_of(case: Case) -> tuple[Contestant, ...]:
    """Everybody in `case` whose verdict is known beforehand: oracles, mutants, cheats and who does nothing."""
    names = [
        *(f"oracle:{name}" for name in case.oracles),
        *(f"mutant:{name}" for name in case.mutants),
        *(f"cheat:{name}" for name in cheats_of(case)),
        NOP,
    ]
    return tuple(map(contestant, names))


def agent_of(who: Contestant, case: Case) -> JsonObject | None:
    """The agent of a plan that does `case` for `who`; None when it has no part in it."""
    match who.kind:
        case "nop":
            return {"script": [{"done": ""}]}
        case "model":
            agent = {**case.agent, "model": who.ref}
            written = agent.get("escalate")
            stronger = written.get("model") if isinstance(written, dict) else written
            if stronger == who.ref:  # It is measured itself, and nothing is stronger than it.
                del agent["escalate"]
            return agent
        case "script":
            scripts = who.steps or {}
            steps = scripts.get(case.id, scripts.get(case.base, scripts.get(EVERY_CASE)))
            return None if steps is None else {"script": steps}
        case _:
            act = act_of(who, case)
            return None if act is None else {"script": list(script_of(act, case.files))}


def act_of(who: Contestant, case: Case) -> Act | None:
    """What the proof `who` does in `case`; None when the case has no such proof."""
    acts = cheats_of(case) if who.kind == "cheat" else {"oracle": case.oracles, "mutant": case.mutants}[who.kind]
    return acts.get(who.ref) if who.ref else next(iter(acts.values()), None)


def script_of(act: Act, there: Collection[str] = ()) -> tuple[Json, ...]:
    """The steps of a script that does as `act` says. What is `there` already is read before it is written over."""
    if act.script is not None:
        return act.script
    steps: list[Json] = []
    for path, text in act.files.items():
        steps += [{"call": {"read": {"path": path}}}] if path in there else []
        steps.append({"call": {"write": {"path": path, "content": text}}})
    for call in act.calls:
        # A call that fails is part of what is tried, not the end of it.
        steps += [{"call": call}, {"expect": {}}]
    return (*steps, {"done": act.says})
