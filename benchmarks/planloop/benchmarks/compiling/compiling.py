"""Suite × contestants × trials → the run that `plan.json` holds. Pure: equal arguments give equal bytes."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from planloop.benchmarks.compiling.compiled import SCORING, Compiled, Entry
from planloop.benchmarks.compiling.contestants import Contestant, agent_of
from planloop.benchmarks.compiling.filling import filled, nonces_in
from planloop.benchmarks.compiling.ranking import draw, rank
from planloop.benchmarks.compiling.worlds import definition, pool_tools, run_worlds
from planloop.benchmarks.reading.suite import Case, Suite
from planloop.schemas.encoding import Json, JsonObject, digest_of
from planloop.schemas.frozen import frozen, remade

NAME_CHARS_MAX: Final = 56
"""Of an entry: ids have at most 64, and those of its tasks and containers are its name with a little more."""

_MARK_CHARS: Final = 12


@frozen
class Wish:
    """How a suite is run: None keeps what the suite says. `images` are the ids of the images that it names."""

    seed: int | None = None
    trials: int | None = None
    cases: str = "*"
    deterministic: bool = False
    images: Mapping[str, str] | None = None


def compile_run(suite: Suite, contestants: Sequence[Contestant], wish: Wish) -> Compiled:
    """The run of `suite` with everybody in `contestants` who has a part in a case."""
    seed = suite.seed if wish.seed is None else wish.seed
    trials = suite.trials if wish.trials is None else wish.trials
    suite = remade(suite, seed=seed)
    chosen = suite.chosen(wish.cases)
    cases = {case.id: _case(suite, case) for case in chosen}
    images = {name: id_ for name, id_ in (wish.images or {}).items() if any(case.image == name for case in chosen)}
    entries: dict[str, Entry] = {}
    for case in chosen:
        for who in contestants:
            for entry in _entries(seed, trials, case, cases[case.id], who, images):
                name = _free(entry, entries)
                entries[name] = remade(entry, name=name)
    return Compiled(
        suite=suite.name,
        about=suite.about,
        seed=seed,
        trials=trials,
        deterministic=wish.deterministic,
        report=suite.report,
        models={who.name: who.to_json() for who in contestants},
        images=images,
        cases=cases,
        entries=entries,
        worlds=run_worlds(suite, chosen, entries.values()),
    )


def _case(suite: Suite, case: Case) -> JsonObject:
    """Everything about a case but who does it."""
    near, far = _decoys(suite, case)
    return {
        "base": case.base,
        "language": case.language,
        "tags": dict(case.tags),
        "prompts": list(case.prompts),
        "files": dict(case.files),
        "image": case.image,
        "tools": None if case.tools is None else list(case.tools),
        "near": list(near),
        "far": list(far),
        "world": case.world,
        "definition": definition(suite, case, (*near, *far)),
        "serve": case.serve,
        "agents": case.agents,
        "task": case.task,
        "budget": case.budget,
        "within_s": case.within_s,
        "checks": [check.to_json() for check in case.checks],
        "check_files": dict(case.check_files),
        "soft": list(case.soft),
    }


def _decoys(suite: Suite, case: Case) -> tuple[Sequence[str], Sequence[str]]:
    if case.decoys is None:
        return (), ()
    pool, pick, near = pool_tools(suite, case), case.decoys["pick"], case.decoys["near"]
    drawn = draw(suite.seed, case.id, pool, case.tools or (), pick=pick, near=near)
    return drawn.near, drawn.far


def _entries(
    seed: int, trials: int, case: Case, compiled: JsonObject, who: Contestant, images: Mapping[str, str]
) -> Iterator[Entry]:
    agent = agent_of(who, case)
    if agent is None:
        return
    order = sorted(range(len(case.prompts)), key=lambda each: rank(seed, case.id, case.prompts[each]))
    for trial in range(1, trials + 1):
        variant = order[(trial - 1) % len(order)]
        given: JsonObject = {
            "scoring": SCORING,
            "seed": seed,
            "trial": trial,
            "case": compiled | {"prompts": None, "tags": None},
            "prompt": case.prompts[variant],
            "image": images.get(case.image, case.image),
        }
        case_key = digest_of(given)
        key = digest_of({"case": case_key, "who": who.to_json() | {"steps": None}, "agent": agent})
        yield Entry(f"{case.id}--{who.id}--{trial}", case.id, who.name, trial, variant, key, case_key, agent)


def _free(entry: Entry, taken: Container[str]) -> str:
    """The entry's name, or one with a digest where that is too long for an id, or is that of another entry."""
    if len(entry.name) <= NAME_CHARS_MAX and entry.name not in taken:
        return entry.name
    mark = digest_of([entry.case, entry.model, entry.trial])[:_MARK_CHARS]
    return f"{entry.name[: NAME_CHARS_MAX - _MARK_CHARS - 2]}--{mark}"


def for_entry(compiled: Compiled, entry: Entry, value: Json) -> Json:
    """`value` as it is for one entry, with its nonces."""
    return filled(value, nonces_in(value, compiled.seed, entry.case, entry.trial))
