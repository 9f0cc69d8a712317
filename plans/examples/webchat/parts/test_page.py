"""Reads the page as a browser's parser would and looks for what a person needs."""

import unittest
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.labels: list[str | None] = []
        self.inputs: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "label":
            self.labels.append(dict(attrs).get("for"))
        if tag == "input":
            self.inputs.append(dict(attrs).get("id"))


class PageTest(unittest.TestCase):
    def setUp(self) -> None:
        self.text = Path("index.html").read_text()
        self.page = Page()
        self.page.feed(self.text)

    def test_it_has_a_form_with_a_labelled_field_and_a_button(self) -> None:
        self.assertIn("form", self.page.tags)
        self.assertIn("button", self.page.tags)
        self.assertEqual(self.page.labels, self.page.inputs)

    def test_it_talks_to_the_chat_over_a_websocket(self) -> None:
        self.assertIn("new WebSocket", self.text)
        self.assertIn("/chat", self.text)

    def test_what_others_say_is_shown_as_text(self) -> None:
        self.assertIn("textContent", self.text)
        self.assertNotIn("innerHTML", self.text)


if __name__ == "__main__":
    unittest.main()
