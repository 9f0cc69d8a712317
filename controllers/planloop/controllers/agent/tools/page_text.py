"""HTML as the text that a reader would see, with the standard library: titles, paragraphs, lists, links if wanted.

Scripts, styles and hidden templates are left out. It never raises: broken markup gives what can be read of it.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

from planloop.schemas.frozen import frozen

SKIPPED: Final = frozenset({"script", "style", "noscript", "svg", "template", "iframe", "object", "canvas", "math"})
BLOCKS: Final = frozenset(
    "p div section article main header footer nav aside ul ol table tr blockquote pre form fieldset figure "
    "h1 h2 h3 h4 h5 h6 dl dt dd hr br li title address details summary".split()
)
HEADS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
CELLS: Final = frozenset({"td", "th"})


@frozen
class Page:
    """What there is to read on a page."""

    title: str
    text: str


def page_of(html: str, url: str, *, has_links: bool) -> Page:
    """The title and text of `html`, which is at `url`; with links as `words (url)` if they are wanted."""
    reader = _Reader(url, has_links)
    reader.feed(html)
    reader.close()
    return Page(" ".join("".join(reader.title).split()), _tidied("".join(reader.parts)))


def _tidied(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _Reader(HTMLParser):
    def __init__(self, url: str, has_links: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title: list[str] = []
        self._url = url
        self._has_links = has_links
        self._skipping: list[str] = []
        self._is_title = False
        self._hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SKIPPED:
            self._skipping.append(tag)
        if self._skipping:
            return
        if tag == "title":
            self._is_title = True
        elif tag == "base" and (href := dict(attrs).get("href")):
            self._url = urljoin(self._url, href)
        elif tag == "a":
            self._hrefs.append(dict(attrs).get("href") or "")
        elif tag in CELLS:
            self.parts.append(" | ")
        elif tag in BLOCKS:
            self.parts.append("\n" + HEADS.get(tag, "- " if tag == "li" else ""))

    def handle_endtag(self, tag: str) -> None:
        if self._skipping:
            if tag in self._skipping:
                del self._skipping[self._skipping.index(tag) :]
            return
        if tag == "title":
            self._is_title = False
        elif tag == "a" and self._hrefs:
            self._end_link(self._hrefs.pop())
        elif tag in BLOCKS and tag not in ("li", "br", "hr"):
            self.parts.append("\n")

    def _end_link(self, href: str) -> None:
        if self._has_links and href and not href.startswith(("#", "javascript:", "data:")):
            try:
                self.parts.append(f" ({urljoin(self._url, href)})")
            except ValueError:
                return

    def handle_data(self, data: str) -> None:
        if self._skipping:
            return
        (self.title if self._is_title else self.parts).append(data)
