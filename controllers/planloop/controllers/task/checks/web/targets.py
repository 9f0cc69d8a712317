"""Find the elements that a target may mean, the most likely first. Pure.

By role and name, then label, placeholder, attributes, visible text, adjacent text, and last by position. Whether a
target exists at all is decided by `certain_elements`, which does not guess: a position is a last resort for a step that
must press something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from planloop.controllers.task.checks.web.page_snapshot import PageElement, PageSnapshot, contains_words, fold_text
from planloop.schemas import limits
from planloop.schemas.checks.web_check import ElementQuery, Meaning, RelativePlace, TextPattern, WebTarget
from planloop.schemas.frozen import frozen

FIELD_ROLES: Final = frozenset({"textbox", "searchbox", "combobox", "spinbutton"})
PRESSED_ROLES: Final = frozenset(
    {"button", "link", "menuitem", "tab", "checkbox", "radio", "switch", "option", "gridcell", "cell"}
)
_LIVE: Final = frozenset({"alert", "status", "log"})  # Empty until there is something to announce.
_ROLE, _LABEL, _PLACEHOLDER, _ATTRIBUTES, _TEXT, _BESIDE, _LEAF, _PLACE = range(8)
_NAMES: Final = ("role", "label", "placeholder", "attributes", "text", "label", "text", "place")
_CERTAIN: Final = _TEXT
_OWN_NAMES: Final = ("name", "id", "data-testid")


@frozen
class TargetCandidate:
    """A possible meaning of a target: the element with the id `node`, or a `key` to press in the field filled last.

    `by` is how it was found. `is_spoken`: a screen reader announces it. `at` is the point in the element to use.
    """

    node: int
    by: str
    is_spoken: bool = False
    key: str = ""
    at: tuple[float, float] = (0.5, 0.5)


@frozen
class TargetContext:
    """Context of a search: all meanings, and the id of the field that was filled last (0: none)."""

    lexicon: Mapping[str, Meaning]
    filled: int = 0


def target_candidates(
    target: WebTarget, sight: PageSnapshot, around: TargetContext, most: int = limits.WEB_CANDIDATES_MAX
) -> list[TargetCandidate]:
    """Return the candidates to try, in order."""
    found: list[TargetCandidate] = []
    for way in target.meaning:
        if way.key and around.filled:
            found.append(TargetCandidate(around.filled, "key", key=way.key))
        found.extend(_candidate(sight.elements[at], stage) for stage, at in _ranked(way, sight, around))
    return _distinct(found)[:most]


def certain_elements(
    target: WebTarget, sight: PageSnapshot, around: TargetContext, *, is_likely: bool = False
) -> list[PageElement]:
    """Return the elements that the target means, without guesses; `is_likely`: also by the text next to a field."""
    last = _BESIDE if is_likely else _CERTAIN
    found = {at for way in target.meaning for stage, at in _ranked(way, sight, around) if stage <= last}
    return [sight.elements[at] for at in sorted(found)]


def _distinct(found: Iterable[TargetCandidate]) -> list[TargetCandidate]:
    return list({(one.node, one.key): one for one in reversed(list(found))}.values())[::-1]


def _candidate(one: PageElement, stage: int) -> TargetCandidate:
    is_spoken = one.role not in ("", "generic", "none") and bool(one.name) and one.named_by != "placeholder"
    return TargetCandidate(one.node, _NAMES[stage], is_spoken)


def _ranked(way: ElementQuery, sight: PageSnapshot, around: TargetContext) -> list[tuple[int, int]]:
    """Return stage and index of all elements that the query may mean, the best first."""
    if way.key:
        return []
    best: dict[int, int] = {}
    for stage, at in _staged(way, sight, around):
        best[at] = min(stage, best.get(at, stage))
    form = _form_of(_place_of(sight, around.filled), sight)

    def rank(at: int) -> tuple[int, int, bool, int]:
        one = sight.elements[at]
        role = way.roles.index(one.role) if one.role in way.roles else len(way.roles)
        return best[at], role, form != _form_of(at, sight), at

    return [(best[at], at) for at in sorted(best, key=rank)]


def _staged(way: ElementQuery, sight: PageSnapshot, around: TargetContext) -> Iterator[tuple[int, int]]:
    if way.text is not None:
        yield from ((_TEXT, at) for at in _saying(way.text, sight, way.roles))
        return
    is_field, is_pressed = not FIELD_ROLES.isdisjoint(way.roles), not PRESSED_ROLES.isdisjoint(way.roles)
    for at, one in enumerate(sight.elements):
        stage = _stage(way, one, is_field=is_field, is_pressed=is_pressed)
        if stage is not None and not (one.role in _LIVE and not sight.text_of(one)):
            yield stage, at
        if way.name is not None and is_field and one.is_editable:
            alone, beside = field_labels(at, sight)
            if contains_words(way.name, alone) or contains_words(way.name, beside):
                yield (_LABEL if contains_words(way.name, alone) else _BESIDE), at
    if way.name is not None and (is_pressed or not way.roles):
        yield from _by_text(way.name, sight)
    if way.place is not None:
        yield from ((_PLACE, at) for at in _placed(way, way.place, sight, around))


def _stage(way: ElementQuery, one: PageElement, *, is_field: bool, is_pressed: bool) -> int | None:
    """Return the stage at which the element itself matches; None if it does not."""
    has_role = one.role in way.roles if way.roles else one.is_clickable or one.is_editable
    is_kind = has_role or (is_field and one.is_editable) or (is_pressed and one.is_clickable and bool(one.role))
    if not (way.name or way.types or way.autocomplete):
        return _ROLE if has_role and way.roles else None
    if way.name is not None and has_role and contains_words(way.name, fold_text(one.name)):
        return _PLACEHOLDER if one.named_by == "placeholder" else _ROLE
    type_, completes = one.attributes.get("type", "").lower(), one.attributes.get("autocomplete", "").lower().split()
    if type_ in way.types or not set(completes).isdisjoint(way.autocomplete):
        return _ROLE if not way.roles else _ATTRIBUTES
    if way.name is None or not is_kind:
        return None
    if contains_words(way.name, fold_text(one.attributes.get("placeholder", ""))):
        return _PLACEHOLDER
    own = " ".join(one.attributes.get(name, "") for name in _OWN_NAMES)
    return _ATTRIBUTES if contains_words(way.name, fold_text(own)) else None


def field_labels(at: int, sight: PageSnapshot) -> tuple[str, str]:
    """Return what people take for the label of a field: the text in a container of its own, and the line before it."""
    one = sight.elements[at]
    fields = [other.span for other in sight.elements if other.is_editable and other.node != one.node]
    start = max((last for _, last in fields if last <= one.span[0]), default=0)
    lines = fold_text("".join(sight.pieces[start : one.span[0]])).splitlines()
    beside = lines[-1][-limits.WEB_NAME_CHARS_MAX :] if lines else ""
    above = one.parent
    while above >= 0:
        begin, end = sight.elements[above].span
        if any(begin <= first and last <= end and (first, last) != (begin, begin) for first, last in fields):
            break
        text = sight.text_of(sight.elements[above])
        if text:
            return text.splitlines()[0][: limits.WEB_NAME_CHARS_MAX], beside
        above = sight.elements[above].parent
    return "", beside


def _by_text(words: TextPattern, sight: PageSnapshot) -> Iterator[tuple[int, int]]:
    """Yield the innermost elements that show these words: clickable ones, and others as a last resort."""
    for at, one in enumerate(sight.elements):
        if one.is_editable or one.tag in ("html", "body"):
            continue
        text = sight.text_of(one)
        if not 0 < len(text) <= limits.WEB_NAME_CHARS_MAX or not contains_words(words, text):
            continue
        inner = [sight.elements[below] for below in sight.below(at)]
        if one.is_clickable and not any(
            other.is_clickable and contains_words(words, sight.text_of(other)) for other in inner
        ):
            yield _TEXT, at
        elif not any(contains_words(words, sight.text_of(other)) for other in inner):
            yield _LEAF, at


def _saying(words: TextPattern, sight: PageSnapshot, roles: tuple[str, ...]) -> Iterator[int]:
    for at, one in enumerate(sight.elements):
        if roles and one.role not in roles:
            continue
        if not contains_words(words, sight.text_of(one)):
            continue
        if not any(contains_words(words, sight.text_of(sight.elements[below])) for below in sight.below(at)):
            yield at


def _placed(way: ElementQuery, place: RelativePlace, sight: PageSnapshot, around: TargetContext) -> list[int]:
    """Return the element of the query's kind at that position, if any."""
    is_field = not FIELD_ROLES.isdisjoint(way.roles)
    kind = [
        at
        for at, one in enumerate(sight.elements)
        if one.role in way.roles or (is_field and one.is_editable and one.attributes.get("type") != "password")
    ]
    match place.kind:
        case "only":
            return kind if len(kind) == 1 else []
        case "first":
            return kind[:1]
        case "last":
            return kind[-1:]
    anchors = [at for beside in around.lexicon.get(place.of, ()) for at in _certain(beside, sight, around)]
    if not anchors:
        return []
    if place.kind == "before":
        return [at for at in kind if at < anchors[0]][-1:]
    return [at for at in kind if at > anchors[-1]][:1]


def _certain(way: ElementQuery, sight: PageSnapshot, around: TargetContext) -> list[int]:
    """Return the elements that another name means, without its position: two names could refer to each other."""
    bare = ElementQuery(way.roles, way.name, way.types, way.autocomplete, way.text, None, way.key)
    last = RelativePlace("last") if way.place is not None and way.place.kind == "last" else None
    found = [at for stage, at in _ranked(bare, sight, around) if stage <= _CERTAIN]
    return found or (_placed(way, last, sight, around) if last else [])


def _place_of(sight: PageSnapshot, node: int) -> int:
    return next((at for at, one in enumerate(sight.elements) if one.node == node), -1) if node else -1


def _form_of(at: int, sight: PageSnapshot) -> int:
    """Return the index of the form that contains the element; -1 if none does."""
    while at >= 0 and sight.elements[at].tag != "form":
        at = sight.elements[at].parent
    return at
