"""Compile suite × contestants × trials to a run with its simulated worlds. Pure: equal arguments give equal bytes."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from planloop.benchmarks.runs.contestants import Contestant, contestant_agent
from planloop.benchmarks.suite import Case, Suite
from planloop.benchmarks.worlds.world_file import add_overlays, add_tools
from planloop.schemas.canonical_json import Json, JsonObject, canonical_bytes, sha256_hex, sha256_of_value
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.spec.template_placeholders import NONCE, fill_placeholders, find_placeholders, nonce_names

# Names are ranked by SHA-256(seed, case, name), so a seed always picks the same tools. Adding a tool to a pool replaces
# at most one of the picked tools.

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@frozen
class DrawnDecoys:
    """The decoys of a case. Near ones share a word with a needed tool, far ones do not."""

    near: Sequence[str]
    far: Sequence[str]


def rank_name(seed: int, case: str, name: str) -> str:
    """The sort key of `name`."""
    return sha256_hex(canonical_bytes([seed, case, name]))


def tool_name_words(tool: str) -> frozenset[str]:
    """The words in a tool's name, in singular: `event` for `events`."""
    return frozenset(word.lower().removesuffix("s") for word in _WORDS.findall(tool))


def draw_decoys(
    seed: int, case: str, pool: Iterable[str], needed: Iterable[str], *, pick: int, near: int
) -> DrawnDecoys:
    """Pick `pick` tools of `pool` that are not `needed`, `near` of them near ones.

    If there are too few of one kind, the other kind fills up.
    """
    needed = frozenset(needed)
    names = [name for name in pool if name not in needed]
    names.sort(key=lambda name: rank_name(seed, case, name))
    words = frozenset().union(*map(tool_name_words, needed))
    close = [name for name in names if words & tool_name_words(name)]
    distant = [name for name in names if not words & tool_name_words(name)]
    far_count = min(max(pick - near, pick - len(close), 0), len(distant))
    return DrawnDecoys(close[: pick - far_count], distant[:far_count])


# `{{nonce.word}}` differs for every case, trial and name, so an agent cannot know it in advance. It is the same in all
# runs with the same seed. `{{language}}` and `{{url}}` belong to the case; an `http` check fills `{{kept.name}}` with
# part of a response.

NONCE_DIGITS: Final = 12
KEPT: Final = "kept."


def make_nonce(seed: int, case: str, trial: int, name: str) -> str:
    """12 hex digits that cannot be predicted without the seed: SHA-256 of (seed, case, trial, name)."""
    return sha256_of_value([seed, case, trial, name])[:NONCE_DIGITS]


def make_nonces(value: Json, seed: int, case: str, trial: int) -> dict[str, str]:
    """The nonces for the placeholders in `value`, by placeholder name."""
    return {f"{NONCE}{name}": make_nonce(seed, case, trial, name) for name in nonce_names(value)}


def placeholder_problems(
    value: Json, known: Collection[str] = ("language", "url"), at: ValuePath = ()
) -> Iterator[ValueProblem]:
    """Yield unknown placeholders. `known` are the plain ones that the case defines."""
    for place, name in find_placeholders(value, at):
        if name in known or name.startswith((NONCE, KEPT)):
            continue
        kind, dot, rest = name.partition(".")
        near = get_close_matches(kind, ("nonce", "kept") if dot else sorted(known), n=1)
        hint = f"did you mean `{{{{{near[0]}{dot}{rest}}}}}`?" if near else _known_text(known)
        yield ValueProblem(place, "P0213", f"unknown placeholder `{{{{{name}}}}}`", hint)


def _known_text(known: Collection[str]) -> str:
    return "use one of " + ", ".join(f"`{{{{{name}}}}}`" for name in ("nonce.NAME", *sorted(known)))


FORMAT = 1
SCORING = 2
"""Version of the scoring rules. Increase it if the same actions would get another verdict."""
_NAME: Final = re.compile(r"\w[\w.-]*")


@frozen
class RunEntry:
    """One trial of a case by one contestant. `variant` is the index of its prompt.

    `key` is the digest of everything that decides the result. `case_key` is the digest of the input: equal for all
    contestants.
    """

    name: str
    case: str
    model: str
    trial: int
    variant: int
    key: str
    case_key: str
    agent: JsonObject

    def to_json(self) -> JsonObject:
        return {
            "case": self.case,
            "model": self.model,
            "trial": self.trial,
            "variant": self.variant,
            "key": self.key,
            "case_key": self.case_key,
            "agent": self.agent,
        }


@frozen
class RunSettings:
    """Settings of a run besides its suite and models."""

    seed: int
    trials: int
    deterministic: bool


@frozen
class CompiledRun:
    """A run, the content of `plan.json`: everything that can change a verdict. `entries` are by name, in order.

    `is_validated`: whether all cases are valid, None if unknown; it does not affect verdicts. `scoring` is the version
    of the scoring rules; it differs from `SCORING` in a run of another version of planloop.
    """

    suite: str
    about: str
    settings: RunSettings
    report: JsonObject
    models: Mapping[str, JsonObject]
    images: Mapping[str, str]
    cases: Mapping[str, JsonObject]
    entries: Mapping[str, RunEntry]
    worlds: Mapping[str, JsonObject]
    is_validated: bool | None = None
    scoring: int = SCORING

    def to_json(self) -> JsonObject:
        return {
            "format": FORMAT,
            "scoring": self.scoring,
            "suite": self.suite,
            "about": self.about,
            "seed": self.settings.seed,
            "trials": self.settings.trials,
            "deterministic": self.settings.deterministic,
            "validated": self.is_validated,
            "report": self.report,
            "models": list(self.models.values()),  # A list, to keep their order.
            "images": dict(self.images),
            "cases": dict(self.cases),
            "entries": {name: entry.to_json() for name, entry in self.entries.items()},
            "worlds": dict(self.worlds),
        }

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the bytes of `plan.json`."""
        return sha256_hex(canonical_bytes(self.to_json()))


def compiled_run_from_json(raw: JsonObject) -> CompiledRun:
    """Inverse of `CompiledRun.to_json`. Raises KeyError, TypeError or ValueError if `raw` is invalid."""
    if raw["format"] != FORMAT:
        raise ValueError(f"unsupported format {raw['format']}, expected {FORMAT}")
    compiled = CompiledRun(
        suite=raw["suite"],
        about=raw["about"],
        settings=RunSettings(raw["seed"], raw["trials"], raw["deterministic"]),
        report=raw["report"],
        models={model["name"]: model for model in raw["models"]},
        images=raw["images"],
        cases=raw["cases"],
        entries={name: RunEntry(name, **entry) for name, entry in raw["entries"].items()},
        worlds=raw["worlds"],
        is_validated=raw["validated"],
        scoring=raw["scoring"],
    )
    for name, entry in compiled.entries.items():
        if not _NAME.fullmatch(name):  # Folders have these names.
            raise ValueError(f"invalid name of an entry: {name}")
        if entry.case not in compiled.cases:
            raise ValueError(f"unknown case {entry.case}")
    return compiled


# The file of a world contains its own tools, the drawn decoys, and the rows that cases add. A server, the part of a
# tool's name before the dot, belongs to one world.

DECOYS: Final = "decoys"
"""The world of the decoys if no case has a world."""


def world_file(world: str) -> str:
    """The path of a world in the run's folder."""
    return f"worlds/{world}.json"


def run_worlds(suite: Suite, cases: Sequence[Case], entries: Iterable[RunEntry]) -> dict[str, JsonObject]:
    """The documents of the worlds that `cases` use, in their state at the start of `entries`."""
    tools: dict[str, JsonObject] = {}
    for case in cases:
        tools |= pool_tools(suite, case)
    used = dict.fromkeys(case.setting.world["use"] for case in cases if case.setting.world is not None)
    if not used:
        return {DECOYS: {"world": DECOYS, "tools": tools}} if tools else {}
    entries = list(entries)
    return {name: _laid(add_tools(suite.worlds[name], tools), suite, name, entries) for name in used}


def pool_tools(suite: Suite, case: Case) -> dict[str, JsonObject]:
    """The tools of the case's pool by name. Any of them may be drawn, or be needed."""
    if case.setting.decoys is None:
        return {}
    found: dict[str, JsonObject] = suite.pools[case.setting.decoys["pool"]].get("tools", {})
    return found


def tools_digest(suite: Suite, case: Case, decoys: Iterable[str]) -> str:
    """The digest of the case's tools and their data, which verdicts depend on."""
    world = {} if case.setting.world is None else suite.worlds[case.setting.world["use"]]
    pool = pool_tools(suite, case)
    return sha256_of_value([world, {name: pool[name] for name in sorted(decoys) if name in pool}])


def _laid(document: JsonObject, suite: Suite, world: str, entries: Sequence[RunEntry]) -> JsonObject:
    overlays: dict[str, JsonObject] = {}
    of: dict[str, str] = {}
    for entry in entries:
        written = suite.cases[entry.case].setting.world
        if written is None or written["use"] != world or not written.get("with"):
            continue
        nonces = make_nonces(written["with"], suite.seed, entry.case, entry.trial)
        of[entry.name] = entry.name if nonces else entry.case
        overlays.setdefault(of[entry.name], fill_placeholders(written["with"], nonces))
    return add_overlays(document, overlays, of) if of else document


def world_servers(worlds: Mapping[str, JsonObject], decoys: Iterable[str]) -> dict[str, str]:
    """The world of each tool server. A server with only decoys is in the first world by name."""
    decoys = frozenset(decoys)
    own: dict[str, str] = {}
    beside: dict[str, str] = {}
    for name in sorted(worlds):
        for tool in worlds[name].get("tools", {}):
            (beside if tool in decoys else own).setdefault(tool.partition(".")[0], name)
    return dict(sorted((beside | own).items()))


NAME_CHARS_MAX: Final = 56
"""Maximal length of an entry's name. Ids have at most 64 characters, and those of its tasks and containers are
longer."""

_MARK_CHARS: Final = 12


@frozen
class RunRequest:
    """How to run a suite. None keeps the suite's value. `images` are the ids of its images by name."""

    seed: int | None = None
    trials: int | None = None
    cases: str = "*"
    deterministic: bool = False
    images: Mapping[str, str] | None = None


def compile_run(suite: Suite, contestants: Sequence[Contestant], request: RunRequest) -> CompiledRun:
    """Compile the run of `suite` with all `contestants` that take part in a case."""
    seed = suite.seed if request.seed is None else request.seed
    trials = suite.trials if request.trials is None else request.trials
    suite = remade(suite, seed=seed)
    chosen = suite.chosen(request.cases)
    cases = {case.id: _case(suite, case) for case in chosen}
    images = {
        name: id_ for name, id_ in (request.images or {}).items() if any(case.setting.image == name for case in chosen)
    }
    entries: dict[str, RunEntry] = {}
    for case in chosen:
        for who in contestants:
            for entry in _entries(seed, trials, case, cases[case.id], who, images):
                name = _unique_name(entry, entries)
                entries[name] = remade(entry, name=name)
    return CompiledRun(
        suite=suite.name,
        about=suite.about,
        settings=RunSettings(seed, trials, request.deterministic),
        report=suite.report,
        models={who.name: who.to_json() for who in contestants},
        images=images,
        cases=cases,
        entries=entries,
        worlds=run_worlds(suite, chosen, entries.values()),
    )


def _case(suite: Suite, case: Case) -> JsonObject:
    """Everything in a case that does not depend on the contestant."""
    near, far = _decoys(suite, case)
    return {
        "base": case.base,
        "language": case.language,
        "tags": dict(case.tags),
        "prompts": list(case.prompts),
        "files": dict(case.setting.files),
        "image": case.setting.image,
        "tools": None if case.setting.tools is None else list(case.setting.tools),
        "near": list(near),
        "far": list(far),
        "world": case.setting.world,
        "definition": tools_digest(suite, case, (*near, *far)),
        "serve": case.setting.serve,
        "agents": case.plan.agents,
        "task": case.plan.task,
        "budget": case.plan.budget,
        "within_s": case.plan.within_s,
        "checks": [check.to_json() for check in case.checks],
        "check_files": dict(case.check_files),
        "soft": list(case.soft),
    }


def _decoys(suite: Suite, case: Case) -> tuple[Sequence[str], Sequence[str]]:
    if case.setting.decoys is None:
        return (), ()
    pool, pick, near = pool_tools(suite, case), case.setting.decoys["pick"], case.setting.decoys["near"]
    drawn = draw_decoys(suite.seed, case.id, pool, case.setting.tools or (), pick=pick, near=near)
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
            "image": images.get(case.setting.image, case.setting.image),
        }
        case_key = sha256_of_value(given)
        key = sha256_of_value({"case": case_key, "who": who.to_json() | {"steps": None}, "agent": agent})
        yield RunEntry(f"{case.id}--{who.id}--{trial}", case.id, who.name, trial, variant, key, case_key, agent)


def _unique_name(entry: RunEntry, taken: Container[str]) -> str:
    """The entry's name, with a digest if it is too long for an id or already taken."""
    if len(entry.name) <= NAME_CHARS_MAX and entry.name not in taken:
        return entry.name
    mark = sha256_of_value([entry.case, entry.model, entry.trial])[:_MARK_CHARS]
    return f"{entry.name[: NAME_CHARS_MAX - _MARK_CHARS - 2]}--{mark}"


def fill_for_entry(compiled: CompiledRun, entry: RunEntry, value: Json) -> Json:
    """Fill the nonces of one entry into `value`."""
    return fill_placeholders(value, make_nonces(value, compiled.settings.seed, entry.case, entry.trial))
