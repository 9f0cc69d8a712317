"""Where something is declared, in words that still know the line of each of its fields: for `plan explain --why`."""

from __future__ import annotations

from planloop.compiler.faults import Origins


class Words(str):
    """`lib:denylist`, `mixin lib:retry`, `agents/worker`. `origins` is set where it has a file of its own."""

    file: str = ""
    origins: Origins | None = None

    @staticmethod
    def of_file(text: str, file: str, origins: Origins) -> Words:
        """Words on something that the whole of `file` declares."""
        words = Words(text)
        words.file, words.origins = file, origins
        return words

    def after(self, prefix: str) -> Words:
        """The same with a word before it."""
        words = Words(f"{prefix} {self}")
        words.file, words.origins = self.file, self.origins
        return words

    def at(self, field: str) -> str:
        """`lib:mixins/denylist.yaml:2`, the place of a field; empty where it stands in the plan."""
        if self.origins is None:
            return ""
        path = self.origins.find((field,))
        place = self.origins.tree.place(path) if path else None
        return f"{self.file}:{(place.key or place.value).line}" if place is not None else self.file
