"""Compile suite × contestants × trials into a run with its simulated worlds. Pure: equal arguments give equal bytes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from planloop.benchmarks.runs.compiled_run import SCORING, CompiledRun, RunEntry
from planloop.benchmarks.runs.contestants import Contestant, contestant_agent
from planloop.benchmarks.runs.draws import draw_decoys, fill_values, make_nonces, rank_name
from planloop.benchmarks.suite import Case, Suite
from planloop.benchmarks.worlds.world_file import add_overlays, add_tools
from planloop.schemas.canonical_json import Json, JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen, remade

# The simulated worlds of a run: what is written into its folder, and which tool server acts in which of them. Pure.
#
# A world's file has the decoys that were drawn beside its own tools, and what cases lay over its tables. A server,
# which is what stands before the dot in a tool's name, belongs to one world.

DECOYS: Final = "decoys"
"""The world of decoys where no case has one."""


def world_file(world: str) -> str:
    """Where a world lies in the run's folder."""
    return f"worlds/{world}.json"


def run_worlds(suite: Suite, cases: Sequence[Case], entries: Iterable[RunEntry]) -> dict[str, JsonObject]:
    """The documents of the worlds that `cases` use, as `entries` find them."""
    tools: dict[str, JsonObject] = {}
    for case in cases:
        tools |= pool_tools(suite, case)
    used = dict.fromkeys(case.world["use"] for case in cases if case.world is not None)
    if not used:
        return {DECOYS: {"world": DECOYS, "tools": tools}} if tools else {}
    entries = list(entries)
    return {name: _laid(add_tools(suite.worlds[name], tools), suite, name, entries) for name in used}


def pool_tools(suite: Suite, case: Case) -> dict[str, JsonObject]:
    """The tools of the case's pool, by name: any of them may be drawn, or be needed."""
    if case.decoys is None:
        return {}
    found: dict[str, JsonObject] = suite.pools[case.decoys["pool"]].get("tools", {})
    return found


def tools_digest(suite: Suite, case: Case, decoys: Iterable[str]) -> str:
    """The digest of what the case's tools do and act on: another one makes other verdicts."""
    world = {} if case.world is None else suite.worlds[case.world["use"]]
    pool = pool_tools(suite, case)
    return sha256_of_value([world, {name: pool[name] for name in sorted(decoys) if name in pool}])


def _laid(document: JsonObject, suite: Suite, world: str, entries: Sequence[RunEntry]) -> JsonObject:
    overlays: dict[str, JsonObject] = {}
    of: dict[str, str] = {}
    for entry in entries:
        written = suite.cases[entry.case].world
        if written is None or written["use"] != world or not written.get("with"):
            continue
        nonces = make_nonces(written["with"], suite.seed, entry.case, entry.trial)
        of[entry.name] = entry.name if nonces else entry.case
        overlays.setdefault(of[entry.name], fill_values(written["with"], nonces))
    return add_overlays(document, overlays, of) if of else document


def world_servers(worlds: Mapping[str, JsonObject], decoys: Iterable[str]) -> dict[str, str]:
    """The world of each tool server. One that has nothing but decoys is in the first world, by name."""
    decoys = frozenset(decoys)
    own: dict[str, str] = {}
    beside: dict[str, str] = {}
    for name in sorted(worlds):
        for tool in worlds[name].get("tools", {}):
            (beside if tool in decoys else own).setdefault(tool.partition(".")[0], name)
    return dict(sorted((beside | own).items()))


# Suite × contestants × trials → the run that `plan.json` holds. Pure: equal arguments give equal bytes.

NAME_CHARS_MAX: Final = 56
"""Of an entry: ids have at most 64, and those of its tasks and containers are its name with a little more."""

_MARK_CHARS: Final = 12


@frozen
class RunRequest:
    """How a suite is run: None keeps what the suite says. `images` are the ids of the images that it names."""

    seed: int | None = None
    trials: int | None = None
    cases: str = "*"
    deterministic: bool = False
    images: Mapping[str, str] | None = None


def compile_run(suite: Suite, contestants: Sequence[Contestant], wish: RunRequest) -> CompiledRun:
    """The run of `suite` with everybody in `contestants` who has a part in a case."""
    seed = suite.seed if wish.seed is None else wish.seed
    trials = suite.trials if wish.trials is None else wish.trials
    suite = remade(suite, seed=seed)
    chosen = suite.chosen(wish.cases)
    cases = {case.id: _case(suite, case) for case in chosen}
    images = {name: id_ for name, id_ in (wish.images or {}).items() if any(case.image == name for case in chosen)}
    entries: dict[str, RunEntry] = {}
    for case in chosen:
        for who in contestants:
            for entry in _entries(seed, trials, case, cases[case.id], who, images):
                name = _free(entry, entries)
                entries[name] = remade(entry, name=name)
    return CompiledRun(
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
        "definition": tools_digest(suite, case, (*near, *far)),
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
    drawn = draw_decoys(suite.seed, case.id, pool, case.tools or (), pick=pick, near=near)
    return drawn.near, drawn.far


def _entries(
    seed: int, trials: int, case: Case, compiled: JsonObject, who: Contestant, images: Mapping[str, str]
) -> Iterator[RunEntry]:
    agent = contestant_agent(who, case)
    if agent is None:
        return
    order = sorted(range(len(case.prompts)), key=lambda each: rank_name(seed, case.id, case.prompts[each]))
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
        case_key = sha256_of_value(given)
        key = sha256_of_value({"case": case_key, "who": who.to_json() | {"steps": None}, "agent": agent})
        yield RunEntry(f"{case.id}--{who.id}--{trial}", case.id, who.name, trial, variant, key, case_key, agent)


def _free(entry: RunEntry, taken: Container[str]) -> str:
    """The entry's name, or one with a digest where that is too long for an id, or is that of another entry."""
    if len(entry.name) <= NAME_CHARS_MAX and entry.name not in taken:
        return entry.name
    mark = sha256_of_value([entry.case, entry.model, entry.trial])[:_MARK_CHARS]
    return f"{entry.name[: NAME_CHARS_MAX - _MARK_CHARS - 2]}--{mark}"


def fill_for_entry(compiled: CompiledRun, entry: RunEntry, value: Json) -> Json:
    """`value` as it is for one entry, with its nonces."""
    return fill_values(value, make_nonces(value, compiled.seed, entry.case, entry.trial))
