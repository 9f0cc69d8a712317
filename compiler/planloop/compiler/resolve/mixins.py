"""The steps of a mixin with its settings filled in: `AgentSpec.mixins`.

Mixins are layers, the first stated the outermost; within one the `before` steps come first, then the `after` steps,
then what is `around`, so that a try again is inside of what looks at the outcome. Denials become denials of the agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planloop.compiler.names import did_you_mean
from planloop.compiler.normalise import Normalisation, reader_for_type
from planloop.compiler.problems import DeclaredAt, Pointer, Problems
from planloop.compiler.scalars import NOTHING, setting_name
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.spec.field import TableType
from planloop.schemas.spec.mixin import POINTS, PROGRAM_VERBS


@frozen
class MixinSteps:
    """A mixin as it was declared: where it is from in words, its steps by point, and its place in the plan."""

    words: str
    points: Mapping[str, Sequence[JsonObject]]
    to: Pointer

    @property
    def source(self) -> str:
        """Which mixin it is, and the line of its steps where it has a file of its own."""
        place = self.words.at(next(iter(self.points), "")) if isinstance(self.words, DeclaredAt) else ""
        return f"{self.words} ({place})" if place else str(self.words)

    @property
    def settings(self) -> frozenset[str]:
        """The settings that its steps read."""
        return frozenset(settings_named_in([list(steps) for steps in self.points.values()]))


@frozen
class LoweredMixin:
    """`steps` from the outermost to the innermost; `deny` are calls that the agent may not make."""

    steps: tuple[JsonObject, ...] = ()
    deny: tuple[str, ...] = ()


def mixin_steps(value: JsonObject) -> Mapping[str, Sequence[JsonObject]]:
    """The steps in a mixin's document, by point."""
    return {point: value[point] for point in POINTS if value.get(point)}


def lower_mixin(mixin: MixinSteps, settings: JsonObject, faults: Problems) -> LoweredMixin:
    """The steps of `mixin` under `settings`. An invalid step is reported and left out."""
    denials: list[str] = []
    by_point: dict[str, list[JsonObject]] = {}
    for point, step, to in _placed(mixin):
        found = _step(point, step, to, settings, faults)
        if found is None:
            continue
        if found["do"] == "deny":
            denials += found["with"]
        else:
            by_point.setdefault(point, []).append(found)
    ordered = (
        *by_point.get("before", ()),
        *reversed(by_point.get("after", [])),
        *by_point.get("around", ()),
    )
    return LoweredMixin(ordered, tuple(denials))


def _placed(mixin: MixinSteps) -> Iterator[tuple[str, JsonObject, Pointer]]:
    for point, steps in mixin.points.items():
        for index, step in enumerate(steps):
            yield point, step, (*mixin.to, point, str(index))


def _step(point: str, step: JsonObject, to: Pointer, settings: JsonObject, faults: Problems) -> JsonObject | None:
    put = fill_settings(SettingsContext(TableType(point), to, settings, "mixin"), step, faults)
    if put is None:
        return None
    verbs = [verb for verb in POINTS[point] if verb in put]
    if len(verbs) != 1:
        said = " and ".join(f"`{verb}`" for verb in verbs) or "nothing"
        code = "P0211" if verbs else "P0210"
        _tell(faults, code, f"a step has one verb, this one has {said}", "use one of " + ", ".join(POINTS[point]), to)
        return None
    verb = verbs[0]
    is_turn = put.get("on") == "turn"
    if is_turn and (verb in ("deny", "cache") or "match" in put):
        what = "match" if "match" in put else verb
        _tell(faults, "P0211", f"`{what}` with `on: turn`", f"delete one of them: `{what}` is about calls", to)
        return None
    if "on-fault" in put and verb not in PROGRAM_VERBS:
        _tell(faults, "P0211", "`on-fault` needs a program", "delete it, or use `python` or `run`", to)
        return None
    if verb == "trace" and not put[verb]:
        return None
    out: JsonObject = {"at": point, "do": verb, "with": put[verb], "on": put.get("on", "call")}
    return out | {name: put[name] for name in ("match", "on-fault") if name in put}


@frozen
class SettingsContext:
    """Where settings are put in: what the table has it, where it is written, what there is to put, and into what."""

    table: TableType
    to: Pointer
    settings: JsonObject
    what: str


def fill_settings(place: SettingsContext, value: JsonObject, faults: Problems) -> JsonObject | None:
    """`value` with its settings put in, read again as its table has it; None when something is wrong with it."""
    missing: list[str] = []
    put = _put(value, place.settings, missing)
    for name in missing:
        hint = did_you_mean(name, place.settings) or "add it under `settings`"
        _tell(faults, "P0213", f"the {place.what} has no setting `{name}`", hint, place.to)
    if missing:
        return None
    work = Normalisation(Problems(), {})
    found = reader_for_type(place.table)(put, (), place.to, work)
    for fault in work.faults.found:
        one = fault.diagnostic
        _tell(faults, one.code, one.summary, one.hint, one.pointer or place.to)
    return None if work.faults.found or found is NOTHING else found


def _put(value: Json, settings: JsonObject, missing: list[str]) -> Json:
    if isinstance(value, dict):
        return {key: _put(item, settings, missing) for key, item in value.items()}
    if isinstance(value, list):
        return [each for item in value for each in _listed(item, settings, missing)]
    name = setting_name(value)
    if name is None:
        return value
    if name not in settings:
        missing.append(name)
        return None
    return settings[name]


def _listed(item: Json, settings: JsonObject, missing: list[str]) -> list[Json]:
    """An item of a list; a setting that is a list takes its place with all of its own."""
    found = _put(item, settings, missing)
    return found if isinstance(found, list) and setting_name(item) is not None else [found]


def settings_named_in(value: Json) -> Iterator[str]:
    """The settings that `value` names anywhere in it."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from settings_named_in(item)
    elif (name := setting_name(value)) is not None:
        yield name


def _tell(faults: Problems, code: str, summary: str, hint: str, to: Pointer) -> None:
    """Once for each place, however many agents have the mixin."""
    if not any((one.diagnostic.code, one.diagnostic.pointer) == (code, to) for one in faults.found):
        faults.add(code, summary, hint, to=to)
