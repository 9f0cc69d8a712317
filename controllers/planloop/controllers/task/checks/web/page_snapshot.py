"""Snapshot of a page: the visible elements and text, for a person and for a screen reader. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.checks.web_check import TextPattern
from planloop.schemas.frozen import frozen, remade

_SPACES: Final = re.compile(r"[^\S\n]+")
_LINES: Final = re.compile(r"\s*\n\s*")


@frozen
class PageBox:
    """Rectangle in CSS pixels of its `document`: a page is one document, and each frame is another one."""

    x: float
    y: float
    width: float
    height: float
    document: int = 0

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


@frozen
class PageElement:
    """One visible element.

    `node` is its id in the browser, `parent` the index of its parent in the snapshot (-1: none), `span` the range of
    text pieces in it. `role` and `name` are from the accessibility tree, `named_by` is the source of the name. `value`
    is the content of a field, None for other elements.
    """

    node: int
    parent: int
    depth: int
    tag: str
    attributes: Mapping[str, str]
    role: str
    name: str
    named_by: str
    box: PageBox
    span: tuple[int, int]
    value: str | None = None
    is_clickable: bool = False
    is_focusable: bool = False
    is_disabled: bool = False
    is_editable: bool = False


@dataclass(frozen=True)
class PageSnapshot:
    """A page at one moment: its visible elements in document order. Hidden elements are left out.

    `pieces` are the visible texts with line ends and spaces between them; `spoken` are the texts of dialogs since the
    last action. `tree` is the accessibility tree as text for people.
    """

    url: str = ""
    title: str = ""
    elements: tuple[PageElement, ...] = ()
    pieces: tuple[str, ...] = ()
    spoken: tuple[str, ...] = ()
    tree: str = field(default="", compare=False, repr=False)

    @cached_property
    def words(self) -> str:
        """All visible text, in lines."""
        return fold_text("".join((*self.pieces, *(f"\n{one}" for one in self.spoken))))

    def text_of(self, one: PageElement) -> str:
        """Return the visible text of an element."""
        return fold_text("".join(self.pieces[slice(*one.span)]))

    def shown(self, one: PageElement) -> str:
        """Return the value of the element, else its text, else its name."""
        if one.value is not None:
            return one.value
        return self.text_of(one) or one.name

    def below(self, index: int) -> Iterator[int]:
        """Yield the indexes of the descendants of the element at `index`."""
        depth = self.elements[index].depth
        for at in range(index + 1, len(self.elements)):
            if self.elements[at].depth <= depth:
                return
            yield at

    def find(self, node: int) -> PageElement | None:
        """Return the element with this id; None if it is not visible."""
        return self._by_node.get(node)

    @cached_property
    def _by_node(self) -> Mapping[int, PageElement]:
        return {one.node: one for one in self.elements}


def fold_text(text: str) -> str:
    """Return the text without accents and compatibility forms, with single spaces. Line ends stay."""
    return _LINES.sub("\n", _SPACES.sub(" ", strip_accents(text))).strip()


def strip_accents(text: str) -> str:
    """Return the text without accents and compatibility forms."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(sign for sign in plain if not unicodedata.combining(sign)))


def count_words(words: TextPattern, text: str) -> int:
    """Return how often `words` occur in a folded text."""
    if words.is_pattern:
        found = re.finditer(strip_accents(words.text), text, re.IGNORECASE | re.MULTILINE)
        return sum(1 for one in found if one.end() > one.start())
    return _line(text).count(_line(fold_text(words.text)))


def contains_words(words: TextPattern, text: str) -> bool:
    """Whether `words` occur in a folded text."""
    if words.is_pattern:
        return re.search(strip_accents(words.text), text, re.IGNORECASE | re.MULTILINE) is not None
    return _line(fold_text(words.text)) in _line(text)


def equals_words(words: TextPattern, text: str) -> bool:
    """Whether a folded text equals `words`; a pattern may match anywhere in it."""
    return contains_words(words, text) if words.is_pattern else _line(fold_text(words.text)) == _line(text)


def _line(text: str) -> str:
    return " ".join(text.casefold().split())


# Builds a snapshot from two answers of the DevTools protocol: `DOMSnapshot.captureSnapshot` and
# `Accessibility.getFullAXTree`. The page itself is not asked: its scripts could answer anything.
#
# An element is hidden if it has no box, is invisible or transparent, is clipped by an ancestor without size, or lies
# left of or above the page.

STYLES: Final = ("visibility", "opacity", "cursor", "display", "overflow-x", "overflow-y")
_ELEMENT, _TEXT = 1, 3
_ROLES: Final = {"image": "img", "Canvas": "canvas", "DisclosureTriangle": "button", "ImageMap": "img"}
_NO_TEXT_FIELDS: Final = frozenset(
    {"submit", "button", "reset", "image", "checkbox", "radio", "file", "range", "color", "hidden"}
)
_LABELLED: Final = frozenset({"submit", "button", "reset"})
_PRESSED: Final = frozenset({"button", "link", "checkbox", "radio", "tab", "menuitem", "switch", "option", "combobox"})
_INLINE: Final = frozenset({"inline", "contents", "ruby"})
_TRANSPARENT: Final = 0.05


@frozen
class AccessibleNode:
    """One node of the accessibility tree."""

    role: str = ""
    name: str = ""
    named_by: str = ""
    value: str = ""
    properties: Mapping[str, Any] = {}


@frozen
class _Laid:
    """Layout of a node: its box, its text, and whether it and its ancestors are visible."""

    box: PageBox
    text: str
    display: str
    cursor: str
    is_seen: bool


def page_snapshot(
    snapshot: JsonObject, trees: Iterable[JsonObject], typed: frozenset[str], spoken: tuple[str, ...] = ()
) -> PageSnapshot:
    """Build a snapshot from browser answers. `typed` are texts that the check typed: the page did not show them."""
    said = {node: one for tree in trees for node, one in _spoken(tree)}
    strings = snapshot["strings"]
    writing = _Writing(typed)
    for number, document in enumerate(snapshot["documents"]):
        _Document(document, strings, number, said, writing).write()
    first = snapshot["documents"][0]
    return PageSnapshot(
        _string(strings, first["documentURL"]),
        _string(strings, first["title"]),
        tuple(writing.elements),
        tuple(writing.pieces),
        spoken,
        _tree_text(writing.elements),
    )


def _spoken(tree: JsonObject) -> Iterator[tuple[int, AccessibleNode]]:
    for node in tree["nodes"]:
        if "backendDOMNodeId" not in node or node.get("ignored"):
            continue
        role = str(node.get("role", {}).get("value", ""))
        name = node.get("name", {})
        by: JsonObject = next((source for source in name.get("sources", ()) if _gives(source)), {})
        properties = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
        yield (
            node["backendDOMNodeId"],
            AccessibleNode(
                _ROLES.get(role, role),
                str(name.get("value", "")),
                str(by.get("nativeSource") or by.get("attribute") or by.get("type") or ""),
                str(node.get("value", {}).get("value", "")),
                properties,
            ),
        )


def _gives(source: JsonObject) -> bool:
    return not source.get("superseded") and bool(source.get("value", {}).get("value") or source.get("attributeValue"))


def _string(strings: list[str], index: int) -> str:
    return strings[index] if index >= 0 else ""


@dataclass
class _Writing:
    """Elements and texts collected from all documents of a page."""

    typed: frozenset[str]
    elements: list[PageElement] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    last: PageBox | None = None  # The box of the last text, to decide whether the next one is on the same line.
    between: str = ""  # "", " " or "\n": the separator before the next text.

    def part(self, how: str) -> None:
        """Note a separator before the next text."""
        if how == "\n" or (how == " " and not self.between):
            self.between = how

    def say(self, text: str, box: PageBox) -> None:
        """Add a text at `box`."""
        if not text.strip():
            self.part(" " if text else "")
            return
        if self.between and self.pieces:
            is_beside = self.last is not None and _is_beside(self.last, box)
            self.pieces.append(" " if self.between == " " or is_beside else "\n")
        self.pieces.append(text)
        self.last, self.between = box, ""


def _is_beside(one: PageBox, other: PageBox) -> bool:
    """Whether two texts are on one line."""
    shared = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return one.document == other.document and shared > min(one.height, other.height) / 2 and other.x >= one.x


class _Document:
    """One document of a snapshot: the page's, or a frame's."""

    def __init__(
        self, raw: JsonObject, strings: list[str], number: int, said: Mapping[int, AccessibleNode], writing: _Writing
    ) -> None:
        self.nodes = raw["nodes"]
        self.strings = strings
        self.said = said
        self.writing = writing
        self.parents: list[int] = self.nodes["parentIndex"]
        self.clickable = set(self.nodes["isClickable"]["index"])
        self.values = {**self._texts("textValue"), **self._texts("inputValue")}
        self.laid = self._layout(raw["layout"], number)
        self.children: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            self.children.setdefault(parent, []).append(node)

    def _texts(self, name: str) -> dict[int, str]:
        rare = self.nodes[name]
        return {node: _string(self.strings, text) for node, text in zip(rare["index"], rare["value"], strict=True)}

    def _layout(self, layout: JsonObject, number: int) -> dict[int, _Laid]:
        """Return the layout by node; parents come before their children."""
        found: dict[int, _Laid] = {}
        hides: dict[int, bool] = {}
        for row, node in enumerate(layout["nodeIndex"]):
            styles = [_string(self.strings, index) for index in layout["styles"][row]] or ["", "1", "", "block", "", ""]
            visibility, opacity, cursor, display, *overflow = styles
            x, y, width, height = layout["bounds"][row]
            box = PageBox(x, y, width, height, number)
            is_cut = not (box.width > 1 and box.height > 1) and any(one in ("hidden", "clip") for one in overflow)
            inherited = hides.get(self._above(node, hides), False)
            hides[node] = inherited or float(opacity or 1) < _TRANSPARENT or (is_cut and display not in _INLINE)
            is_out = box.x + box.width <= 0 or box.y + box.height <= 0
            is_seen = not hides[node] and visibility not in ("hidden", "collapse") and not is_out
            text = _string(self.strings, layout["text"][row])
            if node in found:  # A pseudo-element: its box, then its text.
                text, box = text or found[node].text, found[node].box
            found[node] = _Laid(box, text, display, cursor, is_seen)
        return found

    def _above(self, node: int, known: Mapping[int, bool]) -> int:
        at = self.parents[node]
        while at >= 0 and at not in known:
            at = self.parents[at]
        return at

    def write(self) -> None:
        """Add the visible elements and texts, in document order."""
        self.writing.part("\n")
        # A stack, not recursion: pages may be nested to any depth. True marks the end of an element.
        stack: list[tuple[int, int, bool]] = [(node, -1, False) for node in reversed(self.children.get(-1, ()))]
        while stack:
            node, parent, is_end = stack.pop()
            if is_end:
                self._close(node, parent)
                continue
            kind = self.nodes["nodeType"][node]
            place = parent
            if kind == _TEXT:
                self._say(node)
            elif kind == _ELEMENT:
                place = self._open(node, parent)
                stack.append((node, place if place != parent else -1, True))
            if not self._is_closed_field(node):
                stack.extend((child, place, False) for child in reversed(self.children.get(node, ())))

    def _is_closed_field(self, node: int) -> bool:
        return self._tag(node) in ("textarea", "select", "script", "style", "noscript", "template")

    def _tag(self, node: int) -> str:
        return _string(self.strings, self.nodes["nodeName"][node]).lower()

    def _say(self, node: int) -> None:
        laid = self.laid.get(node)
        if laid is not None and laid.is_seen:
            self.writing.say(laid.text, laid.box)

    def _open(self, node: int, parent: int) -> int:
        """Add the element if it is visible; return its index, or its parent's."""
        laid, tag = self.laid.get(node), self._tag(node)
        if tag == "br":
            self.writing.part("\n")
        if laid is None:
            return parent
        self._part(laid)
        if tag.startswith("::"):
            if laid.is_seen and tag != "::marker":
                self.writing.say(laid.text, laid.box)
            return parent
        if not laid.is_seen or not (laid.box.width > 0 and laid.box.height > 0):
            return parent
        element = self._element(node, tag, laid, parent)
        self.writing.elements.append(element)
        own = self._own_words(element)
        if own:
            self.writing.part(" ")
            self.writing.say(own, laid.box)
            self.writing.part(" ")
        return len(self.writing.elements) - 1

    def _close(self, node: int, place: int) -> None:
        laid = self.laid.get(node)
        if laid is not None:
            self._part(laid)
        if place >= 0:
            one = self.writing.elements[place]
            begin = one.span[0]
            self.writing.elements[place] = remade(one, span=(begin, len(self.writing.pieces)))

    def _part(self, laid: _Laid) -> None:
        if laid.display not in _INLINE:
            self.writing.part(" " if laid.display.startswith("inline") else "\n")

    def _own_words(self, one: PageElement) -> str:
        """Return the visible text of an element without text: a field's value, a button's label, an image's name."""
        if one.value is not None:
            if one.attributes.get("type", "").lower() == "password":
                return "" if one.value else one.attributes.get("placeholder", "")
            is_typed = one.is_editable and one.value in self.writing.typed
            return "" if is_typed else one.value or one.attributes.get("placeholder", "")
        if one.tag == "input" and one.attributes.get("type", "").lower() in _LABELLED:
            return one.name
        return one.name if one.tag in ("img", "svg", "area") or (one.tag == "input" and one.role == "button") else ""

    def _element(self, node: int, tag: str, laid: _Laid, parent: int) -> PageElement:
        pairs = self.nodes["attributes"][node]
        names = (_string(self.strings, index).lower() for index in pairs[::2])
        attributes = dict(zip(names, (_string(self.strings, index) for index in pairs[1::2]), strict=True))
        backend = self.nodes["backendNodeId"][node]
        said = self.said.get(backend, AccessibleNode())
        type_ = attributes.get("type", "text").lower()
        is_content = attributes.get("contenteditable", "false").lower() in ("", "true", "plaintext-only")
        is_field = (tag == "input" and type_ not in _NO_TEXT_FIELDS) or tag in ("textarea", "select")
        is_disabled = "disabled" in attributes or bool(said.properties.get("disabled"))
        is_locked = is_disabled or "readonly" in attributes or tag == "select"
        role = "textbox" if is_content and said.role in ("", "generic", "none", "paragraph") else said.role
        begin = len(self.writing.pieces)
        return PageElement(
            backend,
            parent,
            self.writing.elements[parent].depth + 1 if parent >= 0 else 0,
            tag,
            attributes,
            role,
            said.name,
            said.named_by,
            laid.box,
            (begin, begin),
            (self.values.get(node) or (said.value if tag == "select" else "")) if is_field else None,
            role in _PRESSED or node in self.clickable or laid.cursor == "pointer",
            bool(said.properties.get("focusable")),
            is_disabled,
            (is_field or is_content) and not is_locked,
        )


def _tree_text(elements: list[PageElement]) -> str:
    """Return the elements that a screen reader announces, indented."""
    lines: list[str] = []
    for one in elements:
        if one.role in ("", "none", "generic", "LabelText", "InlineTextBox"):
            continue
        states = [word for word, is_so in (("disabled", one.is_disabled), ("focusable", one.is_focusable)) if is_so]
        value = f" = {one.value!r}" if one.value and one.attributes.get("type") != "password" else ""
        lines.append(f"{'  ' * min(one.depth, 20)}{one.role} {one.name!r}{value} {' '.join(states)}".rstrip())
    return "\n".join(lines[: limits.WEB_TREE_LINES_MAX])
